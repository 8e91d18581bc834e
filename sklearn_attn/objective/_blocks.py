"""Blocks of whole sequences that several directions are multiplied with at once."""

import numpy as np
from numba import types
from numba.extending import overload

from ._cpu import n_shares_for, n_threads_for, split_tokens
from ._threads import ThreadTeam

# Bytes of a block as float64, of which a core's L2 cache holds the block and the products with it.
_BLOCK_BYTES = 2**18
_MIN_BLOCK_TOKENS = 32
# Tokens of a share at least: sums of some ten directions are kept for each.
_MIN_SHARE_TOKENS = 192


def as_float64(X, start, stop, tokens):
    """Return the tokens `start` to `stop` as they are, or, of float32, copied to `tokens`."""
    raise NotImplementedError("for compiled code only")


@overload(as_float64, inline="never")
def _compile_as_float64(X, start, stop, tokens):
    if X.dtype == types.float64:
        return lambda X, start, stop, tokens: X[start:stop]

    def copy(X, start, stop, tokens):  # pragma: no cover - exists in compiled form only
        for i in range(stop - start):
            for j in range(X.shape[1]):
                tokens[i, j] = X[start + i, j]
        return tokens[: stop - start]

    return copy


class BlockKernel:
    """Sequences split into shares, and those of each into blocks; see `_cpu`.

    Parameters
    ----------
    X : RaggedArray
        float32 or float64 tokens in a C-ordered buffer.
    n_threads : int, optional
        By default `_compiled.available_threads`, fewer for small X.
    numbers_per_token : int, default=0
        That are kept of a token beside its features, where they may be many.

    Attributes
    ----------
    block : int
        The most tokens that a block holds: at least those of the longest sequence, so that scratch is
        O(longest (D + B)) for B directions and every thread.
    cuts : list of ndarray of int64
        For every share, the first sequences of its blocks, and one past the last sequence.
    team : ThreadTeam

    Notes
    -----
    Use as a context manager, or call `close`, to end the threads. BLAS should be held to one thread
    meanwhile, see `solvers._blas`.
    """

    def __init__(self, X, n_threads=None, numbers_per_token=0):
        self.X = X
        self.n_threads = n_threads_for(X, n_threads, _MIN_SHARE_TOKENS)
        fitting = _BLOCK_BYTES // (8 * (X.n_features + numbers_per_token))
        block = max(_MIN_BLOCK_TOKENS, fitting, int(X.lengths.max()))
        self.block = min(block, X.n_tokens)
        bounds = split_tokens(X.offsets, n_shares_for(X, _MIN_SHARE_TOKENS), self.block)
        firsts = [sequence for _, _, sequence in bounds]
        shares = zip(firsts, [*firsts[1:], len(X)], strict=True)
        self.cuts = [_cut(X.offsets, first, last, self.block) for first, last in shares]
        self._n_copied = 0 if X.values.dtype == np.float64 else self.block
        self.team = ThreadTeam(self.n_threads)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """End the threads."""
        self.team.close()

    def room_for_tokens(self):
        """Make room for a block of float32 tokens, of shape (block, D); of no rows for float64."""
        return np.empty((self._n_copied, self.X.n_features))


def _cut(offsets, first, last, block):
    """Cut the sequences `first` to `last` into blocks of at most so many tokens."""
    cuts = [first]
    while cuts[-1] < last:
        fitting = int(np.searchsorted(offsets, offsets[cuts[-1]] + block, side="right")) - 1
        cuts.append(min(fitting, last))
    return np.array(cuts, dtype=np.int64)

"""Many parameters and weightings of the same sequences in one read of X.

The fits of a penalty path on several folds differ in their parameters and in the weights of the
sequences (zero for those held out), but not in X. For B of them the tokens of a block are multiplied with
all keys and values at once, a matrix product of 2 B columns, and so are the coefficients of the
gradient with the tokens: the block is read from memory once, and the arithmetic is that of matrix products.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from .._backend import to_numpy
from .._compiled import ACTIVATION_CODES, jit
from ..ragged import Segments
from ._coordinates import activation_at
from ._cpu import n_threads_for, split_tokens
from ._objective import generic_squared_error, has_cpu_kernel
from ._projection import project
from ._sequences import SCRATCH_ROWS, coefficients, number_tokens
from ._threads import ThreadTeam

# Bytes of a block as float64, of which a core's L2 cache holds the block and the products with it.
_BLOCK_BYTES = 2**18
_MIN_BLOCK_TOKENS = 32


@jit
def _block(
    block, offsets, y, sample_weights, rows, kind, normalised, score_offsets, directions, intercepts, first,
    last, products, scratch, places, partial, gradient, scalars, predictions,
):  # fmt: skip
    """Add the sequences `first` to `last`, whose tokens are `block`, to the sums of all problems."""
    n, B = block.shape[0], intercepts.shape[0]
    pre_activations = products[: 2 * B * n].reshape((2 * B, n))
    np.dot(directions, block.T, pre_activations)
    number_tokens(offsets, first, last, places)
    for b in range(B):
        coefficients(
            offsets, y, sample_weights[rows[b]], kind, normalised, score_offsets[b], intercepts[b], first,
            last, places, pre_activations[b], pre_activations[B + b], scratch, scalars[b],
        )  # fmt: skip
        for s in range(first, last):
            predictions[b, s] = scratch[0, s - first] + intercepts[b]
    np.dot(pre_activations, block, partial)
    for c in range(2 * B):
        for j in range(block.shape[1]):
            gradient[c, j] += partial[c, j]


def _as_float64(X, start, stop, tokens):
    """Return the tokens `start` to `stop` as they are, or, of float32, copied to `tokens`."""
    raise NotImplementedError("for compiled code only")


@overload(_as_float64, inline="never")
def _compile_as_float64(X, start, stop, tokens):
    if X.dtype == types.float64:
        return lambda X, start, stop, tokens: X[start:stop]

    def copy(X, start, stop, tokens):
        for i in range(stop - start):
            for j in range(X.shape[1]):
                tokens[i, j] = X[start + i, j]
        return tokens[: stop - start]

    return copy


@jit
def evaluate_batch(
    X, offsets, y, sample_weights, rows, kind, normalised, score_offsets, directions, intercepts,
    first, last, tokens, products, scratch, places, partial, gradient, scalars, predictions,
):  # fmt: skip
    """Evaluate B problems over the sequences `first` to `last`.

    `directions` (2 B, D) holds the keys, then the values, over sqrt(D); `rows` (B,) says which row of
    `sample_weights` a problem has. `tokens` (block, D), `products`, `scratch`, `places` and `partial` are
    room to work in; `gradient` (2 B, D) and `scalars` (B, 3: error, d/db, d/dc) receive sums, `predictions`
    (B, n) b + f.
    """
    while first < last:
        end = first + 1
        while end < last and offsets[end + 1] - offsets[first] <= places.shape[0]:
            end += 1
        _block(
            _as_float64(X, offsets[first], offsets[end], tokens), offsets, y, sample_weights, rows, kind,
            normalised, score_offsets, directions, intercepts, first, end, products, scratch, places, partial,
            gradient, scalars, predictions,
        )  # fmt: skip
        first = end


class BatchKernel:
    """The fused pass for many parameters at once, over one data set split over threads.

    Parameters
    ----------
    X : RaggedArray
        float32 or float64 tokens in a C-ordered buffer.
    y : ndarray of float64 of shape (n,)
    sample_weights : ndarray of float64 of shape (R, n)
        The weightings that problems may have.
    n_threads : int, optional
        By default `_compiled.available_threads`, fewer for small X.

    Attributes
    ----------
    reads_at_once : bool
        Whether X is read once for all problems, or once for each.

    Notes
    -----
    A block holds at least the longest sequence, so that scratch is O(longest (D + B)) for every
    thread. BLAS should be held to one thread meanwhile, see `solvers._blas`.
    """

    reads_at_once = True

    def __init__(self, X, y, sample_weights, *, n_threads=None):
        self.X, self.y, self.sample_weights = X, y, sample_weights
        self.n_threads = n_threads_for(X.values.size, n_threads)
        block = max(_MIN_BLOCK_TOKENS, _BLOCK_BYTES // (8 * X.n_features), int(X.lengths.max()))
        self.block = min(block, X.n_tokens)
        cuts = split_tokens(X.offsets, self.n_threads, self.block)
        firsts = [sequence for _, _, sequence in cuts]
        self._shares = list(zip(firsts, [*firsts[1:], len(X)], strict=True))
        copied = 0 if X.values.dtype == np.float64 else self.block
        self._tokens = [np.empty((copied, X.n_features)) for _ in firsts]
        self._team = ThreadTeam(self.n_threads)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """End the threads."""
        self._team.close()

    def squared_errors(self, activation, parameters, rows):
        """Evaluate the squared error of every problem and its gradient; see `_generic.squared_error`.

        Parameters
        ----------
        activation : Activation
            One that `ACTIVATION_CODES` names; its offset is that of the parameters.
        parameters : sequence of B AttentionParameters
        rows : sequence of B ints
            The weighting of each problem.

        Returns
        -------
        terms : list of B tuples
            Each the squared error and its derivatives with respect to k, v, b and c.
        predictions : ndarray of float64 of shape (B, n)
            b + f(X_i), whatever the weight of sequence i.
        """
        B, D = len(parameters), self.X.n_features
        scale = 1.0 / math.sqrt(D)
        keys, values, intercepts, offsets = map(np.array, zip(*parameters, strict=True))
        predictions = np.empty((B, len(self.X)))
        gradients = np.zeros((self.n_threads, 2 * B, D))
        scalars = np.zeros((self.n_threads, B, 3))
        arguments = (
            self.X.values, self.X.offsets, self.y, self.sample_weights, np.array(rows, dtype=np.int64),
            ACTIVATION_CODES[activation.name], activation.normalised, offsets,
            np.concatenate([keys, values]) * scale, intercepts,
        )  # fmt: skip

        def run(thread):
            products, scratch = np.empty(2 * B * self.block), np.empty((SCRATCH_ROWS, self.block))
            places, partial = np.empty(self.block, dtype=np.int64), np.empty((2 * B, D))
            evaluate_batch(
                *arguments, *self._shares[thread], self._tokens[thread], products, scratch, places, partial,
                gradients[thread], scalars[thread], predictions,
            )  # fmt: skip

        self._team.run(run)
        gradient, sums = gradients.sum(axis=0) * scale, scalars.sum(axis=0)
        if not activation.has_offset:
            sums[:, 2] = 0.0
        terms = [
            (error, gradient[b], gradient[B + b], intercept_gradient, offset_gradient)
            for b, (error, intercept_gradient, offset_gradient) in enumerate(sums.tolist())
        ]
        return terms, predictions


class GenericBatch:
    """What `BatchKernel` does, problem by problem in plain array operations, for arrays of any namespace."""

    reads_at_once = False

    def __init__(self, X, y, sample_weights):
        self.X, self.y, self.sample_weights = X, y, sample_weights
        self._segments = Segments(X.offsets, X.values)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """Hold nothing that needs an end."""

    def squared_errors(self, activation, parameters, rows):
        """Evaluate the squared errors, their gradients and the predictions; see `BatchKernel`."""
        terms = [
            generic_squared_error(
                self.X, self._segments, self.y, self.sample_weights[row], activation, problem
            )
            for problem, row in zip(parameters, rows, strict=True)
        ]
        return terms, np.stack([self._predict(activation, problem) for problem in parameters])

    def _predict(self, activation, problem):
        scores, token_values = project(self.X, problem.key, problem.value)
        weights = self._segments.map(activation_at(activation, problem).weights, scores)
        return to_numpy(self._segments.sum(weights * token_values)) + problem.intercept


def shared_pass(X, y, sample_weights, activation):
    """Return the fastest way there is to evaluate many problems on X.

    Parameters
    ----------
    X : RaggedArray
    y : ndarray of float64 of shape (n,)
    sample_weights : ndarray of float64 of shape (R, n)
    activation : Activation

    Returns
    -------
    BatchKernel or GenericBatch
        A context manager with `squared_errors`.
    """
    batch = BatchKernel if has_cpu_kernel(X, activation) else GenericBatch
    return batch(X, y, sample_weights)

"""Mean and mean square of every feature, in one read of X."""

import numpy as np

from .._backend import array_namespace, is_numpy_array, to_numpy
from .._compiled import jit
from ._coordinates import like
from ._cpu import block_tokens, n_shares_for, n_threads_for, split_tokens
from ._generic import block_numbers
from ._lanes import LANES, fill, load, multiply, multiply_add, store, subtract
from ._threads import ThreadTeam

# The share of the numbers that may be copied at a time which a block, its differences and their squares take.
_BLOCK_SHARE = 1 / 4
# Tokens of a share for every weighting, as sums of each are kept.
_LEAST_TOKENS = 16


def moments(X, sample_weights, n_threads=None):
    """Mean and mean square of every feature over the tokens of a sequence, then over sequences by weight.

    With W = sum_i w_i,

        m_j = sum_i w_i / (W L_i) sum_l x_ilj,    q_j = sum_i w_i / (W L_i) sum_l x_ilj^2

    Parameters
    ----------
    X : RaggedArray
    sample_weights : ndarray of float64 of shape (B, n)
        B ways to weigh the sequences; X is read once for all of them, a block of tokens at a time.
    n_threads : int, optional
        On the CPU; by default those that are available.

    Returns
    -------
    mean, mean_square : ndarray of float64 of shape (B, D)
        On the host.

    Raises
    ------
    ValueError
        If the squares of X vanish though X does not.
    """
    shares = sample_weights / sample_weights.sum(axis=1)[:, None]
    on_cpu = is_numpy_array(X.values)
    origins, first, second = _on_cpu(X, shares, n_threads) if on_cpu else _generic(X, shares)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = origins + first
        mean_square = np.maximum(second + origins * (2.0 * first + origins), mean**2)
    if not mean_square.any() and bool(array_namespace(X.values).any(X.values != 0)):
        raise ValueError("The squares of X vanish in its float type: divide X by a typical size.")
    return mean, mean_square


def _origins(X, shares):
    """Choose a token o for every weighting, about which its sums are taken.

    So no variance is left of a constant feature, however large. The token is of the sequence that counts
    most: were it far from those that count, the mean square would cancel.
    """
    return X.offsets[np.argmax(shares, axis=1)]


def _on_cpu(X, shares, n_threads):
    block = block_tokens(X)
    bounds = split_tokens(X.offsets, n_shares_for(X, _LEAST_TOKENS * len(shares)), block)
    origins = X.values[_origins(X, shares), :].astype(np.float64)
    sums = np.zeros((len(bounds), 2, *origins.shape))

    def run(share, weights):
        _add_blocks(X.values, X.offsets, shares, origins, *bounds[share], weights, *sums[share])

    team = ThreadTeam(min(len(bounds), n_threads_for(X, n_threads)))
    try:
        team.deal(run, len(bounds), lambda: (np.empty(block),))
    finally:
        team.close()
    return origins, *sums.sum(axis=0)


@jit
def _add_blocks(
    X, offsets, shares, origins, first_token, last_token, sequence, weights, mean, mean_square
):  # fmt: skip
    """Add the tokens `first_token` to `last_token`, the first of them of `sequence`, to all moments."""
    for start in range(first_token, last_token, weights.shape[0]):
        stop = min(start + weights.shape[0], last_token)
        s = sequence
        for b in range(shares.shape[0]):
            s = sequence
            for token in range(start, stop):
                if token == offsets[s + 1]:
                    s += 1
                weights[token - start] = shares[b, s] / (offsets[s + 1] - offsets[s])
            _add_rows(X, start, stop, weights, origins[b], mean[b], mean_square[b])
        sequence = s


@jit
def _add_rows(X, start, stop, weights, origin, mean, mean_square):
    """Add w (x - o) and w (x - o)^2 of the tokens `start` to `stop`."""
    D = X.shape[1]
    row = start
    while row + 4 <= stop:
        i = row - start
        w0, w1, w2, w3 = fill(weights[i]), fill(weights[i + 1]), fill(weights[i + 2]), fill(weights[i + 3])
        for j in range(0, D, LANES):
            n = D - j
            o, first, second = load(origin, j, n), load(mean, j, n), load(mean_square, j, n)
            x = subtract(load(X, (row, j), n), o)
            first, second = multiply_add(w0, x, first), multiply_add(w0, multiply(x, x), second)
            x = subtract(load(X, (row + 1, j), n), o)
            first, second = multiply_add(w1, x, first), multiply_add(w1, multiply(x, x), second)
            x = subtract(load(X, (row + 2, j), n), o)
            first, second = multiply_add(w2, x, first), multiply_add(w2, multiply(x, x), second)
            x = subtract(load(X, (row + 3, j), n), o)
            first, second = multiply_add(w3, x, first), multiply_add(w3, multiply(x, x), second)
            store(mean, j, n, first)
            store(mean_square, j, n, second)
        row += 4
    while row < stop:
        w0 = fill(weights[row - start])
        for j in range(0, D, LANES):
            n = D - j
            x = subtract(load(X, (row, j), n), load(origin, j, n))
            store(mean, j, n, multiply_add(w0, x, load(mean, j, n)))
            store(mean_square, j, n, multiply_add(w0, multiply(x, x), load(mean_square, j, n)))
        row += 1


def _generic(X, shares):
    values, offsets, xp = X.values, X.offsets, array_namespace(X.values)
    tokens = _origins(X, shares).tolist()
    origins = xp.stack([xp.astype(values[token, :], xp.float64) for token in tokens])
    first, second = xp.zeros_like(origins), xp.zeros_like(origins)
    per_token = shares / X.lengths
    rows = max(1, int(_BLOCK_SHARE * block_numbers(values)) // X.n_features)
    for start in range(0, X.n_tokens, rows):
        stop = min(start + rows, X.n_tokens)
        held = slice(*(np.searchsorted(offsets, [start, stop - 1], side="right") - [1, 0]))
        lengths = np.diff(np.clip(offsets[held.start : held.stop + 1], start, stop))
        block = xp.astype(values[start:stop, :], xp.float64, copy=False)
        weights = like(np.repeat(per_token[:, held], lengths, axis=1), block)  # (B, tokens)
        for b in range(len(shares)):
            shifted = block - origins[b, :]
            first[b, :] += weights[b, :] @ shifted
            second[b, :] += weights[b, :] @ (shifted * shifted)
    return map(to_numpy, (origins, first, second))

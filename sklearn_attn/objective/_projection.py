"""Scores, token values and attended vectors of all sequences, on any device."""

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from .._backend import array_namespace, device, is_numpy_array, to_numpy
from . import _cpu, _generic
from ._coordinates import like
from ._generic import block_numbers

# Numbers of tokens that are looked at at a time, where float32 ones are copied.
TOKEN_NUMBERS = 2**22


def project(X, key, value, n_threads=None):
    """Compute the scores X k / sqrt(D) and token values X v / sqrt(D) of all tokens.

    Parameters
    ----------
    X : RaggedArray
    key : array of shape (D,)
    value : array of shape (D,) or (K, D)
    n_threads : int, optional
        On the CPU; by default those that are available.

    Returns
    -------
    scores : array of shape (n_tokens,)
    token_values : array of shape (n_tokens,), or (n_tokens, K) for K values
        float64, in the namespace of X.
    """
    if not is_numpy_array(X.values):
        return _generic.project(X.values, like(key, X.values, "float64"), like(value, X.values, "float64"))
    key, value = (to_numpy(x).astype(np.float64) for x in (key, value))
    with _cpu.FusedKernel(X, n_threads=n_threads) as kernel:
        if value.ndim == 1:
            return kernel.project(key, value)
        directions = [key, *value]
        if len(directions) % 2:
            directions.append(key)  # a pass takes two
        projected = [
            column
            for pair in zip(directions[::2], directions[1::2], strict=True)
            for column in kernel.project(*pair)
        ]
        return projected[0], np.stack(projected[1 : 1 + len(value)], axis=1)


def pool(X, weights):
    """Compute sum_l weights_l X_l of every sequence, in one read of X.

    Parameters
    ----------
    X : RaggedArray
    weights : array of shape (n_tokens,)

    Returns
    -------
    array of float64 of shape (n, D)
        In the namespace of X.
    """
    if is_numpy_array(X.values):
        pooled = np.empty((len(X), X.n_features))
        n_tokens = X.n_tokens if X.values.dtype == np.float64 else TOKEN_NUMBERS // X.n_features
        for first, last in cut_blocks(X.offsets, len(X), n_tokens):
            start, stop = X.offsets[first], X.offsets[last]
            offsets = X.offsets[first : last + 1] - start
            pooled[first:last] = pool_block(weights[start:stop], X.values[start:stop], offsets)
        return pooled
    return _pool_elsewhere(X, weights)


def _pool_elsewhere(X, weights):
    """Pool in any namespace: sequences of one length, as many as may be copied, in one product."""
    xp, where = array_namespace(X.values), device(X.values)
    order = np.argsort(X.lengths, kind="stable")
    lengths, pooled = X.lengths[order], []
    for group in np.split(order, np.flatnonzero(np.diff(lengths)) + 1):
        length = int(X.lengths[group[0]])
        n = block_numbers(X.values) // (2 * length * X.n_features)
        if n <= 1:  # long ones, in place
            bounds = zip(X.offsets[group].tolist(), X.offsets[group + 1].tolist(), strict=True)
            sums = [
                _generic.pull_back(weights[start:stop], X.values[start:stop, :]) for start, stop in bounds
            ]
            pooled.append(xp.stack(sums))
            continue
        for first in range(0, group.size, n):
            starts = X.offsets[group[first : first + n]]
            places = xp.asarray((starts[:, None] + np.arange(length)).reshape(-1), device=where)
            tokens = xp.astype(xp.take(X.values, places, axis=0), xp.float64, copy=False)
            tokens = xp.reshape(tokens, (starts.size, length, X.n_features))
            shares = xp.reshape(xp.take(weights, places, axis=0), (starts.size, 1, length))
            pooled.append((shares @ tokens)[:, 0, :])
    return xp.take(xp.concat(pooled), xp.asarray(np.argsort(order), device=where), axis=0)


def pool_block(weights, tokens, offsets):
    """Compute the same for NumPy arrays whose sequences begin at `offsets`."""
    shape = offsets.size - 1, tokens.shape[0]
    return csr_array((weights, np.arange(tokens.shape[0]), offsets), shape=shape) @ tokens


def cut_blocks(offsets, n_sequences, n_tokens):
    """Cut the sequences into blocks of at most so many, and of at most so many tokens or of one sequence.

    Returns
    -------
    list of (int, int)
        The first and one past the last sequence of every block.
    """
    bounds = [0]
    while bounds[-1] < offsets.size - 1:
        first = bounds[-1]
        fitting = int(np.searchsorted(offsets, offsets[first] + n_tokens, side="right")) - 1
        bounds.append(min(max(fitting, first + 1), first + n_sequences, offsets.size - 1))
    return list(pairwise(bounds))

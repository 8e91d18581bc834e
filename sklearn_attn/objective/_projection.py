"""Scores, token values and attended vectors of all sequences, on any device."""

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from .._backend import array_namespace, is_numpy_array
from . import _cpu, _generic
from ._coordinates import like

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
        float64 on the CPU, otherwise in the namespace and dtype of X.
    """
    if not is_numpy_array(X.values):
        return _generic.project(X.values, like(key, X.values), like(value, X.values))
    key, value = (np.asarray(x, dtype=np.float64) for x in (key, value))
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
    array of shape (n, D)
        float64 on the CPU, otherwise in the namespace and dtype of X.
    """
    if is_numpy_array(X.values):
        pooled = np.empty((len(X), X.n_features))
        n_tokens = X.n_tokens if X.values.dtype == np.float64 else TOKEN_NUMBERS // X.n_features
        for first, last in cut_blocks(X.offsets, len(X), n_tokens):
            start, stop = X.offsets[first], X.offsets[last]
            offsets = X.offsets[first : last + 1] - start
            pooled[first:last] = pool_block(weights[start:stop], X.values[start:stop], offsets)
        return pooled
    xp = array_namespace(X.values)
    bounds = pairwise(X.offsets.tolist())
    return xp.stack([weights[start:stop] @ X.values[start:stop, :] for start, stop in bounds])


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

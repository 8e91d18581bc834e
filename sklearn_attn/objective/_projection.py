"""Scores and token values of all tokens, on any device."""

import numpy as np

from .._backend import is_numpy_array
from . import _cpu, _generic
from ._coordinates import like


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

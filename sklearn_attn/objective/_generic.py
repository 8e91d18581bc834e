"""The deviance and its gradient in plain array-API operations.

Readable and namespace-agnostic: the oracle of the fused kernels, and the path of arrays that no
kernel takes. It reads X four times per evaluation. All but the tokens is float64; float32 tokens are
copied to float64 a block at a time.
"""

import math

from .._backend import array_namespace
from ._losses import SQUARED_ERROR

# Numbers of float32 tokens that are copied at a time, and the share of X that may be where that is more.
_BLOCK_NUMBERS, _BLOCK_SHARE = 2**22, 1 / 128


def project(values, key, value):
    """Compute the scores chi = X k / sqrt(D) and token values z = X v / sqrt(D).

    Parameters
    ----------
    values : array of shape (n_tokens, D)
    key : array of float64 of shape (D,)
    value : array of float64 of shape (D,) or (K, D)

    Returns
    -------
    scores : array of float64 of shape (n_tokens,)
    token_values : array of float64 of shape (n_tokens,) or (n_tokens, K)
    """
    xp = array_namespace(values)
    scale = 1.0 / math.sqrt(values.shape[1])
    directions = value if value.ndim == 1 else value.T
    projected = [(block @ key, block @ directions) for block in _blocks(values)]
    scores, token_values = (xp.concat(parts) for parts in zip(*projected, strict=True))
    return scores * scale, token_values * scale


def block_numbers(values):
    """Return how many numbers of the tokens may be copied at a time."""
    return max(_BLOCK_NUMBERS, int(_BLOCK_SHARE * math.prod(values.shape)))


def _blocks(values):
    """Yield the tokens in blocks of float64."""
    xp = array_namespace(values)
    if values.dtype == xp.float64:
        yield values
        return
    n = max(1, block_numbers(values) // values.shape[1])
    for start in range(0, values.shape[0], n):
        yield xp.astype(values[start : min(start + n, values.shape[0]), :], xp.float64)


def pull_back(gradients, values):
    """Compute the product of (..., n_tokens) derivatives with the tokens, of shape (..., D)."""
    total, start = 0.0, 0
    for block in _blocks(values):
        total = total + gradients[..., start : start + block.shape[0]] @ block
        start += block.shape[0]
    return total


def deviance(
    values, segments, y, sample_weight, activation, key, value, intercept, loss=SQUARED_ERROR
):  # fmt: skip
    """Evaluate sum_i w_i d(y_i, b + sigma(chi_i)^T z_i) and its gradient.

    With the residual r_i of the loss, for the squared error y_i - b - f_i, the derivative with respect to f_i
    is -2 w_i r_i, and

        d/dz = -2 w r sigma,   d/dchi = J_sigma^T (-2 w r z),   d/dk = X^T d/dchi / sqrt(D),
        d/dv = X^T d/dz / sqrt(D),   d/db = -2 sum w r,   d/dc = sum d/dchi

    where J_sigma^T is the activation's pullback and c the offset added to every score. For a loss of K
    outputs there is z_c = X v_c / sqrt(D) for each, and r z stands for the sum of r_c z_c.

    Parameters
    ----------
    values : array of shape (n_tokens, D)
    segments : Segments
        The sequences that the tokens form.
    y, sample_weight : arrays of float64 of shape (n,)
    activation : Activation
    key : array of float64 of shape (D,)
    value : array of float64 of shape (D,), or (K, D) for a loss of K outputs
    intercept : float, or array of float64 of shape (K,)
    loss : Loss, default=SQUARED_ERROR

    Returns
    -------
    deviance : float
    key_gradient, value_gradient : arrays of the shapes of key and value
    intercept_gradient : float or array of shape (K,)
    offset_gradient : float
        0 for an activation without an offset.
    """
    xp = array_namespace(values)
    scale = 1.0 / math.sqrt(values.shape[1])
    several = value.ndim == 2
    scores, token_values = project(values, key, value)
    weights = segments.map(activation.weights, scores)
    token_values = token_values if several else token_values[:, None]  # (n_tokens, K)
    K = token_values.shape[1]
    outputs = [segments.sum(weights * token_values[:, c]) for c in range(K)]
    predictions = xp.stack(outputs, axis=1) + intercept  # (n, K)
    prediction_gradient = -2.0 * sample_weight[:, None] * loss.residual(y, predictions)  # (n, K)
    spread = xp.stack([segments.spread(prediction_gradient[:, c]) for c in range(K)], axis=1)  # (n_tokens, K)
    score_gradient = segments.map(activation.pullback, scores, xp.sum(spread * token_values, axis=1))
    value_gradient = pull_back((spread * weights[:, None]).T, values) * scale  # (K, D)
    intercept_gradient = xp.sum(prediction_gradient, axis=0)
    return (
        float(xp.sum(sample_weight * loss.deviance(y, predictions))),
        pull_back(score_gradient, values) * scale,
        value_gradient if several else value_gradient[0, :],
        intercept_gradient if several else float(intercept_gradient[0]),
        float(xp.sum(score_gradient)) if activation.has_offset else 0.0,
    )

"""The deviance and its gradient in plain array-API operations.

Readable and namespace-agnostic: the oracle of the fused kernels, and the path of arrays that no
kernel takes. It reads X four times per evaluation.
"""

import math

from .._backend import array_namespace
from ._losses import SQUARED_ERROR


def project(values, key, value):
    """Compute the scores chi = X k / sqrt(D) and token values z = X v / sqrt(D).

    Parameters
    ----------
    values : array of shape (n_tokens, D)
    key : array of shape (D,)
    value : array of shape (D,) or (K, D)

    Returns
    -------
    scores : array of shape (n_tokens,)
    token_values : array of shape (n_tokens,) or (n_tokens, K)
    """
    scale = 1.0 / math.sqrt(values.shape[1])
    return (values @ key) * scale, (values @ (value if value.ndim == 1 else value.T)) * scale


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
    y, sample_weight : arrays of shape (n,)
    activation : Activation
    key : array of shape (D,)
    value : array of shape (D,), or (K, D) for a loss of K outputs
    intercept : float, or array of shape (K,)
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
    value_gradient = ((spread * weights[:, None]).T @ values) * scale  # (K, D)
    intercept_gradient = xp.sum(prediction_gradient, axis=0)
    return (
        float(xp.sum(sample_weight * loss.deviance(y, predictions))),
        (score_gradient @ values) * scale,
        value_gradient if several else value_gradient[0, :],
        intercept_gradient if several else float(intercept_gradient[0]),
        float(xp.sum(score_gradient)) if activation.has_offset else 0.0,
    )

"""The squared error and its gradient in plain array-API operations.

Readable and namespace-agnostic: the oracle of the fused kernels, and the path of arrays that no
kernel takes. It reads X four times per evaluation.
"""

import math

from .._backend import array_namespace


def project(values, key, value):
    """Compute the scores chi = X k / sqrt(D) and token values z = X v / sqrt(D).

    Parameters
    ----------
    values : array of shape (n_tokens, D)
    key, value : arrays of shape (D,)

    Returns
    -------
    scores, token_values : arrays of shape (n_tokens,)
    """
    scale = 1.0 / math.sqrt(values.shape[1])
    return (values @ key) * scale, (values @ value) * scale


def squared_error(values, segments, y, sample_weight, activation, key, value, intercept):
    """Evaluate sum_i w_i (y_i - b - sigma(chi_i)^T z_i)^2 and its gradient.

    With the residual r_i = y_i - b - f_i, the derivative with respect to f_i is -2 w_i r_i, and

        d/dz = -2 w r sigma,   d/dchi = J_sigma^T (-2 w r z),   d/dk = X^T d/dchi / sqrt(D),
        d/dv = X^T d/dz / sqrt(D),   d/db = -2 sum w r,   d/dc = sum d/dchi

    where J_sigma^T is the activation's pullback and c the offset added to every score.

    Parameters
    ----------
    values : array of shape (n_tokens, D)
    segments : Segments
        The sequences that the tokens form.
    y, sample_weight : arrays of shape (n,)
    activation : Activation
    key, value : arrays of shape (D,)
    intercept : float

    Returns
    -------
    error : float
    key_gradient, value_gradient : arrays of shape (D,)
    intercept_gradient, offset_gradient : float
        The latter is 0 for an activation without an offset.
    """
    xp = array_namespace(values)
    scale = 1.0 / math.sqrt(values.shape[1])
    scores, token_values = project(values, key, value)
    weights = segments.map(activation.weights, scores)
    residual = y - intercept - segments.sum(weights * token_values)  # (n,)
    prediction_gradient = -2.0 * sample_weight * residual  # (n,)
    spread = segments.spread(prediction_gradient)  # (n_tokens,)
    score_gradient = segments.map(activation.pullback, scores, spread * token_values)
    return (
        float(xp.sum(sample_weight * residual**2)),
        (score_gradient @ values) * scale,
        ((spread * weights) @ values) * scale,
        float(xp.sum(prediction_gradient)),
        float(xp.sum(score_gradient)) if activation.has_offset else 0.0,
    )

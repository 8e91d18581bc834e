"""Where a fit starts."""

import numpy as np

from ..objective import AttentionParameters


def starting_points(objective, init, n_init, random_state, offset):
    """Yield `n_init` flat starting vectors: what `init` says first, random ones after it.

    Parameters
    ----------
    objective : AttentionObjective
    init : {"auto", "random"} or AttentionParameters
    n_init : int
    random_state : RandomState
    offset : float
        Where a learned offset starts.

    Yields
    ------
    ndarray of float64 of shape (n_parameters,)
    """
    for i in range(n_init):
        if i or init == "random":
            yield random_start(objective, random_state, offset)
        elif init == "auto":
            yield auto_start(objective, offset)
        else:
            yield given_start(objective, init)


def given_start(objective, parameters):
    """Start from given parameters; an intercept of NaN stands for the best one beside them.

    In the scaled problem the second derivative with respect to the intercept is one, so that the
    best is one Newton step, and one pass over X, away from any other.
    """
    if not np.isnan(parameters.intercept):
        return objective.pack(parameters)
    theta = objective.pack(parameters._replace(intercept=objective.target_mean))
    if objective.fit_intercept:
        place = 2 * objective.X.n_features
        theta[place] -= objective.value_and_gradient(theta)[1][place]
    return theta


def auto_start(objective, offset):
    """Start from uniform attention and the best multiple of the pooled covariance with y.

    At k = 0 every token has the same weight and the objective is a ridge regression in v on pooled
    tokens. One steepest-descent step on v from zero, with the exact line search that a quadratic
    allows, gives v proportional to the weighted covariance of pooled tokens and y. It depends on the
    data alone: neither on the order of sequences or tokens nor on whether a weight is split over copies. It
    costs two passes over X, and the gradient of k, which vanishes at v = 0, does not vanish there.
    """
    D = objective.X.n_features
    zeros = np.zeros(D)
    origin = objective.pack(AttentionParameters(zeros, zeros, objective.target_mean, offset))
    descent = np.zeros_like(origin)
    descent[D : 2 * D] = -objective.value_and_gradient(origin)[1][D : 2 * D]
    slope_at_0 = -(descent @ descent)
    if slope_at_0 == 0.0:
        return origin
    slope_at_1 = descent @ objective.value_and_gradient(origin + descent)[1]
    step = slope_at_0 / (slope_at_0 - slope_at_1)  # the minimum of a parabola with these slopes
    return origin + step * descent


def random_start(objective, random_state, offset):
    """Draw k and v so that scores, and token values in units of y, have variance about one."""
    D = objective.X.n_features
    key, value = random_state.standard_normal((2, D)) / objective.token_scale
    value *= objective.target_scale
    return objective.pack(AttentionParameters(key, value, objective.target_mean, offset))

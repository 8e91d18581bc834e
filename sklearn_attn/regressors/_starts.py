"""Where a fit starts.

Starts that need evaluations are generators, as the minimisations of `solvers.lbfgs_steps`: they yield a
point, receive the value and the gradient there, and return the start.
"""

import numpy as np

from .._backend import array_namespace, norm
from ..solvers import lbfgs_steps, run_in_lockstep

# Pooled tokens tell nothing of y where the gradient of v, of the order of their correlation, is below.
_NO_SIGNAL = 1e-4
_N_KEYS = 10
# Scores of this standard deviation: wide enough that the weights tell a key from its negative.
_KEY_NORM = 3.0
# Where the best intercept beside given vectors is near enough.
_INTERCEPT_TOL, _MAX_INTERCEPT_STEPS = 1e-3, 30


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
    array of float64 of shape (n_parameters,)
        Where the tokens are.
    """
    for steps in start_steps(objective, init, n_init, random_state, offset):
        yield run_in_lockstep([steps], lambda _, thetas: map(objective.value_and_gradient, thetas))[0]


def start_steps(objective, init, n_init, random_state, offset):
    """Yield the same starts as generators that leave evaluations to the caller.

    Yields
    ------
    generator
    """
    for i in range(n_init):
        if i or init == "random":
            yield _random_start(objective, random_state, offset)
        elif init == "auto":
            yield _auto_start(objective, offset)
        else:
            yield _given_start(objective, init)


def _given_start(objective, parameters):
    """Start from given parameters; an intercept of NaN stands for the best one beside them.

    In the scaled problem the second derivative of the squared error with respect to the intercept is one,
    so that the best is one Newton step, and one pass over X, away from any other. For the log loss it takes a
    few passes.
    """
    if not np.isnan(parameters.intercept).any():
        return objective.pack(parameters)
    coordinates = objective.coordinates
    part = coordinates.intercept_part
    theta = objective.pack(parameters._replace(intercept=coordinates.null_intercept))
    if not objective.fit_intercept:
        return theta
    if objective.loss.is_quadratic:
        _, gradient = yield theta
        theta[part] -= gradient[part]
        return theta
    steps = lbfgs_steps(theta[part], max_iter=_MAX_INTERCEPT_STEPS, tol=_INTERCEPT_TOL)
    try:
        point = next(steps)
        while True:
            theta = _copy(theta)
            theta[part] = point
            value, gradient = yield theta
            point = steps.send((value, gradient[part]))
    except StopIteration as end:
        theta[part] = end.value.params
    return theta


def _auto_start(objective, offset):
    """Start from uniform attention and the best multiple of the pooled covariance with y.

    At k = 0 every token has the same weight and the objective is a ridge regression in v on pooled
    tokens (a logistic one for the log loss). One steepest-descent step on v from zero, with the line search
    that is exact for a quadratic, gives v along the weighted covariance of pooled tokens and y. It depends on
    the data alone: neither on the order of sequences or tokens nor on whether a weight is split over copies.
    It costs two passes over X, and the gradient of k, which vanishes at v = 0, does not vanish there.

    Where pooled tokens tell nothing of y, as for sequences that were centred one by one, v = k = 0 is a
    saddle, at which a solver would stay. There the start is the best of ten keys, drawn with a fixed seed,
    each with the v of one steepest descent step: the best key shows in the objective that this step reaches,
    which may be above the saddle's, for the penalty of a key of some length.
    """
    D, value_part = objective.X.n_features, objective.coordinates.value_part
    origin = objective.pack(objective.coordinates.null_parameters(offset))
    descent = yield from _value_descent(origin, value_part)
    if norm(descent) > _NO_SIGNAL:
        return (yield from _line_search(origin, descent))
    starts = []
    for key in np.random.RandomState(0).standard_normal((_N_KEYS, D)):
        theta = _copy(origin)
        theta[:D] = objective.coordinates.asarray(_KEY_NORM * key / np.linalg.norm(key))
        descent = yield from _value_descent(theta, value_part)
        if norm(descent) > _NO_SIGNAL:
            starts.append((yield from _line_search(theta, descent)))
    best, least = origin, np.inf
    for theta in starts:
        value, _ = yield theta
        if value < least:
            best, least = theta, value
    return best


def _value_descent(theta, value_part):
    """Minus the gradient, in the coordinates of v alone."""
    _, gradient = yield theta
    descent = array_namespace(theta).zeros_like(theta)
    descent[value_part] = -gradient[value_part]
    return descent


def _line_search(theta, descent):
    """Go to the minimum along a descent in v, in which the objective is a parabola, or much like one."""
    slope_at_0 = -(descent @ descent)
    _, gradient = yield theta + descent
    slope_at_1 = descent @ gradient
    return theta + slope_at_0 / (slope_at_0 - slope_at_1) * descent


def _random_start(objective, random_state, offset):
    """Draw k and v so that scores, and token values in units of y, have variance about one at most.

    Those in log odds have it as they are.
    Penalties that dominate the data make them smaller. The numbers come from a stream of their own: an
    `SLRDataset` with the same seed draws its hidden directions first.
    """
    D = objective.X.n_features
    stream = np.random.RandomState(random_state.randint(np.iinfo(np.int32).max))
    theta = objective.pack(objective.coordinates.null_parameters(offset))
    n = objective.coordinates.value_part.stop
    drawn = stream.standard_normal(n) / np.sqrt(D)
    drawn[D:] *= np.repeat(np.sqrt(objective.coordinates.curvature), D)
    theta[:n] = objective.coordinates.asarray(drawn)
    yield from ()  # needs no evaluation
    return theta


def _copy(theta):
    return array_namespace(theta).asarray(theta, copy=True)

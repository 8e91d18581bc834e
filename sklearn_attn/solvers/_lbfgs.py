"""L-BFGS as a coroutine, so that several minimisations can share the evaluation of their functions.

SciPy's optimiser calls the function; `lbfgs_steps` hands out the point and waits. `lbfgs` evaluates the
points of one minimisation, `_lockstep` those of several together.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from .._backend import array_namespace, norm
from ._array_pairs import curvature_pairs
from ._blas import single_threaded_blas
from ._lockstep import run_in_lockstep
from ._result import SolverResult

# The strong Wolfe conditions: f(t) <= f(0) + c1 t f'(0) and |f'(t)| <= c2 |f'(0)|.
_C1, _C2 = 1e-4, 0.9
_MAX_LINE_SEARCH = 30
# Two values closer than this share of them may differ by rounding alone: slopes decide then.
_NOISE = 1e-14
_EXPANSION = 4.0
# Patience grows by this factor with every renewal, lest they hold up a minimisation that they do not help.
_GROWTH = 1.5


class Renewal(NamedTuple):
    """How a minimisation that takes long finds a better metric.

    Attributes
    ----------
    patience : float
        Iterations before the first renewal; later ones come at growing distances.
    inverse_at : callable
        Takes a point, and returns the product with an approximate inverse Hessian there, a function from a
        vector to a vector, or None where there is none.
    """

    patience: float
    inverse_at: Callable


def lbfgs(objective, start, *, max_iter=1000, tol=1e-5, renewal=None, callback=None):
    """Minimise a smooth function from a starting point by L-BFGS.

    Parameters
    ----------
    objective : object
        With ``value_and_gradient(theta) -> (float, array)``.
    start : array of float64 of shape (n_parameters,)
        In the namespace and on the device of the gradient; the vectors of the solver are there too.
    max_iter, tol, renewal, callback
        As in `lbfgs_steps`.

    Returns
    -------
    SolverResult

    Notes
    -----
    BLAS is held to one thread meanwhile: the vectors of the optimiser are short, and the fused kernel
    needs the cores.
    """
    steps = lbfgs_steps(start, max_iter=max_iter, tol=tol, renewal=renewal, callback=callback)
    with single_threaded_blas():
        return run_in_lockstep([steps], lambda _, thetas: map(objective.value_and_gradient, thetas))[0]


def lbfgs_steps(
    start, *, max_iter=1000, tol=1e-5, evaluation=None, pairs=(), inverse=None, renewal=None, n_pairs=None,
    callback=None,
):  # fmt: skip
    """Minimise a smooth function by L-BFGS, as a generator.

    Parameters
    ----------
    start : array of float64 of shape (n_parameters,)
    max_iter : int, default=1000
        Largest number of iterations.
    tol : float, default=1e-5
        The fit has converged when the Euclidean norm of the gradient is at most this.
    evaluation : (float, array), optional
        Value and gradient at the start, where they are known.
    pairs : iterable of (array, array), optional
        Curvature that is known, as in `CurvaturePairs`.
    inverse : callable, optional
        The product with an approximate inverse Hessian, from a vector to a vector.
    renewal : Renewal, optional
        How to find a better `inverse` where many iterations are needed.
    n_pairs : int, optional
        How many `CurvaturePairs` are kept.
    callback : callable, optional
        Called after every iteration with (n_iter, objective, stop_crit, theta); stops the minimisation by
        returning True.

    Yields
    ------
    array of float64 of shape (n_parameters,)
        A point; the answer to ``send`` is the value and the gradient there.

    Returns
    -------
    SolverResult
        With the `CurvaturePairs` of the end as `state`.
    """
    theta = start
    value, gradient = (yield theta) if evaluation is None else evaluation
    pairs = curvature_pairs(theta, pairs, n_pairs)
    loss_curve = [value]
    stop_crit = norm(gradient)
    message = "the start is stationary" if stop_crit <= tol else "converged"
    stopped = False
    patience = math.inf if renewal is None else renewal.patience
    next_renewal = patience  # iterations before it
    while stop_crit > tol and len(loss_curve) <= max_iter:
        if len(loss_curve) - 1 >= next_renewal:
            patience *= _GROWTH
            next_renewal += patience
            renewed = renewal.inverse_at(theta)
            if renewed is not None:
                pairs, inverse = curvature_pairs(theta, size=n_pairs), renewed
        found = None
        while found is None:
            direction = pairs.direction(gradient, inverse)
            step = 1.0 if len(pairs) or inverse is not None else min(1.0, 1.0 / stop_crit)
            if direction @ gradient < 0.0:
                found = yield from _line_search(theta, value, gradient, direction, step)
            if found is None:
                if not len(pairs) and inverse is None:
                    break
                # once more along the gradient
                pairs, inverse = curvature_pairs(theta, size=n_pairs), None
        if found is None:
            break
        new_theta, value, new_gradient = found
        pairs.add(new_theta - theta, new_gradient - gradient)
        theta, gradient = new_theta, new_gradient
        stop_crit = norm(gradient)
        loss_curve.append(value)
        stopped = callback is not None and bool(callback(len(loss_curve) - 1, value, stop_crit, theta))
        if stopped:
            break
    n_iter, converged = len(loss_curve) - 1, stop_crit <= tol
    if not converged:
        message = "a callback stopped it" if stopped else _reason(n_iter, max_iter)
    return SolverResult(theta, value, stop_crit, n_iter, converged, message, loss_curve, pairs, stopped)


def _line_search(theta, value, gradient, direction, step):
    """Find a point along a descent direction where the strong Wolfe conditions hold.

    As Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6: a bracket that holds such a point
    is made by growing steps, and shrunk by cubic interpolation.

    Yields
    ------
    array
        A point, as `lbfgs_steps`.

    Returns
    -------
    (array, float, array) or None
        The point, the value and the gradient; None where no lower point can be told from rounding.
    """
    slope = float(gradient @ direction)
    noise = _NOISE * abs(value)
    low, high = (0.0, value, slope), None
    for _ in range(_MAX_LINE_SEARCH):
        point = theta + step * direction
        if bool(array_namespace(point).all(point == theta)):
            return None
        point_value, point_gradient = yield point
        point_slope = float(point_gradient @ direction)
        trial = step, point_value, point_slope
        if not (math.isfinite(point_value) and math.isfinite(point_slope)):
            high = step, math.inf, math.nan
        elif point_value > value + _C1 * step * slope + noise or point_value > low[1] + noise:
            high = trial
        elif abs(point_slope) <= -_C2 * slope:
            return point, point_value, point_gradient
        else:
            outward = 1.0 if high is None else high[0] - low[0]
            if point_slope * outward >= 0.0:
                high = low
            low = trial
        step = _EXPANSION * step if high is None else _interpolate(low, high)
    return None


def _interpolate(low, high):
    """Minimise the cubic with the values and slopes at both ends, away from them by a tenth at least."""
    (a, value_a, slope_a), (b, value_b, slope_b) = low, high
    width = b - a
    share = 0.5
    if not math.isfinite(value_b):
        share = 0.1
    else:
        # Nocedal and Wright, equation 3.59
        d1 = slope_a + slope_b - 3.0 * (value_b - value_a) / width
        square = d1 * d1 - slope_a * slope_b
        if square >= 0.0:
            d2 = math.copysign(math.sqrt(square), width)
            denominator = slope_b - slope_a + 2.0 * d2
            if denominator != 0.0:
                share = 1.0 - (slope_b + d2 - d1) / denominator
    if not math.isfinite(share):
        share = 0.5
    return a + min(max(share, 0.1), 0.9) * width


def _reason(n_iter, max_iter):
    if n_iter >= max_iter:
        return f"it reached max_iter={max_iter}"
    return "the line search found no lower point"

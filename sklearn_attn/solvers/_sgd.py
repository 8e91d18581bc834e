"""Stochastic gradient descent: the dynamics whose one-pass limit theory describes.

In the coordinates k / sqrt(D), v / sqrt(D), b and c every parameter moves with the rate gamma_t / D, so
that scores are products of tokens and parameters, and time is counted in D steps.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import check_random_state

from .._backend import norm, to_numpy
from .._compiled import ACTIVATION_CODES, LOSS_CODES, jit
from ..objective import AttentionParameters
from ..objective._cpu import SCRATCH_ROWS, whole_sequences
from ._blas import single_threaded_blas
from ._result import SolverResult


@dataclass(frozen=True)
class Schedule:
    """How steps are made.

    Attributes
    ----------
    learning_rate : float
        gamma > 0.
    power_t : float
        Step t has the rate gamma_t = gamma / (1 + t / D)^power_t, the first being t = 0.
    batch_size : int
        Sequences per step; the last batch of a pass may be shorter.
    average : bool or int
        Whether the average of the iterates is the result; an int is the number of sequences after which
        averaging starts.
    """

    learning_rate: float = 0.1
    power_t: float = 0.0
    batch_size: int = 1
    average: bool | int = False


@dataclass
class SGDState:
    """Where a descent stands, and all that it needs to go on; on the host, wherever the tokens are.

    Attributes
    ----------
    iterate, average : ndarray of float64 of shape (2 D + 2,)
        k / sqrt(D), v / sqrt(D), b and c: now, and on average over `n_averaged` steps.
    n_steps : int
        t.
    n_averaged : int
        Steps that `average` holds; 0 where averaging is off or has not started.
    n_drawn : int
        Sequences used so far, once for every time.
    n_samples : int
        Sequences in the sum that the penalty belongs to; every pass over the data of one fit has the same.
    """

    iterate: np.ndarray
    average: np.ndarray
    n_steps: int = 0
    n_averaged: int = 0
    n_drawn: int = 0
    n_samples: int = 0

    @classmethod
    def at(cls, parameters):
        """Start from AttentionParameters."""
        key, value, intercept, offset = parameters
        key, value = to_numpy(key), to_numpy(value)
        scale = 1.0 / math.sqrt(key.shape[0])
        iterate = np.concatenate([key * scale, value * scale, [intercept, offset]])
        return cls(iterate, np.zeros_like(iterate))

    def copy(self):
        """Copy the state with its vectors."""
        return replace(self, iterate=self.iterate.copy(), average=self.average.copy())

    @property
    def parameters(self):
        """The result so far as AttentionParameters: the average where there is one, else the iterate."""
        return _named(self.average if self.n_averaged else self.iterate)


def sgd(objective, start, schedule=None, *, random_state=None, max_iter=1000, tol=1e-5, callback=None):
    """Descend from a starting point in passes over the data, in an order drawn anew for each.

    A step on a batch B of sequences follows the gradient of

        1 / (2 |B|) sum_{i in B} w_i (y_i - b - f(X_i))^2

    with the rate gamma_t for k and v and gamma_t / D for b and c. The penalty's share alpha / n, with n
    the number of sequences, acts as a division by 1 + gamma_t alpha / n after it. In expectation the
    steps are zero where the gradient of the objective is.

    Parameters
    ----------
    objective : AttentionObjective
    start : ndarray of float64 of shape (n_parameters,)
    schedule : Schedule, optional
    random_state : int, RandomState instance or None, default=None
        Draws the order of the sequences.
    max_iter : int, default=1000
        Largest number of passes.
    tol : float, default=1e-5
        The fit has converged when, after a pass, the Euclidean norm of the gradient of the whole
        objective is at most this.
    callback : callable, optional
        Called after every pass with (n_iter, objective, stop_crit, theta); stops the descent by
        returning True.

    Returns
    -------
    SolverResult
        With the end of the descent as `state`.

    Raises
    ------
    ValueError
        If the objective grows beyond all numbers.

    Notes
    -----
    A pass runs in one thread, the evaluation of the objective after it in all. BLAS is held to one
    thread, as in `lbfgs`.
    """
    schedule = Schedule() if schedule is None else schedule
    random_state = check_random_state(random_state)
    n = len(objective.X)
    state = SGDState.at(objective.unpack(start))
    state.n_samples = n
    with single_threaded_blas():
        result = _evaluate(objective, state, schedule)
        loss_curve, stopped = [result.objective], False
        while result.stop_crit > tol and len(loss_curve) <= max_iter:
            _run_pass(objective, state, schedule, random_state.permutation(n))
            result = _evaluate(objective, state, schedule)
            loss_curve.append(result.objective)
            point = len(loss_curve) - 1, result.objective, result.stop_crit, result.params
            stopped = callback is not None and bool(callback(*point))
            if stopped:
                break
    converged, n_iter = result.stop_crit <= tol, len(loss_curve) - 1
    message = "converged" if n_iter else "the start is stationary"
    if not converged:
        message = "a callback stopped it" if stopped else f"it reached max_iter={max_iter}"
    return replace(
        result, n_iter=n_iter, converged=converged, message=message, loss_curve=loss_curve, stopped=stopped
    )


def sgd_pass(objective, state, schedule):
    """Go on from a state with one pass over new data, in the order given.

    Parameters
    ----------
    objective : AttentionObjective
        Of the new data. Its penalty is shared among all sequences seen so far, these included.
    state : SGDState
        Left unchanged.
    schedule : Schedule

    Returns
    -------
    SolverResult
        After the pass, with the objective and the stop criterion of the new data.

    Raises
    ------
    ValueError
        If the objective grows beyond all numbers.
    """
    state = state.copy()
    n = len(objective.X)
    state.n_samples += n
    with single_threaded_blas():
        _run_pass(objective, state, schedule, np.arange(n))
        return _evaluate(objective, state, schedule)


def _named(flat):
    """Turn the coordinates of the descent into AttentionParameters."""
    D = (flat.shape[0] - 2) // 2
    scale = math.sqrt(D)
    return AttentionParameters(flat[:D] * scale, flat[D : 2 * D] * scale, float(flat[-2]), float(flat[-1]))


def _evaluate(objective, state, schedule):
    """Evaluate the whole objective at the result so far; refuse what is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        params = objective.pack(state.parameters)
        value, gradient = objective.value_and_gradient(params)
        stop_crit = norm(gradient)
    if not (np.isfinite(state.iterate).all() and math.isfinite(value) and math.isfinite(stop_crit)):
        raise ValueError(
            f"Stochastic gradient descent diverged within {state.n_steps} steps: the objective overflows. "
            f"Lower learning_rate={schedule.learning_rate:g}, or scale X and y to unit variance "
            "(TokenTransformer(StandardScaler()), TransformedTargetRegressor)."
        )
    return SolverResult(params, value, stop_crit, 1, False, "one pass", [value], state)


def _run_pass(objective, state, schedule, order):
    """Run over the sequences once, in the order given, and advance the state."""
    for flat in (state.iterate, state.average):  # what is not fitted stays where the objective has it
        if not objective.fit_intercept:
            flat[-2] = 0.0
        if not objective.fit_offset:
            flat[-1] = getattr(objective.activation, "offset", 0.0)
    if not schedule.average:
        state.n_averaged = 0
    settings = (
        min(schedule.batch_size, order.size), schedule.learning_rate, schedule.power_t, int(schedule.average),
        objective.alpha_key / state.n_samples, objective.alpha_value / state.n_samples,
        objective.fit_intercept, objective.fit_offset,
    )  # fmt: skip
    objective.n_passes += 1
    run = _kernel_pass if objective.backend == "cpu" else _generic_pass
    counters = run(
        objective,
        order,
        settings,
        state.n_steps,
        state.n_averaged,
        state.n_drawn,
        state.iterate,
        state.average,
    )
    state.n_steps, state.n_averaged, state.n_drawn = counters


def _kernel_pass(objective, order, settings, *state):
    X, activation = objective.X, objective.activation
    longest = int(X.lengths.max())
    scratch, places = np.empty((SCRATCH_ROWS, longest)), np.empty(longest, dtype=np.int64)
    return _compiled_pass(
        X.values, X.offsets, objective.y, objective.sample_weight, LOSS_CODES[objective.loss.name],
        ACTIVATION_CODES[activation.name], activation.normalised, scratch, places, order, settings, *state,
    )  # fmt: skip


def _generic_pass(objective, order, settings, n_steps, n_averaged, n_drawn, iterate, average):
    """Do what the compiled pass does, with the objective's own gradient."""
    batch_size, root = settings[0], math.sqrt(objective.X.n_features)
    for first in range(0, order.size, batch_size):
        batch = order[first : first + batch_size]
        with np.errstate(over="ignore", invalid="ignore"):
            terms = objective.batch_gradient(batch, _named(iterate))
        gradient = np.stack([terms.key, terms.value]) * root
        scalars = np.array([0.0, terms.intercept, terms.offset])
        n_drawn += batch.size
        n_averaged = _step(
            settings, batch.size, gradient, scalars, n_steps, n_averaged, n_drawn, iterate, average
        )
        n_steps += 1
    return n_steps, n_averaged, n_drawn


@jit
def _compiled_pass(
    X, offsets, y, sample_weight, loss, kind, normalised, scratch, places, order, settings, n_steps,
    n_averaged, n_drawn, iterate, average,
):  # fmt: skip
    D = X.shape[1]
    key, value = iterate[:D], iterate[D : 2 * D]
    gradient, scalars = np.zeros((2, D)), np.zeros(3)
    for first in range(0, order.size, settings[0]):
        batch = order[first : first + settings[0]]
        for i in batch:
            whole_sequences(
                X, offsets, y, sample_weight, loss, kind, normalised, iterate[2 * D + 1], key, value,
                iterate[2 * D], i, i + 1, scratch, places, gradient, scalars,
            )  # fmt: skip
        n_drawn += batch.size
        n_averaged = _step(
            settings, batch.size, gradient, scalars, n_steps, n_averaged, n_drawn, iterate, average
        )
        n_steps += 1
    return n_steps, n_averaged, n_drawn


@jit
def _step(settings, n_batch, gradient, scalars, n_steps, n_averaged, n_drawn, iterate, average):
    """Make one step, given the gradient of sum_i w_i r_i^2 over the batch; return `n_averaged`.

    `gradient` (2, D), of k / sqrt(D) and v / sqrt(D), and `scalars` (error, d/db, d/dc) are set to zero for
    the next batch.
    """
    _, learning_rate, power_t, average_after, key_share, value_share, fit_intercept, fit_offset = settings
    D = gradient.shape[1]
    rate = learning_rate / (1.0 + n_steps / D) ** power_t
    step = rate / (2.0 * n_batch * D)
    for row in range(2):
        shrinkage = 1.0 / (1.0 + rate * (key_share if row == 0 else value_share))
        for j in range(D):
            iterate[row * D + j] = shrinkage * (iterate[row * D + j] - step * gradient[row, j])
            gradient[row, j] = 0.0
    if fit_intercept:
        iterate[2 * D] -= step * scalars[1]
    if fit_offset:
        iterate[2 * D + 1] -= step * scalars[2]
    scalars[:] = 0.0
    if average_after and n_drawn >= average_after:
        n_averaged += 1
        for j in range(iterate.shape[0]):
            average[j] += (iterate[j] - average[j]) / n_averaged
    return n_averaged

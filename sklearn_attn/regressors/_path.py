"""A path of penalties, on several weightings of the same sequences, in shared passes over X."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from .._backend import array_namespace, norm
from ..objective import AttentionObjective, curvature_cost, moments, shared_pass
from ..solvers import SolverResult, lbfgs_steps, run_in_lockstep
from ._model import order, refuse_no_minimum
from ._starts import start_steps

# Below this norm of v, in the coordinates in which token values of the size of y have norm about one, a
# solution tells a neighbouring penalty nothing: k = v = 0 may be a saddle there.
_COLLAPSED = 1e-3
# Where this share of an objective or less is left of it at a smaller penalty, too many digits have cancelled.
_CANCELLED = 1e-5
# Pairs that came along from penalties before are stale: 200 took a tenth to a half longer than these.
_N_PAIRS = 50
# Passes at one penalty that the curvature would not spare.
_FEW_PASSES = 8


@dataclass(frozen=True)
class PathFit:
    """One solution on the path.

    Attributes
    ----------
    objective : AttentionObjective
    result : SolverResult
    gradient : array of float64 of shape (n_parameters,)
        At the result, in the solver's coordinates.
    predictions : array of float64 of shape (n,)
        b + f(X_i) of all sequences, whatever their weights; where X is.
    """

    objective: AttentionObjective
    result: SolverResult
    gradient: np.ndarray
    predictions: np.ndarray


class PenaltyPath:
    """Fits of one model to R weightings of the same sequences, along a path of penalties.

    Fits at some penalties run in lockstep: every pass over X serves all that have not converged yet. A fit
    starts from the one at the penalties before. There the gradient needs no pass, as

        dJ' = dJ + 2 (alpha_key' - alpha_key) k + 2 (alpha' - alpha) v

    and what L-BFGS has learnt of the curvature is corrected by the same rule, y' = y + 2 (alpha' - alpha) s,
    rather than forgotten. Where many passes are needed, the Gauss-Newton matrix of the last weighting, at its
    last solution, is what L-BFGS of all weightings starts from.

    Parameters
    ----------
    X : RaggedArray
    y : ndarray of float64 of shape (n,)
    sample_weights : ndarray of float64 of shape (R, n)
        The last should be that of all data.
    activation : Activation
        At the start.
    fit_intercept, fit_offset : bool
    init : {"auto", "random"} or AttentionParameters
        Where the first fits start.
    n_init : int
        Starts of every fit; those after the first are random.
    max_iter : int
    tol : float
    random_state : RandomState

    Attributes
    ----------
    n_passes : int
        Passes over X so far.

    Notes
    -----
    Use as a context manager, and with BLAS held to one thread.
    """

    def __init__(
        self, X, y, sample_weights, activation, *, fit_intercept, fit_offset, init, n_init, max_iter, tol,
        random_state,
    ):  # fmt: skip
        self.X, self.y, self.sample_weights, self.activation = X, y, sample_weights, activation
        self._model = {"fit_intercept": fit_intercept, "fit_offset": fit_offset}
        self._solver = {"max_iter": max_iter, "tol": tol}
        self._init, self._n_init, self._random_state = init, n_init, random_state
        self._moments = list(zip(*moments(X, sample_weights), strict=True))
        self._pass = shared_pass(X, y, sample_weights, activation)
        self.n_passes = 1
        self._curvature, self._last_passes = None, 0
        self._curvature_cost = curvature_cost(X) / len(sample_weights)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self._pass.close()

    def fit(self, penalties, previous=None):
        """Fit all weightings at some penalties, in lockstep.

        Parameters
        ----------
        penalties : list of (float, float)
            alpha and alpha_key.
        previous : list of PathFit, optional
            The fits at a neighbouring penalty, one per weighting.

        Returns
        -------
        list of list of PathFit
            One per penalty and weighting.
        """
        self._renew_curvature(previous)
        n_passes = self.n_passes
        R = len(self.sample_weights)
        runs = [
            run
            for penalty, (alpha, alpha_key) in enumerate(penalties)
            for run in self._runs(penalty, alpha, alpha_key, previous or [None] * R)
        ]

        def evaluate(indices, thetas):
            return self._evaluate([runs[i] for i in indices], thetas)

        results = run_in_lockstep([run.steps for run in runs], evaluate)
        for run, result in zip(runs, results, strict=True):
            run.result = result
        best = [
            min((run for run in runs if (run.penalty, run.row) == place), key=lambda run: order(run.result))
            for place in np.ndindex(len(penalties), R)
        ]
        elsewhere = [run for run in best if run.theta is not run.result.params]
        if elsewhere:
            self._evaluate(elsewhere, [run.result.params for run in elsewhere])
        self._last_passes = self.n_passes - n_passes
        for run in best:
            refuse_no_minimum(run.result)
        fits = [PathFit(run.objective, run.result, run.gradient, run.predictions) for run in best]
        return [fits[first : first + R] for first in range(0, len(fits), R)]

    def objective(self, row, alpha, alpha_key):
        """Build what is minimised for one weighting at one penalty."""
        return AttentionObjective(
            self.X, self.y, self.activation, alpha_key=alpha_key, alpha_value=alpha,
            sample_weight=self.sample_weights[row], token_moments=self._moments[row], **self._model,
        )  # fmt: skip

    def _renew_curvature(self, previous):
        """Compute the curvature anew if the passes at the last penalty cost more than that."""
        if previous is not None and self._last_passes > _FEW_PASSES + self._curvature_cost:
            self._curvature = previous[-1].objective.gauss_newton(previous[-1].result.params)
            self.n_passes += 2

    def _runs(self, penalty, alpha, alpha_key, previous):
        """Prepare the minimisations at one penalty, one for every weighting and start."""
        objectives = [self.objective(row, alpha, alpha_key) for row in range(len(previous))]
        inverse = self._curvature.inverse(objectives[-1]) if self._curvature is not None else None
        solver = self._solver | {"inverse": inverse, "n_pairs": _N_PAIRS}
        offset = getattr(self.activation, "offset", 0.0)
        for row, (objective, fit) in enumerate(zip(objectives, previous, strict=True)):
            goes_on = fit is not None and not _has_collapsed(fit)
            if goes_on:
                theta, value, gradient, pairs = _carry_over(fit, objective)
                is_exact = value > _CANCELLED * fit.result.objective
                evaluation = (value, gradient) if is_exact else None
                steps = lbfgs_steps(theta, evaluation=evaluation, pairs=pairs, **solver)
                yield _Run(penalty, row, objective, steps, theta, gradient, fit.predictions)
            starts = start_steps(objective, self._init, self._n_init, self._random_state, offset)
            # An offset that is far out at one penalty leads to poor minima at the next: start anew as well.
            known = goes_on and not objective.fit_offset
            for start in islice(starts, int(known), None):
                yield _Run(penalty, row, objective, _from_start(start, solver))

    def _evaluate(self, runs, thetas):
        """Evaluate one point for each of some runs in one pass, and note it there."""
        parameters = [run.objective.unpack(theta) for run, theta in zip(runs, thetas, strict=True)]
        terms, predictions = self._pass.deviances(self.activation, parameters, [run.row for run in runs])
        self.n_passes += 1
        answers = []
        for b, run in enumerate(runs):
            value, gradient = run.objective.scale(*run.objective.penalise(parameters[b], *terms[b]))
            run.theta, run.gradient, run.predictions = thetas[b], gradient, predictions[b, :]
            answers.append((value, gradient))
        return answers


@dataclass
class _Run:
    """One minimisation, and what the last pass found for it."""

    penalty: int
    row: int
    objective: AttentionObjective
    steps: Iterator
    theta: np.ndarray | None = None
    gradient: np.ndarray | None = None
    predictions: np.ndarray | None = None
    result: SolverResult | None = None


def _from_start(start, options):
    """Find the start, then the minimum."""
    theta = yield from start
    return (yield from lbfgs_steps(theta, **options))


def _has_collapsed(fit):
    """Whether a solution is so near k = v = 0 that its neighbours had better start anew."""
    D = fit.objective.X.n_features
    return norm(fit.result.params[D : 2 * D]) < _COLLAPSED


def _carry_over(fit, objective):
    """Turn a solution into a start for the same weights and other penalties.

    Returns
    -------
    theta : ndarray of float64 of shape (n_parameters,)
    value : float
    gradient : ndarray of float64 of shape (n_parameters,)
        Of the new objective, in its coordinates.
    pairs : list of (ndarray, ndarray)
        Steps and changes of the gradient, likewise.
    """
    D, old, new = objective.X.n_features, fit.objective.coordinates.unit, objective.coordinates.unit
    rise = array_namespace(new).zeros_like(new)  # of the penalty of every parameter, over 2 W s_y^2
    rise[:D] = objective.alpha_key - fit.objective.alpha_key
    rise[D : 2 * D] = objective.alpha_value - fit.objective.alpha_value
    rise /= objective.coordinates.objective_scale

    def change(gradient, step):
        return (gradient / old + 2.0 * rise * old * step) * new

    theta = fit.result.params
    value = fit.result.objective + float(rise @ (theta * old) ** 2)
    pairs = [(step * (old / new), change(delta, step)) for step, delta in fit.result.state]
    return theta * (old / new), value, change(fit.gradient, theta), pairs

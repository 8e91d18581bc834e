"""The template of all attention regressors: validate, build the objective, solve, keep the result."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from ..objective import AttentionObjective, AttentionParameters, curvature_cost
from ..ragged import check_ragged, validate_ragged
from ..solvers import Renewal, Schedule, SGDState, lbfgs, sgd, sgd_pass, single_threaded_blas
from ._callbacks import EXTRA_FRAMES, CallbackSupportMixin, FitTask, with_callbacks
from ._model import AttentionModel, order, refuse_overflow
from ._starts import starting_points
from ._validation import check_init, check_parameters, check_sample_weight, check_target

# Iterations of L-BFGS before the Gauss-Newton matrix is worth its making, and how much faster its matrix
# products multiply than a pass does.
_PATIENCE = 30
_SPEED_OF_PRODUCTS = 8.0
LBFGS_ADVICE = (
    "Raise alpha or max_iter, whiten correlated features (TokenTransformer(PCA(whiten=True))), or "
    "accept a larger tol."
)
_ADVICE = {
    "lbfgs": LBFGS_ADVICE,
    "sgd": "Lower learning_rate, let the steps shrink with power_t above 0.5 or set average=True, raise "
    "max_iter or tol, or use solver='lbfgs'; partial_fit makes single passes without this warning.",
}


def _renewal(objective):
    """Give L-BFGS the Gauss-Newton matrix once its passes have cost as much."""
    cost = curvature_cost(objective.X) / _SPEED_OF_PRODUCTS
    return Renewal(max(_PATIENCE, cost), lambda theta: objective.gauss_newton(theta).inverse(objective))


def _has_partial_fit(estimator):
    if estimator.solver != "sgd":
        raise AttributeError(
            "partial_fit is a pass of stochastic gradient descent: pass solver='sgd', got "
            f"{estimator.solver!r}."
        )
    return True


class BaseAttentionRegressor(CallbackSupportMixin, AttentionModel):
    """Single-head attention regressor; subclasses name the activation."""

    def __init__(
        self,
        alpha=1.0,
        *,
        alpha_key=None,
        fit_intercept=True,
        solver="lbfgs",
        init="auto",
        n_init=1,
        max_iter=1000,
        tol=1e-5,
        learning_rate=0.1,
        power_t=0.0,
        batch_size=1,
        average=False,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.alpha_key = alpha_key
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.power_t = power_t
        self.batch_size = batch_size
        self.average = average
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the key, the value and the intercept.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens: a list of (L_i, D) arrays, a RaggedArray, an (n, L, D) array, an
            (n, D) array of sequences of one token, or an (n, 1) object column of (L_i, D) arrays.
        y : array-like of shape (n,)
            One target per sequence.
        sample_weight : float or array-like of shape (n,), optional
            Weights of the sequences, at least 0. They are not normalised: a weight of 2 is the same as
            the sequence twice.

        Returns
        -------
        self
            Unchanged if an error is raised or the fit is interrupted.

        Raises
        ------
        ValueError
            If X, y, the weights or a parameter is not valid, or the descent of solver="sgd" diverges; the
            message names what is at fault.
        TypeError
            If X holds no sequences (a generator, a string, sparse), or a parameter has another type.

        Warns
        -----
        ConvergenceWarning
            If `stop_crit_` is above `tol` when the solver stops.
        """
        check_parameters(self)
        checked = check_ragged(X)
        task = FitTask.of_fit(self, X, y, sample_weight, max_subtasks=self.n_init)
        with single_threaded_blas(), self._build_objective(checked, y, sample_weight) as objective:
            self._minimise(X, checked, objective, task, 3 + EXTRA_FRAMES)
        return self

    def _minimise(self, X, checked, objective, task, stacklevel):
        """Solve from every start, and keep the best."""
        self._warn_of_far_features(objective.coordinates.far_features, stacklevel=stacklevel + 1)
        random_state = check_random_state(self.random_state)
        init = self._previous_parameters(checked) if self.warm_start else None
        starts = self._starts(objective, init, self.n_init, random_state)
        results = []
        for start in starts:
            result, stop = self._solve(objective, start, random_state, task)
            results.append(result)
            if stop:
                break
        best = min(results, key=order)
        refuse_overflow(best)
        if not best.converged and not best.stopped:
            warnings.warn(
                f"{type(self).__name__} did not converge: {best.message}, with a scaled gradient norm of "
                f"{best.stop_crit:.1e} above tol={self.tol:.1e}. {self._advice(best)}",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        task.end(lambda: self._attributes_at(objective, best.params))
        self._keep(X, checked, objective, best)

    @available_if(_has_partial_fit)
    def partial_fit(self, X, y, sample_weight=None):
        """Go on with one pass of stochastic gradient descent; with ``solver="sgd"`` only.

        The sequences are taken in the order given. The first call starts where `fit` with one start would on
        these data; later ones go on from the last call, or from `fit`. The stream has no end: the
        penalty belongs to the sum over all sequences seen so far, those of this call included. What a
        fit has seen counts once, whatever the number of its passes; after one by another solver the
        counts begin at zero.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.
        y : array-like of shape (n,)
            One target per sequence.
        sample_weight : float or array-like of shape (n,), optional
            Weights of the sequences, at least 0, as in `fit`.

        Returns
        -------
        self
            Unchanged if an error is raised. `objective_` and `stop_crit_` are those of the data of
            this call, and `loss_curve_` is one entry longer.

        Raises
        ------
        AttributeError
            With another solver.
        ValueError, TypeError
            As `fit`, or if X has another number of features than before, or the descent diverges.
        """
        check_parameters(self)
        first = not hasattr(self, "key_")
        checked = check_ragged(X) if first else validate_ragged(self, X, reset=False)
        with single_threaded_blas(), self._build_objective(checked, y, sample_weight) as objective:
            if first:
                start = next(self._starts(objective, None, 1, check_random_state(self.random_state)))
                state = SGDState.at(objective.unpack(start))
                loss_curve = objective.original_units(objective.value_and_gradient(start)[0])
            else:
                state = getattr(self, "_sgd_state", None) or SGDState.at(self._previous_parameters(checked))
                loss_curve = self.loss_curve_
            result = sgd_pass(objective, state, self._schedule())
        self._keep(X, checked, objective, result, reset=first)
        self.loss_curve_ = np.append(loss_curve, self.objective_)
        self.n_iter_ = self.loss_curve_.size - 1
        return self

    def _build_objective(self, X, y, sample_weight, build=AttentionObjective):
        """Check the target and the weights, and build what is minimised over X."""
        activation, fit_offset = self._initial_activation()
        return build(
            X,
            check_target(y, len(X), type(self).__name__),
            activation,
            alpha_key=self.alpha if self.alpha_key is None else self.alpha_key,
            alpha_value=self.alpha,
            sample_weight=check_sample_weight(sample_weight, len(X)),
            fit_intercept=bool(self.fit_intercept),
            fit_offset=fit_offset,
        )

    def _starts(self, objective, init, n_init, random_state):
        """Yield flat starting vectors: the given one, else what `init` says, and random ones after it."""
        offset = getattr(objective.activation, "offset", 0.0)
        if init is None:
            init = check_init(self.init, objective.X.n_features, offset)
        return starting_points(objective, init, n_init, random_state, offset)

    def _solve(self, objective, start, random_state, task):
        """Solve from one start; return the result, and whether a callback asks for no further start."""
        task = task.subtask("start", max_subtasks=self.max_iter)
        report = self._report()

        def callback(n_iter, value, stop_crit, theta):
            if report is not None:
                report(n_iter, value, stop_crit)
            return task.subtask("iteration").end(lambda: self._attributes_at(objective, theta))

        options = {"max_iter": self.max_iter, "tol": self.tol, "callback": callback}
        if self.solver == "lbfgs":
            result = lbfgs(objective, start, renewal=_renewal(objective), **options)
        else:
            result = sgd(objective, start, self._schedule(), random_state=random_state, **options)
        return result, task.end(lambda: self._attributes_at(objective, result.params))

    def _advice(self, result):
        if self.solver == "lbfgs" and result.n_iter < self.max_iter:
            return (
                "The function is flat there to the precision of float64: accept a larger tol (1e-7 "
                "is safe on most data), or scale the tokens."
            )
        return _ADVICE[self.solver]

    def _schedule(self):
        return Schedule(float(self.learning_rate), float(self.power_t), int(self.batch_size), self.average)

    def _previous_parameters(self, X):
        """Return the parameters of an earlier fit, or None before the first."""
        if not hasattr(self, "key_"):
            return None
        if self.key_.shape != (X.n_features,):
            raise ValueError(
                f"warm_start=True continues a fit on {self.key_.shape[0]} features, but X has "
                f"{X.n_features}; clone the estimator or set warm_start=False."
            )
        offset = getattr(self._fitted_activation(), "offset", 0.0)
        key, value = (np.asarray(vector, dtype=np.float64) for vector in (self.key_, self.value_))
        return AttentionParameters(key, value, float(self.intercept_), offset)

    def _report(self):
        """Return the callback that prints progress, or None."""
        if not self.verbose:
            return None
        name = type(self).__name__

        def report(n_iter, objective, stop_crit):
            if self.verbose > 1 or n_iter % 10 == 0:
                print(
                    f"[{name}] iteration {n_iter}: scaled objective {objective:.6g}, "
                    f"scaled gradient norm {stop_crit:.1e}"
                )

        return report

    def _keep(self, X, checked, objective, result, *, reset=True):
        parameters = super()._keep(X, checked, objective, result, reset=reset)
        self._sgd_state = result.state if isinstance(result.state, SGDState) else None
        if self._sgd_state is not None:
            self.t_ = self._sgd_state.n_steps
        else:
            vars(self).pop("t_", None)  # of an earlier fit by another solver
        return parameters

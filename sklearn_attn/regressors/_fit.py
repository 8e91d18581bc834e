"""The template of a fit by L-BFGS: validate, build the objective, solve from every start, keep the best."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._backend import to_numpy
from ..objective import AttentionParameters, curvature_cost
from ..ragged import all_at_once, check_ragged
from ..solvers import Renewal, lbfgs, single_threaded_blas
from ._callbacks import EXTRA_FRAMES, CallbackSupportMixin, FitTask
from ._model import AttentionModel, order, quiet_overflow, refuse_no_minimum
from ._starts import starting_points
from ._validation import check_init

# Iterations of L-BFGS before the Gauss-Newton matrix is worth its making, and how much faster its matrix
# products multiply than a pass does.
_PATIENCE = 30
_SPEED_OF_PRODUCTS = 8.0
# An objective that falls by less than this share of it only differs by rounding.
_ROUNDING = 1e-13
LBFGS_ADVICE = (
    "Raise alpha or max_iter, whiten correlated features (TokenTransformer(PCA(whiten=True))), or "
    "accept a larger tol."
)


def _renewal(objective):
    """Give L-BFGS the Gauss-Newton matrix once its passes have cost as much."""
    cost = curvature_cost(objective.X, objective.loss) / _SPEED_OF_PRODUCTS
    return Renewal(max(_PATIENCE, cost), lambda theta: objective.gauss_newton(theta).inverse(objective))


class BaseAttentionEstimator(CallbackSupportMixin, AttentionModel):
    """Single-head attention with one penalty; subclasses check parameters and build the objective."""

    def _check_parameters(self):
        """Validate the constructor's arguments."""
        raise NotImplementedError

    def _build_objective(self, X, y, sample_weight):
        """Check the target and the weights, and build what is minimised over X."""
        raise NotImplementedError

    def _fit(self, X, y, sample_weight):
        """Fit on all sequences; called by a `fit` that is decorated `with_callbacks`."""
        self._check_parameters()
        checked = check_ragged(X)
        task = FitTask.of_fit(self, X, y, sample_weight, max_subtasks=self.n_init)
        with (
            single_threaded_blas(),
            quiet_overflow(),
            self._build_objective(checked, y, sample_weight) as objective,
        ):
            self._minimise(X, checked, objective, task, 4 + EXTRA_FRAMES)
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
        refuse_no_minimum(best)
        if not best.converged and not best.stopped:
            warnings.warn(
                f"{type(self).__name__} did not converge: {best.message}, with a scaled gradient norm of "
                f"{best.stop_crit:.1e} above tol={self.tol:.1e}. {self._advice(best)}",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        task.end(lambda: self._attributes_at(objective, best.params))
        with all_at_once(self) as fitted:
            fitted._keep(X, checked, objective, best)

    def _starts(self, objective, init, n_init, random_state):
        """Yield flat starting vectors: the given one, else what `init` says, and random ones after it."""
        offset = getattr(objective.activation, "offset", 0.0)
        if init is None:
            init = check_init(self.init, objective.X.n_features, offset, objective.loss.n_outputs)
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
        result = self._run_solver(objective, start, random_state, options)
        return result, task.end(lambda: self._attributes_at(objective, result.params))

    def _run_solver(self, objective, start, random_state, options):
        """Minimise from one start."""
        return lbfgs(objective, start, renewal=_renewal(objective), **options)

    def _advice(self, result):
        """Say what to do where a fit has not converged."""
        curve = result.loss_curve
        gain = curve[result.n_iter // 2] - curve[-1]  # of the later half
        if result.n_iter < self.max_iter or gain <= _ROUNDING * abs(curve[-1]):
            return (
                "The function is flat there to the precision of float64: accept a larger tol (1e-7 "
                "is safe on most data), or scale the tokens."
            )
        return LBFGS_ADVICE

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
        key, value, intercept = (
            to_numpy(fitted).astype(np.float64) for fitted in (self.key_, self.value_, self.intercept_)
        )
        return AttentionParameters(key, value, intercept if value.ndim == 2 else float(intercept), offset)

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

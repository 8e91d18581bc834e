"""The template of all attention regressors, and their descent."""

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from ..objective import AttentionObjective
from ..ragged import all_at_once, check_ragged, validate_ragged
from ..solvers import Schedule, SGDState, sgd, sgd_pass, single_threaded_blas
from ._callbacks import with_callbacks
from ._fit import BaseAttentionEstimator
from ._model import AttentionRegressorMixin, quiet_overflow
from ._validation import check_parameters, check_sample_weight, check_target, leave_out_weightless

_SGD_ADVICE = (
    "Lower learning_rate, let the steps shrink with power_t above 0.5 or set average=True, raise "
    "max_iter or tol, or use solver='lbfgs'; partial_fit makes single passes without this warning."
)


def _has_partial_fit(estimator):
    if estimator.solver != "sgd":
        raise AttributeError(
            "partial_fit is a pass of stochastic gradient descent: pass solver='sgd', got "
            f"{estimator.solver!r}."
        )
    return True


class BaseAttentionRegressor(AttentionRegressorMixin, BaseAttentionEstimator):
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
            the sequence twice, and one of 0 as none at all.

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
        return self._fit(X, y, sample_weight)

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
            Unchanged if an error is raised or the pass is interrupted. `objective_` and `stop_crit_` are
            those of the data of this call, and `loss_curve_` is one entry longer.

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
        with (
            single_threaded_blas(),
            quiet_overflow(),
            self._build_objective(checked, y, sample_weight) as objective,
        ):
            if first:
                start = next(self._starts(objective, None, 1, check_random_state(self.random_state)))
                state = SGDState.at(objective.unpack(start))
                loss_curve = objective.original_units(objective.value_and_gradient(start)[0])
            else:
                state = getattr(self, "_sgd_state", None) or SGDState.at(self._previous_parameters(checked))
                loss_curve = self.loss_curve_
            result = sgd_pass(objective, state, self._schedule())
        with all_at_once(self) as fitted:
            fitted._keep(X, checked, objective, result, reset=first)
            fitted.loss_curve_ = np.append(loss_curve, fitted.objective_)
            fitted.n_iter_ = fitted.loss_curve_.size - 1
        return self

    def _build_objective(self, X, y, sample_weight, build=AttentionObjective):
        """Check the target and the weights, and build what is minimised over X."""
        activation, fit_offset = self._initial_activation()
        y = check_target(y, len(X), type(self).__name__)
        sample_weight, X, y = leave_out_weightless(check_sample_weight(sample_weight, len(X)), X, y)
        return build(
            X,
            y,
            activation,
            alpha_key=self.alpha if self.alpha_key is None else self.alpha_key,
            alpha_value=self.alpha,
            sample_weight=sample_weight,
            fit_intercept=bool(self.fit_intercept),
            fit_offset=fit_offset,
        )

    def _check_parameters(self):
        check_parameters(self)

    def _run_solver(self, objective, start, random_state, options):
        if self.solver == "lbfgs":
            return super()._run_solver(objective, start, random_state, options)
        return sgd(objective, start, self._schedule(), random_state=random_state, **options)

    def _advice(self, result):
        return super()._advice(result) if self.solver == "lbfgs" else _SGD_ADVICE

    def _schedule(self):
        return Schedule(float(self.learning_rate), float(self.power_t), int(self.batch_size), self.average)

    def _keep(self, X, checked, objective, result, *, reset=True):
        parameters = super()._keep(X, checked, objective, result, reset=reset)
        self._sgd_state = result.state if isinstance(result.state, SGDState) else None
        if self._sgd_state is not None:
            self.t_ = self._sgd_state.n_steps
        else:
            vars(self).pop("t_", None)  # of an earlier fit by another solver
        return parameters

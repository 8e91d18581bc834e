"""The template of all attention regressors: validate, build the objective, solve, keep the result."""

import warnings

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, RegressorMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._backend import array_namespace, is_numpy_array
from ..activations import get_activation
from ..objective import AttentionObjective, AttentionParameters, project
from ..ragged import RaggedArray, Segments, check_ragged, set_features, validate_ragged
from ..solvers import Schedule, SGDState, lbfgs, sgd, sgd_pass
from ._starts import starting_points
from ._validation import check_init, check_parameters, check_sample_weight, check_target

_ADVICE = {
    "lbfgs": "Raise alpha or max_iter, whiten correlated features (TokenTransformer(PCA(whiten=True))), or "
    "accept a larger tol.",
    "sgd": "Lower learning_rate, let the steps shrink with power_t above 0.5 or set average=True, raise "
    "max_iter or tol, or use solver='lbfgs'; partial_fit makes single passes without this warning.",
}


def _has_partial_fit(estimator):
    if estimator.solver != "sgd":
        raise AttributeError(
            "partial_fit is a pass of stochastic gradient descent: pass solver='sgd', got "
            f"{estimator.solver!r}."
        )
    return True


class BaseAttentionRegressor(RegressorMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Single-head attention regressor; subclasses name the activation."""

    _activation_name = None

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        # Unnormalised weights regress on sums of tokens times scores, which no linear target favours.
        tags.regressor_tags.poor_score = not get_activation(self._activation_name).normalised
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

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
        with self._build_objective(checked, y, sample_weight) as objective:
            self._warn_of_far_features(objective.coordinates.far_features)
            random_state = check_random_state(self.random_state)
            init = self._previous_parameters(checked) if self.warm_start else None
            starts = self._starts(objective, init, self.n_init, random_state)
            results = [self._solve(objective, start, random_state) for start in starts]
        best = min(results, key=lambda result: (np.isnan(result.objective), result.objective))
        if not np.isfinite(best.objective):
            raise ValueError(
                "The objective overflows at every start: lower alpha, alpha_key or the "
                "weights, or pass an init of a smaller scale."
            )
        if not best.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge: {best.message}, with a scaled gradient norm of "
                f"{best.stop_crit:.1e} above tol={self.tol:.1e}. {self._advice(best)}",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(X, checked, objective, best)
        return self

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
        with self._build_objective(checked, y, sample_weight) as objective:
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

    def _build_objective(self, X, y, sample_weight):
        """Check the target and the weights, and build what is minimised over X."""
        activation, fit_offset = self._initial_activation()
        return AttentionObjective(
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

    def _solve(self, objective, start, random_state):
        options = {"max_iter": self.max_iter, "tol": self.tol, "callback": self._report()}
        if self.solver == "lbfgs":
            return lbfgs(objective, start, **options)
        return sgd(objective, start, self._schedule(), random_state=random_state, **options)

    def _warn_of_far_features(self, far):
        if far.size:
            warnings.warn(
                f"{far.size} feature(s), the first being feature {far[0]}, vary by less than a thousandth "
                f"of their mean, which {type(self).__name__} cannot take out: the fit may stop far from the "
                "minimum. Centre the tokens: make_pipeline(TokenTransformer(StandardScaler()), ...).",
                UserWarning,
                stacklevel=3,
            )

    def _advice(self, result):
        if self.solver == "lbfgs" and result.n_iter < self.max_iter:
            return (
                "The function is flat there to the precision of float64: accept a larger tol (1e-7 "
                "is safe on most data), or scale the tokens."
            )
        return _ADVICE[self.solver]

    def _schedule(self):
        return Schedule(float(self.learning_rate), float(self.power_t), int(self.batch_size), self.average)

    def _initial_activation(self):
        """Return the activation at the start of the fit, and whether its offset is fitted."""
        return get_activation(self._activation_name), False

    def _fitted_activation(self):
        return get_activation(self._activation_name)

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
        """Store what was fitted, in the units of the data."""
        parameters = objective.unpack(result.params)
        with np.errstate(over="ignore"):
            key, value = (vector.astype(checked.values.dtype) for vector in parameters[:2])
        if not (np.isfinite(key).all() and np.isfinite(value).all()):
            raise ValueError(f"The fitted key or value overflows {checked.values.dtype}: pass X in float64.")
        if reset:
            set_features(self, X, checked)
        self.key_, self.value_ = key, value
        self.intercept_ = parameters.intercept
        self.objective_ = objective.original_units(result.objective)
        self.stop_crit_ = result.stop_crit
        self.loss_curve_ = objective.original_units(np.array(result.loss_curve))
        self.n_iter_ = result.n_iter
        self._sgd_state = result.state
        if result.state is not None:
            self.t_ = result.state.n_steps
        else:
            vars(self).pop("t_", None)  # of an earlier fit by another solver
        return parameters

    def predict(self, X):
        """Predict the target of every sequence, b + sigma(chi)^T z.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes. A 2-D array is n sequences of one token: for a single
            sequence x pass ``[x]``.

        Returns
        -------
        array of shape (n,)
            In the float dtype of X.
        """
        X, segments, weights, token_values = self._attend(X)
        return self._cast(segments.sum(weights * token_values) + self.intercept_, X)

    def attention_weights(self, X):
        """Compute the attention weight sigma(chi)_l of every token.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes; for a single sequence x pass ``[x]``.

        Returns
        -------
        RaggedArray
            One feature per token: sequence i is an (L_i, 1) array. The weights of a sequence sum to
            one for softmax and softplus.
        """
        X, _, weights, _ = self._attend(X)
        return RaggedArray(self._cast(weights, X)[:, None], X.offsets)

    def token_contributions(self, X):
        """Compute what every token adds to the prediction, sigma(chi)_l z_l.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        RaggedArray
            One feature per token: sequence i is an (L_i, 1) array. Its sum plus `intercept_` is the
            prediction.
        """
        X, _, weights, token_values = self._attend(X)
        return RaggedArray(self._cast(weights * token_values, X)[:, None], X.offsets)

    def transform(self, X):
        """Compute the attended vector sum_l sigma(chi)_l X_l of every sequence.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        array of shape (n, D)
            The prediction is ``intercept_ + transform(X) @ value_ / sqrt(D)``.
        """
        X, _, weights, _ = self._attend(X)
        weights = self._cast(weights, X)
        if is_numpy_array(X.values):  # one read of X, no weighted copy of it
            tokens = np.arange(X.n_tokens)
            pooling = csr_array((weights, tokens, X.offsets), shape=(len(X), X.n_tokens))
            return pooling @ X.values
        xp = array_namespace(X.values)
        starts, stops = X.offsets[:-1].tolist(), X.offsets[1:].tolist()
        pairs = zip(starts, stops, strict=True)
        return xp.stack([weights[start:stop] @ X.values[start:stop] for start, stop in pairs])

    def _attend(self, X):
        """Return X validated, its segments, and the weights and values of its tokens."""
        check_is_fitted(self)
        X = validate_ragged(self, X, reset=False)
        scores, token_values = project(X, self.key_, self.value_)
        segments = Segments(X.offsets, scores)
        return X, segments, segments.map(self._fitted_activation().weights, scores), token_values

    @staticmethod
    def _cast(result, X):
        return array_namespace(result).astype(result, X.values.dtype, copy=False)

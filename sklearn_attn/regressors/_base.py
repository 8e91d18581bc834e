"""The template of all attention regressors: validate, build the objective, solve, keep the result."""

import warnings

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, RegressorMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._backend import array_namespace, is_numpy_array
from ..activations import get_activation
from ..objective import AttentionObjective, AttentionParameters, project
from ..ragged import RaggedArray, Segments, check_ragged, set_features, validate_ragged
from ..solvers import lbfgs
from ._starts import starting_points
from ._validation import check_init, check_parameters, check_sample_weight, check_target


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
            If X, y, the weights or a parameter is not valid; the message names what is at fault.
        TypeError
            If X holds no sequences (a generator, a string, sparse), or a parameter has another type.

        Warns
        -----
        ConvergenceWarning
            If `stop_crit_` is above `tol` when the solver stops.
        """
        check_parameters(self)
        checked = check_ragged(X)
        y = check_target(y, len(checked), type(self).__name__)
        sample_weight = check_sample_weight(sample_weight, len(checked))
        activation, fit_offset = self._initial_activation()
        offset = getattr(activation, "offset", 0.0)
        init = self._previous_parameters(checked) if self.warm_start else None
        if init is None:
            init = check_init(self.init, checked.n_features, offset)
        with AttentionObjective(
            checked,
            y,
            activation,
            alpha_key=self.alpha if self.alpha_key is None else self.alpha_key,
            alpha_value=self.alpha,
            sample_weight=sample_weight,
            fit_intercept=self.fit_intercept,
            fit_offset=fit_offset,
        ) as objective:
            random_state = check_random_state(self.random_state)
            starts = starting_points(objective, init, self.n_init, random_state, offset)
            results = [
                lbfgs(objective, start, max_iter=self.max_iter, tol=self.tol, callback=self._report())
                for start in starts
            ]
        best = min(results, key=lambda result: result.objective)
        if not best.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge: {best.message}, with a scaled gradient norm of "
                f"{best.stop_crit:.1e} above tol={self.tol:.1e}. Standardise the tokens "
                "(TokenTransformer(StandardScaler())), raise alpha or max_iter, or accept a larger tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._keep(objective, best, checked.values.dtype)
        set_features(self, X, checked)
        return self

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

    def _keep(self, objective, result, dtype):
        """Store what was fitted, in the units of the data."""
        parameters = objective.unpack(result.params)
        self.key_ = parameters.key.astype(dtype)
        self.value_ = parameters.value.astype(dtype)
        self.intercept_ = parameters.intercept
        self.objective_ = objective.original_units(result.objective)
        self.stop_crit_ = result.stop_crit
        self.loss_curve_ = objective.original_units(np.array(result.loss_curve))
        self.n_iter_ = result.n_iter
        return parameters

    def predict(self, X):
        """Predict the target of every sequence, b + sigma(chi)^T z.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

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
            Sequences in any form that `fit` takes.

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

"""What every fitted attention model does: predict, and say where it looks."""

import copy
import math
import warnings
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._backend import array_namespace, is_array_api, to_numpy
from ..activations import get_activation
from ..objective import like, pool, project, refuse_overflow
from ..ragged import RaggedArray, Segments, set_features, validate_ragged
from ._validation import check_number

# Parameters in the precision of X may differ by this from those found, in the coordinates of the solver.
_PRECISION = 1e-4


def quiet_overflow():
    """Return a context without NumPy's warnings of overflow, after which a message says what overflowed."""
    return np.errstate(over="ignore", invalid="ignore")


class AttentionModel(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Single-head attention with fitted parameters; subclasses name the activation and fit."""

    _activation_name = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __getstate__(self):
        """Leave out where the arrays are: what was fitted on a GPU predicts where there is none."""
        state = super().__getstate__()
        return {name: to_numpy(value) if is_array_api(value) else value for name, value in state.items()}

    def to_cpu(self):
        """Copy the estimator, with fitted attributes in NumPy.

        Returns
        -------
        estimator
            Of the same class, parameters and, in NumPy arrays, fitted attributes.
        """
        return copy.deepcopy(self)

    def _initial_activation(self):
        """Return the activation at the start of the fit, and whether its offset is fitted."""
        return get_activation(self._activation_name), False

    def _fitted_activation(self):
        return get_activation(self._activation_name)

    def _warn_of_far_features(self, far, stacklevel=3):
        if far.size:
            warnings.warn(
                f"{far.size} feature(s), the first being feature {far[0]}, vary by less than a thousandth "
                f"of their mean, which {type(self).__name__} cannot take out: the fit may stop far from the "
                "minimum. Centre the tokens: make_pipeline(TokenTransformer(StandardScaler()), ...).",
                UserWarning,
                stacklevel=stacklevel,
            )

    def _keep(self, X, checked, objective, result, *, reset=True):
        """Store what was fitted, in the units of the data."""
        parameters = objective.unpack(result.params)
        attributes = self._parameter_attributes(parameters, checked.values)
        dtype = str(checked.values.dtype).rpartition(".")[2]
        key, value = attributes["key_"], attributes["value_"]
        with np.errstate(invalid="ignore"):
            rounded = objective.pack(parameters._replace(key=key, value=value))
            rounded, found = (
                to_numpy(theta)[: objective.coordinates.value_part.stop] for theta in (rounded, result.params)
            )
            close = np.abs(rounded - found) <= _PRECISION * np.maximum(1.0, np.abs(found))
        if not close.all():
            raise ValueError(
                f"The fitted key or value underflows or overflows {dtype}: pass X in float64, or scale X "
                "and y to unit variance."
            )
        if not (np.isfinite(result.stop_crit) and np.isfinite(to_numpy(attributes["intercept_"])).all()):
            raise ValueError("The gradient or the intercept overflows: scale X and y to unit variance.")
        if reset:
            set_features(self, X, checked)
        vars(self).update(attributes)
        self.objective_ = objective.original_units(result.objective)
        self.stop_crit_ = result.stop_crit
        self.loss_curve_ = objective.original_units(np.array(result.loss_curve))
        self.n_iter_ = result.n_iter
        self.n_passes_ = objective.n_passes
        return parameters

    def _parameter_attributes(self, parameters, values):
        """Return the attributes that hold the parameters, by name, as arrays like the tokens."""
        with np.errstate(over="ignore"):
            key, value = (like(vector, values) for vector in parameters[:2])
        intercept = parameters.intercept
        if key.ndim != value.ndim:  # several outputs, of which it does not matter if all rise alike
            intercept = like(intercept - array_namespace(intercept).mean(intercept), values)
        return {"key_": key, "value_": value, "intercept_": intercept}

    def _attributes_at(self, objective, theta):
        """Return the attributes of an estimator that is fitted so far."""
        X = objective.X
        parameters = self._parameter_attributes(objective.unpack(theta), X.values)
        return parameters | {"n_features_in_": X.n_features}

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
        check_is_fitted(self)
        given = X
        X, _, weights, _ = self._attend(X, along=self.key_)
        return RaggedArray(self._cast(weights[:, None], X, given), X.offsets)

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
            prediction; of a classifier the decision function, and of one with K > 2 classes sequence i is an
            (L_i, K) array, a column per class.
        """
        given = X
        X, _, weights, token_values = self._attend(X)
        token_values = token_values if token_values.ndim == 2 else token_values[:, None]
        with quiet_overflow():
            contributions = weights[:, None] * token_values
        return RaggedArray(self._cast(contributions, X, given), X.offsets)

    def transform(self, X):
        """Compute the attended vector sum_l sigma(chi)_l X_l of every sequence.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        array of shape (n, D)
            The prediction (of a classifier, the decision function) is
            ``intercept_ + transform(X) @ value_.T / sqrt(D)``.
        """
        check_is_fitted(self)
        given = X
        X, _, weights, _ = self._attend(X, along=self.key_)
        return self._cast(pool(X, weights), X, given)

    def _outputs(self, X):
        """Compute b + sigma(chi)^T z, of shape (n,), or (n, K) where there are K values."""
        check_is_fitted(self)
        given = X
        if self.value_.ndim == 1:
            X, segments, weights, token_values = self._attend(X)
            with quiet_overflow():
                outputs = segments.sum(weights * token_values) + self.intercept_
            return self._cast(outputs, X, given)
        X, _, weights, _ = self._attend(X, along=self.key_)
        attended = pool(X, weights)  # fewer numbers than K values of every token
        value, intercept = (like(parameters, attended) for parameters in (self.value_, self.intercept_))
        with quiet_overflow():
            outputs = attended @ value.T / math.sqrt(X.n_features) + intercept
        return self._cast(outputs, X, given)

    def _attend(self, X, along=None):
        """Return X validated, its segments, and weights and values of its tokens, `along` a direction."""
        check_is_fitted(self)
        X = validate_ragged(self, X, reset=False)
        scores, token_values = project(X, self.key_, self.value_ if along is None else along)
        segments = Segments(X.offsets, scores)
        with quiet_overflow():
            weights = segments.map(self._fitted_activation().weights, scores)
        return X, segments, weights, token_values

    @staticmethod
    def _cast(result, X, given):
        """Give a result the dtype of the tokens; that of a list goes to the host, where parts are joined."""
        xp = array_namespace(result)
        with quiet_overflow():
            result = xp.astype(result, X.values.dtype, copy=False)
        if not bool(xp.all(xp.isfinite(result))):
            raise ValueError(
                f"What the model makes of X overflows {str(X.values.dtype).rpartition('.')[2]}: tokens are "
                "too large. Give them the scale that they had in fit, or pass X in float64 and scale X and y."
            )
        return to_numpy(result) if isinstance(given, list | tuple) else result


class AttentionRegressorMixin(RegressorMixin):
    """Mixin of regressors: the output is the prediction."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Unnormalised weights regress on sums of tokens times scores, which no linear target favours.
        tags.regressor_tags.poor_score = not get_activation(self._activation_name).normalised
        return tags

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
        return self._outputs(X)

    def score(self, X, y, sample_weight=None):
        """Compute R2 of the predictions, in float64 whatever the dtype of X and y.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If squares of y or of the predictions overflow, or R2 itself.
        """
        y, predictions = (to_numpy(column).astype(np.float64) for column in (y, self.predict(X)))
        with quiet_overflow():
            refuse_overflow(np.vdot(y, y), "y")
            refuse_overflow(np.vdot(predictions, predictions), "the predictions")
            score = r2_score(y, predictions, sample_weight=sample_weight)
        if np.isinf(score):
            raise ValueError(
                "R2 overflows: y is constant but for rounding, and the predictions are far from it."
            )
        return score


class OffsetModel:
    """Mixin of erf attention, whose scores have an offset that is a parameter or fitted."""

    def _initial_activation(self):
        if isinstance(self.offset, str):
            if self.offset != "learn":
                raise ValueError(f"offset must be a number or 'learn', got {self.offset!r}.")
            return get_activation("erf", 0.0), True
        check_number(self.offset, "offset", Real)
        return get_activation("erf", float(self.offset)), False

    def _fitted_activation(self):
        return get_activation("erf", self.offset_)

    def _parameter_attributes(self, parameters, values):
        return super()._parameter_attributes(parameters, values) | {"offset_": parameters.offset}


def order(result):
    """Return the key by which results of several starts are ranked: NaN comes last."""
    return np.isnan(result.objective), result.objective


def refuse_no_minimum(result):
    """Raise a ValueError if even the best of several starts has no finite objective."""
    if not np.isfinite(result.objective):
        raise ValueError(
            "The objective overflows at every start: lower alpha, alpha_key or the "
            "weights, or pass an init of a smaller scale."
        )

"""Losses: how far a prediction is from the target of a sequence.

A loss is the unit deviance d(y, f) of a family of distributions, with f the prediction. Its derivative is
-2 r, with r the residual: y - f for the squared error, y - p(f) for the log loss, where p is a probability.
So all else that is computed of a sequence is the same for all.

Predictions have shape (n, K) here, with K = 1 but for several classes; targets have shape (n,). To add a
loss, subclass `Loss`; it runs through the generic objective until it also has a code in
`_compiled.LOSS_CODES` and a branch in `_sequences.unit_deviance`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from .._backend import array_namespace, device
from ..activations import Softmax

# Of a class without weight; its logarithm is the intercept that a fit begins at.
_LEAST_SHARE = 1e-8
# The square of a constant target that might as well be zero.
_NEGLIGIBLE = 1e-280


class NullModel(NamedTuple):
    """The best prediction that does not look at X, and the units near it.

    Attributes
    ----------
    intercept : float or ndarray of float64 of shape (K,)
        b, or one near it that is finite.
    scale : float
        What a typical prediction is of the order of.
    curvature : float or ndarray of float64 of shape (K,)
        Half of the mean second derivative of the deviance.
    """

    intercept: float | np.ndarray
    scale: float
    curvature: float | np.ndarray


@dataclass(frozen=True)
class Loss:
    """Unit deviance of a target and a prediction.

    Attributes
    ----------
    name : str
    n_outputs : int or None
        K where there is a value and an intercept for each of K outputs; None for a single value.
    is_quadratic : bool
        Whether the deviance is quadratic in the prediction.
    """

    name: ClassVar[str]
    n_outputs = None
    is_quadratic: ClassVar[bool] = False

    def deviance(self, y, predictions):
        """Compute d(y_i, f_i).

        Parameters
        ----------
        y : array of shape (n,)
        predictions : array of shape (n, K)

        Returns
        -------
        array of shape (n,)
        """
        raise NotImplementedError

    def residual(self, y, predictions):
        """Compute r = -1/2 dd/df, of shape (n, K)."""
        raise NotImplementedError

    def root_curvature(self, jacobian, predictions):
        """Multiply derivatives of predictions by a root R of H = R^T R = 1/2 d^2d/df^2.

        Parameters
        ----------
        jacobian : ndarray of float64 of shape (n, K, P)
        predictions : ndarray of float64 of shape (n, K)

        Returns
        -------
        ndarray of float64 of shape (n, K, P)
            R J, so that the sum of its squares is J^T H J.
        """
        raise NotImplementedError

    def null_model(self, y, sample_weight, fit_intercept):
        """Find the best intercept, 0 without one, and the units at it.

        Parameters
        ----------
        y, sample_weight : ndarray of float64 of shape (n,)
        fit_intercept : bool

        Returns
        -------
        NullModel
        """
        raise NotImplementedError


@dataclass(frozen=True)
class SquaredError(Loss):
    """d(y, f) = (y - f)^2."""

    name = "squared"
    is_quadratic = True

    def deviance(self, y, predictions):
        """Return the squared residuals."""
        return (y - predictions[:, 0]) ** 2

    def residual(self, y, predictions):
        """Return y - f."""
        return y[:, None] - predictions

    def root_curvature(self, jacobian, predictions):
        """Return J, as H = 1."""
        return jacobian

    def null_model(self, y, sample_weight, fit_intercept):
        """Return the weighted mean of y and its standard deviation, or 0 and the root mean square."""
        relative = sample_weight / sample_weight.max()  # lest products with y overflow
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(relative @ y / relative.sum()) if fit_intercept else 0.0
        return NullModel(mean, _deviation(y, relative, mean), 1.0)


@dataclass(frozen=True)
class LogLoss(Loss):
    """d(y, f) = 2 log(1 + e^f) - 2 y f, twice the log loss of y in {0, 1} at p = 1 / (1 + e^-f)."""

    name = "logistic"

    def deviance(self, y, predictions):
        """Return twice the log loss."""
        f = predictions[:, 0]
        xp = array_namespace(f)
        return 2.0 * (xp.clip(f, 0.0, None) - y * f + xp.log1p(xp.exp(-xp.abs(f))))

    def residual(self, y, predictions):
        """Return y less the probability of class 1."""
        return (y - _probability(predictions[:, 0]))[:, None]

    def root_curvature(self, jacobian, predictions):
        """Return (p (1 - p))^(1/2) J."""
        return np.sqrt(_probability(predictions) * _probability(-predictions))[:, :, None] * jacobian

    def null_model(self, y, sample_weight, fit_intercept):
        """Return the log odds of class 1 (at a share of at least 1e-8)."""
        p = float(_shares(y, sample_weight, 2)[1]) if fit_intercept else 0.5
        return NullModel(math.log(p) - math.log1p(-p), 1.0, p * (1.0 - p))


@dataclass(frozen=True)
class MultinomialLogLoss(Loss):
    """d(y, f) = 2 log(sum_c e^f_c) - 2 f_y, twice the log loss of the class y at p_c = e^f_c / sum e^f.

    Parameters
    ----------
    n_outputs : int
        K, the number of classes, y being 0 to K - 1.
    """

    n_outputs: int
    name = "multinomial"

    def deviance(self, y, predictions):
        """Return twice the log loss."""
        xp = array_namespace(predictions)
        top = xp.max(predictions, axis=1, keepdims=True)
        log_total = xp.log(xp.sum(xp.exp(predictions - top), axis=1)) + top[:, 0]
        return 2.0 * (log_total - xp.sum(self._indicators(y, predictions) * predictions, axis=1))

    def residual(self, y, predictions):
        """Return 1 - p_c at the class y and -p_c elsewhere."""
        return self._indicators(y, predictions) - Softmax().weights(predictions)

    def root_curvature(self, jacobian, predictions):
        """Return p_c^(1/2) (J_c - sum p_c' J_c'), as H = diag(p) - p p^T."""
        p = Softmax().weights(predictions)[:, :, None]
        return np.sqrt(p) * (jacobian - np.sum(p * jacobian, axis=1, keepdims=True))

    def null_model(self, y, sample_weight, fit_intercept):
        """Return the logarithms of the shares (at least 1e-8) of the classes, less their mean."""
        K = self.n_outputs
        shares = _shares(y, sample_weight, K) if fit_intercept else np.full(K, 1.0 / K)
        logarithms = np.log(shares)
        return NullModel(logarithms - logarithms.mean(), 1.0, shares * (1.0 - shares))

    def _indicators(self, y, predictions):
        xp = array_namespace(predictions)
        classes = xp.arange(self.n_outputs, dtype=predictions.dtype, device=device(predictions))
        return xp.astype(y[:, None] == classes[None, :], predictions.dtype)


SQUARED_ERROR = SquaredError()


def _probability(log_odds):
    """Compute 1 / (1 + e^-f) in the namespace of f."""
    xp = array_namespace(log_odds)
    decay = xp.exp(-xp.abs(log_odds))
    return xp.where(log_odds >= 0, xp.ones_like(decay), decay) / (1.0 + decay)


def _shares(y, sample_weight, n_classes):
    """Share of every class in the weight, none of them 0."""
    counts = np.bincount(y.astype(np.int64), weights=sample_weight, minlength=n_classes)
    shares = np.maximum(counts / sample_weight.sum(), _LEAST_SHARE)
    return shares / shares.sum()


def _deviation(y, weight, mean):
    """Root of the weighted mean square of y - mean; where it is zero but for rounding |mean|, or 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = np.abs(y - mean) * (weight > 0.0)
        variance = float(weight @ deviations**2 / weight.sum())
    refuse_overflow(max(variance, mean * mean), "y")
    rounding = y.size * np.finfo(float).eps * abs(mean)
    if variance < np.finfo(float).tiny and deviations.max() > rounding:
        raise ValueError("The squares of y vanish in float64: divide y by a typical size.")
    if variance > rounding**2:
        return math.sqrt(variance)
    return abs(mean) if mean * mean > _NEGLIGIBLE else 1.0


def refuse_overflow(number, name):
    """Raise a ValueError where a sum of squares of what is named is not finite."""
    if not math.isfinite(number):
        raise ValueError(f"The squares of {name} overflow their float type: divide {name} by a typical size.")

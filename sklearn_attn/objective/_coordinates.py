"""The coordinates that solvers work in: those in which the problem is well scaled."""

import math
from typing import NamedTuple

import numpy as np

from .._backend import array_namespace, device

# A feature whose spread is a smaller share of its mean than this is constant but for rounding.
_ROUNDING = 1e-7
_FAR = 1e3


class AttentionParameters(NamedTuple):
    """The parameters of f(X) = b + sigma(X k / sqrt(D))^T X v / sqrt(D), by name.

    Attributes
    ----------
    key, value : ndarray of float64 of shape (D,)
        k and v.
    intercept : float
        b.
    offset : float
        The constant c that erf adds to the scores; 0 for other activations.
    """

    key: np.ndarray
    value: np.ndarray
    intercept: float
    offset: float


class Coordinates:
    """The map between AttentionParameters and the flat vector theta of a solver.

    With W the total weight, s_y the standard deviation of y (its root mean square without an intercept),
    and m_j, s_j the mean and the standard deviation of feature j over the tokens of every sequence and
    then over sequences,

        k_j = sqrt(D) theta_k,j / sqrt(s_j^2 + D alpha_key / (W s_y^2))
        v_j = sqrt(D) s_y theta_v,j / sqrt(s_j^2 + D alpha / W)
        b   = s_y theta_b - m^T v / sqrt(D),   c = theta_c

    In theta the objective over 2 W s_y^2 has second derivatives of the order of one whatever the
    units, the offset and the penalty of each feature. Where sum_l sigma_l = 1 does not hold, tokens
    cannot be centred: m is 0 and s_j the root mean square. The same goes for s_j in k_j, but for softmax,
    whose weights do not see a shift of all scores.

    Parameters
    ----------
    token_moments : (ndarray, ndarray) of shape (D,)
        The mean and the mean square of every feature under these weights; see `moments`.
    y, sample_weight : ndarray of float64 of shape (n,)
    activation : Activation
    alpha_key, alpha_value : float
    fit_intercept, fit_offset : bool

    Attributes
    ----------
    size : int
        2 D, and one each for an intercept and an offset that are fitted.
    centre : ndarray of float64 of shape (D,)
        m / sqrt(D).
    unit : ndarray of shape (size,)
        What theta is multiplied with; of all that stands here it alone depends on the penalties.
    target_mean, target_scale : float
        The weighted mean of y, 0 without an intercept, and s_y.
    objective_scale : float
        2 W s_y^2.
    far_features : ndarray of int
        Features that vary, but by less than a thousandth of their mean, where that cannot be taken out: the
        landscape is then too narrow a valley for a diagonal to mend.

    Raises
    ------
    ValueError
        If the squares of X or y overflow.
    """

    def __init__(
        self, token_moments, y, sample_weight, activation, alpha_key, alpha_value, fit_intercept, fit_offset
    ):  # fmt: skip
        mean, mean_square = token_moments
        D = self._n_features = mean.size
        self._fit_intercept, self._fit_offset = fit_intercept, fit_offset
        self._fixed_offset = float(getattr(activation, "offset", 0.0))
        self.size = 2 * D + fit_intercept + fit_offset
        total = float(sample_weight.sum())
        self.target_mean = float(sample_weight @ y / total) if fit_intercept else 0.0
        self.target_scale = _deviation(y, sample_weight, self.target_mean)
        self.objective_scale = 2.0 * total * self.target_scale**2
        _refuse_overflow(self.objective_scale, "y")
        _refuse_overflow(mean_square.sum(), "X")
        variance = np.maximum(mean_square - mean**2, (_ROUNDING * mean) ** 2)
        is_centred = activation.normalised and fit_intercept
        self.centre = mean / math.sqrt(D) if is_centred else np.zeros(D)
        key_penalty = D * alpha_key / (total * self.target_scale**2)
        key_square = variance if activation.name == "softmax" else mean_square
        is_far = (np.abs(mean) > _FAR * np.sqrt(variance)) & (variance > (1.01 * _ROUNDING * mean) ** 2)
        self.far_features = np.flatnonzero(is_far & (activation.name != "softmax" or not is_centred))
        self.unit = np.concatenate(
            [
                _inverse_root(key_square + key_penalty) * math.sqrt(D),
                _inverse_root((variance if is_centred else mean_square) + D * alpha_value / total)
                * (math.sqrt(D) * self.target_scale),
                [self.target_scale] * fit_intercept,
                [1.0] * fit_offset,
            ]
        )

    def pack(self, parameters):
        """Turn AttentionParameters into theta."""
        intercept = parameters.intercept + self.centre @ parameters.value
        return self._join(parameters._replace(intercept=intercept)) / self.unit

    def unpack(self, theta):
        """Turn theta into AttentionParameters."""
        D = self._n_features
        flat = theta * self.unit
        value = flat[D : 2 * D]
        intercept = float(flat[2 * D] - self.centre @ value) if self._fit_intercept else 0.0
        offset = float(flat[-1]) if self._fit_offset else self._fixed_offset
        return AttentionParameters(flat[:D], value, intercept, offset)

    def pull_back(self, gradient):
        """Turn the derivatives with respect to AttentionParameters into those with respect to theta."""
        value = gradient.value - gradient.intercept * self.centre
        return self._join(gradient._replace(value=value)) * self.unit

    def _join(self, parameters):
        return np.concatenate(
            [
                parameters.key,
                parameters.value,
                [parameters.intercept] * self._fit_intercept,
                [parameters.offset] * self._fit_offset,
            ]
        )


def like(x, values):
    """Move a host vector to the namespace, device and dtype of the tokens."""
    return array_namespace(values).asarray(x, dtype=values.dtype, device=device(values))


def _deviation(y, sample_weight, mean):
    """Root of the weighted mean square of y - mean; 1 where it is zero but for rounding."""
    with np.errstate(over="ignore"):
        variance = float(sample_weight @ (y - mean) ** 2 / sample_weight.sum())
    _refuse_overflow(variance, "y")
    rounding = y.size * np.finfo(float).eps * abs(mean)
    return math.sqrt(variance) if variance > rounding**2 else 1.0


def _inverse_root(squares):
    return 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0))


def _refuse_overflow(number, name):
    if not math.isfinite(number):
        raise ValueError(f"The squares of {name} overflow their float type: divide {name} by a typical size.")


def activation_at(activation, parameters):
    """Return the activation with the offset of the parameters, where it has one."""
    return activation.with_offset(parameters.offset) if activation.has_offset else activation

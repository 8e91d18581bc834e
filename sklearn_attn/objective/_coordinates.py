"""The coordinates that solvers work in: those in which the problem is well scaled."""

import math
from typing import NamedTuple

import numpy as np

from .._backend import array_namespace, device, is_numpy_array, to_numpy

_BLOCK_NUMBERS = 2**18
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
    X : RaggedArray
    y, sample_weight : ndarray of float64 of shape (n,)
    activation : Activation
    alpha_key, alpha_value : float
    fit_intercept, fit_offset : bool
    token_moments : (ndarray, ndarray) of shape (D,), optional
        The mean and the mean square of every feature under these weights, where they are known; see
        `moments`.

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
        If the squares of X or y overflow, or those of all of X vanish.
    """

    def __init__(
        self, X, y, sample_weight, activation, alpha_key, alpha_value, fit_intercept, fit_offset,
        token_moments=None,
    ):  # fmt: skip
        D = self._n_features = X.n_features
        self._fit_intercept, self._fit_offset = fit_intercept, fit_offset
        self._fixed_offset = float(getattr(activation, "offset", 0.0))
        self.size = 2 * D + fit_intercept + fit_offset
        total = float(sample_weight.sum())
        self.target_mean = float(sample_weight @ y / total) if fit_intercept else 0.0
        self.target_scale = _deviation(y, sample_weight, self.target_mean)
        self.objective_scale = 2.0 * total * self.target_scale**2
        _refuse_overflow(self.objective_scale, "y")
        if token_moments is None:
            token_moments = [moment[0] for moment in moments(X, sample_weight[None, :])]
        mean, mean_square = token_moments
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


def moments(X, sample_weights):
    """Mean and mean square of every feature over the tokens of a sequence, then over sequences by weight.

    Parameters
    ----------
    X : RaggedArray
    sample_weights : ndarray of float64 of shape (B, n)
        B ways to weigh the sequences; X is read once for all of them, a block of tokens at a time.

    Returns
    -------
    mean, mean_square : ndarray of float64 of shape (B, D)
        On the host.

    Raises
    ------
    ValueError
        If the squares of X vanish though X does not.
    """
    mean, mean_square = np.zeros((2, sample_weights.shape[0], X.n_features))
    total = sample_weights.sum(axis=1)[:, None]
    rows = max(1, _BLOCK_NUMBERS // X.n_features)
    for start in range(0, X.n_tokens, rows):
        tokens = np.arange(start, min(start + rows, X.n_tokens))
        block = X.values[start : start + tokens.size, :]
        sequences = np.searchsorted(X.offsets, tokens, side="right") - 1
        weights = sample_weights[:, sequences] / (X.lengths[sequences] * total)  # (B, tokens)
        if is_numpy_array(block):
            block = block.astype(np.float64, copy=False)
        else:
            weights = like(weights, block)
        with np.errstate(over="ignore"):
            mean += to_numpy(weights @ block)
            mean_square += to_numpy(weights @ (block * block))
    if not mean_square.any() and bool(array_namespace(X.values).any(X.values != 0)):
        raise ValueError("The squares of X vanish in its float type: divide X by a typical size.")
    return mean, mean_square


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

"""The coordinates that solvers work in: those in which the problem is well scaled."""

import math
from typing import NamedTuple

import numpy as np

from .._backend import array_namespace, device, is_array_api, is_numpy_array, to_numpy
from ._losses import SQUARED_ERROR, refuse_overflow

# A feature whose spread is a smaller share of its mean than this is constant but for rounding.
_ROUNDING = 1e-7
_FAR = 1e3
# Sizes beyond which products of a few typical factors may leave float64.
_SMALLEST, _LARGEST = 1e-290, 1e295


class AttentionParameters(NamedTuple):
    """The parameters of f(X) = b + sigma(X k / sqrt(D))^T X v / sqrt(D), by name.

    Where a solver works they are in the namespace and on the device of the tokens.

    Attributes
    ----------
    key : array of float64 of shape (D,)
        k.
    value : array of float64 of shape (D,)
        v; of shape (K, D) for a loss of K outputs, which share the key.
    intercept : float
        b; an array of shape (K,) for K outputs.
    offset : float
        The constant c that erf adds to the scores; 0 for other activations.
    """

    key: np.ndarray
    value: np.ndarray
    intercept: float
    offset: float


class Coordinates:
    """The map between AttentionParameters and the flat vector theta of a solver.

    With W the total weight, s_y and h the scale and the curvature of the `NullModel` of the loss, and m_j,
    s_j the mean and the standard deviation of feature j over the tokens of every sequence and then over
    sequences,

        k_j = sqrt(D) theta_k,j / sqrt(s_j^2 + D alpha_key / (W s_y^2))
        v_j = sqrt(D) s_y theta_v,j / sqrt(h s_j^2 + D alpha / W)
        b   = s_y theta_b / sqrt(h) - m^T v / sqrt(D),   c = theta_c

    In theta the objective over 2 W s_y^2 has second derivatives of the order of one whatever the
    units, the offset and the penalty of each feature. For the squared error s_y is the standard deviation of
    y (its root mean square without an intercept) and h = 1. For the log loss s_y = 1 and h = p (1 - p) with p
    the share of a class in the weight, 1 / K without an intercept; of several classes v_c and b_c have that
    of class c. The curvature in k is that of token values z of the order of theta_v = 1: h z^2 is s_y^2 then.
    Where sum_l sigma_l = 1 does not hold, tokens cannot be centred: m is 0 and s_j the root mean square. The
    same goes for s_j in k_j, but for softmax, whose weights do not see a shift of all scores.

    Parameters
    ----------
    token_moments : (ndarray, ndarray) of shape (D,)
        The mean and the mean square of every feature under these weights; see `moments`.
    y, sample_weight : ndarray of float64 of shape (n,)
    activation : Activation
    alpha_key, alpha_value : float
    fit_intercept, fit_offset : bool
    loss : Loss, default=SQUARED_ERROR
    tokens : array, optional
        theta and the parameters are in its namespace and on its device; by default in NumPy.

    Attributes
    ----------
    size : int
        2 D, and one each for an intercept and an offset that are fitted; D + K D and K + 1 for K outputs.
    value_part, intercept_part : slice
        Where v and b stand in theta; the latter is empty where there is none.
    centre : array of float64 of shape (D,)
        m / sqrt(D).
    unit : array of float64 of shape (size,)
        What theta is multiplied with; of all that stands here it alone depends on the penalties.
    null_intercept : float or array of shape (K,)
        The best b where v = 0; 0 without an intercept.
    target_scale : float
        s_y.
    curvature : float or ndarray of shape (K,)
        h, on the host.
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
        self, token_moments, y, sample_weight, activation, alpha_key, alpha_value, fit_intercept, fit_offset,
        loss=SQUARED_ERROR, tokens=None,
    ):  # fmt: skip
        mean, mean_square = token_moments
        self._like = np.empty(0) if tokens is None else tokens
        self._xp = array_namespace(self._like)
        D = self._n_features = mean.size
        self._n_outputs = loss.n_outputs
        K = 1 if loss.n_outputs is None else loss.n_outputs
        self._fit_intercept, self._fit_offset = fit_intercept, fit_offset
        self._fixed_offset = float(getattr(activation, "offset", 0.0))
        self.value_part = slice(D, D + K * D)
        self.intercept_part = slice(D + K * D, D + K * D + K * fit_intercept)
        self.size = self.intercept_part.stop + fit_offset
        total = total_weight(sample_weight)
        null_intercept, self.target_scale, self.curvature = loss.null_model(y, sample_weight, fit_intercept)
        self.null_intercept = null_intercept if np.ndim(null_intercept) == 0 else self.asarray(null_intercept)
        self.objective_scale = 2.0 * total * self.target_scale**2
        refuse_overflow(self.objective_scale, "y")
        _refuse_sizes(self.objective_scale)
        with np.errstate(over="ignore"):
            refuse_overflow(mean_square.sum(), "X")
        variance = np.maximum(mean_square - mean**2, (_ROUNDING * mean) ** 2)
        is_centred = activation.normalised and fit_intercept
        self.centre = self.asarray(mean / math.sqrt(D) if is_centred else np.zeros(D))
        key_square = variance if activation.name == "softmax" else mean_square
        is_far = (np.abs(mean) > _FAR * np.sqrt(variance)) & (variance > (1.01 * _ROUNDING * mean) ** 2)
        self.far_features = np.flatnonzero(is_far & (activation.name != "softmax" or not is_centred))
        value_square = variance if is_centred else mean_square
        curvatures = np.atleast_1d(self.curvature)
        unit = np.concatenate(
            [
                _inverse_root(key_square, D * alpha_key, math.sqrt(total) * self.target_scale) * math.sqrt(D),
                *(
                    _inverse_root(h * value_square, D * alpha_value, math.sqrt(total))
                    * (math.sqrt(D) * self.target_scale)
                    for h in curvatures
                ),
                *([self.target_scale / np.sqrt(curvatures)] * fit_intercept),
                [1.0] * fit_offset,
            ]
        )
        with np.errstate(divide="ignore", over="ignore"):
            derivatives = self.objective_scale / unit
        _refuse_sizes(unit)
        _refuse_sizes(derivatives)
        self.unit = self.asarray(unit)

    def asarray(self, x):
        """Put numbers where theta is: an array of float64."""
        return like(x, self._like, "float64")

    def null_parameters(self, offset):
        """Return k = v = 0 with the best b, and c = offset, as AttentionParameters."""
        D, K = self._n_features, self._n_outputs
        key, value = (self.asarray(np.zeros(shape)) for shape in (D, D if K is None else (K, D)))
        return AttentionParameters(key, value, self.null_intercept, offset)

    def pack(self, parameters):
        """Turn AttentionParameters, wherever they are, into theta."""
        key, value = map(self.asarray, parameters[:2])
        intercept = parameters.intercept if value.ndim == 1 else self.asarray(parameters.intercept)
        intercept = intercept + value @ self.centre
        return self._join(AttentionParameters(key, value, intercept, parameters.offset)) / self.unit

    def unpack(self, theta):
        """Turn theta into AttentionParameters."""
        D, K = self._n_features, self._n_outputs
        flat = theta * self.unit
        value, intercept = flat[self.value_part], flat[self.intercept_part]
        value = value if K is None else self._xp.reshape(value, (K, D))
        intercept = intercept - value @ self.centre if self._fit_intercept else self.asarray(np.zeros(K or 1))
        if K is None:
            intercept = float(intercept[0])
        offset = float(flat[-1]) if self._fit_offset else self._fixed_offset
        return AttentionParameters(flat[:D], value, intercept, offset)

    def pull_back(self, gradient):
        """Turn the derivatives with respect to AttentionParameters into those with respect to theta."""
        several = self._n_outputs is not None
        shift = gradient.intercept[:, None] * self.centre if several else gradient.intercept * self.centre
        return self._join(gradient._replace(value=gradient.value - shift)) * self.unit

    def _join(self, parameters):
        intercept, offset = ([parameters.intercept] * self._fit_intercept), [parameters.offset]
        return self._xp.concat(
            [
                parameters.key,
                self._xp.reshape(parameters.value, (-1,)),
                *(self._xp.reshape(self.asarray(b), (-1,)) for b in intercept),
                *([self.asarray(offset)] * self._fit_offset),
            ]
        )


def like(x, values, dtype=None):
    """Move a vector to the namespace and device of the tokens, and to their dtype, or to the one named."""
    if is_numpy_array(values):
        return np.asarray(to_numpy(x), dtype=values.dtype if dtype is None else dtype)
    xp = array_namespace(values)
    dtype = values.dtype if dtype is None else getattr(xp, dtype)
    if is_array_api(x) and array_namespace(x) is xp and device(x) == device(values):
        return xp.astype(x, dtype, copy=False)
    return xp.asarray(to_numpy(x), dtype=dtype, device=device(values))


def _inverse_root(squares, penalty, root_scale):
    """Compute 1 / sqrt(squares + penalty / root_scale^2), 1 where that is infinite."""
    root = np.hypot(np.sqrt(squares), math.sqrt(penalty) / root_scale)
    return 1.0 / np.where(root > 0.0, root, 1.0)


def _refuse_sizes(sizes):
    """Raise a ValueError where products of numbers of these sizes with typical ones may leave float64."""
    if not np.all((sizes > _SMALLEST) & (sizes < _LARGEST)):
        raise ValueError(
            "The objective overflows at every start, or vanishes: the sizes of X, y, the weights, alpha and "
            "alpha_key together leave the range of float64. Scale X and y to unit variance "
            "(TokenTransformer(StandardScaler()), TransformedTargetRegressor), and lower alpha."
        )


def total_weight(sample_weight):
    """Sum the weights; raise a ValueError where twice that overflows."""
    with np.errstate(over="ignore"):
        total = float(sample_weight.sum())
    if not math.isfinite(2.0 * total):
        raise ValueError("The sum of the weights overflows: divide them by a typical size.")
    return total


def activation_at(activation, parameters):
    """Return the activation with the offset of the parameters, where it has one."""
    return activation.with_offset(parameters.offset) if activation.has_offset else activation

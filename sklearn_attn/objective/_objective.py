"""The objective that every solver sees."""

import numpy as np

from .._backend import is_numpy_array, to_numpy
from ..ragged import Segments
from . import _cpu, _generic
from ._coordinates import AttentionParameters, Coordinates, like


class AttentionObjective:
    """Penalised squared error of single-head attention, as a function of one flat vector.

    The function is

        J(k, v, b, c) = sum_i w_i (y_i - b - sigma(chi_i)^T z_i)^2 + alpha_key |k|^2 + alpha |v|^2

    with chi_i = X_i k / sqrt(D) and z_i = X_i v / sqrt(D). Solvers work in the flat vector theta of
    `Coordinates` and on J / (2 W s_y^2), where W is the total weight and s_y the standard deviation
    of y. So the problem that is solved has unit targets, unit features and a mean loss, and its gradient norm
    says how well a fit has converged whatever the units of X and y.

    Parameters
    ----------
    X : RaggedArray
        Validated, with a float buffer.
    y : array of shape (n,)
    activation : Activation
    alpha_key, alpha_value : float
        The ridge penalties of k and v.
    sample_weight : array of shape (n,), optional
        Ones by default.
    fit_intercept : bool, default=True
        Otherwise b stays 0.
    fit_offset : bool, default=False
        Whether c is a parameter; otherwise it is the activation's.
    backend : {"auto", "cpu", "generic"}, default="auto"
        "cpu" is the fused kernel, "generic" plain array-API operations; "auto" takes the kernel where
        there is one for the buffer and the activation.

    Attributes
    ----------
    n_parameters : int
        2 D, and one each for an intercept and an offset that are fitted.
    coordinates : Coordinates
    """

    def __init__(
        self, X, y, activation, *, alpha_key, alpha_value, sample_weight=None, fit_intercept=True,
        fit_offset=False, backend="auto",
    ):  # fmt: skip
        self.X = X
        self.activation = activation
        self.alpha_key, self.alpha_value = float(alpha_key), float(alpha_value)
        self.fit_intercept, self.fit_offset = fit_intercept, fit_offset
        # Copies, so that the kernel meets one kind of array and is compiled once.
        self.y = np.array(to_numpy(y), dtype=np.float64)
        if sample_weight is None:
            sample_weight = np.ones(len(X))
        self.sample_weight = np.array(to_numpy(sample_weight), dtype=np.float64)
        if backend == "auto":
            backend = "cpu" if _has_cpu_kernel(X, activation) else "generic"
        self.backend = backend
        self._kernel = _cpu.FusedKernel(X, self.y, self.sample_weight) if backend == "cpu" else None
        self._segments = Segments(X.offsets, X.values) if backend != "cpu" else None
        self.coordinates = Coordinates(
            X,
            self.y,
            self.sample_weight,
            activation,
            self.alpha_key,
            self.alpha_value,
            fit_intercept,
            fit_offset,
        )
        self.n_parameters = self.coordinates.size

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        if self._kernel is not None:
            self._kernel.close()

    def pack(self, parameters):
        """Turn AttentionParameters into the flat vector theta of shape (n_parameters,)."""
        return self.coordinates.pack(parameters)

    def unpack(self, theta):
        """Turn the flat vector theta into AttentionParameters."""
        return self.coordinates.unpack(theta)

    def value_and_gradient(self, theta):
        """Evaluate J / (2 W s_y^2) and its gradient with respect to theta.

        Parameters
        ----------
        theta : ndarray of float64 of shape (n_parameters,)

        Returns
        -------
        float
        ndarray of float64 of shape (n_parameters,)
        """
        objective, gradient = self.evaluate(self.unpack(theta))
        scale = self.coordinates.objective_scale
        return objective / scale, self.coordinates.pull_back(gradient) / scale

    def evaluate(self, parameters):
        """Evaluate J itself and its gradient in the units of the parameters.

        Parameters
        ----------
        parameters : AttentionParameters

        Returns
        -------
        objective : float
        gradient : AttentionParameters
            The derivatives with respect to k, v, b and c, whether or not b and c are fitted; 0 for c
            where the activation has no offset.
        """
        if self.backend == "cpu":
            terms = self._kernel.squared_error(self._activation_at(parameters), *parameters[:3])
        else:
            terms = self._squared_error(self.X, self._segments, self.y, self.sample_weight, parameters)
        error, key_gradient, value_gradient, intercept_gradient, offset_gradient = terms
        key, value = parameters.key, parameters.value
        # sum_i w_i (y_i - b - sigma(chi_i)^T z_i)^2 + alpha_key |k|^2 + alpha |v|^2
        objective = error + self.alpha_key * (key @ key) + self.alpha_value * (value @ value)
        gradient = AttentionParameters(
            key_gradient + 2.0 * self.alpha_key * key,
            value_gradient + 2.0 * self.alpha_value * value,
            intercept_gradient,
            offset_gradient,
        )
        return float(objective), gradient

    def batch_gradient(self, batch, parameters):
        """Evaluate the gradient of sum_{i in batch} w_i (y_i - b - sigma(chi_i)^T z_i)^2.

        Parameters
        ----------
        batch : ndarray of int
            Which sequences.
        parameters : AttentionParameters

        Returns
        -------
        AttentionParameters
            The derivatives with respect to k, v, b and c, as in `evaluate`, without the penalty.
        """
        X = self.X[batch]
        segments = Segments(X.offsets, X.values)
        terms = self._squared_error(X, segments, self.y[batch], self.sample_weight[batch], parameters)
        return AttentionParameters(*terms[1:])

    def stop_criterion(self, theta):
        """Compute the Euclidean norm of the gradient of J / (2 W s_y^2) at theta."""
        return float(np.linalg.norm(self.value_and_gradient(theta)[1]))

    def original_units(self, value):
        """Turn a value of J / (2 W s_y^2) into one of J."""
        return value * self.coordinates.objective_scale

    def _activation_at(self, parameters):
        return (
            self.activation.with_offset(parameters.offset) if self.activation.has_offset else self.activation
        )

    def _squared_error(self, X, segments, y, sample_weight, parameters):
        """Evaluate the squared error on X, and its gradient in float64, by plain array operations."""
        key, value, y, sample_weight = (
            like(x, X.values) for x in (parameters.key, parameters.value, y, sample_weight)
        )
        error, key_gradient, value_gradient, *rest = _generic.squared_error(
            X.values, segments, y, sample_weight, self._activation_at(parameters), key, value,
            parameters.intercept,
        )  # fmt: skip
        to_float64 = [to_numpy(g).astype(np.float64) for g in (key_gradient, value_gradient)]
        return (error, *to_float64, *rest)


def project(X, key, value):
    """Compute the scores X k / sqrt(D) and token values X v / sqrt(D) of all tokens.

    Parameters
    ----------
    X : RaggedArray
    key, value : array of shape (D,)

    Returns
    -------
    scores, token_values : arrays of shape (n_tokens,)
        float64 on the CPU, otherwise in the namespace and dtype of X.
    """
    if not is_numpy_array(X.values):
        return _generic.project(X.values, like(key, X.values), like(value, X.values))
    key, value = (np.asarray(x, dtype=np.float64) for x in (key, value))
    with _cpu.FusedKernel(X) as kernel:
        return kernel.project(key, value)


def _has_cpu_kernel(X, activation):
    return is_numpy_array(X.values) and activation.name in _cpu.ACTIVATION_CODES

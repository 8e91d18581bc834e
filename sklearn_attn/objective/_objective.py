"""The objective that every solver sees."""

import numpy as np

from .._backend import is_numpy_array, norm, sum_of_squares, to_numpy
from .._compiled import ACTIVATION_CODES, LOSS_CODES
from ..ragged import Segments
from . import _cpu, _generic
from ._coordinates import AttentionParameters, Coordinates, activation_at, like
from ._cuda import CudaKernel, has_cuda_kernel
from ._curvature import GaussNewton, gauss_newton_matrix
from ._losses import SQUARED_ERROR
from ._moments import moments
from ._multinomial import MultinomialKernel


class AttentionObjective:
    """Penalised deviance of single-head attention, as a function of one flat vector.

    The function is

        J(k, v, b, c) = sum_i w_i d(y_i, b + sigma(chi_i)^T z_i) + alpha_key |k|^2 + alpha |v|^2

    with chi_i = X_i k / sqrt(D), z_i = X_i v / sqrt(D) and d the deviance of the loss, (y - f)^2 for the
    squared error. Solvers work in the flat vector theta of `Coordinates` and on J / (2 W s_y^2), where W is
    the total weight and s_y the standard deviation of y, 1 for the log loss. So the problem solved has
    unit targets, unit features and a mean loss, and its gradient norm says how well a fit has converged
    whatever the units of X and y.

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
    loss : Loss, default=SQUARED_ERROR
    backend : {"auto", "cpu", "cuda", "generic"}, default="auto"
        "cpu" and "cuda" are the fused kernels, "generic" plain array-API operations; "auto" takes a kernel
        where there is one for the buffer, the activation and the loss.
    token_moments : (ndarray, ndarray) of shape (D,), optional
        Mean and mean square of the features under these weights, where they are known; see `Coordinates`.
    n_threads : int, optional
        Of the kernel; by default those that are available.

    Attributes
    ----------
    n_parameters : int
        As the `size` of the coordinates.
    coordinates : Coordinates
    n_passes : int
        How many times X has been read: by evaluations, for the moments of its features unless these were
        given, and by passes of descent, which the solver adds.
    """

    def __init__(
        self, X, y, activation, *, alpha_key, alpha_value, sample_weight=None, fit_intercept=True,
        fit_offset=False, loss=SQUARED_ERROR, backend="auto", token_moments=None, n_threads=None,
    ):  # fmt: skip
        self.X = X
        self.n_passes = 0 if token_moments is not None else 1
        self.activation = activation
        self.alpha_key, self.alpha_value = float(alpha_key), float(alpha_value)
        self.fit_intercept, self.fit_offset, self.loss = fit_intercept, fit_offset, loss
        # Copies, so that the kernel meets one kind of array and is compiled once.
        self.y = np.array(to_numpy(y), dtype=np.float64)
        if sample_weight is None:
            sample_weight = np.ones(len(X))
        self.sample_weight = np.array(to_numpy(sample_weight), dtype=np.float64)
        if backend == "auto":
            backend = "generic"
            if has_cpu_kernel(X, activation, loss):
                backend = "cpu"
            elif has_cuda_kernel(X, activation, loss):
                backend = "cuda"
        self.backend = backend
        self._n_threads = n_threads
        self._made_kernel = self._made_form = None
        if token_moments is None:
            token_moments = [moment[0] for moment in moments(X, self.sample_weight[None, :], n_threads)]
        self.coordinates = Coordinates(
            token_moments,
            self.y,
            self.sample_weight,
            activation,
            self.alpha_key,
            self.alpha_value,
            fit_intercept,
            fit_offset,
            loss,
            X.values,
        )
        self.n_parameters = self.coordinates.size

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        if self._made_kernel is not None:
            self._made_kernel.close()

    # Not cached properties: until Python 3.12 those hold a lock, which a fork in another thread inherits.
    @property
    def _kernel(self):
        if self._made_kernel is None:
            data = self.X, self.y, self.sample_weight
            if self.backend == "cuda":
                self._made_kernel = CudaKernel(*data, loss=self.loss)
            else:
                build = _cpu.FusedKernel if self.loss.n_outputs is None else MultinomialKernel
                self._made_kernel = build(*data, loss=self.loss, n_threads=self._n_threads)
        return self._made_kernel

    @property
    def _form(self):
        if self._made_form is None:
            self._made_form = GenericForm(self.X, self.y, self.sample_weight, self.loss)
        return self._made_form

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
        theta : array of float64 of shape (n_parameters,)
            In the namespace and on the device of X.

        Returns
        -------
        float
        array of float64 of shape (n_parameters,)
            Likewise.
        """
        return self.scale(*self.evaluate(self.unpack(theta)))

    def scale(self, objective, gradient):
        """Turn J and its derivatives, as `evaluate` returns them, into J / (2 W s_y^2) and its gradient."""
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
        self.n_passes += 1
        return self.penalise(parameters, *self.deviance(parameters))

    def deviance(self, parameters):
        """Evaluate J without penalties, and its derivatives with respect to k, v, b and c.

        Parameters
        ----------
        parameters : AttentionParameters

        Returns
        -------
        deviance : float
        key_gradient, value_gradient : array of float64 of the shapes of k and v
        intercept_gradient : float, or array of shape (K,) for a loss of K outputs
        offset_gradient : float
        """
        if self.backend in ("cpu", "cuda"):
            return self._kernel.deviance(activation_at(self.activation, parameters), *parameters[:3])
        return self._form.deviance(self.activation, parameters)

    def penalise(self, parameters, deviance, *gradient):
        """Add the penalty to the deviance and its derivatives.

        Parameters
        ----------
        parameters : AttentionParameters
        deviance : float
        *gradient
            The derivatives of the deviance with respect to k, v, b and c.

        Returns
        -------
        objective : float
        gradient : AttentionParameters
        """
        key_gradient, value_gradient, intercept_gradient, offset_gradient = gradient
        key, value = parameters.key, parameters.value
        # sum_i w_i d(y_i, b + sigma(chi_i)^T z_i) + alpha_key |k|^2 + alpha |v|^2
        objective = deviance + self.alpha_key * sum_of_squares(key) + self.alpha_value * sum_of_squares(value)
        gradient = AttentionParameters(
            key_gradient + 2.0 * self.alpha_key * key,
            value_gradient + 2.0 * self.alpha_value * value,
            intercept_gradient,
            offset_gradient,
        )
        return objective, gradient

    def batch_gradient(self, batch, parameters):
        """Evaluate the gradient of sum_{i in batch} w_i d(y_i, b + sigma(chi_i)^T z_i).

        Parameters
        ----------
        batch : ndarray of int
            Which sequences.
        parameters : AttentionParameters

        Returns
        -------
        AttentionParameters
            The derivatives with respect to k, v, b and c, as in `evaluate`, without the penalty; on the host.
        """
        form = GenericForm(self.X[batch], self.y[batch], self.sample_weight[batch], self.loss)
        return AttentionParameters(*on_host(form.deviance(self.activation, parameters)[1:]))

    def gauss_newton(self, theta):
        """Compute the Gauss-Newton matrix at theta; the work of many passes, two of which read X.

        Parameters
        ----------
        theta : ndarray of float64 of shape (n_parameters,)

        Returns
        -------
        GaussNewton
        """
        self.n_passes += 2
        return GaussNewton(self.gauss_newton_matrix(self.unpack(theta)))

    def gauss_newton_matrix(self, parameters):
        """Compute its matrix; see `_curvature.gauss_newton_matrix`."""
        return gauss_newton_matrix(
            self.X, self.sample_weight, self.activation, parameters, self.coordinates.centre,
            self.fit_intercept, self.fit_offset, self.loss, self._n_threads,
        )  # fmt: skip

    def stop_criterion(self, theta):
        """Compute the Euclidean norm of the gradient of J / (2 W s_y^2) at theta."""
        return norm(self.value_and_gradient(theta)[1])

    def original_units(self, value):
        """Turn a value of J / (2 W s_y^2) into one of J."""
        return value * self.coordinates.objective_scale


class GenericForm:
    """The deviance of some sequences by plain array operations, where their tokens are.

    Parameters
    ----------
    X : RaggedArray
    y, sample_weight : ndarray of float64 of shape (n,)
    loss : Loss, default=SQUARED_ERROR
    """

    def __init__(self, X, y, sample_weight, loss=SQUARED_ERROR):
        self._values, self._loss = X.values, loss
        self._segments = Segments(X.offsets, X.values)
        self._y, self._sample_weight = (like(x, X.values, "float64") for x in (y, sample_weight))

    def deviance(self, activation, parameters):
        """Evaluate the deviance and its derivatives; as `AttentionObjective.deviance`."""
        key, value = (like(x, self._values, "float64") for x in parameters[:2])
        intercept = parameters.intercept if value.ndim == 1 else like(parameters.intercept, key)
        return _generic.deviance(
            self._values, self._segments, self._y, self._sample_weight, activation_at(activation, parameters),
            key, value, intercept, self._loss,
        )  # fmt: skip


def on_host(terms):
    """Copy the arrays among the terms of a deviance to the host."""
    return tuple(term if isinstance(term, float) else to_numpy(term) for term in terms)


def has_cpu_kernel(X, activation, loss=SQUARED_ERROR):
    """Whether there is a fused kernel for the buffer, the activation and the loss."""
    return is_numpy_array(X.values) and activation.name in ACTIVATION_CODES and loss.name in LOSS_CODES

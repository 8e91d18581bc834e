"""Array namespaces and devices, inferred from the arrays themselves.

This is the only module that may name CuPy. There is no global switch: the arrays that a caller
passes decide where the work happens.
"""

import math

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_numpy_array
from scipy import special
from sklearn import get_config

__all__ = [
    "CudaDevice",
    "CudaStream",
    "array_namespace",
    "check_device",
    "device",
    "erf",
    "in_c_order",
    "is_array_api",
    "is_cupy_array",
    "is_numpy_array",
    "norm",
    "stays_in_namespace",
    "sum_of_squares",
    "to_device",
    "to_numpy",
]


def is_array_api(x):
    """Tell whether `x` belongs to a namespace with the array-API interface.

    Parameters
    ----------
    x : object

    Returns
    -------
    bool
        True for NumPy, CuPy, PyTorch, JAX and array_api_strict arrays, False for anything else.
    """
    try:
        array_namespace(x)
    except TypeError:
        return False
    return True


def stays_in_namespace(x):
    """Tell whether an estimator computes where the array is, instead of on the host in NumPy.

    So it is for CuPy always, and for other namespaces where scikit-learn's ``array_api_dispatch`` is on.

    Parameters
    ----------
    x : object

    Returns
    -------
    bool
        False for NumPy arrays and for what is no array.
    """
    if is_numpy_array(x) or not is_array_api(x):
        return False
    return is_cupy_array(x) or get_config()["array_api_dispatch"]


def to_numpy(x):
    """Copy `x` to the host, or return it unchanged where it already is a NumPy array.

    Parameters
    ----------
    x : array
        An array of any namespace.

    Returns
    -------
    ndarray
    """
    if is_numpy_array(x):
        return x
    if isinstance(x, float | int | list | tuple):
        return np.asarray(x)
    if is_cupy_array(x):  # pragma: no cover - a GPU is needed
        return x.get()
    if hasattr(x, "detach"):  # a PyTorch tensor, on any device and in any graph
        return x.detach().cpu().numpy()
    if is_array_api(x) and hasattr(array_namespace(x), "Device"):  # array_api_strict, which has several
        x = x.to_device(array_namespace(x).Device("CPU_DEVICE"))
    return np.asarray(x)


def in_c_order(x):
    """Return an array whose rows lie one after another in memory, as kernels read them.

    Parameters
    ----------
    x : array
        An array of any namespace.

    Returns
    -------
    array
        `x` itself where its rows do, or where its namespace does not say how they lie; else a copy.
    """
    if not hasattr(x, "flags") or x.flags.c_contiguous:
        return x
    return array_namespace(x).asarray(x, order="C", copy=True, device=device(x))


def to_device(x, name):
    """Move an array to the host or to the current GPU.

    Parameters
    ----------
    x : array
        An array of any namespace.
    name : {"cpu", "cuda"}

    Returns
    -------
    ndarray or cupy.ndarray

    Raises
    ------
    ValueError
        If the name is another.
    ImportError
        If a GPU is asked for and CuPy is not installed.
    """
    check_device(name)
    if name == "cpu":
        return to_numpy(x)
    cupy = _import_cupy()
    return cupy.asarray(x if is_cupy_array(x) else to_numpy(x))  # pragma: no cover - a GPU is needed


def check_device(name):
    """Refuse a name that is neither "cpu" nor "cuda" with a ValueError."""
    if name not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {name!r}.")


def _import_cupy():
    try:
        import cupy
    except ImportError as error:
        raise ImportError("Arrays on a GPU need CuPy: pip install 'sklearn_attn[gpu]'.") from error
    return cupy  # pragma: no cover - a GPU is needed


def norm(x):
    """Euclidean norm of a vector, as a float on the host.

    Parameters
    ----------
    x : array of shape (n,)

    Returns
    -------
    float
    """
    return math.sqrt(sum_of_squares(x))


def sum_of_squares(x):
    """Sum of the squares of all elements, as a float on the host.

    Parameters
    ----------
    x : array of floats

    Returns
    -------
    float
    """
    if is_numpy_array(x):
        return float(np.vdot(x, x))
    flat = array_namespace(x).reshape(x, (-1,))
    return float(flat @ flat)


def erf(x):
    """Error function of every element, in the namespace of `x`.

    The array-API standard has no error function, so each namespace is asked for its own.

    Parameters
    ----------
    x : array of floats

    Returns
    -------
    array
        Same shape, dtype, namespace and device as `x`.
    """
    if is_numpy_array(x):
        return special.erf(x)
    if is_cupy_array(x):  # pragma: no cover - a GPU is needed
        from cupyx.scipy.special import erf as cupy_erf

        return cupy_erf(x)
    xp = array_namespace(x)
    if hasattr(xp, "special"):  # PyTorch
        return xp.special.erf(x)
    flat = xp.reshape(x, (-1,))
    values = [math.erf(float(flat[i])) for i in range(flat.shape[0])]
    return xp.reshape(xp.asarray(values, dtype=x.dtype, device=device(x)), x.shape)


class CudaStream:  # pragma: no cover - a GPU is needed
    """Random numbers that are drawn on the current GPU.

    Parameters
    ----------
    seed : int

    Raises
    ------
    ImportError
        If CuPy is not installed.
    """

    def __init__(self, seed):
        cupy = _import_cupy()
        self._log, self._generator = cupy.log, cupy.random.default_rng(seed)

    def random(self, size):
        """Draw uniform numbers in [0, 1): float64 of a shape."""
        return self._generator.random(size)

    def standard_normal(self, size):
        """Draw standard normal numbers."""
        return self._generator.standard_normal(size)

    def gumbel(self, size):
        """Draw Gumbel noise, minus the logarithm of exponential numbers."""
        return -self._log(self._generator.standard_exponential(size))


class CudaDevice:  # pragma: no cover - a GPU is needed
    """The GPU that holds an array, and compiled kernels on it.

    Parameters
    ----------
    x : cupy.ndarray
    """

    # Shared memory that the system keeps of every block.
    _RESERVED_BYTES = 1024

    def __init__(self, x):
        self._cupy, self._device = _import_cupy(), x.device
        self._attributes = x.device.attributes

    def compile(self, source, options):
        """Compile CUDA C++, with options of the compiler."""
        with self._device:
            self._module = self._cupy.RawModule(code=source, options=options)
            self._module.compile()

    def share(self, per_processor):
        """Return how many blocks of threads run at the same time, and the shared memory that each may take.

        Parameters
        ----------
        per_processor : int
            Blocks that share a multiprocessor.

        Returns
        -------
        n_blocks, shared_bytes : int
        """
        attributes = self._attributes
        room = attributes["MaxSharedMemoryPerMultiprocessor"] // per_processor - self._RESERVED_BYTES
        return (
            per_processor * attributes["MultiProcessorCount"],
            min(room, attributes["MaxSharedMemoryPerBlockOptin"]),
        )

    @staticmethod
    def address(x):
        """Return where an array begins in the device's memory."""
        return x.data.ptr

    def run(self, name, n_blocks, n_threads, shared_bytes, *arguments):
        """Run a kernel; numbers among the arguments are NumPy scalars of the types that it declares."""
        with self._device:
            kernel = self._module.get_function(name)
            kernel.max_dynamic_shared_size_bytes = shared_bytes
            kernel((n_blocks,), (n_threads,), arguments, shared_mem=shared_bytes)

    def asarray(self, x):
        """Move an array to the device."""
        with self._device:
            return self._cupy.asarray(x)

    def zeros(self, shape):
        """Make an array of float64 there."""
        with self._device:
            return self._cupy.zeros(shape)

    @staticmethod
    def to_host(x):
        """Copy an array to the host."""
        return to_numpy(x)

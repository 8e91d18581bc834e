"""The namespace of a RaggedArray whose buffer is neither NumPy's nor CuPy's."""

from .._backend import array_namespace, is_cupy_array, is_numpy_array, to_numpy


class RaggedNamespace:
    """A namespace of arrays that also takes sequences out of a RaggedArray.

    NumPy's and CuPy's ``take(X, indices)`` call ``X.take(indices)``, by which scikit-learn's splitters select
    sequences; those of other namespaces refuse what is not their own. All else is the namespace itself, which
    this compares equal to.

    Parameters
    ----------
    xp : namespace
    """

    def __init__(self, xp):
        self._xp = xp

    def __getattr__(self, name):
        return getattr(self._xp, name)

    def __eq__(self, other):
        return self._xp == (other._xp if isinstance(other, RaggedNamespace) else other)

    def __hash__(self):
        return hash(self._xp)

    def take(self, x, indices, *, axis=None):
        """Take elements of an array, or sequences of a RaggedArray."""
        if hasattr(x, "offsets"):
            return x.take(to_numpy(indices))
        return self._xp.take(x, indices, axis=axis)


def namespace_of(values, api_version=None):
    """Return the namespace of a RaggedArray with these tokens."""
    xp = array_namespace(values, api_version=api_version)
    return xp if is_numpy_array(values) or is_cupy_array(values) else RaggedNamespace(xp)

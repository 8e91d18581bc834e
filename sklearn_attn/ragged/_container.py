"""The packed container of sequences of unequal length."""

from numbers import Integral

import numpy as np

from .._backend import array_namespace, device, is_array_api, is_numpy_array, to_device, to_numpy
from . import _conversion
from ._formats import FormatsMixin
from ._namespace import namespace_of


class RaggedArray(FormatsMixin):
    """Sequences of tokens of unequal length, packed into one buffer.

    Sequence i is ``values[offsets[i]:offsets[i + 1]]``, an (L_i, D) view. The container never copies
    a buffer that it can share and never writes into it: ``values`` is a read-only view. To
    scikit-learn it looks like a 1-D object array of n sequences, so splitters, searches and pipelines index
    it as they index any X.

    Parameters
    ----------
    values : array of shape (n_tokens, D)
        All tokens, sequence after sequence.
    offsets : array-like of int of shape (n + 1,)
        Where each sequence starts, followed by n_tokens. It starts at 0 and never decreases.

    Attributes
    ----------
    values : array of shape (n_tokens, D)
        The tokens, shared with the argument; read-only where it is a NumPy array.
    offsets : ndarray of int64 of shape (n + 1,)
        Always on the host; a copy.
    lengths : ndarray of int64 of shape (n,)
        Number of tokens of every sequence.
    n_tokens, n_features : int
        The shape of `values`.
    nbytes : int
        Bytes of `values`.
    shape : tuple
        ``(n,)``, what a 1-D object array of the sequences would have.

    Raises
    ------
    TypeError
        If `values` is not an array or `offsets` are not integers.
    ValueError
        If `values` is not 2-D, or if `offsets` do not start at 0, decrease, or do not end at
        n_tokens.

    See Also
    --------
    RaggedArray.from_list : Pack a list of (L_i, D) arrays.
    RaggedArray.from_padded : Pack an (n, L, D) array with a mask or a tail of NaN.
    RaggedArray.from_groups : Pack a flat table with a column that names each row's sequence.
    RaggedArray.from_arrow, RaggedArray.from_awkward, RaggedArray.from_polars : Share columns of lists.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_attn import RaggedArray
    >>> X = RaggedArray.from_list([np.zeros((2, 3)), np.ones((4, 3))])
    >>> X
    RaggedArray(n=2, n_tokens=6, n_features=3, dtype=float64)
    >>> X[1].shape
    (4, 3)
    >>> X.lengths
    array([2, 4])
    """

    ndim = 1
    dtype = np.dtype(object)

    def __init__(self, values, offsets):
        self.__setstate__({"values": values, "offsets": offsets})

    def __setstate__(self, state):
        """Check what makes a RaggedArray; files and pickles come this way too, and may lie."""
        if not isinstance(state, dict) or state.keys() != {"values", "offsets"}:
            raise ValueError("The state of a RaggedArray is a dict of values and offsets, and nothing else.")
        values = state["values"]
        if not is_array_api(values):
            raise TypeError(
                f"values must be an array of shape (n_tokens, D), got {type(values).__name__}; "
                "use RaggedArray.from_list for a list of (L, D) arrays."
            )
        _conversion.refuse_masked(values, "values")
        if values.ndim != 2:
            raise ValueError(
                f"values must have shape (n_tokens, D), got {tuple(values.shape)}; use "
                "RaggedArray.from_padded for an (n, L, D) array."
            )
        offsets = _conversion.check_offsets(state["offsets"], values.shape[0])
        for name, array in (("values", values), ("offsets", offsets)):
            if is_numpy_array(array):  # a view of its own, whose shape nobody else can set
                array = array.view()
                array.flags.writeable = False
            self.__dict__[name] = array

    def __setattr__(self, name, value):
        raise AttributeError(f"RaggedArray is immutable: cannot set {name!r}; build a new one.")

    def __delattr__(self, name):
        raise AttributeError(f"RaggedArray is immutable: cannot delete {name!r}.")

    # -- constructors -------------------------------------------------------------------------

    @classmethod
    def from_list(cls, sequences, *, channel_first=False):
        """Pack a list of arrays, one per sequence.

        Parameters
        ----------
        sequences : list, tuple or 1-D object array of array-likes of shape (L_i, D)
            With `channel_first`, of shape (D, L_i), the layout of aeon and sktime.
        channel_first : bool, default=False
            Whether the features come before the tokens.

        Returns
        -------
        RaggedArray
            The tokens are copied once; a list of a single C-ordered array is shared.

        Raises
        ------
        TypeError
            If `sequences` is not a list, a tuple or an array.
        ValueError
            If a sequence is not 2-D, or the number of features differs; the message names the index
            and the shape at fault.
        """
        return cls(*_conversion.from_list(sequences, channel_first=channel_first))

    @classmethod
    def from_flat(cls, values, *, lengths=None, offsets=None):
        """Wrap a flat (n_tokens, D) array, given the lengths of the sequences or their offsets.

        Parameters
        ----------
        values : array-like of shape (n_tokens, D)
            All tokens, sequence after sequence; shared, not copied.
        lengths : array-like of int of shape (n,), optional
            Number of tokens of every sequence; they sum to n_tokens.
        offsets : array-like of int of shape (n + 1,), optional
            Where each sequence starts, followed by n_tokens. Pass either `lengths` or `offsets`.

        Returns
        -------
        RaggedArray

        Raises
        ------
        ValueError
            If neither or both are given, or if they do not describe the rows of `values`.
        """
        return cls(*_conversion.from_flat(values, lengths=lengths, offsets=offsets))

    @classmethod
    def from_padded(cls, X, mask=None):
        """Drop the padding of an (n, L, D) array.

        Parameters
        ----------
        X : array-like of shape (n, L, D)
            Padded sequences.
        mask : array-like of bool of shape (n, L), optional
            True where a token is real, as in torchmil. Without a mask a sequence ends before its
            trailing rows that are NaN in every feature, as in tslearn.

        Returns
        -------
        RaggedArray
            Shares the buffer where nothing is padded and X is C-ordered.

        Raises
        ------
        ValueError
            If X is not 3-D or the mask has another shape.
        TypeError
            If the mask is not boolean.
        """
        return cls(*_conversion.from_padded(X, mask))

    @classmethod
    def from_groups(cls, values, groups):
        """Gather the rows of a flat table into sequences, by a label that each row carries.

        Parameters
        ----------
        values : array-like of shape (n_tokens, D)
            One row per token.
        groups : array-like of shape (n_tokens,)
            The sequence that each row belongs to: integers or strings, in any order. Sequences come
            out in order of first appearance, that of ``pandas.unique(groups)``; the tokens of one
            keep their order.

        Returns
        -------
        RaggedArray
            Shares the buffer where the rows of every group already stand together.

        Raises
        ------
        ValueError
            If `groups` is not 1-D, holds a missing label, or its length is not that of `values`.
        """
        return cls(*_conversion.from_groups(values, groups))

    # -- what it holds ------------------------------------------------------------------------

    @property
    def lengths(self):
        """Number of tokens of every sequence, an int64 array of shape (n,)."""
        return np.diff(self.offsets)

    @property
    def n_tokens(self):
        """Number of tokens of all sequences together."""
        return self.values.shape[0]

    @property
    def n_features(self):
        """Number of features of a token, D."""
        return self.values.shape[1]

    @property
    def nbytes(self):
        """Bytes of the packed buffer."""
        itemsize = to_numpy(self.values[:0, ...]).itemsize  # the dtypes of some namespaces do not tell
        return self.n_tokens * self.n_features * itemsize

    @property
    def shape(self):
        """The shape of a 1-D object array of the sequences, ``(n,)``."""
        return (len(self),)

    @property
    def size(self):
        """Number of sequences."""
        return len(self)

    @property
    def device(self):
        """Device of the packed buffer."""
        return device(self.values)

    def __array_namespace__(self, api_version=None):
        return namespace_of(self.values, api_version)

    def __len__(self):
        return self.offsets.shape[0] - 1

    def __iter__(self):
        for start, stop in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            yield self.values[start:stop, :]

    def __repr__(self):
        return (
            f"RaggedArray(n={len(self)}, n_tokens={self.n_tokens}, n_features={self.n_features}, "
            f"dtype={str(self.values.dtype).rpartition('.')[2]})"
        )

    # -- selection ----------------------------------------------------------------------------

    def __getitem__(self, key):
        """Select one sequence (an int) or several (anything else that indexes a 1-D array).

        An int gives the (L_i, D) view of one sequence. A slice of step 1 shares the buffer; other
        slices, integer arrays, lists and boolean masks copy the chosen tokens. The tuples
        ``(key, ...)`` and ``(key, slice(None))`` mean `key`, as scikit-learn writes them.
        """
        if isinstance(key, tuple):
            key = self._strip_trailing_axes(key)
        if key is Ellipsis:
            return self
        if isinstance(key, Integral) and not isinstance(key, bool | np.bool_):
            i = self._check_index(int(key))
            return self.values[int(self.offsets[i]) : int(self.offsets[i + 1]), :]
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._slice(start, max(start, stop))
            return self.take(np.arange(start, stop, step))
        key = to_numpy(key)
        if key.ndim == 0 and key.dtype.kind in "iu":
            return self[int(key)]
        if key.ndim != 1:
            what = repr(key.tolist()) if key.ndim == 0 else f"an array of shape {key.shape}"
            raise IndexError(
                f"Select sequences by an int, a slice, or a 1-D array of ints or booleans; got {what}."
            )
        if key.dtype.kind == "b":
            if key.shape != self.shape:
                raise IndexError(
                    f"Boolean mask of length {key.shape[0]} does not match {len(self)} sequences."
                )
            key = np.flatnonzero(key)
        return self.take(key)

    def take(self, indices, axis=0, out=None, mode="raise"):
        """Select sequences by position, as ``numpy.take`` calls it.

        Parameters
        ----------
        indices : array-like of int of shape (m,), or int
            Positions; negative ones count from the end.
        axis : {0, None}, default=0
            The only axis there is.
        out, mode : None, "raise"
            For the signature of ``numpy.take``; nothing else is supported.

        Returns
        -------
        RaggedArray
            m sequences in a new buffer; the (L_i, D) view of one sequence where `indices` is an int.

        Raises
        ------
        IndexError
            If an index is out of range or not an integer.
        ValueError
            If `axis`, `out` or `mode` is anything else.
        """
        if axis not in (0, -1, None) or out is not None or mode != "raise":
            raise ValueError("RaggedArray.take supports axis=0, out=None and mode='raise' only.")
        indices = to_numpy(indices)
        if indices.ndim == 0:
            return self[indices]
        if indices.size == 0:
            indices = indices.astype(np.int64)
        if indices.dtype.kind not in "iu" or indices.ndim != 1:
            raise IndexError(
                "Sequences are selected by a 1-D array of integers; got "
                f"dtype {indices.dtype} and shape {indices.shape}."
            )
        n = len(self)
        outside = (indices < -n) | (indices >= n)
        if outside.any():
            raise IndexError(f"Index {indices[outside][0]} is out of range for {n} sequences.")
        indices = indices.astype(np.int64)
        indices = np.where(indices < 0, indices + n, indices)
        tokens, offsets = _conversion.token_indices(self.offsets, indices)
        return RaggedArray(_conversion.take_rows(self.values, tokens), offsets)

    def _slice(self, start, stop):
        """Share the buffer of sequences start to stop."""
        offsets = self.offsets[start : stop + 1]
        values = self.values[int(offsets[0]) : int(offsets[-1]), :]
        return RaggedArray(values, offsets - offsets[0])

    def _check_index(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(f"Index {i} is out of range for {len(self)} sequences.")
        return i % len(self)

    @staticmethod
    def _strip_trailing_axes(key):
        is_all = [k is Ellipsis or (isinstance(k, slice) and k == slice(None)) for k in key[1:]]
        if len(key) in (1, 2) and all(is_all):
            return key[0]
        raise IndexError(
            "A RaggedArray has one axis, its sequences; index the tokens of one with X[i][...], or "
            "all tokens through X.values."
        )

    # -- ways back ----------------------------------------------------------------------------

    def astype(self, dtype):
        """Cast the tokens.

        Parameters
        ----------
        dtype : dtype
            A dtype of the buffer's namespace.

        Returns
        -------
        RaggedArray
            This very object where the dtype is already right.
        """
        xp = array_namespace(self.values)
        if is_numpy_array(self.values):
            dtype = np.dtype(dtype)
        if self.values.dtype == dtype:
            return self
        return RaggedArray(xp.astype(self.values, dtype), self.offsets)

    def to_device(self, device):
        """Move the tokens to the host or to the current GPU, which takes CuPy.

        Parameters
        ----------
        device : {"cpu", "cuda"}

        Returns
        -------
        RaggedArray
            This very object where the tokens are there already. The offsets stay on the host.
        """
        values = to_device(self.values, device)
        return self if values is self.values else RaggedArray(values, self.offsets)

    def to_list(self):
        """Return the sequences as a list of (L_i, D) views."""
        return list(self)

    def to_padded(self, max_length=None, *, fill_value=np.nan, return_mask=False):
        """Return the sequences as one (n, max_length, D) array.

        Parameters
        ----------
        max_length : int, optional
            Length of the padded sequences, by default that of the longest. Longer sequences lose
            their last tokens.
        fill_value : float, default=nan
            What stands after the last token. The default round-trips through `from_padded`.
        return_mask : bool, default=False
            Whether to return the (n, max_length) mask of real tokens as well.

        Returns
        -------
        X : ndarray of shape (n, max_length, D)
            On the host. Integer tokens become float64 where `fill_value` is not an integer.
        mask : ndarray of bool of shape (n, max_length)
            Only with `return_mask`.
        """
        X, mask = _conversion.to_padded(to_numpy(self.values), self.offsets, max_length, fill_value)
        return (X, mask) if return_mask else X

    def to_column(self):
        """Return the sequences as an (n, 1) object array.

        It is the one form that gets through scikit-learn's BaggingRegressor, permutation_importance
        and ColumnTransformer; estimators of this package accept it back.

        Returns
        -------
        ndarray of object of shape (n, 1)
        """
        return _conversion.object_array(self).reshape(-1, 1)

    def __array__(self, dtype=None, copy=None):
        if dtype is not None and np.dtype(dtype) != np.dtype(object):
            raise TypeError(
                f"A RaggedArray does not convert to an array of {np.dtype(dtype)}: its sequences "
                "differ in length. Use X.to_padded(), or X.values for all tokens."
            )
        if copy is False:
            raise ValueError("A RaggedArray cannot become an object array without a copy.")
        return _conversion.object_array(self)

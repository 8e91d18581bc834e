"""Columns of sequences of Awkward Array, Apache Arrow and Polars, without a copy where it can be.

They hold flat values and offsets too. The libraries are optional: each is imported where one of its
objects is converted, or asked for.
"""

import numpy as np

from .._backend import to_numpy
from ._conversion import offsets_from_lengths

_WHAT = "n sequences of tokens of D numbers each"


class FormatsMixin:
    """Constructors and exports of `RaggedArray` for the formats of other libraries."""

    @classmethod
    def from_awkward(cls, array):
        """Wrap an Awkward array of type ``n * var * D * number`` or ``n * var * var * number``.

        Parameters
        ----------
        array : awkward.Array
            Three axes: sequences, tokens, features. In the second type all tokens must have the same
            number of features.

        Returns
        -------
        RaggedArray
            Shares the buffer of an array that is packed (``awkward.to_packed``) and whose sequences
            follow each other; a selection of sequences is copied once.

        Raises
        ------
        ImportError
            If Awkward is not installed.
        TypeError
            If the array holds records, strings or other than numbers.
        ValueError
            If it has not three axes, the number of features differs, or something is missing (None).

        Examples
        --------
        >>> import awkward as ak  # doctest: +SKIP
        >>> RaggedArray.from_awkward(ak.Array([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]))  # doctest: +SKIP
        RaggedArray(n=2, n_tokens=3, n_features=2, dtype=float64)
        """
        return cls(*from_awkward(array))

    @classmethod
    def from_arrow(cls, array):
        """Wrap a column of lists of tokens of an Apache Arrow table, or of a Parquet file.

        Parameters
        ----------
        array : pyarrow.Array or pyarrow.ChunkedArray
            A (large or fixed-size) list of tokens, each a (large or fixed-size) list of D numbers:
            ``table["embeddings"]``.

        Returns
        -------
        RaggedArray
            Shares the buffer of an array, or of a column of one chunk; several chunks are copied once.

        Raises
        ------
        ImportError
            If PyArrow is not installed.
        TypeError
            If the type is not a list of lists of numbers.
        ValueError
            If the number of features differs, or a sequence, a token or a number is null; the message names
            the first. Also if the array is not valid, as one from a damaged file may be.

        Examples
        --------
        >>> import pyarrow as pa  # doctest: +SKIP
        >>> RaggedArray.from_arrow(pa.array([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]))  # doctest: +SKIP
        RaggedArray(n=2, n_tokens=3, n_features=2, dtype=float64)
        """
        return cls(*from_arrow(array))

    @classmethod
    def from_polars(cls, series):
        """Wrap a Polars column of lists of tokens.

        Parameters
        ----------
        series : polars.Series
            Of type ``List(Array(number, D))`` or ``List(List(number))``: ``frame["embeddings"]``. For a long
            frame, one row per token, use `from_groups`.

        Returns
        -------
        RaggedArray
            Shares the buffer of a column of type ``List(Array(number, D))`` in one chunk.

        Raises
        ------
        TypeError
            If the type is not a list of lists of numbers.
        ValueError
            If the number of features differs, or a sequence, a token or a number is null.

        Examples
        --------
        >>> import polars as pl  # doctest: +SKIP
        >>> RaggedArray.from_polars(pl.Series([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]))  # doctest: +SKIP
        RaggedArray(n=2, n_tokens=3, n_features=2, dtype=float64)
        """
        return cls(*from_polars(series))

    def to_awkward(self):
        """Return the sequences as an Awkward array that shares the buffer.

        Returns
        -------
        awkward.Array
            Of type ``n * var * D * number``.
        """
        import awkward as ak

        offsets = ak.index.Index64(self.offsets)
        tokens = ak.contents.NumpyArray(_native(to_numpy(self.values)))
        return ak.Array(ak.contents.ListOffsetArray(offsets, tokens))

    def to_arrow(self):
        """Return the sequences as an Arrow array that shares the buffer.

        Returns
        -------
        pyarrow.LargeListArray
            Of type ``large_list<fixed_size_list<number>[D]>``: as a column of a table it goes into a Parquet
            file, and ``polars.from_arrow`` reads it.
        """
        import pyarrow as pa

        values = np.ascontiguousarray(_native(to_numpy(self.values)))
        tokens = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), self.n_features)
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), tokens)


def is_column(X):
    """Tell whether X is a column of sequences of one of these libraries, or a list of sequences of Arrow."""
    if _is_arrow_selection(X):
        return True
    library = type(X).__module__.partition(".")[0]
    if library == "awkward":
        return type(X).__name__ == "Array"
    if library == "polars" and type(X).__name__ == "DataFrame":
        return X.width == 1 and X.dtypes[0].is_nested()
    return library == "pyarrow" or (library == "polars" and hasattr(X, "dtype") and X.dtype.is_nested())


def _is_arrow_selection(X):
    """Tell whether X is what older scikit-learn selects of an Arrow array: a list of its entries."""
    if not isinstance(X, list) or not X or not type(X[0]).__module__.startswith("pyarrow"):
        return False
    import pyarrow as pa

    return isinstance(X[0], pa.ListScalar)


def from_column(X):
    """Split what `is_column` into (values, offsets)."""
    if _is_arrow_selection(X):
        import pyarrow as pa

        X = pa.array([x if getattr(x, "is_valid", True) else None for x in X], type=X[0].type)
    library = type(X).__module__.partition(".")[0]
    return {"awkward": from_awkward, "pyarrow": from_arrow, "polars": from_polars}[library](X)


def from_awkward(array):
    """Split an Awkward array into (values, offsets)."""
    import awkward as ak

    if not isinstance(array, ak.Array):
        raise TypeError(f"Expected {_WHAT}: an Awkward array, got {type(array).__name__}.")
    if array.ndim != 3:
        hint = "; tokens of one number need a third, array[..., numpy.newaxis]" if array.ndim == 2 else ""
        raise ValueError(f"Expected {_WHAT}: an Awkward array of three axes, got type {array.type}{hint}.")
    lengths = _complete(ak.to_numpy(ak.num(array, axis=1)), "X")
    offsets = offsets_from_lengths(lengths)
    tokens = ak.flatten(array, axis=1)
    widths = _complete(ak.to_numpy(ak.num(tokens, axis=1)), "a token", offsets)
    D = _common_width(widths, offsets)
    try:
        numbers = ak.to_numpy(ak.flatten(tokens, axis=1))
    except (TypeError, ValueError) as error:
        raise TypeError(f"Expected {_WHAT}, got an Awkward array of type {array.type}.") from error
    return _rows(_complete(numbers, "a number", offsets, D), D), offsets


def from_arrow(array):
    """Split a column of an Arrow table into (values, offsets)."""
    import pyarrow as pa

    if isinstance(array, pa.Array | pa.ChunkedArray):
        array.validate(full=True)  # what comes from a file is not, and Arrow reads where wrong offsets say
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if not isinstance(array, pa.Array):
        hint = "; pass one of its columns" if hasattr(array, "column_names") else ""
        raise TypeError(f"Expected {_WHAT}: an Arrow array, got {type(array).__name__}{hint}.")
    return _unnest(array, _open_list)


def _open_list(array, what, offsets=None):
    """Return the lengths of the lists of an Arrow array, and what they hold, one after the other."""
    import pyarrow as pa

    if isinstance(array, pa.ExtensionArray):
        if hasattr(array, "to_numpy_ndarray"):  # tensors of a fixed shape: a list for every axis but the last
            array = _nested_lists(array.to_numpy_ndarray())
        else:
            array = array.storage
    types = pa.types
    if not any(is_a(array.type) for is_a in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        raise TypeError(f"Expected {_WHAT}: an Arrow list of lists of numbers, but {what} is {array.type}.")
    _refuse_missing(_nulls(array), what, offsets)
    if types.is_fixed_size_list(array.type):
        return np.full(len(array), array.type.list_size), array.flatten()
    return np.diff(array.offsets.to_numpy()), array.flatten()


def _nested_lists(array):
    """Turn an (n, ...) array into an Arrow array of n lists of fixed size, nested like its axes."""
    import pyarrow as pa

    nested = pa.array(array.reshape(-1))
    for size in array.shape[:0:-1]:
        nested = pa.FixedSizeListArray.from_arrays(nested, size)
    return nested


def from_polars(series):
    """Split a Polars column into (values, offsets)."""
    import polars as pl

    if isinstance(series, pl.DataFrame) and series.width == 1:
        series = series.to_series()
    if not isinstance(series, pl.Series):
        hint = "; pass one of its columns" if hasattr(series, "columns") else ""
        raise TypeError(f"Expected {_WHAT}: a Polars series, got {type(series).__name__}{hint}.")
    return _unnest(series, _open_series)


def _open_series(series, what, offsets=None):
    """Return the lengths of the lists of a Polars series, and what they hold, one after the other."""
    import polars as pl

    if not isinstance(series.dtype, pl.List | pl.Array):
        raise TypeError(f"Expected {_WHAT}: a Polars list of lists of numbers, but {what} is {series.dtype}.")
    _refuse_missing(_nulls(series), what, offsets)
    if isinstance(series.dtype, pl.Array):  # a cast to lists copies before Polars 2
        return np.full(len(series), series.dtype.size), series.explode()
    lengths = series.list.len().to_numpy()
    if not lengths.all():  # an empty list explodes to a null
        series = series.filter(series.list.len() > 0)
    return lengths, series.explode()


def _unnest(column, open_lists):
    """Split a column of lists of lists into (values, offsets); `open_lists` opens one level."""
    lengths, tokens = open_lists(column, "X")
    offsets = offsets_from_lengths(lengths)
    widths, numbers = open_lists(tokens, "a token", offsets)
    D = _common_width(widths, offsets)
    _refuse_missing(_nulls(numbers), "a number", offsets, D)
    return _rows(np.asarray(numbers), D), offsets


def _nulls(column):
    """Say which entries of an Arrow array or a Polars series are null; None where none is."""
    count = column.null_count
    return np.asarray(column.is_null()) if (count() if callable(count) else count) else None


def _complete(numbers, what, offsets=None, width=1):
    """Refuse a masked array in which something is missing, and drop the mask."""
    if isinstance(numbers, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(numbers), what, offsets, width)
        numbers = numbers.data
    return numbers


def _refuse_missing(missing, what, offsets=None, width=1):
    """Name the first that is missing: a sequence, or, with offsets, one of `width` parts of a token."""
    if missing is None or not np.any(missing):
        return
    found = np.flatnonzero(missing)
    if offsets is None:
        where = f"X[{found[0]}] is missing"
    else:
        token = found[0] // width
        i = np.searchsorted(offsets, token, side="right") - 1
        feature = f", feature {found[0] % width}" if width > 1 else ""
        where = f"{what} is missing in X[{i}], at token {token - offsets[i]}{feature}"
    hint = " (or fill nulls with NaN, and impute: TokenTransformer(SimpleImputer()))" if width > 1 else ""
    raise ValueError(f"{where}; drop such sequences, with their y and sample_weight{hint}.")


def _common_width(widths, offsets):
    """Return the number of features of all tokens, or name the first token that has another."""
    if not len(widths):
        raise ValueError("Found no tokens: pass at least one sequence of one token.")
    odd = np.flatnonzero(widths != widths[0])
    if odd.size:
        i = np.searchsorted(offsets, odd[0], side="right") - 1
        raise ValueError(
            f"Every token must have the same number of features D. The first has {widths[0]}, but token "
            f"{odd[0] - offsets[i]} of X[{i}] has {widths[odd[0]]}."
        )
    if not widths[0]:
        raise ValueError("Tokens hold no numbers: every token needs at least one feature.")
    return int(widths[0])


def _native(values):
    """Give the buffer the machine's byte order, which other libraries expect."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _rows(numbers, D):
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"Expected {_WHAT}, but what tokens hold is of type {numbers.dtype}.")
    return numbers.reshape(-1, D)

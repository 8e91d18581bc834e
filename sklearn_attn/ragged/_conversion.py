"""From every form in which users hold sequences to (values, offsets), and back."""

from numbers import Integral

import numpy as np

from .._backend import array_namespace, device, is_array_api, is_numpy_array, to_numpy


def check_offsets(offsets, n_tokens):
    """Refuse offsets that do not cut n_tokens rows into sequences; return them as int64."""
    offsets = to_numpy(offsets)
    if offsets.ndim != 1 or offsets.shape[0] < 1:
        raise ValueError(f"offsets must have shape (n + 1,), got {offsets.shape}.")
    if offsets.dtype.kind not in "iu":
        raise TypeError(f"offsets must be integers, got dtype {offsets.dtype}.")
    if offsets.dtype.kind == "u" and int(offsets.max()) > np.iinfo(np.int64).max:
        raise ValueError("offsets must fit into int64.")
    # Copied: kernels trust the offsets, so nobody may change them after this check.
    offsets = np.array(offsets, dtype=np.int64)
    if offsets[0] != 0:
        raise ValueError(f"offsets must start at 0, got {offsets[0]}.")
    decreasing = np.flatnonzero(offsets[1:] < offsets[:-1])
    if decreasing.size:
        i = decreasing[0]
        raise ValueError(
            f"offsets must not decrease, got offsets[{i}] = {offsets[i]} and "
            f"offsets[{i + 1}] = {offsets[i + 1]}."
        )
    if offsets[-1] != n_tokens:
        raise ValueError(f"offsets must end at n_tokens = {n_tokens}, got {offsets[-1]}.")
    return offsets


def offsets_from_lengths(lengths):
    """Cumulate lengths into offsets, an int64 array of shape (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def token_indices(offsets, sequences):
    """Rows of the tokens of the chosen sequences, in order, and the offsets of the result."""
    lengths = offsets[sequences + 1] - offsets[sequences]
    new_offsets = offsets_from_lengths(lengths)
    shift = offsets[sequences] - new_offsets[:-1]
    return np.arange(new_offsets[-1]) + np.repeat(shift, lengths), new_offsets


def take_rows(values, rows):
    """Gather rows of `values`, in its namespace and on its device; `rows` are on the host."""
    xp = array_namespace(values)
    return xp.take(values, xp.asarray(rows, device=device(values)), axis=0)


def object_array(sequences):
    """1-D object array of sequences; np.array would make a 3-D one where lengths agree."""
    out = np.empty(len(sequences), dtype=object)
    for i, sequence in enumerate(sequences):
        out[i] = sequence
    return out


def as_array(values, name, ndim, layout):
    """Keep an array of any namespace, convert anything else to NumPy, and check its ndim."""
    refuse_masked(values, name)
    if not is_array_api(values):
        try:
            values = np.asarray(values)
        except ValueError as error:
            raise ValueError(
                f"{name} must have shape {layout}, but its rows differ in length ({error})."
            ) from error
    if values.ndim != ndim:
        raise ValueError(f"{name} must have shape {layout}, got {tuple(values.shape)}.")
    return values


def refuse_masked(values, name):
    """Refuse a masked array, whose mask NumPy would drop without a word."""
    if isinstance(values, np.ma.MaskedArray):
        drop = f"{name}.data[keep] with the rows to keep" if values.ndim == 2 else (
            f"RaggedArray.from_padded({name}.data, mask=...) with True for every real token"
        )  # fmt: skip
        raise TypeError(
            f"{name} is a masked array; pass {drop} where the mask marks padding, or {name}.filled(value)."
        )


def from_list(sequences, *, channel_first=False):
    """Concatenate (L_i, D) or, with channel_first, (D, L_i) array-likes."""
    sequences = _as_list(sequences)
    arrays = [_as_sequence(sequence, i) for i, sequence in enumerate(sequences)]
    if not arrays:
        raise ValueError("Found no sequences: pass at least one (L, D) array.")
    _check_same_columns(sequences)
    if channel_first:
        arrays = [array.T for array in arrays]
    _check_same_features(arrays)
    lengths = [array.shape[0] for array in arrays]
    values = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return values, offsets_from_lengths(lengths)


def _as_list(sequences):
    """Iterate over a list, an object column or a 3-D array by position, never by label."""
    if isinstance(sequences, list | tuple):
        return sequences
    if is_array_api(sequences):
        sequences = to_numpy(sequences)
    elif hasattr(sequences, "__array__"):  # a RaggedArray, a Series or a frame
        sequences = np.asarray(sequences)
    else:
        hint = "list(X.values())" if isinstance(sequences, dict) else "list(X)"
        raise TypeError(f"Expected a list of (L, D) arrays, got {type(sequences).__name__}; pass {hint}.")
    if sequences.dtype.kind == "O" and sequences.ndim == 2 and sequences.shape[1] == 1:
        return sequences[:, 0]
    if sequences.ndim != 3 and not (sequences.dtype.kind == "O" and sequences.ndim == 1):
        raise ValueError(
            f"Expected a list of (L, D) arrays, got one array of shape {sequences.shape}; for a single "
            "sequence pass [X]."
        )
    return sequences


def _as_sequence(sequence, i):
    """Convert one element of a list to a 2-D numeric array, or say what is wrong with it."""
    given = sequence
    if hasattr(sequence, "toarray"):
        raise TypeError(f"X[{i}] is sparse; pass dense sequences, X[{i}].toarray().")
    refuse_masked(sequence, f"X[{i}]")
    if is_numpy_array(sequence) and sequence.dtype.kind == "O" and sequence.ndim == 1:
        sequence = sequence.tolist()  # an array of token vectors: what Parquet readers give
    try:
        sequence = to_numpy(sequence)
    except ValueError as error:
        raise ValueError(
            f"X[{i}] is not an (L, D) array: its rows differ in length or type ({error})."
        ) from error
    if sequence.shape == (0,):
        raise ValueError(
            f"X[{i}] is empty and has no feature axis; drop such sequences, with their y and sample_weight."
        )
    if sequence.ndim != 2:
        what = f"has shape {sequence.shape}"
        if sequence.ndim == 1:
            what += f"; tokens of one feature need a second axis, X[{i}].reshape(-1, 1)"
        elif sequence.ndim == 0:
            what = f"is of type {type(given).__name__}"
        raise ValueError(f"Every sequence must be a 2-D array of shape (L, D), but X[{i}] {what}.")
    return require_numeric(sequence, f"X[{i}]")


def _check_same_columns(sequences):
    """Refuse frames whose columns stand in another order than those of the first frame."""
    frames = [(i, list(x.columns)) for i, x in enumerate(sequences) if hasattr(x, "columns")]
    for i, columns in frames:
        first, expected = frames[0]
        if columns != expected and len(columns) == len(expected):
            j = next(j for j, name in enumerate(columns) if name != expected[j])
            raise ValueError(
                f"Column {j} of X[{i}] is {columns[j]!r}, but that of X[{first}] is {expected[j]!r}; give "
                "the frames of all sequences the same columns in the same order."
            )


def require_numeric(array, name):
    """Refuse what is not made of real numbers; objects that are numbers become float64."""
    kind = array.dtype.kind
    if kind == "O":
        missing = np.array([type(x).__name__ == "NAType" for x in array.flat], dtype=bool)  # pandas.NA
        if missing.any():
            array = np.where(missing.reshape(array.shape), np.nan, array)
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            kept = TypeError if isinstance(error, TypeError) else ValueError
            raise kept(f"{name} (shape {array.shape}) is not numeric{_where(array)}: {error}") from error
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {array.dtype} and shape {array.shape}; "
            "pass real and imaginary parts as separate features."
        )
    if kind not in "biuf":
        raise ValueError(
            f"{name} has dtype {array.dtype} and shape {array.shape}; tokens must be numbers: embed "
            "or encode them first."
        )
    return array


def _where(array):
    """Name the column of a 2-D object array in which the first thing that is no number stands."""
    for j in range(array.shape[1] if array.ndim == 2 else 0):
        try:
            array[:, j].astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return f" in column {j}"
    return ""


def _check_same_features(arrays):
    """Name the sequences whose number of features is not that of the others."""
    widths = np.array([array.shape[1] for array in arrays])
    values, counts = np.unique(widths, return_counts=True)
    if values.size == 1:
        return
    usual = values[np.argmax(counts)]
    odd = np.flatnonzero(widths != usual)
    named = ", ".join(f"X[{i}] has shape {arrays[i].shape}" for i in odd[:5])
    more = f" and {odd.size - 5} more differ" if odd.size > 5 else ""
    hint = ""
    if len({array.shape[0] for array in arrays}) == 1:
        hint = (
            f" All have {arrays[0].shape[0]} rows: if these are the features, pass "
            "RaggedArray.from_list(X, channel_first=True)."
        )
    raise ValueError(
        f"Every sequence must have the same number of features D. Most have {usual}, but {named}{more}.{hint}"
    )


def _numeric_rows(values, hint=""):
    """Check flat (n_tokens, D) values; host ones must be numbers."""
    values = as_array(values, "values", 2, "(n_tokens, D)")
    if not is_numpy_array(values) or values.dtype.kind not in "OUSc":
        return values
    try:
        return require_numeric(values, "values")
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}{hint}") from error


def from_flat(values, *, lengths=None, offsets=None):
    """Share flat values, given exactly one of lengths and offsets."""
    values = _numeric_rows(values)
    if (lengths is None) == (offsets is None):
        raise ValueError("Pass either lengths or offsets.")
    if offsets is None:
        lengths = to_numpy(lengths)
        if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
            raise ValueError(
                f"lengths must be integers of shape (n,), got dtype {lengths.dtype} and shape "
                f"{lengths.shape}."
            )
        if (lengths < 0).any():
            raise ValueError(f"lengths[{np.flatnonzero(lengths < 0)[0]}] is negative.")
        offsets = offsets_from_lengths(lengths)
        if offsets[-1] != values.shape[0]:
            raise ValueError(f"lengths sum to {offsets[-1]}, but values has {values.shape[0]} tokens.")
    return values, offsets


def from_padded(X, mask=None):
    """Drop the tokens that a mask, or a tail of all-NaN rows, marks as padding."""
    X = as_array(X, "X", 3, "(n, L, D)")
    if is_numpy_array(X):
        X = require_numeric(X, "X")
    n, length, n_features = X.shape
    if mask is None:
        host = to_numpy(X)
        mask = _before_nan_tail(host) if host.dtype.kind == "f" else np.ones((n, length), bool)
    else:
        mask = to_numpy(mask)
        if mask.dtype.kind != "b":
            raise TypeError(
                f"mask must be boolean (True for a real token), got dtype {mask.dtype}; pass "
                "mask.astype(bool)."
            )
        if mask.shape != (n, length):
            raise ValueError(f"mask must have shape {(n, length)}, got {mask.shape}.")
    offsets = offsets_from_lengths(mask.sum(axis=1))
    values = array_namespace(X).reshape(X, (n * length, n_features))
    return values if mask.all() else take_rows(values, np.flatnonzero(mask)), offsets


def _before_nan_tail(X):
    """Mask of the tokens that stand before the trailing rows which are NaN in every feature."""
    mask = np.empty(X.shape[:2], dtype=bool)
    for i, sequence in enumerate(X):  # one sequence at a time: no temporary as large as X
        real = ~np.isnan(sequence).all(axis=1)
        mask[i] = np.logical_or.accumulate(real[::-1])[::-1]
    return mask


def from_groups(values, groups):
    """Gather rows by label, sequences in order of first appearance."""
    values = _numeric_rows(values, hint="; drop the column of the groups, df.drop(columns=...), and any text")
    groups = to_numpy(groups)
    if groups.shape != (values.shape[0],):
        raise ValueError(
            f"groups must hold one label per token, shape {(values.shape[0],)}, got {groups.shape}."
        )
    is_object = groups.dtype.kind == "O"
    missing = np.flatnonzero([_is_missing(g) for g in groups] if is_object else groups != groups)
    if missing.size:
        raise ValueError(f"groups[{missing[0]}] is missing; every token needs a label.")
    try:
        _, first, member = np.unique(groups, return_index=True, return_inverse=True)
    except TypeError as error:
        raise TypeError(
            f"groups mixes labels of different types ({error}); pass integers only or strings only."
        ) from error
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    member = rank[member]  # which sequence each token belongs to, by first appearance
    offsets = offsets_from_lengths(np.bincount(member, minlength=first.size))
    if np.all(member[1:] >= member[:-1]):
        return values, offsets
    order = np.argsort(member, kind="stable")
    return take_rows(values, order), offsets


def _is_missing(label):
    """Tell whether a label is None, NaN, NaT or pandas.NA."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA has no truth value
        return True


def to_padded(values, offsets, max_length, fill_value):
    """Scatter tokens into an (n, max_length, D) array; return it with its mask."""
    lengths = np.diff(offsets)
    if max_length is None:
        max_length = int(lengths.max(initial=0))
    elif isinstance(max_length, bool) or not isinstance(max_length, Integral) or max_length < 1:
        raise ValueError(f"max_length must be a positive integer, got {max_length!r}.")
    dtype = values.dtype
    if dtype.kind in "biu" and not float(fill_value).is_integer():
        dtype = np.dtype(np.float64)
    mask = np.arange(max_length) < lengths[:, None]  # (n, max_length)
    X = np.full((*mask.shape, values.shape[1]), fill_value, dtype=dtype)
    kept = np.arange(values.shape[0]) - np.repeat(offsets[:-1], lengths) < max_length
    X[mask] = values if kept.all() else values[kept]
    return X, mask

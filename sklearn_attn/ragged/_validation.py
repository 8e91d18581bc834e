"""One door for every input that an estimator takes."""

from contextlib import contextmanager

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._backend import (
    array_namespace,
    in_c_order,
    is_array_api,
    is_numpy_array,
    stays_in_namespace,
    to_numpy,
)
from . import _conversion
from ._container import RaggedArray
from ._formats import from_column, is_column

_FLOATS = (np.float64, np.float32)
# Numbers off the host that are looked at at a time.
_FOREIGN_BLOCK = 2**24


def check_ragged(X, *, dtype=_FLOATS, ensure_finite=True):
    """Convert any accepted form of ragged input to a validated RaggedArray.

    Parameters
    ----------
    X : RaggedArray, list, tuple or array
        One of: a RaggedArray; a list, tuple or 1-D object array of (L_i, D) arrays; an (n, 1) object
        array or one-column frame of (L_i, D) arrays; an (n, L, D) array of sequences of equal
        length; an (n, D) array or frame, read as n sequences of one token. A 2-D array is never one
        sequence: for that pass a list of one array.
    dtype : tuple of dtypes, default=(float64, float32)
        The dtypes that are kept. Any other becomes the first.
    ensure_finite : bool or "allow-nan", default=True
        Whether to refuse NaN and infinity, or infinity alone.

    Returns
    -------
    RaggedArray
        With a C-ordered, aligned buffer of native byte order; the user's own buffer where it already
        is one. A RaggedArray or an array whose tokens are CuPy's stays there; so do those of other
        namespaces where scikit-learn's ``array_api_dispatch`` is on, and otherwise they become NumPy's. The
        same goes for a list of (L_i, D) arrays of one namespace.

    Raises
    ------
    TypeError
        If X is a generator, a string, a scalar, sparse, masked, or something else that holds no sequences.
    ValueError
        If there are no sequences, a sequence is empty, the number of features differs, or a token is
        not a finite real number. The message names the index and the shape at fault.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_attn.ragged import check_ragged
    >>> check_ragged([np.zeros((2, 3)), np.zeros((4, 3))])
    RaggedArray(n=2, n_tokens=6, n_features=3, dtype=float64)
    """
    checked = _convert(X, dtype)
    _refuse_nonfinite(checked, X, ensure_finite)
    return checked


def _convert(X, dtype=_FLOATS):
    """Convert X as `check_ragged` does, and check all but that the tokens are finite."""
    values, offsets = _pack(X)
    if offsets.shape[0] == 1:
        raise ValueError(
            "Found array with 0 sample(s): X holds no sequences; pass at least one (L, D) array."
        )
    _refuse_empty_sequences(offsets, values.shape[1])
    values = _check_buffer(values, dtype)
    if isinstance(X, RaggedArray) and values is X.values:
        return X
    return RaggedArray(values, offsets)


def validate_ragged(estimator, X, *, reset, ensure_finite=True):
    """Check X with `check_ragged` and against the features that the estimator was fitted on.

    Parameters
    ----------
    estimator : estimator
        Receives `n_features_in_`, and `feature_names_in_` where X is a frame of single tokens.
    X : RaggedArray, list, tuple or array
        As in `check_ragged`.
    reset : bool
        True in fit: set the attributes. False afterwards: compare with them.
    ensure_finite : bool or "allow-nan", default=True
        As in `check_ragged`.

    Returns
    -------
    RaggedArray

    Raises
    ------
    ValueError
        As `check_ragged`, or if X has another number of features than the estimator was fitted on.
    """
    checked = _convert(X)
    if reset:
        _refuse_nonfinite(checked, X, ensure_finite)
        set_features(estimator, X, checked)
        return checked
    # Features first: NaN may come from columns that are missing.
    _hint_at_transposition(estimator, checked)
    set_features(estimator, X, checked, reset=False)
    _refuse_nonfinite(checked, X, ensure_finite)
    return checked


def set_features(estimator, X, checked, *, reset=True):
    """Record, or with reset=False compare, the features of X, already checked as `checked`.

    Names come from the columns of an (n, D) frame, or of the first sequence where sequences are frames.
    """
    source = np.broadcast_to(np.zeros(1), tuple(checked.values.shape))  # of which the shape is read
    if hasattr(X, "columns") and is_table(X, checked):
        source = X
    elif not isinstance(X, RaggedArray) and not is_column(X) and not is_table(X, checked):
        first = _first_sequence(X)
        source = first if hasattr(first, "columns") else source
    validate_data(estimator, X=source, reset=reset, skip_check_array=True)


@contextmanager
def all_at_once(estimator):
    """Yield a draft of an estimator; at the end, if nothing is raised, its attributes become the estimator's.

    They do so in one step: an interrupt between two of them would leave one half of this fit and one half of
    the last.
    """
    draft = object.__new__(type(estimator))
    vars(draft).update(vars(estimator))
    yield draft
    estimator.__dict__ = vars(draft)


def _first_sequence(X):
    """Return the first element of a list, an object array or a one-column frame of sequences."""
    if isinstance(X, list | tuple):
        return X[0]
    if stays_in_namespace(X):
        return None
    X = np.asarray(X) if not is_array_api(X) else X
    return X.flat[0] if is_numpy_array(X) and X.dtype.kind == "O" else None


def is_table(X, checked):
    """Tell whether X, already checked as `checked`, is an (n, D) table: a row per one-token sequence."""
    if isinstance(X, RaggedArray) or is_column(X) or len(checked) != checked.n_tokens:
        return False
    if isinstance(X, list | tuple):
        return _ndim(X[0]) == 1
    if stays_in_namespace(X):
        return X.ndim == 2
    X = to_numpy(X)
    if X.ndim != 2 or X.shape[1] != checked.n_features:
        return False
    return checked.n_features > 1 or _ndim(X[0, 0]) == 0  # not a column of sequences


def _pack(X):
    """Split any accepted X into (values, offsets), without a copy where it can be."""
    if isinstance(X, RaggedArray):
        # Once more: kernels trust the offsets, and who insists can write into those of X, or set their shape.
        return X.values, _conversion.check_offsets(X.offsets, X.values.shape[0])
    if is_column(X):
        return from_column(X)
    if issparse(X):
        check_array(X, input_name="X")  # raises scikit-learn's own message on sparse data
    if isinstance(X, list | tuple):
        return _pack_list(X)
    if isinstance(X, str | bytes | dict | set | frozenset) or np.isscalar(X) or X is None:
        raise TypeError(_expected(X))
    if stays_in_namespace(X):
        return _pack_foreign(X)
    if is_array_api(X):
        X = to_numpy(X)
    elif hasattr(X, "__array__") or hasattr(X, "__array_interface__"):
        X = np.asarray(X)
    else:
        raise TypeError(f"{_expected(X)} Turn a generator or an iterator into a list: list(X).")
    return _pack_array(X)


def _expected(X):
    return (
        f"Expected sequences (a list of (L, D) arrays, a RaggedArray, or an (n, L, D) or (n, D) "
        f"array), got {type(X).__name__}.{' Pass list(X.values()).' if isinstance(X, dict) else ''}"
    )


def _pack_list(X):
    """Read a list by its first element: sequences (2-D), or rows of single tokens (1-D)."""
    if not len(X):
        raise ValueError("Found array with 0 sample(s): X is an empty list; pass at least one (L, D) array.")
    if stays_in_namespace(X[0]) and (packed := _pack_foreign_list(X)) is not None:
        return packed
    if _ndim(X[0]) >= 2 or any(_ndim(x) >= 2 for x in X):
        return _conversion.from_list(X)
    try:
        rows = np.asarray(X)
    except ValueError as error:
        lengths = [len(x) if _ndim(x) else 1 for x in X]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        what = (
            f"X[0] has shape ({lengths[0]},) and X[{odd}] has shape ({lengths[odd]},)"
            if odd is not None
            else f"they do not form a table ({error})"
        )
        raise ValueError(
            f"X is a list of 1-D rows, read as sequences of one token each, but {what}. Pass (L, D) "
            "arrays; tokens of one feature need a second axis, x.reshape(-1, 1)."
        ) from error
    return _pack_array(rows)


def _pack_array(X):
    """Read an array by its number of axes."""
    _conversion.refuse_masked(X, "X")
    if X.dtype.kind == "O" and X.ndim in (1, 2) and any(_ndim(x) >= 1 for x in X.flat):
        if X.ndim == 2 and X.shape[1] > 1:
            raise ValueError(
                f"Expected one column of (L, D) arrays, got {X.shape[1]}: shape {X.shape}. Pass one of them, "
                "or join their features token by token first."
            )
        return _conversion.from_list(X.reshape(-1))
    if X.ndim == 3:
        return _conversion.from_flat(
            X.reshape(-1, X.shape[2]) if X.size else X.reshape(X.shape[0] * X.shape[1], X.shape[2]),
            lengths=np.full(X.shape[0], X.shape[1]),
        )
    if X.ndim == 2:
        return X, np.arange(X.shape[0] + 1)
    if X.ndim == 1 and not X.size:
        return X.reshape(0, 1), np.zeros(1, dtype=np.int64)
    if X.ndim == 1 and X.dtype.kind in "USO":
        raise ValueError(
            f"Expected sequences of tokens, got a 1-D array of shape {X.shape} that holds "
            f"{type(X[0]).__name__} objects; tokens must be numbers: embed or encode them, and pass a list "
            "of (L, D) arrays."
        )
    if X.ndim == 1:
        raise ValueError(
            f"Expected sequences of tokens, got a 1-D array of shape {X.shape} instead. Reshape your "
            "data: X.reshape(-1, 1) for sequences of one token with one feature, [X.reshape(-1, 1)] "
            "for one sequence of tokens with one feature; or pass a list of (L, D) arrays."
        )
    raise ValueError(
        f"Expected an (n, L, D) or (n, D) array or a list of (L, D) arrays, got {X.ndim} axes: shape "
        f"{X.shape}."
    )


def _pack_foreign(X):
    """Read an array of numbers of another namespace by its number of axes."""
    if X.ndim == 3 and X.shape[0]:
        values = array_namespace(X).reshape(X, (X.shape[0] * X.shape[1], X.shape[2]))
        return values, np.arange(X.shape[0] + 1) * X.shape[1]
    if X.ndim == 2:
        return X, np.arange(X.shape[0] + 1)
    return _pack_array(to_numpy(X))  # for its messages


def _pack_foreign_list(X):
    """Join a list of (L_i, D) arrays of one other namespace there; None where it is no such list."""
    xp = array_namespace(X[0])
    for x in X:
        if not stays_in_namespace(x) or array_namespace(x) is not xp or x.ndim != 2:
            return None
        if x.shape[1] != X[0].shape[1]:
            return None
    return xp.concat(list(X), axis=0), np.cumsum([0, *(x.shape[0] for x in X)])


def _ndim(x):
    """Number of axes of an array, or the depth of nested lists, judged by first elements."""
    if is_numpy_array(x) and x.dtype.kind == "O" and x.ndim == 1 and x.size:
        return 1 + _ndim(x[0])  # an array of token vectors: what Parquet readers give
    if hasattr(x, "ndim"):
        return x.ndim
    if isinstance(x, list | tuple):
        return 1 + (_ndim(x[0]) if len(x) else 0)
    return np.ndim(x) if hasattr(x, "__array__") else 0


def _check_buffer(values, dtype):
    """Give the packed buffer a kept dtype and a layout that the kernels take."""
    if stays_in_namespace(values):
        return _check_foreign_buffer(values, dtype)
    values = to_numpy(values)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    values = _conversion.require_numeric(values, "X")
    values = check_array(values, dtype=list(dtype), order="C", ensure_all_finite=False)
    return np.require(values, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _check_foreign_buffer(values, dtype):
    """Give a buffer of another namespace a kept dtype, and CuPy's the layout that the kernels take."""
    xp = array_namespace(values)
    if not xp.isdtype(values.dtype, ("bool", "integral", "real floating")) or not values.shape[1]:
        return _check_buffer(to_numpy(values), dtype)  # for its messages
    if hasattr(values, "detach"):  # a PyTorch tensor's history is not continued
        values = values.detach()
    kept = [getattr(xp, np.dtype(kind).name) for kind in dtype]
    return in_c_order(values if values.dtype in kept else xp.astype(values, kept[0]))


def _refuse_empty_sequences(offsets, n_features):
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if empty.size:
        named = ", ".join(f"X[{i}]" for i in empty[:5]) + (", ..." if empty.size > 5 else "")
        verb = "is an empty sequence" if empty.size == 1 else "are empty sequences"
        raise ValueError(
            f"{named} {verb} of shape (0, {n_features}); every sequence needs at least one token: drop "
            "such sequences, with their y and sample_weight."
        )


def _refuse_nonfinite(checked, X, ensure_finite):
    """Raise for the first token that holds infinity or, unless allowed, NaN; name its sequence."""
    if not ensure_finite:
        return
    values, offsets = checked.values, checked.offsets
    xp, on_host = array_namespace(values), is_numpy_array(values)
    if on_host:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):
                return
    rows_per_block = max(1, (2**20 if on_host else _FOREIGN_BLOCK) // values.shape[1])
    for start in range(0, values.shape[0], rows_per_block):
        block = values[start : min(start + rows_per_block, values.shape[0]), :]
        bad = xp.isinf(block) if ensure_finite == "allow-nan" else ~xp.isfinite(block)
        if bool(xp.any(bad)):
            block = to_numpy(block)
            row, feature = np.argwhere(to_numpy(bad))[0]
            token = start + row
            i = np.searchsorted(offsets, token, side="right") - 1
            shape = (int(offsets[i + 1] - offsets[i]), values.shape[1])
            is_nan = np.isnan(block[row, feature])
            what = "NaN" if is_nan else "infinity"
            hint = "impute or drop such tokens"
            if is_nan and getattr(X, "ndim", 0) == 3:
                hint = "RaggedArray.from_padded(X) drops a tail of NaN rows"
            raise ValueError(
                f"Input X contains {what}: X[{i}] (shape {shape}) at token {token - offsets[i]}, "
                f"feature {feature}; {hint}."
            )


def _hint_at_transposition(estimator, checked):
    """Refuse sequences whose token and feature axes look exchanged, and say so."""
    expected = getattr(estimator, "n_features_in_", None)
    if expected is None or checked.n_features == expected:
        return
    if len(checked) and np.all(checked.lengths == expected) and expected > 1:
        raise ValueError(
            f"X has {checked.n_features} features, but {type(estimator).__name__} is expecting "
            f"{expected} features as input. Every sequence has {expected} rows: they look transposed, "
            "pass (L, D) arrays or RaggedArray.from_list(X, channel_first=True)."
        )

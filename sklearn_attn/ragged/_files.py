"""RaggedArrays on disk: two .npy files in a folder, which can be mapped instead of read."""

from pathlib import Path

import numpy as np

from ._container import RaggedArray
from ._validation import check_ragged

_VALUES, _OFFSETS = "values.npy", "offsets.npy"


def save_ragged(folder, X):
    """Write sequences to a folder, as values.npy and offsets.npy.

    Parameters
    ----------
    folder : str or path
        Made where it does not exist; files of an earlier call are replaced.
    X : RaggedArray, list, tuple or array
        Sequences in any form that the estimators take. Missing values are kept.

    See Also
    --------
    load_ragged : The way back.
    """
    X = check_ragged(X, ensure_finite=False)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / _VALUES, X.values, allow_pickle=False)
    np.save(folder / _OFFSETS, X.offsets, allow_pickle=False)


def load_ragged(folder, *, mmap_mode=None):
    """Load what `save_ragged` wrote, or any folder of two such files.

    Parameters
    ----------
    folder : str or path
        Holds values.npy of shape (n_tokens, D) and offsets.npy of shape (n + 1,).
    mmap_mode : {None, "r", "c"}, default=None
        As in ``numpy.load``: with "r" the tokens stay on disk and a fit reads them from there, once per
        step, in constant memory. The offsets are always read.

    Returns
    -------
    RaggedArray

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a file is truncated, is no .npy file, holds Python objects, or the offsets do not cut the values
        into sequences.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn_attn.ragged import load_ragged, save_ragged
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_ragged(folder, [np.zeros((2, 3)), np.ones((4, 3))])
    ...     load_ragged(folder)
    RaggedArray(n=2, n_tokens=6, n_features=3, dtype=float64)
    """
    folder = Path(folder)
    offsets = _load(folder / _OFFSETS, None)
    values = _load(folder / _VALUES, mmap_mode)
    try:
        return RaggedArray(values, offsets)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder} holds no RaggedArray: {error}") from error


def _load(path, mmap_mode):
    try:
        return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is truncated or no .npy file of numbers: {error}") from error

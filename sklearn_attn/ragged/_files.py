"""RaggedArrays on disk: two .npy files in a folder, which can be mapped instead of read."""

import math
import os
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.lib import format as npy

from .._backend import to_numpy
from ._container import RaggedArray
from ._validation import check_ragged

_VALUES, _OFFSETS = "values.npy", "offsets.npy"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def save_ragged(folder, X):
    """Write sequences to a folder, as values.npy and offsets.npy.

    Both are complete, and on the disk, before they take the place of earlier ones: where writing fails, what
    was there stays. Memory maps of the earlier files keep their tokens, so that what is mapped from a folder
    can be saved there.

    Parameters
    ----------
    folder : str or path
        Made where it does not exist; files of an earlier call are replaced.
    X : RaggedArray, list, tuple or array
        Sequences in any form that the estimators take. Missing values are kept.

    Raises
    ------
    OSError
        If a file cannot be written, as on a full disk.

    See Also
    --------
    load_ragged : The way back.
    """
    X = check_ragged(X, ensure_finite=False)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid4().hex
    drafts = {folder / file: folder / f".{file}.{name}" for file in (_VALUES, _OFFSETS)}
    try:
        _write(drafts[folder / _VALUES], to_numpy(X.values))
        _write(drafts[folder / _OFFSETS], X.offsets)
        # An interrupt leaves no offsets rather than those of other values.
        (folder / _OFFSETS).unlink(missing_ok=True)
        for path, draft in drafts.items():
            os.replace(draft, path)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


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
        If a file is truncated or has something behind its numbers, is no .npy file, holds Python objects,
        which are never unpickled, or the offsets do not cut the values into sequences.
    OSError
        If another process saves to the folder in the meantime.

    Notes
    -----
    Processes that save to one folder at the same time have to take turns.

    A file that another program makes shorter while it is mapped ends the process, as with any memory map.

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
    if mmap_mode not in (None, "r", "c"):
        raise ValueError(f"mmap_mode must be None, 'r' or 'c', got {mmap_mode!r}.")
    identity = _identity(folder / _OFFSETS)
    offsets = _load(folder / _OFFSETS, None)
    values = _load(folder / _VALUES, mmap_mode)
    # A save takes the offsets away before it replaces the values, and so these are of the same save.
    if _identity(folder / _OFFSETS) != identity:
        raise OSError(f"{folder} was saved anew while it was loaded: load it again.")
    try:
        return RaggedArray(values, offsets)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{folder} holds no RaggedArray: {error}") from error


def _write(path, array):
    """Write an array, and say so where the disk is full: ``numpy.save`` may lose the last bytes instead."""
    array = np.ascontiguousarray(array)
    try:
        with open(path, "xb") as file:
            npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(array))
            if array.size:
                file.write(memoryview(array).cast("B"))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _identity(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _load(path, mmap_mode):
    try:
        _check_size(path)
        return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is truncated or no .npy file of numbers: {error}") from error


def _check_size(path):
    """Refuse a file that is not as long as its header says, before memory is taken for what it says."""
    with open(path, "rb") as file:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"its version of the format is {version}")
        try:
            shape, _, dtype = _HEADERS[version](file)
        except OSError:
            raise
        except Exception as error:  # of Python's parser, of its tokeniser or of NumPy's dtypes
            raise ValueError(f"its header cannot be read ({error})") from error
        if dtype.kind not in "biufc":
            raise ValueError(f"it holds {dtype}")
        expected = file.tell() + math.prod(shape) * dtype.itemsize
        found = os.fstat(file.fileno()).st_size
        if min(shape, default=0) < 0 or found != expected:
            raise ValueError(f"{shape} numbers of {dtype} make {expected} bytes, but it has {found}")

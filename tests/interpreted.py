"""A plugin of pytest under which compiled code runs in the interpreter: for its coverage, and to break it.

With ``NUMBA_DISABLE_JIT=1`` Numba leaves functions as they are, but not the intrinsics, which are machine code by
their nature, nor what depends on a compiled type. They get stand-ins of the same meaning here: ``NUMBA_DISABLE_JIT=1 pytest -p interpreted``, with this
folder on the path.
"""

import math
import struct
import sys
import types

import numba
import numpy as np

import sklearn_attn.theory
from sklearn_attn import _compiled
from sklearn_attn.objective import _blocks, _lanes, _threads

if not numba.config.DISABLE_JIT:
    raise RuntimeError("set NUMBA_DISABLE_JIT=1")


def _lanes_of(array, index, n):
    row, first = (array, index) if array.ndim == 1 else (array[index[0]], index[1])
    if first + min(n, _lanes.LANES) > row.size:
        raise IndexError("lanes beyond the end")
    return row[first : first + max(0, min(n, _lanes.LANES))]


def _load(array, index, n):
    numbers = np.zeros(_lanes.LANES)
    found = _lanes_of(array, index, n)
    numbers[: found.size] = found
    return numbers


def _store(array, index, n, numbers):
    place = _lanes_of(array, index, n)
    place[:] = numbers[: place.size]


def _show(counters, index, count):
    counters[index] = count


def _as_float64(X, start, stop, tokens):
    if X.dtype == np.float64:
        return X[start:stop]
    tokens[: stop - start] = X[start:stop]
    return tokens[: stop - start]


STAND_INS = {
    _blocks.as_float64: _as_float64,
    _compiled._float_from_bits: lambda bits: struct.unpack("d", struct.pack("q", bits))[0],
    _lanes.load: _load,
    _lanes.store: _store,
    _lanes.prefetch: lambda array, index: None,
    _lanes.fill: lambda number: np.full(_lanes.LANES, number),
    _lanes.subtract: lambda a, b: a - b,
    _lanes.multiply: lambda a, b: a * b,
    _lanes.multiply_add: lambda a, b, c: a * b + c,
    _lanes.total: lambda numbers: numbers.sum(),
    _threads._look: lambda counters, index: counters[index],
    _threads._show: _show,
}
as_float64 = _blocks.as_float64
for name, module in list(sys.modules.items()):
    if name.startswith(sklearn_attn.__name__):
        for attribute, value in list(vars(module).items()):
            if isinstance(value, numba.extending._Intrinsic) or value is as_float64:
                setattr(module, attribute, STAND_INS[value])
# The integer below NaN is no error to compiled code, and is not used.
floor = {"floor": lambda x: 0 if x != x else math.floor(x)}
_compiled.math = types.SimpleNamespace(**(vars(math) | floor))
_threads._PATIENCE = _threads._GRACE = 1  # looks take the lock here
np.seterr(all="ignore")  # as compiled code, which divides by zero without a word

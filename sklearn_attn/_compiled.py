"""Compiled code that several parts share: how it is compiled, and activations of one score."""

import math
import os
import threading

import numba
import numpy as np
from joblib.parallel import get_active_backend
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# Codes of the activations that `potential` knows.
ACTIVATION_CODES = {"softmax": 0, "linear": 1, "erf": 2, "softplus": 3}
SOFTMAX, LINEAR, ERF, SOFTPLUS = 0, 1, 2, 3
# Codes of the losses that kernels know.
LOSS_CODES = {"squared": 0, "logistic": 1, "multinomial": 2}
SQUARED = 0


def jit(function=None, *, fastmath=False):
    """Compile with Numba without the interpreter lock, and cache the result on disk where that can be.

    Parameters
    ----------
    function : callable
    fastmath : bool or set of str, default=False
        LLVM flags.
    """
    if function is None:
        return lambda function: jit(function, fastmath=fastmath)
    options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written: compile anew in every process
        return numba.njit(**options)(function)


def available_threads():
    """Return the number of threads that compiled code may use here.

    That is ``numba.get_num_threads()``, by default all cores; at most OMP_NUM_THREADS, by which Dask, Ray and
    batch systems say what a worker may use, unless NUMBA_NUM_THREADS is set, by which joblib's processes do;
    and 1 in a worker of joblib that none of them limits, as its threads.
    """
    try:
        n_threads = numba.get_num_threads()
    except ValueError:  # the threading layer that is asked for is missing; ours are Python threads
        n_threads = numba.config.NUMBA_NUM_THREADS
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]  # one number per level of nesting
    if "NUMBA_NUM_THREADS" not in os.environ and limit.isdecimal() and int(limit) > 0:
        n_threads = min(n_threads, int(limit))
    return 1 if _is_unlimited_worker() else n_threads


def _is_unlimited_worker():
    """Whether this is a worker of joblib that was not told how many threads to use."""
    if get_active_backend()[0].nesting_level == 0:
        return False
    limits = {"NUMBA_NUM_THREADS", "OMP_NUM_THREADS"} & set(os.environ)
    return not limits or threading.current_thread() is not threading.main_thread()


@intrinsic
def _float_from_bits(typing_context, bits):
    def codegen(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@jit(fastmath={"contract"})
def exponentiate(x, n):
    """Replace x[0], ..., x[n - 1], none of them above 0, by their exponentials, to the last digit but one.

    A loop that the compiler turns into vector instructions, which it does not do with calls of ``math.exp``:
    seven times as fast. With k = round(x / log 2), r = x - k log 2, exp(x) = 2^k (1 + 2 r P / (Q - r P)) with
    polynomials P, Q in r^2 (the rational approximation of the Cephes library). Below -708 it stays at
    exp(-708), about 3e-308.
    """
    for i in range(n):
        number = -708.0 if x[i] < -708.0 else x[i]  # NaN stays
        k = math.floor(number * 1.4426950408889634 + 0.5)
        r = number - k * 6.93145751953125e-1 - k * 1.42860682030941723212e-6
        square = r * r
        odd = r * ((1.26177193074810590878e-4 * square + 3.02994407707441961300e-2) * square + 1.0)
        even = (3.00198505138664455042e-6 * square + 2.52448340349684104192e-3) * square
        even = (even + 2.27265548208155028766e-1) * square + 2.0
        x[i] = (1.0 + 2.0 * odd / (even - odd)) * _float_from_bits((np.int64(k) + 1023) << 52)


@jit
def potential(kind, score, offset):
    """Compute the potential u of one score and its slope u', as in `activations`."""
    if kind == SOFTMAX:
        return score, 1.0
    if kind == LINEAR:
        return 1.0 + score, 1.0
    if kind == ERF:
        shifted = offset + score
        return 1.0 + math.erf(shifted), 1.1283791670955126 * math.exp(-shifted * shifted)
    if score < -38.0:
        return score, 1.0
    decay = math.exp(-abs(score))
    sigmoid = (1.0 if score >= 0.0 else decay) / (1.0 + decay)
    softplus = max(score, 0.0) + math.log1p(decay)
    return math.log(softplus), sigmoid / softplus


@jit
def curvature(kind, score, offset):
    """Compute the second derivative u'' of the potential of one score."""
    if kind == ERF:
        shifted = offset + score
        return -2.2567583341910251 * shifted * math.exp(-shifted * shifted)
    if kind != SOFTPLUS or score < -38.0:
        return 0.0
    decay = math.exp(-abs(score))
    sigmoid = (1.0 if score >= 0.0 else decay) / (1.0 + decay)
    slope = sigmoid / (max(score, 0.0) + math.log1p(decay))
    return slope * (1.0 - sigmoid - slope)

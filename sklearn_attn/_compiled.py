"""Compiled code that several parts share: how it is compiled, and activations of one score."""

import math

import numba

# Codes of the activations that `potential` knows.
ACTIVATION_CODES = {"softmax": 0, "linear": 1, "erf": 2, "softplus": 3}
SOFTMAX, LINEAR, ERF, SOFTPLUS = 0, 1, 2, 3


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


def n_threads_of_numba():
    """Return the number of threads that compiled code may use, ``numba.get_num_threads()``."""
    try:
        return numba.get_num_threads()
    except ValueError:  # the threading layer that is asked for is missing; ours are Python threads
        return numba.config.NUMBA_NUM_THREADS


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

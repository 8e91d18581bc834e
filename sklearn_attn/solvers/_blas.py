"""BLAS held to one thread while an optimiser runs."""

import threading
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_held_by = 0
_limit = None


@contextmanager
def single_threaded_blas():
    """Hold BLAS to one thread; its spinning threads would fight those of the fused kernel.

    The setting is the process's. It is made by the first fit that needs it and undone by the last, so that
    fits that overlap in several threads leave it as they found it.
    """
    global _held_by, _limit
    with _lock:
        if _held_by == 0:
            _limit = _threadpools().limit(limits=1, user_api="blas")
        _held_by += 1
    try:
        yield
    finally:
        with _lock:
            _held_by -= 1
            if _held_by == 0:
                _limit.restore_original_limits()


@cache
def _threadpools():
    """Find the libraries with thread pools in this process, which takes milliseconds, once."""
    return ThreadpoolController()

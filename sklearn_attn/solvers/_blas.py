"""BLAS held to one thread while an optimiser runs."""

import os
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

    The setting is the process's. It is made by the first fit that needs it and undone by the last, in
    whichever threads they run, so that fits that overlap leave it as they found it.
    """
    global _held_by, _limit
    holds = False
    try:
        with _lock:
            holds = True
            _held_by += 1
            if _held_by == 1:
                _let_any_thread_set_limits()
                _limit = _threadpools().limit(limits=1, user_api="blas")
        yield
    finally:
        if holds:
            with _lock:
                _held_by = max(0, _held_by - 1)
                if _held_by == 0:
                    _restore()


def _restore():
    global _limit
    if _limit is not None:
        _let_any_thread_set_limits()
        _limit.restore_original_limits()
        _let_any_thread_set_limits()
        _limit = None


def _forget_other_threads():
    """In a forked child: fits of other threads, which may have held BLAS or the lock, are not there."""
    global _lock, _held_by
    _lock, _held_by = threading.Lock(), 0
    _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


def _let_any_thread_set_limits():
    """From threadpoolctl 3.8 on only the thread that set a limit first may change it; others are ignored."""
    for library in _threadpools().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _threadpools():
    """Find the libraries with thread pools in this process, which takes milliseconds, once."""
    return ThreadpoolController()

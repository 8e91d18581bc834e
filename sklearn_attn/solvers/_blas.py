"""BLAS held to one thread while an optimiser runs."""

import os
import threading
import weakref
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.RLock()
# Weakly, so that a fit whose end was interrupted is forgotten, and the next one sets BLAS free.
_holds = weakref.WeakSet()
_limit = None


class _Hold:
    """A fit that needs BLAS to be held."""


@contextmanager
def single_threaded_blas():
    """Hold BLAS to one thread; its spinning threads would fight those of the fused kernel.

    The setting is the process's. It is made by the first fit that needs it and undone by the last, in
    whichever threads they run, so that fits that overlap leave it as they found it.
    """
    global _limit
    hold = _Hold()
    try:
        with _lock:
            _holds.add(hold)
            if _limit is None:
                _let_any_thread_set_limits()
                _limit = _threadpools().limit(limits=1, user_api="blas")
        yield
    finally:
        with _lock:
            _holds.discard(hold)
            if not _holds:
                _restore()


def _restore():
    global _limit
    if _limit is not None:
        _let_any_thread_set_limits()
        _limit.restore_original_limits()
        _let_any_thread_set_limits()
        _limit = None


def _forget_other_threads():
    """In a forked child: fits of other threads, which may have held BLAS, are not there."""
    global _lock
    _lock = threading.RLock()
    _holds.clear()
    _restore()


if hasattr(os, "register_at_fork"):
    # Under the lock, so that no other thread has set limits that `_limit` does not know yet; reentrant, as
    # what runs between two instructions of the thread that has it may fork.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_forget_other_threads,
    )


def _let_any_thread_set_limits():
    """From threadpoolctl 3.8 on only the thread that set a limit first may change it; others are ignored."""
    for library in _threadpools().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _threadpools():
    """Find the libraries with thread pools in this process, which takes milliseconds, once."""
    return ThreadpoolController()

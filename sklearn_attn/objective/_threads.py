"""A small team of Python threads for compiled code that holds no interpreter lock.

To wake a sleeping thread takes 0.1 ms and more, as long as a pass over some megabytes. So a thread that has
done its share first watches out for the next one, and the caller for the end of the others' shares, for a
while and in compiled code, without the lock. What they watch are counters; tasks and results travel through
queues, on which a thread that has waited in vain sleeps.
"""

import threading
import weakref
from itertools import count
from queue import SimpleQueue

import numpy as np
from numba import types
from numba.extending import intrinsic

from .._compiled import jit
from ._lanes import pointer_to

# Looks at a counter, of about a nanosecond each: longer than a solver thinks between two passes.
_PATIENCE = 300_000
# Looks before a task is taken: by then the caller is in compiled code, and the lock is free.
_GRACE = 5_000
_LINE = 8  # counters that share a line of the cache


@intrinsic
def _look(typing_context, counters, index):
    """Read a counter that another thread may change."""

    def codegen(context, builder, signature, arguments):
        address = pointer_to(context, builder, counters, *arguments)
        return builder.load_atomic(address, "acquire", 8)

    return types.int64(counters, types.intp), codegen


@intrinsic
def _show(typing_context, counters, index, count):
    """Change a counter that other threads look at."""

    def codegen(context, builder, signature, arguments):
        address = pointer_to(context, builder, counters, *arguments[:2])
        builder.store_atomic(arguments[2], address, "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.intp, types.int64), codegen


@jit
def _watch(counters, index, count, patience):
    """Look at a counter until it is at least `count`, at most `patience` times."""
    looks = 0
    while looks < patience and _look(counters, index) < count:
        looks += 1


@jit
def _rest(counters, index, count, patience, grace):
    """Show that run `count` is done here, and watch out for the next."""
    _show(counters, index, count)
    _watch(counters, 0, count + 1, patience)
    for _ in range(grace):
        _look(counters, 0)


def _work(tasks, results, counters):
    """Do tasks until there is None; holds nothing of the team, lest it outlive its user."""
    while (task := tasks.get()) is not None:
        function, share, run = task
        error = None
        try:
            function(share)
        except BaseException as raised:
            error = raised
        results.put((run, error))
        del task, function
        _rest(counters, (share + 1) * _LINE, run, _PATIENCE, _GRACE)
    tasks.put(None)  # for the next


def _end(tasks, counters):
    """Let all threads end; harmless when called again, as it is where a first call was interrupted."""
    counters[0] += 1
    tasks.put(None)


class ThreadTeam:
    """Threads that work on the shares of one pass; the caller is one of them.

    Parameters
    ----------
    n_threads : int
        At least 1; with 1 the caller works alone.
    """

    def __init__(self, n_threads):
        self.n_threads = n_threads
        self._tasks, self._results = SimpleQueue(), SimpleQueue()
        # Of all runs that were begun: one that was interrupted early has not reached the counters.
        self._runs = count(1)
        self._counters = np.zeros((n_threads + 1) * _LINE, dtype=np.int64)
        self._threads = [
            threading.Thread(
                target=_work,
                args=(self._tasks, self._results, self._counters),
                name=f"sklearn_attn_{i}",
                daemon=True,
            )
            for i in range(n_threads - 1)
        ]
        # Before they start: an interrupt may come at any moment from then on.
        weakref.finalize(self, _end, self._tasks, self._counters)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            _end(self._tasks, self._counters)
            raise

    def run(self, task):
        """Run task(0), ..., task(n_threads - 1), the last one in this thread; raise what one raises."""
        if not self._threads:
            task(0)
            return
        run, others = next(self._runs), range(self.n_threads - 1)
        for share in others:
            self._tasks.put((task, share, run))
        self._counters[0] = run
        try:
            task(self.n_threads - 1)
        finally:
            errors = self._wait(others, run)
        for error in errors:
            raise error

    def deal(self, task, n_shares, room=tuple):
        """Run task(share, *room()) for every share, each thread those that leave its number over.

        `room` makes what a thread works in.
        """

        def work(thread):
            space = room()
            for share in range(thread, n_shares, self.n_threads):
                task(share, *space)

        self.run(work)

    def _wait(self, others, run):
        """Wait for the other shares of a run, and return what they raised."""
        for share in others:
            _watch(self._counters, (share + 1) * _LINE, run, _PATIENCE)
        errors = []
        for _ in others:
            found = None
            while found != run:  # an interrupted run left its results
                found, error = self._results.get()
            if error is not None:
                errors.append(error)
        return errors

    def close(self):
        """End the threads."""
        _end(self._tasks, self._counters)
        for thread in self._threads:
            thread.join()

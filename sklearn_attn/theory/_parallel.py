"""Run compiled loops over samples, or whole problems, on several threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from .._compiled import available_threads

_MIN_SAMPLES_PER_THREAD = 256
_worker = threading.local()


def split_samples(task, n_samples):
    """Call ``task(first, last)`` on equal shares of the samples, at the same time.

    Parameters
    ----------
    task : callable
        Runs compiled code that releases the interpreter lock; shares must not touch each other's data.
    n_samples : int
    """
    n_threads = 1 if hasattr(_worker, "is_one") else available_threads()
    n_threads = max(1, min(n_threads, n_samples // _MIN_SAMPLES_PER_THREAD))
    bounds = [n_samples * i // n_threads for i in range(n_threads + 1)]
    if n_threads == 1:
        task(0, n_samples)
        return
    with ThreadPoolExecutor(n_threads - 1) as executor:
        futures = [executor.submit(task, *share) for share in pairwise(bounds[:-1])]
        task(bounds[-2], bounds[-1])
        for future in futures:
            future.result()


def map_problems(solve, problems):
    """Call ``solve(problem)`` for several problems at a time; each runs on one thread.

    Returns
    -------
    list
    """
    n_threads = min(available_threads(), len(problems))
    if n_threads <= 1:
        return [solve(problem) for problem in problems]

    def mark():
        _worker.is_one = True

    with ThreadPoolExecutor(n_threads, initializer=mark) as executor:
        return list(executor.map(solve, problems))

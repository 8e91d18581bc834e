"""A small team of Python threads for compiled code that holds no interpreter lock."""

from concurrent.futures import ThreadPoolExecutor


class ThreadTeam:
    """Threads that work on the shares of one pass; the caller is one of them.

    Parameters
    ----------
    n_threads : int
        At least 1; with 1 the caller works alone.
    """

    def __init__(self, n_threads):
        self.n_threads = n_threads
        self._executor = ThreadPoolExecutor(n_threads - 1, "sklearn_attn") if n_threads > 1 else None

    def run(self, task):
        """Run task(0), ..., task(n_threads - 1), the last one in this thread."""
        futures = [self._executor.submit(task, thread) for thread in range(self.n_threads - 1)]
        task(self.n_threads - 1)
        for future in futures:
            future.result()

    def close(self):
        """End the threads."""
        if self._executor is not None:
            self._executor.shutdown()

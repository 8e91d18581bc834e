"""A process of its own for every contender: its threads and its memory are its own."""

import gc
import multiprocessing
import re
import time
import warnings
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _memory(name):
    """Return VmRSS or VmHWM in bytes."""
    return 1024 * int(re.search(name + r":\s+(\d+)", _STATUS.read_text())[1])


def _serve(connection, contender, make_task, arguments):
    """Fit on demand: sends the memory at the peak of the first fit, then seconds and results."""
    from _contenders import ALL, Task

    warnings.simplefilter("ignore")
    tiny = Task(*make_task(*arguments, tiny=True))
    try:
        ALL[contender](tiny)()  # import and compile what does not depend on shapes
        del tiny
        gc.collect()
        before = _memory("VmRSS")
        task = Task(*make_task(*arguments))
        fit = ALL[contender](task)
        if contender != "gemv":
            # What the layout does not need any more need not be held; a closure keeps what it needs.
            task = None
            gc.collect()
        _CLEAR.write_text("5")  # the peak starts anew
        fit()
        connection.send(_memory("VmHWM") - before)
        while connection.recv():
            start = time.perf_counter()
            result = fit()
            connection.send((time.perf_counter() - start, *result))
    except Exception as error:
        connection.send(error)
        raise


class Worker:
    """Runs one contender on one task, again and again.

    Parameters
    ----------
    contender : str
    make_task : callable
        Returns the fields of a `Task`, small ones if called with ``tiny=True``.
    *arguments
        Of `make_task`.

    Attributes
    ----------
    memory : int
        Bytes at the peak of a fit, data and layout included, beyond those of the imports.
    """

    def __init__(self, contender, make_task, *arguments):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, contender, make_task, arguments), daemon=True
        )
        self._process.start()
        self.memory = self._receive()

    def fit(self):
        """Return seconds, parameters and evaluations of one fit."""
        self._connection.send(True)
        return self._receive()

    def close(self):
        self._connection.send(False)
        self._process.join()

    def _receive(self):
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

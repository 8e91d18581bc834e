"""A process of its own for every contender: its threads and its memory are its own."""

import gc
import multiprocessing
import time
import warnings

from _contenders import ALL, Task
from _memory import forget_peak, memory
from _problems import load

_TINY_SHARE = 200


def _serve(connection, contender, problem, share, goal):
    """Fit on demand: sends the memory at the peak of the first fit, then seconds and results."""
    warnings.simplefilter("ignore")
    try:
        # Import, and compile what does not depend on shapes.
        ALL[contender](Task(*load(problem, _TINY_SHARE), start=goal.get("start")))()
        gc.collect()
        before = memory("VmRSS")
        fit = ALL[contender](Task(*load(problem, share), **goal))
        gc.collect()
        forget_peak()
        fit()
        connection.send(memory("VmHWM") - before)
        while connection.recv():
            start = time.perf_counter()
            result = fit()
            connection.send((time.perf_counter() - start, *result))
    except Exception as error:
        connection.send(error)
        raise


class Worker:
    """Runs one contender on one problem, again and again.

    Parameters
    ----------
    contender, problem : str
    share : int
        What part of the data, as a divisor.
    goal : dict
        Where fits start and stop; see `Task`.

    Attributes
    ----------
    memory : int
        Bytes at the peak of a fit, data and layout included, beyond those of the imports.
    """

    def __init__(self, contender, problem, share, goal):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = theirs, contender, problem, share, goal
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
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

"""Samples of the single-location regression task drawn where they are to be used."""

import math

import numpy as np

from .._backend import array_namespace, device
from ..problems import TASKS
from ..ragged import RaggedArray, Segments


def draw(problem, key, value, lengths, stream):
    """Draw sequences of given lengths, as `SLRDataset.sample` does on the host.

    Parameters
    ----------
    problem : SLRProblem
    key, value : ndarray of float64 of shape (D,)
        k* and v*.
    lengths : ndarray of int64 of shape (n,)
    stream : RandomStream
        Its arrays say where everything is drawn.

    Returns
    -------
    X : RaggedArray of n sequences, float64
    y : array of float64 of shape (n,)
    location : array of int64 of shape (n,)
    """
    task = TASKS[problem.task]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = stream.standard_normal((int(offsets[-1]), key.size))
    xp, where = array_namespace(values), device(values)
    scale = 1.0 / math.sqrt(key.size)
    key, value, first = (xp.asarray(x, device=where) for x in (key, value, offsets[:-1]))
    scores = task.location_scores((values @ key) * scale, problem.signal, stream)
    location = Segments(offsets, values).reduce(lambda block: xp.argmax(block, axis=-1), scores)
    hidden = first + location  # (n,) rows of values
    values[hidden] += task.shift(problem.signal) * scale * key
    y = xp.take(values @ value, hidden, axis=0) * scale
    y = y + problem.noise * stream.standard_normal((lengths.size,))
    return RaggedArray(values, offsets), y, location

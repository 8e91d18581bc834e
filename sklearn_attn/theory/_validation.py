"""Checks of numbers that the theory is asked about."""

import math
from numbers import Integral, Real

from ..activations import get_activation
from ..problems import SLRProblem
from ._overlaps import Overlaps


def check_problem(problem, *, needs_signal=True):
    """Refuse anything but an SLRProblem, and one without signal where that is needed."""
    if not isinstance(problem, SLRProblem):
        raise TypeError(
            f"problem must be an SLRProblem, got {type(problem).__name__}; a dataset's is dataset.problem."
        )
    if needs_signal and problem.signal == 0.0:
        raise ValueError("signal must be positive: at signal=0 nothing tells the location.")


def check_activation(name, offset):
    """Look up an activation; refuse unknown ones and an offset that is no finite number."""
    if not isinstance(offset, Real) or isinstance(offset, bool) or not math.isfinite(offset):
        raise ValueError(f"offset must be a finite number, got {offset!r}.")
    if not isinstance(name, str):
        name = repr(name)  # is listed in the message
    return get_activation(name, float(offset))


def check_overlaps(overlaps):
    """Refuse anything but Overlaps."""
    if not isinstance(overlaps, Overlaps):
        raise TypeError(
            f"overlaps must be Overlaps, got {type(overlaps).__name__}; order_parameters(estimator, dataset) "
            "returns them, and so does the attribute overlaps of a ReplicaResult."
        )


def check_positive(**numbers):
    """Refuse numbers that are not positive and finite; the message names them."""
    for name, number in numbers.items():
        if not isinstance(number, Real) or isinstance(number, bool):
            raise TypeError(f"{name} must be a number, got {number!r}.")
        if not 0.0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {number}.")


def check_count(**numbers):
    """Refuse numbers that are not positive integers; the message names them."""
    for name, number in numbers.items():
        if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
            raise ValueError(f"{name} must be a positive integer, got {number!r}.")

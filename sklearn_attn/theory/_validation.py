"""Checks of numbers that the theory is asked about."""

import math
from numbers import Integral, Real

from ..problems import SLRProblem


def check_problem(problem):
    """Refuse anything but an SLRProblem with a signal."""
    if not isinstance(problem, SLRProblem):
        raise TypeError(
            f"problem must be an SLRProblem, got {type(problem).__name__}; a dataset's is dataset.problem."
        )
    if problem.signal == 0.0:
        raise ValueError("signal must be positive: at signal=0 nothing tells the location.")


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

"""The single-location regression task: one record that data and theory both read.

A sample is a sequence X of L tokens in R^D. With hidden directions k* and v* of norm sqrt(D),
chi* = X k* / sqrt(D), z* = X v* / sqrt(D), and a location eps that is uniform on the tokens,

    y = z*_eps + noise xi,   p(X | L, eps, k*) = g(eps, chi*) prod_l N(X_l; 0, I)

The weight g says how the location shows in the tokens; each `Task` of `TASKS` is one g. Source: Duranthon,
Marion, Boyer, Loureiro, Zdeborova, arXiv:2509.21936, section 2.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.special import logsumexp


class SpikedTask:
    """The hidden token is shifted along k*: log g = sqrt(nu) chi_eps - nu / 2."""

    name = "spiked"
    allows_infinite_signal = False

    @staticmethod
    def log_weight(chi, signal):
        """Evaluate log g(eps, chi) for every eps.

        Parameters
        ----------
        chi : ndarray of shape (..., L)
        signal : float
            nu.

        Returns
        -------
        ndarray of shape (..., L)
            Entry l is log g(l, chi).
        """
        return math.sqrt(signal) * chi - 0.5 * signal

    @staticmethod
    def shift(signal):
        """Shift of chi* at the hidden token, sqrt(nu)."""
        return math.sqrt(signal)

    @staticmethod
    def location_scores(chi, signal, rng):
        """Draw eps uniformly: the location is where these scores are largest."""
        return rng.random(chi.shape)


class MaxTask:
    """The hidden token has a large score: log g = log L + nu chi_eps - log sum_l exp(nu chi_l).

    At nu = inf it is the one with the largest.
    """

    name = "max"
    allows_infinite_signal = True

    @staticmethod
    def log_weight(chi, signal):
        """Evaluate log g(eps, chi) for every eps; -inf where g = 0. See `SpikedTask.log_weight`."""
        L = chi.shape[-1]
        if math.isinf(signal):
            is_largest = chi == chi.max(axis=-1, keepdims=True)
            return np.where(is_largest, math.log(L), -np.inf)
        return math.log(L) + signal * chi - logsumexp(signal * chi, axis=-1, keepdims=True)

    @staticmethod
    def shift(signal):
        """Shift of chi* at the hidden token: none."""
        return 0.0

    @staticmethod
    def location_scores(chi, signal, rng):
        """Draw eps from softmax(nu chi): the largest of nu chi plus Gumbel noise has that law."""
        return chi if math.isinf(signal) else signal * chi + rng.gumbel(size=chi.shape)


TASKS = {task.name: task for task in (SpikedTask, MaxTask)}


@dataclass(frozen=True)
class SLRProblem:
    """A single-location regression problem, without its dimension and sample size.

    Parameters
    ----------
    task : {"spiked", "max"}, default="spiked"
        How the location shows in the tokens.
    signal : float, default=1.0
        nu >= 0; may be infinite for "max".
    length : int, sequence of int or {int: probability}, default=3
        The law of L: a constant, uniform on distinct lengths (``range(4, 13)`` for 4 to 12), or any law on
        the positive integers. A
        mapping is kept as a sorted tuple of (length, probability) pairs, a sequence as a sorted tuple.
    noise : float, default=0.0
        Standard deviation of the noise on y.

    Attributes
    ----------
    lengths : ndarray of int64
        The possible lengths, ascending.
    length_probabilities : ndarray of float64
        Their probabilities, which sum to one.
    mean_length : float

    Raises
    ------
    ValueError
        If the task is unknown, a number is out of range, or the law of L is none.
    TypeError
        If a number is not one.

    Examples
    --------
    >>> from sklearn_attn.problems import SLRProblem
    >>> problem = SLRProblem("max", signal=float("inf"), length={2: 0.25, 6: 0.75})
    >>> problem.mean_length
    5.0
    """

    task: str = "spiked"
    signal: float = 1.0
    length: int | tuple = 3
    noise: float = 0.0

    def __post_init__(self):
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {sorted(TASKS)}, got {self.task!r}.")
        for name in ("signal", "noise"):
            number = getattr(self, name)
            if not isinstance(number, Real) or isinstance(number, bool):
                raise TypeError(f"{name} must be a number, got {number!r}.")
            if not number >= 0:
                raise ValueError(f"{name} must be at least 0, got {number}.")
            object.__setattr__(self, name, float(number))
        if math.isinf(self.noise):
            raise ValueError("noise must be finite.")
        if math.isinf(self.signal) and not TASKS[self.task].allows_infinite_signal:
            raise ValueError(
                f"signal must be finite for task={self.task!r}, whose hidden token is shifted by "
                "sqrt(signal) along the key; an infinite signal needs task='max'."
            )
        object.__setattr__(self, "length", _canonical_law(self.length))

    @property
    def lengths(self):
        """The possible lengths, ascending: ndarray of int64."""
        return np.array([length for length, _ in self._law()], dtype=np.int64)

    @property
    def length_probabilities(self):
        """The probabilities of `lengths`: ndarray of float64 that sums to one."""
        return np.array([probability for _, probability in self._law()])

    @property
    def mean_length(self):
        """The mean of L."""
        return float(self.lengths @ self.length_probabilities)

    def log_weight(self, chi):
        """Evaluate log g(eps, chi) for every eps along the last axis of chi."""
        return TASKS[self.task].log_weight(chi, self.signal)

    def _law(self):
        if isinstance(self.length, int):
            return [(self.length, 1.0)]
        if isinstance(self.length[0], int):
            return [(length, 1.0 / len(self.length)) for length in self.length]
        return self.length


def _canonical_law(length):
    """Turn any accepted law of L into an int, a sorted tuple of ints, or one of pairs."""
    if isinstance(length, Integral) and not isinstance(length, bool):
        return _check_length(length)
    if isinstance(length, str) or not hasattr(length, "__iter__"):
        raise TypeError(
            "length must be an int, a sequence of ints, or a mapping of ints to probabilities, got "
            f"{length!r}."
        )
    entries = list(length.items() if isinstance(length, Mapping) else length)
    if not entries:
        raise ValueError("length must name at least one length.")
    is_law = isinstance(length, Mapping) or all(
        isinstance(entry, tuple) and len(entry) == 2 for entry in entries
    )
    if not is_law:
        law = tuple(sorted(_check_length(entry) for entry in entries))
        if len(set(law)) < len(law):
            raise ValueError(
                f"length is uniform on distinct lengths, got {list(length)}; pass a mapping of lengths to "
                "probabilities for any other law."
            )
        return law
    law = tuple(sorted((_check_length(L), _check_probability(p)) for L, p in entries))
    if len({L for L, _ in law}) < len(law):
        raise ValueError(f"length names a length twice: {entries}.")
    total = sum(probability for _, probability in law)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"The probabilities of length must sum to 1, got {total}.")
    return tuple((L, probability / total) for L, probability in law if probability > 0)


def _check_length(length):
    if not isinstance(length, Integral) or isinstance(length, bool):
        raise TypeError(f"length must be made of ints, got {length!r}.")
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}.")
    return int(length)


def _check_probability(probability):
    if not isinstance(probability, Real) or not 0 <= probability <= 1:
        raise ValueError(f"A probability of length must lie between 0 and 1, got {probability!r}.")
    return float(probability)

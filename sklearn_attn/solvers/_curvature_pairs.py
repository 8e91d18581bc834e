"""What L-BFGS knows of the curvature."""

import numpy as np

from .._compiled import jit

# Pairs of (step, gradient change) kept, and numbers in them. The recursion is compiled and costs little
# beside a pass over X, and pairs save passes: 200 took 143 on review needles at a small penalty, 50 took 191,
# SciPy with 20 took 240.
_MOST, _FEWEST, _NUMBERS = 200, 20, 2**23
_FASTMATH = {"reassoc", "contract"}


@jit(fastmath=_FASTMATH)
def _first_loop(steps, changes, scales, n, q, shares):
    """Take out of q what the pairs know, the newest first."""
    for m in range(n - 1, -1, -1):
        share = 0.0
        for j in range(q.shape[0]):
            share += steps[m, j] * q[j]
        shares[m] = scales[m] * share
        for j in range(q.shape[0]):
            q[j] -= shares[m] * changes[m, j]


@jit(fastmath=_FASTMATH)
def _second_loop(steps, changes, scales, n, q, shares):
    """Put back what the pairs know, the oldest first."""
    for m in range(n):
        share = 0.0
        for j in range(q.shape[0]):
            share += changes[m, j] * q[j]
        for j in range(q.shape[0]):
            q[j] += (shares[m] - scales[m] * share) * steps[m, j]


def default_size(n_parameters):
    """Return how many pairs are kept by default: 200, fewer where they would fill more than 64 MB."""
    return min(max(_NUMBERS // (2 * n_parameters), _FEWEST), _MOST)


def is_positive(curvature, square):
    """Whether s^T y is positive but for rounding, beside y^T y."""
    return curvature > np.finfo(float).eps * square


class CurvaturePairs:
    """The last steps s and changes of the gradient y, as an approximation of the Hessian.

    Parameters
    ----------
    n_parameters : int
    pairs : iterable of (ndarray, ndarray), optional
        Steps and changes, the oldest first; those without positive curvature s^T y are left out.
    size : int, optional
        How many are kept; by default those of `default_size`.
    """

    def __init__(self, n_parameters, pairs=(), size=None):
        size = default_size(n_parameters) if size is None else size
        self._steps, self._changes = np.empty((2, size, n_parameters))
        self._scales = np.empty(size)  # 1 / s^T y
        self._n = 0
        for step, change in pairs:
            self.add(step, change)

    def __len__(self):
        return self._n

    def __iter__(self):
        """Iterate over (step, change), the oldest first."""
        return zip(self._steps[: self._n], self._changes[: self._n], strict=True)

    def add(self, step, change):
        """Keep a pair, and drop the oldest; leave out one of no positive curvature but for rounding."""
        curvature = float(step @ change)
        if not is_positive(curvature, float(change @ change)):
            return
        if self._n == self._scales.size:
            for array in (self._steps, self._changes, self._scales):
                array[:-1] = array[1:]
            self._n -= 1
        self._steps[self._n], self._changes[self._n], self._scales[self._n] = step, change, 1.0 / curvature
        self._n += 1

    def direction(self, gradient, inverse=None):
        """Compute -H g with the inverse Hessian H of the pairs, by the two-loop recursion.

        `inverse` is what H is without pairs: by default the identity, scaled as the last pair says.
        """
        q, shares = -gradient, np.empty(self._n)
        pairs = self._steps, self._changes, self._scales, self._n
        _first_loop(*pairs, q, shares)
        if inverse is not None:
            q = inverse(q)
        elif self._n:
            change = self._changes[self._n - 1]
            q /= self._scales[self._n - 1] * float(change @ change)  # times s^T y / y^T y
        _second_loop(*pairs, q, shares)
        return q

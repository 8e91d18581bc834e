"""What L-BFGS knows of the curvature, for vectors that are not on the host."""

import numpy as np
from scipy.linalg import solve_triangular

from .._backend import array_namespace, device, is_numpy_array, to_numpy
from ._curvature_pairs import CurvaturePairs, default_size, is_positive


def curvature_pairs(like, pairs=(), size=None):
    """Make the container of pairs for vectors such as `like`, on the host or elsewhere.

    Parameters
    ----------
    like : array of float64 of shape (n_parameters,)
    pairs, size
        As in `CurvaturePairs`.

    Returns
    -------
    CurvaturePairs or ArrayCurvaturePairs
    """
    if is_numpy_array(like):
        return CurvaturePairs(like.shape[0], pairs, size)
    return ArrayCurvaturePairs(like, pairs, size)


class ArrayCurvaturePairs:
    """As `CurvaturePairs`, in any namespace: vectors stay where they are, their products go to the host.

    With the steps S and changes Y as rows, the inverse Hessian of m pairs is, in compact form [1]_,

        H g = gamma g - gamma Y^T r + S^T R^-T (diag(s_i^T y_i) r + gamma Y Y^T r - gamma Y g)

    with r = R^-1 S g, where R is the upper triangle of S Y^T and gamma = s^T y / y^T y of the newest pair. So
    a direction takes two products with S and two with Y, and 4 m numbers travel, whatever the length of the
    vectors.

    Parameters
    ----------
    like : array of float64 of shape (n_parameters,)
        Whose namespace and device the vectors have.
    pairs : iterable of (array, array), optional
        Steps and changes, the oldest first; those without positive curvature s^T y are left out.
    size : int, optional
        How many are kept; by default those of `default_size`.

    References
    ----------
    .. [1] R. H. Byrd, J. Nocedal, R. B. Schnabel, Representations of quasi-Newton matrices and their use in
       limited memory methods, Mathematical Programming 63 (1994), theorem 2.2.
    """

    def __init__(self, like, pairs=(), size=None):
        xp = array_namespace(like)
        size = default_size(like.shape[0]) if size is None else size
        shape = size, like.shape[0]
        self._steps, self._changes = (xp.zeros(shape, dtype=like.dtype, device=device(like)) for _ in "sy")
        # s_i^T y_j and y_i^T y_j, by places; a place is taken anew when its pair is the oldest.
        self._step_changes, self._change_changes = np.zeros((2, size, size))
        self._places = []  # the oldest first
        for step, change in pairs:
            self.add(step, change)

    def __len__(self):
        return len(self._places)

    def __iter__(self):
        """Iterate over (step, change), the oldest first."""
        return ((self._steps[place, :], self._changes[place, :]) for place in list(self._places))

    def add(self, step, change):
        """Keep a pair, and drop the oldest; leave out one of no positive curvature but for rounding."""
        curvature, square = float(step @ change), float(change @ change)
        if not is_positive(curvature, square):
            return
        size = self._step_changes.shape[0]
        place = len(self._places) if len(self._places) < size else self._places.pop(0)
        self._steps[place, :], self._changes[place, :] = step, change
        self._places.append(place)
        held = len(self._places)
        self._step_changes[:held, place] = to_numpy(self._steps[:held, :] @ change)
        products = to_numpy(self._changes[:held, :] @ change)
        self._change_changes[:held, place] = self._change_changes[place, :held] = products

    def direction(self, gradient, inverse=None):
        """Compute -H g; see `CurvaturePairs.direction`. An `inverse` is known on the host only."""
        if inverse is not None:
            raise NotImplementedError("Off the host L-BFGS starts from a multiple of the identity.")
        if not self._places:
            return -gradient
        held, newest = len(self._places), self._places[-1]
        order = np.array(self._places)
        grid = np.ix_(order, order)
        upper = np.triu(self._step_changes[grid])
        curvatures = np.diag(upper)
        gamma = float(curvatures[-1] / self._change_changes[newest, newest])
        step_products = to_numpy(self._steps[:held, :] @ gradient)[order]
        change_products = to_numpy(self._changes[:held, :] @ gradient)[order]
        r = solve_triangular(upper, step_products, check_finite=False)
        rest = curvatures * r + gamma * (self._change_changes[grid] @ r - change_products)
        coefficients = np.empty((2, held))
        coefficients[0, order] = solve_triangular(upper, rest, trans="T", check_finite=False)
        coefficients[1, order] = -gamma * r
        xp = array_namespace(gradient)
        coefficients = xp.asarray(coefficients, device=device(gradient))
        known = coefficients[0, :] @ self._steps[:held, :] + coefficients[1, :] @ self._changes[:held, :]
        return -(gamma * gradient + known)

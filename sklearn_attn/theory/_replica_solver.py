"""Solve the replica-symmetric equations: from a start to a fixed point of `ReplicaMap`."""

import itertools

import numpy as np

from ._fixed_point import FixedPoint, fixed_point

COARSE_POINTS = 1024
_COARSE_TOL = 1e-3
# Of the coarse steps, one in this many looks for global proximal minima; the others follow those at hand.
_SEARCH_EVERY = 3
# Coarse fixed points nearer than this are the same one.
_SAME = 0.02
_MAX_NEWTON = 16
_PROXIMAL_TOL = 0.01  # of the fixed point's own tolerance
_SMALL_SPREAD = 1e-6  # of q - m^2, below which it counts as none
_LARGEST_COORDINATE = 30.0  # beyond, an iterate has run away
DIFFERENCE = 1e-3  # of free coordinates, in derivatives


def are_same(u, other):
    """Tell whether two coarse solutions, in free coordinates, are one fixed point."""
    return bool(np.all(np.abs(u - other) <= _SAME * (1.0 + np.abs(u))))


def to_free(x):
    """Coordinates in which any numbers are order parameters, and differences are relative ones.

    asinh m, log(q - m^2) and log V: q - m^2 > 0 however large m is. A small constant under the first
    logarithm lets q vanish, as it does where nothing tells the key.
    """
    m, q, V = x[:2], x[2:4], x[4:]
    return np.concatenate([np.arcsinh(m), np.log(np.maximum(q - m**2, 0.0) + _SMALL_SPREAD), np.log(V)])


def from_free(u):
    """Order parameters of free coordinates."""
    m = np.sinh(u[:2])
    spread = np.maximum(np.exp(u[2:4]) - _SMALL_SPREAD, 1e-3 * _SMALL_SPREAD)
    return np.concatenate([m, m**2 + spread, np.exp(u[4:])])


def _is_sane(u):
    return bool(np.all(np.abs(u) < _LARGEST_COORDINATE))


def _stepper(replica_map, tol, search_every):
    """The map in free coordinates; of `search_every` steps the first looks for global proximal minima."""
    n_steps = itertools.count()

    def step(u):
        search = next(n_steps) % search_every == 0
        return to_free(replica_map(from_free(u), search=search, tol=_PROXIMAL_TOL * tol))

    return step


def coarse_solution(coarse, start, max_iter):
    """Free coordinates of a fixed point with few draws."""
    if not max_iter:
        return FixedPoint(x=to_free(start), residual=np.inf, n_iter=0, converged=False)
    return fixed_point(
        _stepper(coarse, _COARSE_TOL, _SEARCH_EVERY),
        to_free(start),
        tol=_COARSE_TOL,
        max_iter=max_iter,
        admissible=_is_sane,
    )


def refine(fine, coarse, candidate, tol, max_iter):
    """Go on from a coarse fixed point with all the draws.

    Steps are Newton's, with the Jacobian of the coarse map. Every other evaluation only follows the proximal
    minima at hand, which is several times as fast as a search for the global ones; a search alone decides
    whether a fixed point was reached. Where that fails, the accelerated iteration takes over.
    """
    u, n_iter = candidate.x, candidate.n_iter
    max_iter -= n_iter
    response = response_of(coarse, u)
    step = _stepper(fine, tol, 2)
    converged, last_size = False, np.inf
    for n in range(min(_MAX_NEWTON, max_iter)):
        residual = step(u) - u
        n_iter += 1
        size = float(np.abs(residual).max())
        if n % 2 == 0:
            converged = size <= tol
            if converged or not size < 0.5 * last_size:
                break
            last_size = size
        newton = u + response @ residual
        if not _is_sane(newton):
            break
        u = newton
    left = max_iter - n - 1
    while not converged and left > 0:
        step = _stepper(fine, tol, _SEARCH_EVERY)
        solution = fixed_point(step, u, tol=tol, max_iter=left, admissible=_is_sane)
        u, left, n_iter = solution.x, left - solution.n_iter, n_iter + solution.n_iter
        size = solution.residual
        # The last step may only have followed; the next one searches.
        converged = solution.converged and solution.n_iter % _SEARCH_EVERY == 1
    return FixedPoint(x=u, residual=size, n_iter=n_iter, converged=converged)


def response_of(replica_map, u):
    """(I - F')^{-1} in free coordinates, by differences."""
    base = to_free(replica_map(from_free(u)))
    jacobian = np.array(
        [(to_free(replica_map(from_free(u + h))) - base) / DIFFERENCE for h in DIFFERENCE * np.eye(6)]
    ).T
    return np.linalg.pinv(np.eye(6) - jacobian, rcond=1e-6)

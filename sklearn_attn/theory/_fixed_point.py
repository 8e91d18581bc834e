"""Fixed points x = F(x) of a few dimensions, by damped iteration with Anderson acceleration."""

from dataclasses import dataclass

import numpy as np

_MEMORY = 4
_MAX_GROWTH = 2.0


@dataclass(frozen=True)
class FixedPoint:
    """A fixed point, or the last iterate where none was reached.

    Attributes
    ----------
    x : ndarray of shape (d,)
    residual : float
        ``max |F(x) - x|``, of the map itself and not of a damped step.
    n_iter : int
        Evaluations of F.
    converged : bool
        Whether the residual is at most `tol`.
    """

    x: np.ndarray
    residual: float
    n_iter: int
    converged: bool


def fixed_point(F, start, *, tol, max_iter, damping=0.4, accelerate_below=0.3, admissible=None):
    """Solve x = F(x).

    A step goes to the damped iterate ``(1 - damping) F(x) + damping x`` or, once the residual is small,
    to the combination of the last iterates whose residual is least (Anderson 1965), damped alike; not
    where that leaves the admissible set or the residual grew.

    Parameters
    ----------
    F : callable
        From (d,) to (d,).
    start : array-like of shape (d,)
    tol : float
    max_iter : int
    damping : float, default=0.4
        Share of the old iterate that is kept.
    accelerate_below : float, default=0.3
        Residual below which combinations are tried: far from a fixed point they mislead. 0 keeps to damped
        iterates, which do not leave the basin of attraction they start in.
    admissible : callable, optional
        Tells whether F may be evaluated at a point.

    Returns
    -------
    FixedPoint
    """
    x = np.array(start, dtype=float)
    history = []
    best_residual = np.inf
    for n_iter in range(1, max_iter + 1):
        residual = F(x) - x
        size = float(np.abs(residual).max())
        if size <= tol or n_iter == max_iter or not np.isfinite(size):
            break
        if size > _MAX_GROWTH * best_residual:
            history = []
        best_residual = min(best_residual, size)
        history = [*history[-_MEMORY:], (x, residual)] if size < accelerate_below else []
        plain = x + (1.0 - damping) * residual
        x = _anderson(history, 1.0 - damping) if len(history) > 1 else plain
        if not np.all(np.isfinite(x)) or (admissible is not None and not admissible(x)):
            history, x = [], plain
    return FixedPoint(x=x, residual=size, n_iter=n_iter, converged=bool(size <= tol))


def _anderson(history, mixing):
    x, residual = history[-1]
    dx = np.array([x - old for old, _ in history[:-1]]).T
    dr = np.array([residual - old for _, old in history[:-1]]).T
    coefficients, *_ = np.linalg.lstsq(dr, residual, rcond=1e-8)
    return x + mixing * residual - (dx + mixing * dr) @ coefficients

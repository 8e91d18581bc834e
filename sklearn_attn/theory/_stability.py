"""Local stability of the replica-symmetric solution (the replicon of de Almeida and Thouless)."""

import numpy as np

from .._compiled import ACTIVATION_CODES
from ._proximal import potential_derivatives

_MAX_NUMBERS = 2**22  # of the (n, 2L, 2L) matrices held at a time
# Draws that are looked at: all of short sequences, 4,096 of eight tokens, fewer of longer ones.
_FEWEST, _MOST_WORK = 2**12, 2**20


def replicon(replica_map, x):
    """Compute the spectral radius of the replicon matrix at a fixed point.

        S_ab = n V_a^2 E[sum_{l,m} (d f_a,l / d omega_b,m)^2],   d f / d omega = -(I + H V)^{-1} H

    with a, b in {key, value}, V = diag(V_k, V_v) and H the Hessian of ``(y - sigma(chi)^T z)^2 / 2`` in
    (chi, z) at the proximal point.

    Parameters
    ----------
    replica_map : ReplicaMap
    x : ndarray of shape (6,)
        Its fixed point, at which it was just evaluated.

    Returns
    -------
    float
        Below 1 the solution is stable. Jumps of the proximal point from one minimum to another are
        not counted. The average has a heavy tail, from draws whose minima are about to merge, so that it
        is taken over all draws of short sequences.
    """
    V = x[4:6]
    S = np.zeros((2, 2))
    for draws in replica_map.draws:
        L = draws.L
        (_, omega_z, _, _, _, _), sigma, lam = draws.proximal_points(replica_map.activation, x, False, 1e-8)
        z_hat = omega_z + V[1] * lam[:, None] * sigma
        rows = np.arange(min(lam.shape[0], max(256, _FEWEST * 8 // max(L, 8), _MOST_WORK // L**2)))
        squares = np.zeros((2, 2))
        chunk = max(1, _MAX_NUMBERS // (2 * L) ** 2)
        for start in range(0, rows.size, chunk):
            some = rows[start : start + chunk]
            H = loss_hessian(replica_map.activation, draws.chi_hat[some], z_hat[some], sigma[some], lam[some])
            derivative = np.linalg.solve(np.eye(2 * L) + H * np.repeat(V, L), H)
            squares += (derivative**2).reshape(-1, 2, L, 2, L).sum(axis=(0, 2, 4))
        S += draws.probability * squares / rows.size
    S *= replica_map.sample_ratio * V[:, None] ** 2
    return float(np.abs(np.linalg.eigvals(S)).max())


def loss_hessian(activation, chi, z, sigma, residual):
    """Hessian of ``(y - sigma(chi)^T z)^2 / 2`` in (chi, z).

    Parameters
    ----------
    activation : Activation
    chi, z, sigma : ndarray of shape (n, L)
        sigma = sigma(chi).
    residual : ndarray of shape (n,)
        y - sigma^T z.

    Returns
    -------
    ndarray of shape (n, 2L, 2L)
    """
    n, L = chi.shape
    slope, curvature = np.empty_like(chi), np.empty_like(chi)
    kind, offset = ACTIVATION_CODES[activation.name], getattr(activation, "offset", 0.0)
    potential_derivatives(kind, offset, chi, slope, curvature)
    eye = np.eye(L)
    if activation.normalised:
        jacobian = (eye * sigma[:, :, None] - sigma[:, :, None] * sigma[:, None, :]) * slope[:, None, :]
        centred = sigma * (z - np.sum(sigma * z, axis=1, keepdims=True))
        second = eye * centred[:, :, None]
        second -= sigma[:, :, None] * centred[:, None, :] + centred[:, :, None] * sigma[:, None, :]
        second *= slope[:, :, None] * slope[:, None, :]
        second += eye * (centred * curvature)[:, :, None]
    else:
        jacobian = eye * slope[:, None, :]
        second = eye * (z * curvature)[:, :, None]
    pulled = np.einsum("nlm,nl->nm", jacobian, z)  # J^T z
    r = residual[:, None, None]
    H = np.empty((n, 2 * L, 2 * L))
    H[:, :L, :L] = pulled[:, :, None] * pulled[:, None, :] - r * second
    H[:, :L, L:] = pulled[:, :, None] * sigma[:, None, :] - r * np.swapaxes(jacobian, 1, 2)
    H[:, L:, :L] = np.swapaxes(H[:, :L, L:], 1, 2)
    H[:, L:, L:] = sigma[:, :, None] * sigma[:, None, :]
    return H

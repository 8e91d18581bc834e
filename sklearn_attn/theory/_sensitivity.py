"""Derivatives of the proximal point's functions with respect to its fields, in closed form.

With P the Hessian of the proximal objective in chi (that of the loss plus I / V_k), A = 1 + V_v |sigma|^2,
z_hat = omega_z + V_v lambda sigma, a = z_hat + V_v lambda sigma and J = dsigma/dchi,

    C = d2 / (dchi domega_z) = (J^T a) sigma^T / A - lambda J^T
    sum_l d f_chi,l / d omega_chi,l = (tr(P^{-1}) / V_k - L) / V_k
    sum_l d f_z,l / d omega_z,l     = -|sigma|^2 / A + tr(C^T P^{-1} C)
    d f_z,l / d y                   = (sigma_l - C_l^T P^{-1} J^T a) / A

They leave out the jumps of the proximal point from one minimum to another.
"""

import numpy as np

from .._compiled import jit, potential
from ._proximal import factorise_shifted, loss_derivatives, solve_factorised


@jit
def sensitivities(kind, normalised, offset, w, V_k, V_v, chi, sigma, lam, first, last, out):
    """Fill the three derivatives of the samples `first` to `last`.

    Parameters
    ----------
    kind, normalised, offset : int, bool, float
        The activation: its code in `ACTIVATION_CODES`, its flag and its offset.
    w : ndarray of shape (n, L)
        omega_z.
    V_k, V_v : float
    chi, sigma : ndarray of shape (n, L)
        The proximal point and its weights.
    lam : ndarray of shape (n,)
    first, last : int
    out : ndarray of shape (n, 3)
        Out: the two sums, and d f_z,0 / d y.
    """
    L = chi.shape[1]
    H, factor, J, C = np.empty((L, L)), np.empty((L, L)), np.empty((L, L)), np.empty((L, L))
    slope, pulled, right, x = np.empty(L), np.empty(L), np.empty(L), np.empty(L)
    for s in range(first, last):
        square = 0.0
        for i in range(L):
            slope[i] = potential(kind, chi[s, i], offset)[1]
            square += sigma[s, i] * sigma[s, i]
        A = 1.0 + V_v * square
        loss_derivatives(kind, normalised, offset, V_v, w[s], lam[s], A, chi[s], sigma[s], slope, x, H)
        for j in range(L):
            pulled[j] = 0.0
            for i in range(L):
                entry = 1.0 if i == j else 0.0
                J[i, j] = slope[j] * (sigma[s, i] * (entry - sigma[s, j]) if normalised else entry)
                pulled[j] += J[i, j] * (w[s, i] + 2.0 * V_v * lam[s] * sigma[s, i])
        trace = coupling = by_y = 0.0
        if not factorise_shifted(H, 1.0 / V_k, factor):  # the point is no minimum
            out[s, 0] = out[s, 1] = out[s, 2] = 0.0
            continue
        for column in range(L):
            for i in range(L):
                C[i, column] = pulled[i] * sigma[s, column] / A - lam[s] * J[column, i]
                right[i] = -1.0 if i == column else 0.0
            solve_factorised(factor, right, x)
            trace += x[column]
            for i in range(L):
                right[i] = -C[i, column]
            solve_factorised(factor, right, x)
            for i in range(L):
                coupling += C[i, column] * x[i]
                if column == 0:
                    by_y += pulled[i] * x[i]
        out[s, 0] = (trace / V_k - L) / V_k
        out[s, 1] = coupling - square / A
        out[s, 2] = (sigma[s, 0] - by_y) / A

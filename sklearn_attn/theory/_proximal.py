"""The proximal step of replica theory: the global minimum of a small non-convex problem per sample.

For one sequence of L tokens, with fields w = omega_z and o = omega_chi (theory, section 4),

    chi_hat = argmin_chi  (y - sigma(chi)^T w)^2 / (2 (1 + V_v |sigma(chi)|^2)) + |chi - o|^2 / (2 V_k)
    lambda  = (y - sigma^T w) / (1 + V_v |sigma|^2),   f_chi = (chi_hat - o) / V_k,   f_z = lambda sigma

The minimum over z is closed: z_hat = w + V_v lambda sigma. With J = dsigma/dchi the gradient of the
loss is -lambda J^T z_hat. Its Hessian follows from that with respect to sigma,

    H_sigma = a a^T / (1 + V_v |sigma|^2) - lambda^2 V_v I,   a = w + 2 V_v lambda sigma

as J^T H_sigma J - lambda sum_j z_hat_j d2 sigma_j / dchi2. Newton steps with a Levenberg shift run to a
local minimum from several starts: the previous minimum, o, and the best points of a scan about o in which
one token's score moves at a time (attend to it, or ignore it) or takes the place of the largest one. A second
scan, about the lowest minimum found, adds moves of several tokens. The lowest minimum wins: of 14,400 samples
with fields drawn at random and large V it was the one that forty random starts found, or lower.
"""

import math

import numpy as np

from .._compiled import curvature, jit, potential

_MAX_NEWTON = 60
_N_STARTS = 8
# A run from another start ends this near a minimum that is known, in units of sqrt(V_k).
_SAME_POINT = 5e-2
# Around the best point found, starts are taken up to this much above it.
_WORSE = 0.3
# Shifts of one token's score in the scan, up and down, in units of sqrt(1 + V_k).
_SHIFTS = (0.7, 1.5, 3.0, 6.0)


@jit
def _weights(kind, normalised, offset, chi, sigma, slope):
    """Fill the attention weights and the potential's slopes."""
    L = chi.shape[0]
    top = -np.inf
    for i in range(L):
        sigma[i], slope[i] = potential(kind, chi[i], offset)
        top = max(top, sigma[i])
    if normalised:
        total = 0.0
        for i in range(L):
            sigma[i] = math.exp(sigma[i] - top)
            total += sigma[i]
        for i in range(L):
            sigma[i] /= total


@jit
def _value(sample, chi, sigma):
    """Evaluate the objective, lambda and 1 + V_v |sigma|^2, given the weights."""
    y, w, o, V_k, V_v = sample
    fit = square = distance = 0.0
    for i in range(chi.shape[0]):
        fit += sigma[i] * w[i]
        square += sigma[i] * sigma[i]
        distance += (chi[i] - o[i]) ** 2
    lam = (y - fit) / (1.0 + V_v * square)
    return 0.5 * lam * (y - fit) + 0.5 * distance / V_k, lam, 1.0 + V_v * square


@jit
def loss_derivatives(kind, normalised, offset, V_v, w, lam, scale, chi, sigma, slope, gradient, H):
    """Gradient and Hessian with respect to chi of the loss alone, (y - sigma^T w)^2 / (2 scale)."""
    L = sigma.shape[0]
    z_mean = a_mean = square = 0.0
    if normalised:
        for i in range(L):
            z_mean += sigma[i] * (w[i] + V_v * lam * sigma[i])
            a_mean += sigma[i] * (w[i] + 2.0 * V_v * lam * sigma[i])
            square += sigma[i] * sigma[i]
    for i in range(L):
        z_i = w[i] + V_v * lam * sigma[i] - z_mean
        a_i = w[i] + 2.0 * V_v * lam * sigma[i] - a_mean
        p_i = sigma[i] if normalised else 1.0
        gradient[i] = -lam * p_i * z_i * slope[i]
        for j in range(i + 1):
            z_j = w[j] + V_v * lam * sigma[j] - z_mean
            a_j = w[j] + 2.0 * V_v * lam * sigma[j] - a_mean
            if normalised:
                # J_u = diag(sigma) - sigma sigma^T, so J_u^2 and sum_j z_j d2 sigma_j / du2 are:
                squared = sigma[i] * sigma[j] * (square - sigma[i] - sigma[j])
                second = -sigma[i] * sigma[j] * (z_i + z_j)
                if i == j:
                    squared += sigma[i] * sigma[i]
                    second += sigma[i] * z_i
                entry = sigma[i] * a_i * sigma[j] * a_j / scale - lam * lam * V_v * squared - lam * second
            else:
                entry = a_i * a_j / scale
                if i == j:
                    entry -= lam * lam * V_v
            entry *= slope[i] * slope[j]
            if i == j:
                entry -= lam * p_i * z_i * curvature(kind, chi[i], offset)
            H[i, j] = entry
            H[j, i] = entry


@jit
def factorise_shifted(H, shift, factor):
    """Fill the Cholesky factor of H + shift I; False where that is not positive definite."""
    L = H.shape[0]
    for i in range(L):
        for j in range(i + 1):
            total = H[i, j]
            if i == j:
                total += shift
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i == j:
                if total <= 1e-12 * shift:
                    return False
                factor[i, i] = math.sqrt(total)
            else:
                factor[i, j] = total / factor[j, j]
    return True


@jit
def solve_factorised(factor, gradient, step):
    """Solve F F^T step = -gradient for the factor F."""
    L = gradient.shape[0]
    for i in range(L):
        total = -gradient[i]
        for m in range(i):
            total -= factor[i, m] * step[m]
        step[i] = total / factor[i, i]
    for i in range(L - 1, -1, -1):
        total = step[i]
        for m in range(i + 1, L):
            total -= factor[m, i] * step[m]
        step[i] = total / factor[i, i]


@jit
def _minimise(kind, normalised, offset, sample, chi, known, work, H, factor, tol):
    """Newton steps from `chi`, in place; returns the objective reached, infinite on the way to `known`."""
    L = chi.shape[0]
    _, w, o, V_k, V_v = sample
    sigma, slope, gradient, step, trial = work[0], work[1], work[2], work[3], work[4]
    _weights(kind, normalised, offset, chi, sigma, slope)
    value, lam, scale = _value(sample, chi, sigma)
    levenberg = 0.0
    for _ in range(_MAX_NEWTON):
        loss_derivatives(kind, normalised, offset, V_v, w, lam, scale, chi, sigma, slope, gradient, H)
        largest = 0.0
        for i in range(L):
            gradient[i] += (chi[i] - o[i]) / V_k
            largest = max(largest, abs(gradient[i]))
        if largest * V_k <= tol:
            break
        accepted = False
        for _ in range(40):
            if factorise_shifted(H, 1.0 / V_k + levenberg, factor):
                solve_factorised(factor, gradient, step)
                decrease = 0.0
                for i in range(L):
                    trial[i] = chi[i] + step[i]
                    decrease -= gradient[i] * step[i]
                _weights(kind, normalised, offset, trial, sigma, slope)
                new_value, new_lam, new_scale = _value(sample, trial, sigma)
                if new_value <= value - 1e-4 * decrease:
                    accepted = True
                    break
                if decrease <= 1e-14 * (1.0 + abs(value)):
                    break  # at rounding: no step can show a decrease
            levenberg = max(4.0 * levenberg, 0.25 / V_k)
        if not accepted:
            break
        levenberg = 0.25 * levenberg if levenberg > 0.1 / V_k else 0.0
        apart = 0.0
        for i in range(L):
            chi[i] = trial[i]
            apart = max(apart, abs(chi[i] - known[i]))
        if apart < _SAME_POINT * math.sqrt(V_k):
            return np.inf
        value, lam, scale = new_value, new_lam, new_scale
    return value


@jit
def _scan(kind, normalised, offset, sample, centre, work, starts, values):
    """Find the best points centre + t e_l and centre + t (e_l - e_top): fills `starts` and `values`.

    Over tokens l and shifts t; top is the token of largest score, whose place another one takes. At most two
    tokens move, so that each point costs a few operations whatever L.
    """
    y, w, o, V_k, V_v = sample
    L = o.shape[0]
    leader = 0
    for i in range(L):
        if centre[i] > centre[leader]:
            leader = i
    p = work[0]  # exp(u - max u), or u where the weights are not normalised
    top = 0.0
    distance = 0.0
    for i in range(L):
        p[i] = potential(kind, centre[i], offset)[0]
        top = max(top, p[i]) if i else p[i]
        distance += (centre[i] - o[i]) ** 2
    total = fit = square = 0.0
    for i in range(L):
        p[i] = math.exp(p[i] - top) if normalised else p[i]
        total += p[i]
        fit += p[i] * w[i]
        square += p[i] * p[i]
    values[:] = np.inf
    unit = math.sqrt(1.0 + V_k)
    for candidate in range(3 * L):
        token, move = candidate // 3, candidate % 3  # moves: down, up, to the top
        swaps = move == 2
        if swaps and token == leader:
            continue
        best, best_shift = np.inf, 0.0
        for i in range(len(_SHIFTS)):
            shift = unit * (_SHIFTS[i] if move else -_SHIFTS[i])
            moved = potential(kind, centre[token] + shift, offset)[0]
            moved = math.exp(moved - top) if normalised else moved
            change = moved - p[token]
            new_total, new_fit = total + change, fit + change * w[token]
            new_square = square + moved * moved - p[token] * p[token]
            if swaps:
                moved = potential(kind, centre[leader] - shift, offset)[0]
                moved = math.exp(moved - top) if normalised else moved
                change = moved - p[leader]
                new_total, new_fit = new_total + change, new_fit + change * w[leader]
                new_square += moved * moved - p[leader] * p[leader]
            scale = 1.0 / new_total if normalised else 1.0
            residual = y - scale * new_fit
            apart = distance + shift * (shift + 2.0 * (centre[token] - o[token]))
            if swaps:
                apart += shift * (shift - 2.0 * (centre[leader] - o[leader]))
            value = 0.5 * residual * residual / (1.0 + V_v * scale * scale * new_square) + 0.5 * apart / V_k
            if value < best:
                best, best_shift = value, shift
        # One start per token and move, the best few of them.
        slot = values.shape[0] - 1
        if best >= values[slot]:
            continue
        while slot > 0 and values[slot - 1] > best:
            values[slot] = values[slot - 1]
            starts[slot] = starts[slot - 1]
            slot -= 1
        values[slot] = best
        for i in range(L):
            starts[slot, i] = centre[i]
        starts[slot, token] += best_shift
        if swaps:
            starts[slot, leader] -= best_shift


@jit
def proximal(kind, normalised, offset, y, w, o, V_k, V_v, search, tol, first, last, chi, sigma, lam):
    """Solve the proximal step of the samples `first` to `last`.

    Parameters
    ----------
    kind, normalised, offset : int, bool, float
        The activation: its code in `ACTIVATION_CODES`, its flag and its offset.
    y : ndarray of shape (n,)
    w, o : ndarray of shape (n, L)
        omega_z and omega_chi.
    V_k, V_v : float
    search : bool
        Look for the global minimum; otherwise only follow the minimum that `chi` holds.
    tol : float
        Bound on V_k times the largest component of the gradient: an error in chi_hat.
    first, last : int
    chi : ndarray of shape (n, L)
        In: points to start from. Out: chi_hat.
    sigma : ndarray of shape (n, L)
        Out: sigma(chi_hat).
    lam : ndarray of shape (n,)
        Out: lambda.
    """
    L = o.shape[1]
    work = np.empty((5, L))
    H, factor = np.empty((L, L)), np.empty((L, L))
    starts, values = np.empty((_N_STARTS + 1, L)), np.empty(_N_STARTS)
    nowhere = np.full(L, np.inf)
    for s in range(first, last):
        sample = y[s], w[s], o[s], V_k, V_v
        best = _minimise(kind, normalised, offset, sample, chi[s], nowhere, work, H, factor, tol)
        for scan in range(2 if search else 0):  # about the fields, then about the best point found
            centre = starts[_N_STARTS]
            centre[:] = chi[s] if scan else o[s]
            _scan(kind, normalised, offset, sample, centre, work, starts, values)
            for start in range(_N_STARTS + 1):
                # The fields themselves come last.
                value = values[start] if start < _N_STARTS else -np.inf
                if value == np.inf or (scan and not (best + _WORSE >= value > -np.inf)):
                    continue
                value = _minimise(
                    kind, normalised, offset, sample, starts[start], chi[s], work, H, factor, tol
                )
                if value < best - 1e-12 * (1.0 + abs(best)):
                    best = value
                    chi[s] = starts[start]
        _weights(kind, normalised, offset, chi[s], sigma[s], work[1])
        lam[s] = _value(sample, chi[s], sigma[s])[1]


@jit
def potential_derivatives(kind, offset, chi, slopes, curvatures):
    """Fill u' and u'' of every score; arrays of shape (n, L)."""
    for s in range(chi.shape[0]):
        for i in range(chi.shape[1]):
            slopes[s, i] = potential(kind, chi[s, i], offset)[1]
            curvatures[s, i] = curvature(kind, chi[s, i], offset)

"""Second implementations that the theory's tests compare with: slow, plain, and written from the definitions.

Nothing here calls the package beyond the record of a problem.
"""

import math

import numpy as np
from scipy.special import erf, ndtr

INF = float("inf")
NAMES = ("softmax", "linear", "erf", "softplus")


def weights(name, chi, offset=0.0):
    """sigma(chi) along the last axis, from their definitions; chi may be complex."""
    if name == "linear":
        return 1.0 + chi
    if name == "erf":
        return 1.0 + erf(offset + chi)
    positive = np.exp(chi) if name == "softmax" else np.log1p(np.exp(chi))
    return positive / positive.sum(axis=-1, keepdims=True)


def directions(overlaps):
    """Return k*, v*, k, v in R^4, of which these are the order parameters at D = 4; rows of a (4, 4) array."""
    eigenvalues, vectors = np.linalg.eigh(overlaps.gram())
    return 2.0 * vectors * np.sqrt(np.maximum(eigenvalues, 0.0))


def draw_sequences(problem, L, n, key, value, rng):
    """Draw the data model of the task in D dimensions: tokens (n, L, D), targets and locations (n,)."""
    D = key.shape[0]
    X = rng.standard_normal((n, L, D))
    chi = X @ key / math.sqrt(D)
    if problem.task == "spiked":
        eps = rng.integers(L, size=n)
        X[np.arange(n), eps] += math.sqrt(problem.signal / D) * key
    elif math.isinf(problem.signal):
        eps = chi.argmax(axis=1)
    else:
        p = np.exp(problem.signal * (chi - chi.max(axis=1, keepdims=True)))
        cumulated = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
        eps = np.minimum((rng.random((n, 1)) > cumulated).sum(axis=1), L - 1)
    z = X @ value / math.sqrt(D)
    return X, z[np.arange(n), eps] + problem.noise * rng.standard_normal(n), eps


def monte_carlo_risk(problem, name, overlaps, n, rng, offset=0.0):
    """Mean squared error in four dimensions, where it is exact, and its standard error."""
    key_star, value_star, key, value = directions(overlaps)
    mean = variance = 0.0
    for L, probability in zip(problem.lengths.tolist(), problem.length_probabilities, strict=True):
        X, y, _ = draw_sequences(problem, L, n, key_star, value_star, rng)
        f = np.sum(weights(name, X @ key / 2.0, offset) * (X @ value / 2.0), axis=1)
        mean += probability * np.mean((y - f) ** 2)
        variance += probability**2 * np.var((y - f) ** 2) / n
    return mean, math.sqrt(variance)


def gauss_hermite(n):
    """Nodes and weights of the standard normal law."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return x, w / w.sum()


def on_a_line(function, n=4001, width=12.0):
    """E[function(g)], g standard normal, by the trapezoid rule, which converges exponentially here."""
    g = np.linspace(-width, width, n)
    density = np.exp(-0.5 * g**2) / math.sqrt(2.0 * math.pi) * (g[1] - g[0])
    return float(density @ function(g))


def softmax_of_normals(mean, V, signal, n=1201, width=6.5):
    """E[softmax(signal chi)], chi ~ N(mean, V I), for L = 2 or 3 tokens by the trapezoid rule on the differences."""
    sd = math.sqrt(V)
    t, step = np.linspace(-width, width, n, retstep=True)
    density = np.exp(-0.5 * t**2) * step / math.sqrt(2.0 * math.pi)
    d_1 = mean[0] - mean[1] + sd * math.sqrt(2.0) * t  # chi_0 - chi_1
    if len(mean) == 2:
        first = density @ (1.0 / (1.0 + np.exp(-np.clip(signal * d_1, -700.0, 700.0))))
        return np.array([first, 1.0 - first])
    # Given chi_0 - chi_1, chi_0 - chi_2 is normal with slope 1/2 and variance 3/2 V.
    d_2 = mean[0] - mean[2] + sd * (t[:, None] / math.sqrt(2.0) + math.sqrt(1.5) * t)
    scores = signal * np.stack(np.broadcast_arrays(0.0, -d_1[:, None], -d_2))
    p = np.exp(scores - scores.max(axis=0))
    p /= p.sum(axis=0)
    return np.einsum("lij,i,j->l", p, density, density)


def argmax_of_normals(mean, V, n=2001, width=9.0):
    """P(l is the argmax of chi), chi ~ N(mean, V I), by the trapezoid rule; mean of shape (..., L)."""
    sd = math.sqrt(V)
    t, step = np.linspace(-width, width, n, retstep=True)
    density = np.exp(-0.5 * t**2) * step / math.sqrt(2.0 * math.pi)
    mean = np.asarray(mean)
    L = mean.shape[-1]
    probabilities = []
    for e in range(L):
        x = mean[..., e, None] + sd * t  # (..., n)
        below = np.ones_like(x)
        for m in range(L):
            if m != e:
                below = below * ndtr((x - mean[..., m, None]) / sd)
        probabilities.append(below @ density)
    return np.stack(probabilities, axis=-1)


def ridge_theory(sample_ratio, alpha, noise):
    """Ridge regression of y = x.v*/sqrt(D) + noise xi at penalty alpha |v|^2, x ~ N(0, I), N / D fixed.

    With S = X^T X / N and lambda = alpha / n the Marchenko-Pastur law gives g = tr (S + lambda)^{-1} / D, the
    positive root of lambda g^2 / n + (1 - 1/n + lambda) g = 1.

    Returns
    -------
    dict
        test_error, train_error, m_value, q_value, V_value
    """
    n, s, lam = sample_ratio, noise**2, alpha / sample_ratio
    c = 1.0 / n

    def root(t):
        b = 1.0 - c + t
        return (-b + np.sqrt(b * b + 4.0 * c * t)) / (2.0 * c * t)

    # -g' = tr (S + lambda)^{-2} / D, by the derivative of the quadratic
    g = root(lam)
    g2 = (c * g**2 + g) / (2.0 * c * lam * g + 1.0 - c + lam)
    rest = g - lam * g2  # tr S (S + lambda)^{-2} / D
    return {
        "test_error": lam**2 * g2 + s * c * rest + s,
        "train_error": lam**2 * rest + s * (1.0 - c + c * lam**2 * g2),
        "m_value": 1.0 - lam * g,
        "q_value": 1.0 - 2.0 * lam * g + lam**2 * g2 + s * c * rest,
        "V_value": c * g,
    }


def linear_risk_of_spiked(signal, L, overlaps, noise=0.0):
    """Exact risk of linear attention on the spiked task: moments of (1 + chi) z, degree 4, by Gauss-Hermite."""
    g, w = gauss_hermite(5)
    grid = np.stack(np.meshgrid(g, g, g, g, indexing="ij"), axis=-1).reshape(-1, 4)
    density = np.einsum("i,j,k,l->ijkl", w, w, w, w).ravel()
    eigenvalues, vectors = np.linalg.eigh(overlaps.gram())
    scores = grid @ (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T  # chi*, z*, chi, z of a token
    shift = math.sqrt(signal) * overlaps.gram()[0]
    other = (1.0 + scores[:, 2]) * scores[:, 3]
    hidden = (scores + shift)[:, 1] - (1.0 + (scores + shift)[:, 2]) * (scores + shift)[:, 3]
    mean = density @ hidden - (L - 1) * density @ other
    variance = density @ hidden**2 - (density @ hidden) ** 2
    variance += (L - 1) * (density @ other**2 - (density @ other) ** 2)
    return mean**2 + variance + noise**2


def proximal_objective(name, chi, y, w, o, V_k, V_v, offset=0.0):
    """Objective of the proximal step, over the last axis; chi may be complex."""
    sigma = weights(name, chi, offset)
    fit, square = np.sum(sigma * w, axis=-1), np.sum(sigma * sigma, axis=-1)
    return (y - fit) ** 2 / (2.0 * (1.0 + V_v * square)) + np.sum((chi - o) ** 2, axis=-1) / (2.0 * V_k)


def proximal_gradient(name, chi, y, w, o, V_k, V_v, offset=0.0, step=1e-30):
    """Its gradient by complex steps, exact to rounding."""
    gradient = np.empty_like(chi)
    for i in range(chi.shape[-1]):
        moved = chi.astype(complex)
        moved[..., i] += 1j * step
        gradient[..., i] = proximal_objective(name, moved, y, w, o, V_k, V_v, offset).imag / step
    return gradient


def descend(name, chi, y, w, o, V_k, V_v, offset=0.0, n_steps=400):
    """Follow gradient descent with an adaptive step from many points at once; returns (points, objectives)."""
    chi = chi.copy()
    value = proximal_objective(name, chi, y, w, o, V_k, V_v, offset)
    rate = np.full(value.shape, 0.3 * V_k / (1.0 + V_k))
    gradient = proximal_gradient(name, chi, y, w, o, V_k, V_v, offset)
    for _ in range(n_steps):
        trial = chi - rate[..., None] * gradient
        new = proximal_objective(name, trial, y, w, o, V_k, V_v, offset)
        better = new <= value
        chi[better], value[better] = trial[better], new[better]
        rate = np.where(better, 1.5 * rate, 0.3 * rate)
        gradient = proximal_gradient(name, chi, y, w, o, V_k, V_v, offset)
    return chi, value

"""One-pass stochastic gradient descent in high dimension: ordinary differential equations of the overlaps."""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ndtri

from . import _expectations
from ._overlaps import Overlaps
from ._validation import check_activation, check_count, check_positive, check_problem

_N_POINTS = 2**12
_START = Overlaps(m_key=0.0, m_value=0.0, q_key=0.25, q_value=0.25)


@dataclass(frozen=True)
class SGDDynamics:
    """Overlaps and risk of one-pass SGD over time.

    Attributes
    ----------
    times : ndarray of shape (n_times,)
        Steps over D.
    m_key, m_value, q_key, q_value : ndarray of shape (n_times,)
        Overlaps k.k*/D, v.v*/D, k.k/D, v.v/D.
    risk : ndarray of shape (n_times,)
        Mean squared error on new data, noise included.
    """

    times: np.ndarray
    m_key: np.ndarray
    m_value: np.ndarray
    q_key: np.ndarray
    q_value: np.ndarray
    risk: np.ndarray


def sgd_dynamics(
    problem, activation, learning_rate, times, *, start=_START, power_t=0.0, batch_size=1, offset=0.0
):
    """Follow one-pass SGD for D -> infinity at steps proportional to D.

    A step on a sample lowers (y - f)^2 / 2: k -= gamma X^T g_chi / sqrt(D), v alike, with
    g_chi = -(y - f) J^T z, g_z = -(y - f) sigma. With time tau = steps / D::

        dm_k/dtau = -gamma E[g_chi . chi*]
        dq_k/dtau = -2 gamma E[g_chi . chi] + gamma^2 / batch_size E[|g_chi|^2]

    and the same for v with g_z, z*, z. Given the scores, r = y - f and z are Gaussian with
    ``E[r^2] = e = 1 + noise^2 - 2 m_v sigma_eps + q_v |sigma|^2`` and
    ``E[r z] = c = m_v delta_eps - q_v sigma``, so that::

        E[g_chi] = -J^T c          E[|g_chi|^2] = e q_v |J|_F^2 + 2 |J^T c|^2
        E[g_z . z*] = m_v |sigma|^2 - sigma_eps      E[g_z . z] = -sigma^T c      E[|g_z|^2] = e |sigma|^2

    and only the scores are averaged over quasi-random draws. It describes the regressors with
    ``solver="sgd"``, ``partial_fit`` and a negligible penalty.

    Parameters
    ----------
    problem : SLRProblem
    activation : {"softmax", "linear", "erf", "softplus"}
    learning_rate : float
        gamma.
    times : array-like of shape (n_times,)
        Where to report, in steps over D; increasing, at least 0.
    start : Overlaps, default=Overlaps(0, 0, 0.25, 0.25)
        At time 0, without cross terms: by default k and v of norm sqrt(D) / 2 and random direction.
    power_t : float, default=0.0
        The rate at time tau is ``gamma / (1 + tau)^power_t``.
    batch_size : int, default=1
        Samples of a step, whose gradients are averaged.
    offset : float, default=0.0
        The constant c of erf, which stays fixed.

    Returns
    -------
    SGDDynamics

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid; the message says what is allowed.
    FloatingPointError
        If the overlaps diverge: the learning rate is too large.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.
    .. [2] P. Marion, R. Berthier, G. Biau, C. Boyer, arXiv:2410.01537.

    Examples
    --------
    >>> from sklearn_attn.problems import SLRProblem
    >>> from sklearn_attn.theory import sgd_dynamics
    >>> problem = SLRProblem("spiked", signal=2.0, length=3)
    >>> sgd_dynamics(problem, "softmax", 0.4, [0.0, 10.0]).m_key.round(2)
    array([0.  , 0.43])
    """
    check_problem(problem)
    check_positive(learning_rate=learning_rate)
    check_count(batch_size=batch_size)
    try:
        times = np.asarray(times, dtype=float)
    except (TypeError, ValueError):
        times = np.empty(0)
    if times.ndim != 1 or not times.size or not np.all(np.isfinite(times)):
        raise ValueError("times must be a 1-D array of finite numbers.")
    if times[0] < 0.0 or np.any(np.diff(times) <= 0.0):
        raise ValueError("times must be increasing, and none below 0.")
    if not isinstance(power_t, Real) or not np.isfinite(power_t) or power_t < 0.0:
        raise ValueError(f"power_t must be at least 0, got {power_t!r}.")
    if not isinstance(start, Overlaps) or start.m_key_value or start.m_value_key or start.q_key_value:
        raise ValueError("start must be Overlaps whose cross terms are 0.")
    averages = _Averages(problem, check_activation(activation, offset))

    def velocity(tau, x):
        rate = learning_rate / (1.0 + tau) ** power_t
        drift, diffusion, _ = averages(x)
        return rate * drift + rate**2 / batch_size * diffusion

    x0 = np.array([start.m_key, start.m_value, start.q_key, start.q_value])
    span = (0.0, max(times[-1], 1e-12))
    with np.errstate(over="ignore", invalid="ignore"):
        solution = solve_ivp(velocity, span, x0, t_eval=times, rtol=1e-5, atol=1e-7)
    if not solution.success or not np.all(np.isfinite(solution.y)):
        raise FloatingPointError(f"The overlaps diverge at learning_rate={learning_rate}; lower it.")
    risk = np.array([averages(x)[2] for x in solution.y.T])
    return SGDDynamics(times, *solution.y, risk)


class _Averages:
    """Drift and diffusion of (m_k, m_v, q_k, q_v), and the risk, at any overlaps."""

    def __init__(self, problem, activation):
        self.problem, self.activation = problem, activation
        self.draws = []
        for L, probability in zip(
            problem.lengths.tolist(), problem.length_probabilities.tolist(), strict=True
        ):
            points = _expectations.uniforms(_N_POINTS, 2 * L + 1)
            chi_star = _expectations.hidden_scores(problem, points[:, :L])
            chi_star = _expectations.hidden_first(problem, chi_star, points[:, -1])
            self.draws.append((probability, chi_star, ndtri(points[:, L : 2 * L])))

    def __call__(self, x):
        m_k, m_v, q_k, q_v = x
        spread = math.sqrt(max(q_k - m_k**2, 0.0))
        drift, diffusion, risk = np.zeros(4), np.zeros(4), 0.0
        for probability, chi_star, zeta in self.draws:
            chi = m_k * chi_star + spread * zeta
            sigma = self.activation.weights(chi)
            square = np.sum(sigma**2, axis=1)
            c = -q_v * sigma
            c[:, 0] += m_v
            pulled = self.activation.pullback(chi, c)  # J^T c
            e = 1.0 + self.problem.noise**2 - 2.0 * m_v * sigma[:, 0] + q_v * square
            drift += probability * np.array(
                [
                    np.mean(np.sum(pulled * chi_star, axis=1)),
                    np.mean(sigma[:, 0] - m_v * square),
                    2.0 * np.mean(np.sum(pulled * chi, axis=1)),
                    2.0 * np.mean(m_v * sigma[:, 0] - q_v * square),
                ]
            )
            key_noise = e * q_v * self._jacobian_norm(chi, sigma) + 2.0 * np.sum(pulled**2, axis=1)
            diffusion[2] += probability * np.mean(key_noise)
            diffusion[3] += probability * np.mean(e * square)
            risk += probability * float(np.mean(e))
        return drift, diffusion, risk

    def _jacobian_norm(self, chi, sigma):
        """|J|_F^2; column m of a normalised J is sigma (delta_m - sigma_m) u'_m."""
        squared_slope = self.activation.slope(chi) ** 2
        if not self.activation.normalised:
            return np.sum(squared_slope, axis=1)
        square = np.sum(sigma**2, axis=1, keepdims=True)
        return np.sum(squared_slope * sigma**2 * (1.0 - 2.0 * sigma + square), axis=1)

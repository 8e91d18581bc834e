"""One step of the replica-symmetric fixed point of ERM: from six order parameters to the next six.

Sums over tokens are averages over quasi-random draws of the fields. With standard normals n_k, n_z per token,

    omega_chi = m_k chi* + sqrt(q_k - m_k^2) n_k  (max)     sqrt(nu) m_k [l = eps] + sqrt(q_k) n_k  (spiked)
    omega_z   = sqrt(q_v) n_z                     y | omega_z ~ N(rho n_z[eps], s^2)

with rho = m_v / sqrt(q_v) and s^2 = 1 + noise^2 - rho^2: z* is integrated out, and so is the normal part of
chi* in the spiked task. Integrating the conjugates of theory section 4 by parts in the same way (Stein),

    mhat_k = n sqrt(nu) E[f_chi,eps]  (spiked)
           = n E[sum f_chi chi*] + m_k Vhat_k = n E[sum_l f_chi,l d log w_eps / d mean_l]  (max)
    mhat_v = n E[d f_z,eps / d y]             = n E[f_z,eps n_y] / s
    Vhat_k = -n E[sum d f_chi / d omega_chi]  = -n E[sum f_chi n_k] / sd(omega_chi | chi*)
    Vhat_v = -n E[sum d f_z / d omega_z]      = -n E[sum f_z n_z] / sqrt(q_v) + rho mhat_v / sqrt(q_v)

where y = rho n_z[eps] + s n_y and w_e is the evidence for location e given omega_chi. The derivatives on the
left have a fifth of the noise of the products on the right, but leave out the jumps of chi_hat from one
minimum to another as the fields vary. So the left is taken, plus the difference of the two as far as it
stands out from its noise.
"""

import copy
import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from .._compiled import ACTIVATION_CODES
from . import _expectations
from ._location import location_evidence
from ._parallel import split_samples
from ._proximal import proximal
from ._sensitivity import sensitivities

N_REPLICATES = 8
# What is averaged: mhat_k (without m_k Vhat_k for max), mhat_v, qhat_k, qhat_v, Vhat_k, Vhat_v over n, and
# lambda^2; three of them once more, by parts.
_COLUMNS = (
    "m_k",
    "m_v",
    "q_k",
    "q_v",
    "V_k",
    "V_v",
    "lambda^2",
    "m_v by parts",
    "V_k by parts",
    "V_v by parts",
)
_ESTIMATED_TWICE = ((1, 7), (4, 8), (5, 9))
_MIN_POINTS = 16
_LONG = 8.0  # tokens, beyond which a sequence has as much to average over itself
_MIN_VARIANCE = 1e-12
# Below this, in units of sqrt(V_k), the spread of omega_chi is too small to see the jumps through rounding.
_MIN_SPREAD = 1e-3
_MAX_GROWTH = 4.0  # of V in a step


@dataclass
class Draws:
    """Quasi-random draws of sequences of one length, and their last proximal points."""

    problem: object
    L: int
    probability: float
    n_points: int
    chi_hat: np.ndarray | None = field(default=None, init=False)

    def __post_init__(self):
        L = self.L
        is_spiked = self.problem.task == "spiked"
        points = _expectations.uniforms(self.n_points, 2 * L + 1 if is_spiked else 3 * L + 2, N_REPLICATES)
        self.n_y = ndtri(points[:, 0])
        self.n_z = ndtri(points[:, 1 : L + 1])
        self.n_k = ndtri(points[:, L + 1 : 2 * L + 1])
        if is_spiked:
            self.chi_star = None
        else:
            scores = _expectations.hidden_scores(self.problem, points[:, 2 * L + 1 : 3 * L + 1])
            self.chi_star = _expectations.hidden_first(self.problem, scores, points[:, -1])

    def first_quarter(self):
        """Return the draws of the first points of each replicate, with their proximal points."""
        some = copy.copy(self)
        some.n_points = min(max(_MIN_POINTS, self.n_points // 4), self.n_points)
        for name in ("n_y", "n_z", "n_k", "chi_star", "chi_hat"):
            numbers = getattr(self, name)
            if numbers is not None:
                by_replicate = numbers.reshape(N_REPLICATES, self.n_points, *numbers.shape[1:])
                setattr(some, name, by_replicate[:, : some.n_points].reshape(-1, *numbers.shape[1:]).copy())
        return some

    def fields(self, x):
        """Draw (omega_chi, omega_z, y) at the order parameters x; also sd(omega_chi), rho and s."""
        m_k, m_v, q_k, q_v, _, _ = x
        if self.chi_star is None:
            sd = math.sqrt(q_k)
            omega_chi = sd * self.n_k
            omega_chi[:, 0] += m_k * math.sqrt(self.problem.signal)
        else:
            sd = math.sqrt(max(q_k - m_k**2, _MIN_VARIANCE))
            omega_chi = m_k * self.chi_star + sd * self.n_k
        rho = m_v / math.sqrt(q_v)
        s = math.sqrt(max(1.0 + self.problem.noise**2 - rho**2, _MIN_VARIANCE))
        y = rho * self.n_z[:, 0] + s * self.n_y
        return omega_chi, math.sqrt(q_v) * self.n_z, y, sd, rho, s

    def proximal_points(self, activation, x, search, tol):
        """Solve the proximal step of every draw; returns the fields, sigma(chi_hat) and lambda."""
        fields = self.fields(x)
        omega_chi, omega_z, y, sd = fields[:4]
        tol *= min(sd, 1.0)  # averages by parts divide by it
        if self.chi_hat is None:
            search, self.chi_hat = True, omega_chi.copy()
        sigma, lam = np.empty_like(omega_chi), np.empty_like(y)
        kind, offset = ACTIVATION_CODES[activation.name], getattr(activation, "offset", 0.0)
        split_samples(
            lambda first, last: proximal(
                kind, activation.normalised, offset, y, omega_z, omega_chi, x[4], x[5], search, tol,
                first, last, self.chi_hat, sigma, lam,
            ),
            y.shape[0],
        )  # fmt: skip
        return fields, sigma, lam

    def averages(self, activation, x, search, tol):
        """Average, per replicate, what the conjugates are made of.

        Returns
        -------
        ndarray of shape (N_REPLICATES, 10)
            See `_COLUMNS`.
        """
        V_k, V_v = x[4:]
        (omega_chi, omega_z, _, sd, rho, s), sigma, lam = self.proximal_points(activation, x, search, tol)
        f_chi = (self.chi_hat - omega_chi) / V_k
        f_z = lam[:, None] * sigma
        derivatives = np.empty((lam.shape[0], 3))
        kind, offset = ACTIVATION_CODES[activation.name], getattr(activation, "offset", 0.0)
        split_samples(
            lambda first, last: sensitivities(
                kind, activation.normalised, offset, omega_z, V_k, V_v, self.chi_hat, sigma, lam,
                first, last, derivatives,
            ),
            lam.shape[0],
        )  # fmt: skip
        by_parts_m_v = f_z[:, 0] * self.n_y / s
        columns = np.empty((lam.shape[0], len(_COLUMNS)))
        columns[:, 0] = self._m_hat_k(x, f_chi, omega_chi)
        columns[:, 1] = derivatives[:, 2]
        columns[:, 2] = np.sum(f_chi**2, axis=1)
        columns[:, 3] = np.sum(f_z**2, axis=1)
        columns[:, 4] = -derivatives[:, 0]
        columns[:, 5] = -derivatives[:, 1]
        columns[:, 6] = lam**2
        columns[:, 7] = by_parts_m_v
        columns[:, 8] = columns[:, 4]
        if sd > _MIN_SPREAD * math.sqrt(V_k):
            columns[:, 8] = -np.sum(f_chi * self.n_k, axis=1) / sd
        columns[:, 9] = -(np.sum(f_z * self.n_z, axis=1) - rho * by_parts_m_v) / math.sqrt(x[3])
        return self.replicate_means(columns)

    def _m_hat_k(self, x, f_chi, omega_chi):
        """mhat_k / n; for max without the share of m_k Vhat_k that `_direct_share` leaves to the caller."""
        if self.chi_star is None:
            return math.sqrt(self.problem.signal) * f_chi[:, 0]
        m_k, _, q_k = x[:3]
        hidden = np.zeros_like(omega_chi)
        hidden[:, 0] = 1.0
        _, score = location_evidence(self.problem, (m_k / q_k) * omega_chi, 1.0 - m_k**2 / q_k, hidden)
        share = _direct_share(x)
        return np.sum(f_chi * ((1.0 - share) * score + share * self.chi_star), axis=1)

    @staticmethod
    def replicate_means(numbers):
        """Average one number, or row, per draw over each replicate."""
        return numbers.reshape(N_REPLICATES, -1, *numbers.shape[1:]).mean(axis=1)


def draw_all(problem, n_points):
    """Draw sequences of all lengths, at most `n_points` of each and fewer of unlikely or long ones.

    Returns
    -------
    list of Draws
    """
    return [
        Draws(
            problem,
            L,
            probability,
            _power_of_two(n_points * min(1.0, 2.0 * probability, _LONG / L) / N_REPLICATES),
        )
        for L, probability in zip(
            problem.lengths.tolist(), problem.length_probabilities.tolist(), strict=True
        )
    ]


class ReplicaMap:
    """The map of which ERM's order parameters are a fixed point.

    Parameters
    ----------
    problem : SLRProblem
    activation : Activation
    sample_ratio : float
        n = N / D.
    alpha_key, alpha : float
        Penalties r_k and r_v.
    n_points : int
        Draws of a length, see `draw_all`.
    """

    def __init__(self, problem, activation, sample_ratio, alpha_key, alpha, n_points):
        self.problem, self.activation = problem, activation
        self.sample_ratio = sample_ratio
        self.penalties = np.array([alpha_key, alpha])
        self.draws = draw_all(problem, n_points)
        self._last_averages = self._largest_V = None

    def __call__(self, x, *, search=False, tol=1e-6):
        """Map (m_k, m_v, q_k, q_v, V_k, V_v) to the next ones."""
        self._largest_V = _MAX_GROWTH * np.asarray(x[4:6])
        return self._update(self._averages(x, search, tol).mean(axis=0))

    def first_quarter(self):
        """Return the map on a quarter of the draws."""
        some = copy.copy(self)
        some.draws = [draws.first_quarter() for draws in self.draws]
        return some

    def replicates(self):
        """Return what each independent set of draws made of the last x: (N_REPLICATES, 6)."""
        return np.array([self._update(row) for row in self._last_averages])

    @property
    def train_error(self):
        """E[lambda^2] at the last x."""
        return float(self._last_averages[:, 6].mean())

    def _averages(self, x, search, tol):
        averages = sum(
            draws.probability * draws.averages(self.activation, x, search, tol) for draws in self.draws
        )
        for smooth, by_parts in _ESTIMATED_TWICE:
            averages[:, smooth] += _significant(averages[:, by_parts] - averages[:, smooth])
        if self.problem.task != "spiked":
            averages[:, 0] += _direct_share(x) * x[0] * averages[:, 4]
        self._last_averages = averages
        return averages

    def _update(self, averages):
        m_hat, q_hat, V_hat = (self.sample_ratio * averages[i : i + 2] for i in (0, 2, 4))
        # Early on Vhat + r may be near zero, or below; at a fixed point the bound does not act.
        V = np.minimum(1.0 / np.maximum(V_hat + self.penalties, 1e-2 * self.penalties), self._largest_V)
        return np.concatenate([m_hat * V, (m_hat**2 + q_hat) * V**2, V])


def _direct_share(x):
    """Share of the form with chi* in mhat_k: the noise of the other grows as omega_chi tells chi*."""
    return min(x[0] ** 2 / x[2], 1.0) ** 4


def _significant(jumps):
    """Shrink what jumps add, one number per replicate, to nothing where it is not seen through the noise."""
    square = jumps.mean() ** 2
    noise = jumps.var(ddof=1) / jumps.size
    return jumps * square / max(square + 4.0 * noise, np.finfo(float).tiny)


def _power_of_two(number):
    return max(_MIN_POINTS, 2 ** round(math.log2(number)))

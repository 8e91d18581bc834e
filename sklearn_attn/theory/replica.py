"""Replica theory of empirical risk minimisation with finitely many samples per dimension."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ._fixed_point import FixedPoint
from ._overlaps import Overlaps
from ._replica_map import N_REPLICATES, ReplicaMap
from ._replica_solver import (
    COARSE_POINTS,
    DIFFERENCE,
    are_same,
    coarse_solution,
    from_free,
    refine,
    response_of,
    to_free,
)
from ._stability import replicon
from ._validation import check_activation, check_count, check_positive, check_problem
from .population import risk_at, weight_moments

_N_POINTS = 2**13
# How many times the draws are made four times as many where the error would be above this.
_N_LARGER = 2
_LARGEST_ERROR = 2e-3
_GRADIENT_POINTS = 2**12


class ReplicaSymmetryWarning(UserWarning):
    """The replica-symmetric solution is unstable: its numbers are no prediction."""


@dataclass(frozen=True)
class ReplicaResult:
    """What replica theory predicts for ERM in high dimension.

    Attributes
    ----------
    test_error, train_error : float
        Mean squared errors, noise included; the train error is unweighted and without penalties.
    objective : float
        Half the minimised objective over D: n E[lambda^2] / 2 + (alpha_key q_key + alpha q_value) / 2.
    m_key, m_value, q_key, q_value : float
        Overlaps k.k*/D, v.v*/D, k.k/D, v.v/D of the fitted key and value.
    V_key, V_value : float
        Their susceptibilities.
    stability : float
        Spectral radius of the replicon matrix. Below 1 the numbers are a prediction; above it replica
        symmetry is broken and they are not. It is the average of a law with a heavy tail: known to a tenth
        far below 1, to a third around 1 (spiked, nu 2, n 4, alpha 0.17: 0.76 to 1.03 with 8192 to 32768
        draws).
    error_estimate : float
        Standard error of `test_error` from the averages over random draws.
    n_iter : int
        Steps of the iteration.
    converged : bool
        Whether a fixed point was found to `tol`.
    """

    test_error: float
    train_error: float
    objective: float
    m_key: float
    m_value: float
    q_key: float
    q_value: float
    V_key: float
    V_value: float
    stability: float
    error_estimate: float
    n_iter: int
    converged: bool

    @property
    def overlaps(self):
        """The order parameters as `Overlaps`; the cross terms vanish."""
        return Overlaps(self.m_key, self.m_value, self.q_key, self.q_value)


def replica_erm(
    problem,
    activation,
    sample_ratio,
    alpha=1.0,
    alpha_key=None,
    init="auto",
    *,
    offset=0.0,
    n_points=None,
    tol=1e-4,
    max_iter=200,
):
    """Predict what a regularised attention regressor achieves, for N, D -> infinity at fixed N / D.

    The minimiser of ``sum_i (y_i - sigma(chi_i)^T z_i)^2 + alpha_key |k|^2 + alpha |v|^2`` is described by
    six order parameters. Averaged over the data model, with fields
    omega_chi = m_k chi* + sqrt(q_k - m_k^2) zeta and omega_z alike, and the proximal point::

        chi_hat = argmin_chi  (y - sigma(chi)^T omega_z)^2 / (2 (1 + V_v |sigma(chi)|^2))
                              + |chi - omega_chi|^2 / (2 V_k)
        lambda = (y - sigma^T omega_z) / (1 + V_v |sigma|^2),  f_chi = (chi_hat - omega_chi) / V_k,
        f_z = lambda sigma

    they solve, with n = N / D and for a in {key, value}::

        Vhat_a = -n E[sum df_a / domega_a],  qhat_a = n E[sum f_a^2],  mhat_a = n E[sum f_a a*] + m_a Vhat_a
        m_a = mhat_a V_a,  q_a = (mhat_a^2 + qhat_a) V_a^2,  V_a = 1 / (Vhat_a + alpha_a)

    Parameters
    ----------
    problem : SLRProblem
    activation : {"softmax", "linear", "erf", "softplus"}
    sample_ratio : float
        N / D.
    alpha, alpha_key : float
        Penalties as in the regressors; ``alpha_key=None`` means alpha.
    init : {"auto", "informed", "uninformed", "both"}, ReplicaResult or (6,) array-like, default="auto"
        Where the iteration starts: near the hidden directions, away from them, both and the result of lower
        objective (ERM's), or at the given (m_key, m_value, q_key, q_value, V_key, V_value).
    offset : float, default=0.0
        The constant c of erf.
    n_points : int, optional
        Random draws that averages are taken over, rounded to eight times a power of two, and fewer of lengths
        that are unlikely or above 8; the error falls nearly as one over it. By default 8192, and 16384 for
        linear and erf, whose averages vary more; four times as many, up to twice, where the error estimate
        of a stable solution would be above 0.002.
    tol : float, default=1e-4
        Bound on the relative change of V and q - m^2, and of m where it is above 1, in an undamped step.
    max_iter : int, default=200
        Bound on the steps from one start, the first half of them on few draws.

    Returns
    -------
    ReplicaResult
        With ``init="both"`` a tuple of two, from the uninformed and from the informed start.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid; the message says what is allowed.

    Warns
    -----
    ReplicaSymmetryWarning
        If the stability is 1 or more.
    ConvergenceWarning
        If no fixed point was found.

    Notes
    -----
    Averages are over scrambled Sobol points that stay the same, so the result is deterministic. The proximal
    point is the global minimum of its non-convex problem, searched from several starts; where it jumps
    from one minimum to another as the fields vary, the derivatives above are those of distributions.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.

    Examples
    --------
    >>> from sklearn_attn.problems import SLRProblem
    >>> from sklearn_attn.theory import replica_erm
    >>> result = replica_erm(SLRProblem("spiked", signal=2.0, length=3), "softmax", sample_ratio=4.0)
    >>> round(result.test_error, 2), result.converged
    (0.6, True)
    """
    check_problem(problem)
    alpha_key = alpha if alpha_key is None else alpha_key
    check_positive(sample_ratio=sample_ratio, alpha=alpha, alpha_key=alpha_key, tol=tol)
    sigma_of = check_activation(activation, offset)
    n_larger = _N_LARGER if n_points is None else 0
    if n_points is None:
        n_points = _N_POINTS if sigma_of.normalised else 2 * _N_POINTS
    check_count(n_points=n_points, max_iter=max_iter)

    def make_map(n):
        return ReplicaMap(problem, sigma_of, float(sample_ratio), float(alpha_key), float(alpha), n)

    starts = _starts(problem, sigma_of, sample_ratio, alpha_key, alpha, init)
    coarse = make_map(min(COARSE_POINTS, n_points))
    fine = make_map(n_points)
    candidates = [coarse_solution(coarse, start, max_iter // 2) for start in starts]
    choose = isinstance(init, str) and init == "auto"
    if len(candidates) == 2 and choose and are_same(candidates[0].x, candidates[1].x):
        candidates = candidates[1:]
    if choose and any(candidate.converged for candidate in candidates):
        candidates = [candidate for candidate in candidates if candidate.converged]
    results = [_result(fine, refine(fine, coarse, candidate, tol, max_iter)) for candidate in candidates]
    if choose:
        # An iterate that is no fixed point has no objective to compare.
        results = [min(results, key=lambda result: (not result.converged, result.objective))]
    for _ in range(n_larger):
        if not any(_is_rough(result) for result in results):
            break
        n_points *= 4
        fine = make_map(n_points)
        results = [
            _refined(fine, coarse, result, tol, max_iter) if _is_rough(result) else result
            for result in results
        ]
    for result in results:
        _warn(result, tol, max_iter)
    return tuple(results) if len(results) == 2 else results[0]


def _starts(problem, sigma_of, sample_ratio, alpha_key, alpha, init):
    V = 1.0 / (np.array([alpha_key, alpha]) + 0.25 * sample_ratio)
    scale = 1.0 if sigma_of.normalised else 0.5
    key_scale = min(math.sqrt(problem.signal) if problem.task == "spiked" else problem.signal, 2.0)
    informed = np.array([key_scale, scale, 1.05 * key_scale**2, 1.05 * scale**2, *(0.5 * V)])
    uninformed = np.array([0.05, 0.05 * scale, 0.25, 0.25 * scale**2, *V])
    if isinstance(init, ReplicaResult):
        return [order_parameter_vector(init)]
    if isinstance(init, str):
        named = {
            "auto": [uninformed, informed],
            "both": [uninformed, informed],
            "informed": [informed],
            "uninformed": [uninformed],
        }
        if init in named:
            return named[init]
    else:
        try:
            start = np.array(init, dtype=float)
        except (TypeError, ValueError):
            start = np.empty(0)
        if start.shape == (6,) and np.all(np.isfinite(start)) and np.all(start[2:] > 0.0):
            return [start]
    raise ValueError(
        "init must be 'auto', 'informed', 'uninformed', 'both', a ReplicaResult, or six numbers (m_key, "
        f"m_value, q_key, q_value, V_key, V_value) of which the last four are positive; got {init!r}."
    )


def _is_rough(result):
    return result.converged and result.stability < 1.0 and result.error_estimate > _LARGEST_ERROR


def _refined(fine, coarse, result, tol, max_iter):
    start = FixedPoint(x=to_free(order_parameter_vector(result)), residual=np.inf, n_iter=0, converged=False)
    return _result(fine, refine(fine, coarse, start, tol, max_iter), result.n_iter)


def order_parameter_vector(result):
    """Return (m_key, m_value, q_key, q_value, V_key, V_value) of a result, an array of shape (6,)."""
    return np.array(
        [result.m_key, result.m_value, result.q_key, result.q_value, result.V_key, result.V_value]
    )


def _result(fine, solution, n_before=0):
    x = from_free(solution.x)
    replicates, train_error = fine.replicates(), fine.train_error
    stability, response = replicon(fine, x), response_of(fine.first_quarter(), to_free(x))
    m_k, m_v, q_k, q_v, V_k, V_v = x.tolist()
    q_k, q_v = max(q_k, m_k**2), max(q_v, m_v**2)
    sigma_of, problem = fine.activation, fine.problem
    test_error = risk_at(
        problem, sigma_of.name, Overlaps(m_k, m_v, q_k, q_v), offset=getattr(sigma_of, "offset", 0.0)
    )
    penalty = fine.penalties @ np.array([q_k, q_v])
    return ReplicaResult(
        test_error=test_error,
        train_error=train_error,
        objective=0.5 * (fine.sample_ratio * train_error + float(penalty)),
        m_key=m_k,
        m_value=m_v,
        q_key=q_k,
        q_value=q_v,
        V_key=V_k,
        V_value=V_v,
        stability=stability,
        error_estimate=_error_estimate(response, replicates, x, problem, sigma_of),
        n_iter=n_before + solution.n_iter,
        converged=solution.converged,
    )


def _error_estimate(response, replicates, x, problem, sigma_of):
    """Propagate the spread of the replicates of F(x) to the test error: dE = grad E (I - F')^{-1} dF."""
    moved = np.array([to_free(replicate) for replicate in replicates])
    shifts = response @ (moved - moved.mean(axis=0)).T

    def error(u):
        m_k, m_v, q_k, q_v = from_free(u)[:4]
        A, B = weight_moments(problem, sigma_of, m_k, q_k, _GRADIENT_POINTS)
        return -2.0 * m_v * A + q_v * B

    u = to_free(x)
    gradient = np.array([(error(u + h) - error(u)) / DIFFERENCE for h in DIFFERENCE * np.eye(6)[:4]])
    return float(np.std(gradient @ shifts[:4], ddof=1) / math.sqrt(N_REPLICATES))


def _warn(result, tol, max_iter):
    if not result.converged:
        warnings.warn(
            f"Replica theory found no fixed point to tol={tol} in max_iter={max_iter} steps; its last "
            f"iterate has stability {result.stability:.2f}. Below 1 try a larger max_iter or another init, "
            "above 1 replica symmetry is broken and none may exist.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if result.stability >= 1.0:
        warnings.warn(
            f"The replica-symmetric solution is unstable (stability {result.stability:.2f} >= 1): its "
            "numbers are no prediction, and fits from different starts may end in different minima. A larger "
            "penalty or more samples restore it.",
            ReplicaSymmetryWarning,
            stacklevel=3,
        )

"""The Bayes-optimal error with finitely many samples, and the hard phase."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from ._fixed_point import fixed_point
from ._location import location_evidence
from ._replica_map import draw_all
from ._validation import check_count, check_positive, check_problem

_COARSE_POINTS = 2048
_COARSE_TOL = 1e-3
# log qhat is kept to overlaps between 1e-6 and 1 - 1e-9.
_LOG_BOUNDS = (-14.0, 20.7)
_STARTS = {"uninformed": (-4.6, -4.6), "informed": (9.2, 20.7)}
# Two lines differ where their errors do by this share of the variance of y.
_GAP = 0.02
_GAP_POINTS = 4096
# The map is increasing: plain iterates go monotonically to the fixed point of their start, and combinations
# of them might jump to another.
_ACCELERATE_BELOW = 1e-3


@dataclass(frozen=True)
class BayesResult:
    """What the best use of N samples achieves in high dimension.

    Attributes
    ----------
    test_error : float
        Mean squared error of the posterior mean, noise included.
    q_key, q_value : float
        Overlaps of the posterior means of k* and v* with the truth; 1 is perfect knowledge.
    error_estimate : float
        Standard error of `test_error` from averages over random draws at the given overlaps.
    n_iter : int
    converged : bool
    """

    test_error: float
    q_key: float
    q_value: float
    error_estimate: float
    n_iter: int
    converged: bool


class _BayesMap:
    """The map of which the Bayes-optimal overlaps (q_k, q_v) are a fixed point."""

    def __init__(self, problem, sample_ratio, n_points):
        self.problem, self.sample_ratio = problem, sample_ratio
        self.draws = draw_all(problem, n_points)

    def __call__(self, log_q_hat):
        """Map log qhat, in which overlaps near 0 and near 1 are both resolved: q = qhat / (1 + qhat)."""
        q = expit(log_q_hat)
        q_hat = self.sample_ratio * sum(draws.probability * _score_squares(draws, q) for draws in self.draws)
        return np.clip(np.log(np.maximum(q_hat, np.finfo(float).tiny)), *_LOG_BOUNDS)

    @staticmethod
    def admissible(log_q_hat):
        return bool(np.all(log_q_hat >= _LOG_BOUNDS[0]) and np.all(log_q_hat <= _LOG_BOUNDS[1]))

    def test_error(self, q):
        """1 + s - q_v E[sum pi^2] and its standard error over the replicates."""
        squares = 0.0
        for draws in self.draws:
            omega_chi = draws.fields(_order_parameters(q))[0]
            w, _ = location_evidence(self.problem, omega_chi, 1.0 - q[0], np.ones_like(omega_chi))
            pi = w / w.sum(axis=1, keepdims=True)
            squares = squares + draws.probability * draws.replicate_means(np.sum(pi**2, axis=1))
        errors = 1.0 + self.problem.noise**2 - q[1] * squares
        return float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(errors.size))


def _order_parameters(q):
    return q[0], q[1], q[0], q[1], 1.0 - q[0], 1.0 - q[1]


def _score_squares(draws, q):
    """E[sum f_chi^2] and E[sum f_z^2]."""
    omega_chi, omega_z, y, *_ = draws.fields(_order_parameters(q))
    f_chi, f_z = posterior_scores(draws.problem, omega_chi, omega_z, y, 1.0 - q[0], 1.0 - q[1])
    return np.array([np.mean(np.sum(f_chi**2, axis=1)), np.mean(np.sum(f_z**2, axis=1))])


def posterior_scores(problem, omega_chi, omega_z, y, V_k, V_v):
    """Derivatives of the log-evidence of y with respect to the fields.

        Z = sum_e w_e N(y; omega_z[e], V_v + noise^2),   w_e = E_{chi ~ N(omega_chi, V_k I)}[g(e, chi)]
        f_chi = d log Z / d omega_chi,   f_z,l = p_l (y - omega_z,l) / (V_v + noise^2)

    Parameters
    ----------
    problem : SLRProblem
    omega_chi, omega_z : ndarray of shape (n, L)
    y : ndarray of shape (n,)
    V_k, V_v : float

    Returns
    -------
    f_chi, f_z : ndarray of shape (n, L)
    """
    variance = max(V_v + problem.noise**2, 1e-12)
    residual = y[:, None] - omega_z
    log_N = -0.5 * residual**2 / variance
    N = np.exp(log_N - log_N.max(axis=1, keepdims=True))
    w, f_chi = location_evidence(problem, omega_chi, V_k, N)
    p = w * N
    p /= np.maximum(p.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return f_chi, p * residual / variance


def bayes_optimal(problem, sample_ratio, init="uninformed", *, n_points=2**14, tol=1e-4, max_iter=500):
    """Predict the error of the Bayes-optimal estimator for N, D -> infinity at fixed N / D.

    Two overlaps solve, with V = 1 - q and the fields of `replica_erm` at m = q::

        q_a = qhat_a / (1 + qhat_a),   qhat_a = n E[sum_l f_a,l^2],   f_a = d log Z / d omega_a
        Z = sum_e w_e N(y; omega_z[e], V_v + noise^2),   w_e = E_{chi ~ N(omega_chi, V_k I)}[g(e, chi)]

    and the test error is ``1 + noise^2 - q_v E[sum_l pi_l^2]`` with pi = w / sum w.

    Parameters
    ----------
    problem : SLRProblem
    sample_ratio : float
        n = N / D.
    init : {"uninformed", "informed"}, default="uninformed"
        Where the iteration starts: q near 0, which leads to what the best known algorithm of polynomial time
        attains, or q near 1, which leads to what the samples allow in principle. Where
        the two differ the task is in its hard phase.
    n_points : int, default=16384
        Random draws that averages are taken over, of every length.
    tol : float, default=1e-4
        Bound on the relative change of q / (1 - q) in an undamped step.
    max_iter : int, default=500

    Returns
    -------
    BayesResult

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid; the message says what is allowed.

    Warns
    -----
    ConvergenceWarning
        If no fixed point was found.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.

    Examples
    --------
    >>> from sklearn_attn.problems import SLRProblem
    >>> from sklearn_attn.theory import bayes_optimal
    >>> round(bayes_optimal(SLRProblem("spiked", signal=2.0, length=3), sample_ratio=4.0).test_error, 2)
    0.38
    """
    check_problem(problem)
    check_positive(sample_ratio=sample_ratio, tol=tol)
    check_count(n_points=n_points, max_iter=max_iter)
    if not isinstance(init, str) or init not in _STARTS:
        raise ValueError(f"init must be one of {sorted(_STARTS)}, got {init!r}.")
    result = _solve(problem, sample_ratio, init, n_points, tol, max_iter)
    if not result.converged:
        warnings.warn(
            f"The Bayes-optimal overlaps did not settle to tol={tol} in max_iter={max_iter} steps; pass a "
            "larger max_iter. Near the edges of a hard phase the iteration is slow.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


def _solve(problem, sample_ratio, init, n_points, tol, max_iter):
    x, n_iter = np.array(_STARTS[init]), 0
    stages = [(n_points, tol, max_iter)]
    if max_iter > 1:
        stages.insert(0, (min(_COARSE_POINTS, n_points), max(_COARSE_TOL, tol), max_iter // 2))
    for points, accuracy, last in stages:
        step = _BayesMap(problem, float(sample_ratio), points)
        solution = fixed_point(
            step, x, tol=accuracy, max_iter=last - n_iter, damping=0.0, accelerate_below=_ACCELERATE_BELOW,
            admissible=step.admissible,
        )  # fmt: skip
        x, n_iter = solution.x, n_iter + solution.n_iter
    x = expit(x)
    test_error, error_estimate = step.test_error(x)
    return BayesResult(
        test_error=test_error,
        q_key=float(x[0]),
        q_value=float(x[1]),
        error_estimate=error_estimate,
        n_iter=n_iter,
        converged=solution.converged,
    )


def hard_phase(problem, *, sample_ratios=(0.1, 100.0), rtol=0.02):
    """Find the sample ratios at which known algorithms fall short of what the samples allow.

    Parameters
    ----------
    problem : SLRProblem
    sample_ratios : (float, float), default=(0.1, 100.0)
        The range that is searched.
    rtol : float, default=0.02
        Relative accuracy of the ends.

    Returns
    -------
    (float, float) or None
        The interval in which `bayes_optimal` from the uninformed and from the informed start
        differ in test error by more than 0.02 of the variance of y, or None where they do so nowhere.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid.

    Notes
    -----
    The interval runs between the two spinodals: from where an informed fixed point first exists to where the
    uninformed one ends. An interval narrower than the grid of the search, a factor 1.2, may be missed.
    """
    check_problem(problem)
    if not isinstance(sample_ratios, tuple | list | np.ndarray) or len(sample_ratios) != 2:
        raise ValueError(f"sample_ratios must be an increasing pair, got {sample_ratios!r}.")
    low, high = sample_ratios
    check_positive(**{"sample_ratios[0]": low, "sample_ratios[1]": high, "rtol": rtol})
    if not low < high:
        raise ValueError(f"sample_ratios must be an increasing pair, got {sample_ratios}.")

    def differs(ratio):
        lines = [_solve(problem, ratio, init, _GAP_POINTS, 1e-4, 500).test_error for init in _STARTS]
        return abs(lines[0] - lines[1]) > _GAP * (1.0 + problem.noise**2)

    grid = np.geomspace(low, high, math.ceil(math.log(high / low) / math.log(1.2)) + 1)
    hard = np.array([differs(ratio) for ratio in grid])
    if not hard.any():
        return None
    first, last = np.flatnonzero(hard)[[0, -1]]

    def edge(outside, inside):
        while abs(math.log(outside / inside)) > rtol:
            middle = math.sqrt(outside * inside)
            if differs(middle):
                inside = middle
            else:
                outside = middle
        return math.sqrt(outside * inside)

    return (
        float(grid[first] if first == 0 else edge(grid[first - 1], grid[first])),
        float(grid[last] if last == grid.size - 1 else edge(grid[last + 1], grid[last])),
    )

"""Risk of the best attention of each kind when data are plenty, and of any key and value."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtri

from ..activations import get_activation
from . import _expectations
from ._validation import check_activation, check_overlaps, check_problem

_N_POINTS = 2**15
_MAX_NUMBERS = 2**21  # points times tokens, which bounds memory for long sequences
_KEY_SCALES = (1e-3, 1e3)
_FLAT = 1e-9  # an infinite key must do better than the best finite one by this
_INFINITE_KEY_SCALE = 1e8  # the weights are those of an infinite one but for a share 1e-8 of sequences


@dataclass(frozen=True)
class PopulationRisk:
    """What the best attention of one kind achieves with infinitely many samples.

    Attributes
    ----------
    risk : float
        Mean squared error, noise included.
    key_scale, value_scale : float
        The best key is ``key_scale * k*`` and the best value ``value_scale * v*``. key_scale is
        infinite where the risk only approaches its infimum as the key grows; between 1e-3 and 1e3 otherwise.
        Where the risk hardly depends on the key it says little: for one token, without signal, or where it is
        below 1e-9.
    offset : float
        The constant c of erf; 0 for activations without one.
    """

    risk: float
    key_scale: float
    value_scale: float
    offset: float


def bayes_risk(problem):
    """Compute the least mean squared error that any predictor can have when k* and v* are known.

    ``noise^2 + 1 - E[sum_l p_l^2]`` with p = softmax(c_nu chi*), the posterior of the location;
    c_nu = sqrt(nu) for the spiked task and nu for max.

    Parameters
    ----------
    problem : SLRProblem

    Returns
    -------
    float
        To an absolute error of about 1e-5 up to some hundred tokens, and 1e-3 for a thousand.

    Raises
    ------
    TypeError
        If `problem` is no SLRProblem.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.

    Examples
    --------
    >>> from sklearn_attn.problems import SLRProblem
    >>> from sklearn_attn.theory import bayes_risk
    >>> round(bayes_risk(SLRProblem("spiked", signal=5.0, length=2)), 3)
    0.084
    """
    check_problem(problem, needs_signal=False)
    risk = problem.noise**2
    for probability, _, p, _ in _blocks(problem):
        # sum p (1 - p) loses nothing where the location is nearly known.
        risk += probability * float(np.mean(np.sum(p * (1.0 - p), axis=1)))
    return risk


def risk_at(problem, activation, overlaps, *, offset=0.0):
    """Compute the risk of any key and value from their order parameters.

    Given the scores, the projections on v* and v of a token are Gaussian with linear means, so::

        E = noise^2 + E[sum_e p_e ((a_e - sigma^T b)^2 - 2 C_12 sigma_e)] + C_11 + C_22 E[|sigma|^2]

    where a_l, b_l are the means and C is the covariance of (z*_l, z_l) given (chi*_l, chi_l), and p is the
    posterior of the location. On the manifold without cross terms this is
    ``1 + noise^2 - 2 m_v A + q_v B``, with ``A = E[sigma_eps]`` and ``B = E[|sigma|^2]``.

    Parameters
    ----------
    problem : SLRProblem
    activation : {"softmax", "linear", "erf", "softplus"}
    overlaps : Overlaps
        From `order_parameters` for a fitted estimator: the risk is then its predicted test error.
    offset : float, default=0.0
        The constant c of erf.

    Returns
    -------
    float
        To a relative error of about 3e-5 where the cross terms vanish, and 3e-4 where they are as large as
        the others.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid; the message says what is allowed.
    """
    check_problem(problem, needs_signal=False)
    check_overlaps(overlaps)
    sigma_of = check_activation(activation, offset)
    o = overlaps
    spread = math.sqrt(max(o.q_key - o.m_key**2, 0.0))  # chi = m_key chi* + spread zeta
    has_spread = spread > 1e-6 * (1.0 + abs(o.m_key))
    # Means of z* and z given (chi*, zeta).
    slope_star = (o.m_key_value - o.m_key * o.m_star) / spread if has_spread else 0.0
    slope_key = o.m_value_key
    slope_zeta = (o.q_key_value - o.m_key * o.m_value_key) / spread if has_spread else 0.0
    C_11 = 1.0 - o.m_star**2 - slope_star**2
    C_12 = o.m_value - o.m_star * slope_key - slope_star * slope_zeta
    C_22 = o.q_value - slope_key**2 - slope_zeta**2
    risk = problem.noise**2 + C_11
    # With cross terms the integrand varies more.
    crossed = bool(o.m_key_value or o.m_value_key or o.q_key_value or o.m_star)
    n_points = 4 * _N_POINTS if crossed else _N_POINTS
    for probability, chi_star, p, zeta in _blocks(problem, with_zeta=has_spread, n_points=n_points):
        chi = o.m_key * chi_star + (spread * zeta if has_spread else 0.0)
        sigma = sigma_of.weights(chi)
        target = o.m_star * chi_star + (slope_star * zeta if has_spread else 0.0)
        token = slope_key * chi_star + (slope_zeta * zeta if has_spread else 0.0)
        mean = np.sum(sigma * token, axis=1, keepdims=True)
        per_location = (target - mean) ** 2 - 2.0 * C_12 * sigma
        total = np.sum(p * per_location, axis=1) + C_22 * np.sum(sigma**2, axis=1)
        risk += probability * float(np.mean(total))
    return risk


def weight_moments(problem, sigma_of, m_key, q_key, n_points=_N_POINTS):
    """Compute A = E[sigma_eps] and B = E[|sigma|^2] on the manifold without cross terms.

    Parameters
    ----------
    problem : SLRProblem
    sigma_of : Activation
    m_key, q_key : float
    n_points : int

    Returns
    -------
    A, B : float
    """
    spread = math.sqrt(max(q_key - m_key**2, 0.0))
    A = B = 0.0
    for probability, chi_star, p, zeta in _blocks(problem, with_zeta=spread > 0.0, n_points=n_points):
        sigma = sigma_of.weights(m_key * chi_star + (spread * zeta if spread > 0.0 else 0.0))
        A += probability * float(np.mean(np.sum(p * sigma, axis=1)))
        B += probability * float(np.mean(np.sum(sigma**2, axis=1)))
    return A, B


def population_risk(problem, activation, offset=None):
    """Minimise the risk over all keys and values.

    The best value is c v* and the best key a k*; over c the risk is ``1 + noise^2 - A^2 / B`` with
    ``A = E[sigma(a chi*)_eps]`` and ``B = E[|sigma(a chi*)|^2]``, which is minimised over a, and over the
    offset where there is one to choose.

    Parameters
    ----------
    problem : SLRProblem
    activation : {"softmax", "linear", "erf", "softplus"}
    offset : float, optional
        The constant c of erf; by default the best one.

    Returns
    -------
    PopulationRisk

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid; the message says what is allowed.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.

    Examples
    --------
    >>> from sklearn_attn.problems import SLRProblem
    >>> from sklearn_attn.theory import population_risk
    >>> problem = SLRProblem("spiked", signal=5.0, length=2)
    >>> [round(population_risk(problem, name).risk, 3) for name in ("softmax", "linear")]
    [0.084, 0.222]
    """
    check_problem(problem, needs_signal=False)
    has_offset = check_activation(activation, 0.0 if offset is None else offset).has_offset

    def best_value(key_scale, c):
        """Return the risk without noise of the best value at a key, and its scale."""
        A, B = weight_moments(problem, get_activation(activation, c), key_scale, key_scale**2)
        return (max(1.0 - A * A / B, 0.0), A / B) if B > 0.0 else (1.0, 0.0)  # below 0 by rounding

    def risk(key_scale, c):
        return best_value(key_scale, c)[0]

    if has_offset and offset is None:
        key_scale, c = _best_scale_and_offset(risk)
    else:
        c = float(offset or 0.0)
        key_scale = _best_scale(lambda a: risk(a, c))
    if risk(_INFINITE_KEY_SCALE, c) < risk(key_scale, c) - _FLAT:
        key_scale = math.inf
    least, value_scale = best_value(min(key_scale, _INFINITE_KEY_SCALE), c)
    return PopulationRisk(
        risk=least + problem.noise**2,
        key_scale=key_scale,
        value_scale=value_scale,
        offset=c if has_offset else 0.0,
    )


def _best_scale(risk):
    """Minimise over the key's scale, from a grid that finds the right valley."""
    grid = np.geomspace(*_KEY_SCALES, 25)
    i = int(np.argmin([risk(a) for a in grid]))
    bounds = np.log(grid[max(i - 1, 0)]), np.log(grid[min(i + 1, grid.size - 1)])
    result = minimize_scalar(
        lambda t: risk(math.exp(t)), bounds=bounds, method="bounded", options={"xatol": 1e-6}
    )
    return math.exp(result.x)


def _best_scale_and_offset(risk):
    """Minimise over the key's scale and the offset, from the best points of a coarse grid."""
    grid = [(a, c) for a in np.geomspace(0.1, 10.0, 7) for c in (-3.0, -2.0, -1.0, 0.0, 1.0)]
    starts = sorted(grid, key=lambda point: risk(*point))[:2]
    results = [
        minimize(
            lambda t: risk(math.exp(t[0]), t[1]),
            (math.log(a), c),
            method="Nelder-Mead",
            options={"xatol": 1e-5, "fatol": 1e-10},
        )
        for a, c in starts
    ]
    best = min(results, key=lambda result: result.fun)
    return math.exp(best.x[0]), float(best.x[1])


def _blocks(problem, with_zeta=False, n_points=_N_POINTS):
    """Yield (probability, chi*, posterior, zeta or None) for every length."""
    for L, probability in zip(problem.lengths.tolist(), problem.length_probabilities.tolist(), strict=True):
        n = n_points
        while n * L > _MAX_NUMBERS and n > 256:
            n //= 2
        points = _expectations.uniforms(n, 2 * L if with_zeta else L)
        chi_star = _expectations.hidden_scores(problem, points[:, :L])
        zeta = ndtri(points[:, L:]) if with_zeta else None
        yield probability, chi_star, _expectations.posterior(problem, chi_star), zeta

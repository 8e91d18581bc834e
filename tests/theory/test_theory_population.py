"""Population and Bayes risk: closed forms, quadrature, and Monte Carlo in four dimensions."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtr
from theory_oracles import (
    INF,
    NAMES,
    directions,
    gauss_hermite,
    linear_risk_of_spiked,
    monte_carlo_risk,
    on_a_line,
    weights,
)

from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import Overlaps, bayes_risk, risk_at
from sklearn_attn.theory import population_risk as uncached_population_risk

population_risk = lru_cache(uncached_population_risk)  # a best offset takes seconds

# The quasi-random error of an average that these functions claim is 1e-5 to 1e-4.
CLOSED_FORM = 1e-4


def mean_of_maximum(L):
    """Mean of the largest of L standard normals."""
    return L * on_a_line(lambda g: g * ndtr(g) ** (L - 1))


def unnormalised_risk(problem, u, scale):
    """1 - A^2 / B of sigma_l = u(scale chi*_l), from one-dimensional integrals."""
    A = B = 0.0
    shift = math.sqrt(problem.signal)
    for L, probability in zip(problem.lengths.tolist(), problem.length_probabilities, strict=True):
        others = on_a_line(lambda g: u(scale * g) ** 2)
        if problem.task == "spiked":
            A += probability * on_a_line(lambda g: u(scale * (shift + g)))
            B += probability * (on_a_line(lambda g: u(scale * (shift + g)) ** 2) + (L - 1) * others)
        else:
            A += probability * L * on_a_line(lambda g: u(scale * g) * ndtr(g) ** (L - 1))  # noqa: B023
            B += probability * L * others
    return 1.0 - A * A / B


# -- the Bayes risk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("signal", [0.3, 5.0, 20.0])
def test_bayes_risk_of_two_spiked_tokens_is_a_one_dimensional_integral(signal):
    # p_1 - p_2 depends on sqrt(nu)(chi_1 - chi_2) ~ N(nu, 2 nu) alone
    def p(g):
        return 1.0 / (1.0 + np.exp(-(signal + math.sqrt(2.0 * signal) * g)))

    exact = on_a_line(lambda g: 2.0 * p(g) * (1.0 - p(g)))
    # relative, so that the exponential decay with the signal is seen too: a few per cent where the
    # risk, 3e-4, comes from the 5-sigma tail
    assert bayes_risk(SLRProblem("spiked", signal, 2)) == pytest.approx(exact, rel=0.02, abs=1e-5)


@pytest.mark.parametrize("task", ["spiked", "max"])
@pytest.mark.parametrize("signal", [0.5, 2.0])
def test_bayes_risk_of_three_tokens_against_gauss_hermite(task, signal):
    g, w = gauss_hermite(40)
    chi = np.stack(np.meshgrid(g, g, g, indexing="ij"), axis=-1)
    density = np.einsum("i,j,k->ijk", w, w, w)
    c = signal
    if task == "spiked":
        c = math.sqrt(signal)
        chi[..., 0] += c
    exact = 1.0 - np.sum(density[..., None] * weights("softmax", c * chi) ** 2)
    noise = 0.3
    assert bayes_risk(SLRProblem(task, signal, 3, noise)) == pytest.approx(exact + noise**2, abs=3e-5)


def test_bayes_risk_vanishes_where_the_location_is_told():
    assert bayes_risk(SLRProblem("max", INF, [1, 2, 7])) == 0.0
    assert bayes_risk(SLRProblem("max", INF, 3, noise=0.5)) == 0.25
    assert bayes_risk(SLRProblem("spiked", 2.0, 1)) == 0.0


def test_bayes_risk_without_much_signal_is_that_of_pooling():
    # at nu -> 0 every location is as likely: 1 - 1 / L; the first correction is of order nu
    assert bayes_risk(SLRProblem("spiked", 1e-6, 4)) == pytest.approx(0.75, abs=1e-5)
    assert bayes_risk(SLRProblem("max", 1e-6, 4)) == pytest.approx(0.75, abs=1e-5)


# -- the best of each activation, from an independent computation -----------------------------------------------------

SLOW = pytest.mark.slow
CHECKED = [
    # problem, {what: (value, tolerance)}; half a unit of the last digit quoted, and the closed form's error
    (SLRProblem("spiked", 5.0, 2), {"bayes": (0.0843, 2e-4), "softmax": (0.0843, 2e-4), "linear": (0.2222, 1e-4),
                                    "erf": (0.189, 6e-4), "softplus": (0.111, 1e-3)}),
    (SLRProblem("spiked", 2.0, 3), {"bayes": (0.352, 6e-4), "softmax": (0.352, 6e-4), "linear": (0.4615, 1e-4),
                                    "softplus": (0.369, 1e-3)}),
    pytest.param(SLRProblem("spiked", 2.0, 3), {"erf": (0.444, 6e-4)}, marks=SLOW),
    (SLRProblem("max", INF, 2), {"bayes": (0.0, 1e-12), "softmax": (0.0, 1e-7), "linear": (0.3408, 1e-4)}),
    pytest.param(SLRProblem("max", INF, 2), {"erf": (0.334, 1e-3)}, marks=SLOW),
    (SLRProblem("max", INF, [1, 2, 3]), {"linear": (0.389, 6e-4)}),
    pytest.param(SLRProblem("max", INF, [1, 2, 3]), {"erf": (0.383, 1e-3)}, marks=SLOW),
    (SLRProblem("max", INF, 10), {"linear": (0.663, 6e-4)}),
    pytest.param(SLRProblem("max", INF, 10), {"softmax": (0.0, 1e-6), "softplus": (0.434, 6e-4)}, marks=SLOW),
    (SLRProblem("spiked", 5.0, [1, 2, 3]), {"bayes": (0.076, 1e-3), "softmax": (0.076, 1e-3),
                                            "linear": (0.2222, 1e-4)}),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "values"), CHECKED)
def test_checked_values(problem, values):
    for name, (value, tolerance) in values.items():
        risk = bayes_risk(problem) if name == "bayes" else population_risk(problem, name).risk
        assert risk == pytest.approx(value, abs=tolerance), name


@pytest.mark.slow
def test_erf_at_ten_tokens():
    # .475 was quoted from a coarse optimum
    best = population_risk(SLRProblem("max", INF, 10), "erf")
    assert best.risk == pytest.approx(0.475, abs=2e-3)
    exact = unnormalised_risk(
        SLRProblem("max", INF, 10), lambda x: weights("erf", x, best.offset), best.key_scale
    )
    assert best.risk == pytest.approx(exact, abs=CLOSED_FORM)


@pytest.mark.parametrize("problem", [SLRProblem("spiked", 5.0, 2), SLRProblem("spiked", 2.0, 3),
                                     SLRProblem("max", 2.0, {1: 0.25, 3: 0.75}, 0.4)], ids=str)  # fmt: skip
def test_softmax_is_bayes_optimal_under_the_nishimori_condition(problem):
    c = math.sqrt(problem.signal) if problem.task == "spiked" else problem.signal
    best = population_risk(problem, "softmax")
    assert best.risk == pytest.approx(bayes_risk(problem), abs=1e-9)  # the same draws
    assert best.key_scale == pytest.approx(c, rel=1e-3)
    assert best.value_scale == pytest.approx(1.0, abs=1e-4)
    assert best.offset == 0.0
    assert risk_at(problem, "softmax", Overlaps(c, 1.0, c * c, 1.0)) == pytest.approx(best.risk, abs=1e-9)


def test_nishimori_identities_against_quadrature():
    # at k = c k* the weights are the posterior: E[sigma_eps] = E[|sigma|^2] = 1 - Bayes risk
    signal = 3.0
    problem, c = SLRProblem("spiked", signal, 2), math.sqrt(signal)
    square = 1.0 - bayes_risk(problem)
    for m_value, q_value in ((0.0, 1.0), (0.5, 0.7), (-0.4, 2.0)):
        risk = risk_at(problem, "softmax", Overlaps(c, m_value, c * c, q_value))
        assert risk == pytest.approx(1.0 - 2.0 * m_value * square + q_value * square, abs=5e-5)


@pytest.mark.parametrize(
    ("problem", "name"),
    [(SLRProblem("spiked", 2.0, 3), name) for name in ("softmax", "linear", "softplus")]
    + [(SLRProblem("spiked", 5.0, 2), "erf"), (SLRProblem("max", 1.5, 2, 0.3), "softmax")]
    + [pytest.param(SLRProblem("max", 1.5, [2, 3], 0.3), name, marks=SLOW) for name in NAMES],
)
def test_the_best_is_a_minimum_over_all_keys_and_values(problem, name):
    best = population_risk(problem, name)
    a, c = best.key_scale, best.value_scale

    def risk(key_scale, value_scale, extra_key=0.0, extra_value=0.0, cross=0.0):
        overlaps = Overlaps(
            key_scale, value_scale, key_scale**2 + extra_key + cross**2, value_scale**2 + extra_value,
            m_key_value=cross, q_key_value=cross * value_scale,
        )  # fmt: skip
        return risk_at(problem, name, overlaps, offset=best.offset)

    assert risk(a, c) == pytest.approx(best.risk, abs=5e-5)
    for other in (risk(1.2 * a, c), risk(0.8 * a, c), risk(a, 1.1 * c), risk(a, 0.9 * c),
                  risk(a, c, 0.1 * a**2), risk(a, c, 0.0, 0.1 * c**2), risk(a, c, 0.0, 0.0, 0.2)):  # fmt: skip
        assert other > best.risk + 1e-4


@pytest.mark.parametrize(("signal", "L"), [(0.5, 2), (2.0, 3), (50.0, 4), (2.0, 12)])
def test_linear_on_spiked_in_closed_form(signal, L):
    best = population_risk(SLRProblem("spiked", signal, L), "linear")
    assert best.risk == pytest.approx((L - 1) / (L + signal * (L - 1) / L), abs=CLOSED_FORM)
    assert best.key_scale == pytest.approx(math.sqrt(signal) * (L - 1) / L, rel=5e-3)


@pytest.mark.parametrize("L", [2, 3, 10, pytest.param(40, marks=SLOW)])
def test_linear_on_max_in_closed_form(L):
    best = population_risk(SLRProblem("max", INF, L, noise=0.2), "linear")
    assert best.risk == pytest.approx(1.04 - (1.0 + mean_of_maximum(L) ** 2) / L, abs=CLOSED_FORM)


@pytest.mark.parametrize("problem", [SLRProblem("spiked", 5.0, 2),
                                     pytest.param(SLRProblem("max", INF, 2), marks=SLOW),
                                     pytest.param(SLRProblem("max", INF, [1, 2, 3]), marks=SLOW)], ids=str)  # fmt: skip
def test_erf_against_one_dimensional_integrals(problem):
    def risk(t):
        return unnormalised_risk(problem, lambda x: weights("erf", x, t[1]), math.exp(t[0]))

    exact = minimize(risk, (0.0, -0.3), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-8})
    best = population_risk(problem, "erf")
    assert best.risk == pytest.approx(exact.fun, abs=CLOSED_FORM)
    # the risk is flat at its minimum: an error of 1e-5 in it is one of 1 % in the scale
    assert best.key_scale == pytest.approx(math.exp(exact.x[0]), rel=0.02)
    assert best.offset == pytest.approx(exact.x[1], abs=0.02)


def test_erf_with_a_given_offset():
    problem = SLRProblem("spiked", 5.0, 2)
    exact = minimize_scalar(
        lambda t: unnormalised_risk(problem, lambda x: weights("erf", x, 0.5), math.exp(t)), bounds=(-3, 6)
    )
    best = population_risk(problem, "erf", offset=0.5)
    assert best.offset == 0.5
    assert best.risk == pytest.approx(exact.fun, abs=CLOSED_FORM)
    assert best.risk > population_risk(problem, "erf").risk + 0.01
    # an activation without one ignores it
    assert population_risk(problem, "softmax", offset=0.5) == population_risk(problem, "softmax")


def test_softplus_falls_slowly_with_the_key():
    problem = SLRProblem("max", INF, 2)
    risks = []
    for a in (5.0, 20.0, 60.0):
        # the best value scale from three evaluations: the risk is a parabola in it
        at = [risk_at(problem, "softplus", Overlaps(a, c, a * a, c * c)) for c in (0.0, 1.0, 2.0)]
        B = 0.5 * (at[2] - 2.0 * at[1] + at[0])
        A = 0.5 * (B - (at[1] - at[0]))
        risks.append(1.0 - A * A / B)
    assert risks[0] > risks[1] > risks[2]
    assert risks[2] == pytest.approx(0.050, abs=1e-3)
    best = population_risk(problem, "softplus")
    # at an infinite key the weights are max(chi, 0) / sum, or the argmax where all are negative
    g = np.random.default_rng(0).standard_normal((1_000_000, 2))
    w = np.maximum(g, 0.0)
    w[g.max(axis=1) <= 0.0] = 0.0
    total = w.sum(axis=1, keepdims=True)
    w = np.where(total > 0.0, w / np.where(total > 0.0, total, 1.0), g == g.max(axis=1, keepdims=True))
    A, B = w[np.arange(len(g)), g.argmax(axis=1)].mean(), np.sum(w**2, axis=1).mean()
    assert best.risk == pytest.approx(1.0 - A**2 / B, abs=5e-4)  # 4 standard errors of the million draws
    assert best.key_scale == INF
    assert best.risk < risks[2]


# -- what the length does ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_variable_length_costs_linear_and_erf_on_max():
    fixed, variable = SLRProblem("max", INF, 2), SLRProblem("max", INF, [1, 2, 3])
    for name, change in (("linear", 0.389 - 0.341), ("erf", 0.383 - 0.334)):
        cost = population_risk(variable, name).risk - population_risk(fixed, name).risk
        assert cost == pytest.approx(change, abs=2e-3)
    assert population_risk(variable, "softmax").risk == pytest.approx(0.0, abs=1e-6)
    cost = population_risk(variable, "softplus").risk - population_risk(fixed, "softplus").risk
    assert abs(cost) < 0.01


def test_a_variable_length_widens_the_gap_on_spiked():
    fixed, variable = SLRProblem("spiked", 5.0, 2), SLRProblem("spiked", 5.0, [1, 2, 3])
    other = SLRProblem("spiked", 5.0, {1: 0.75, 5: 0.25})
    linear = [population_risk(problem, "linear").risk for problem in (fixed, variable, other)]
    np.testing.assert_allclose(linear, 2.0 / 9.0, atol=CLOSED_FORM)
    assert bayes_risk(variable) < bayes_risk(fixed) - 0.005
    assert population_risk(variable, "softmax").risk == pytest.approx(bayes_risk(variable), abs=1e-8)


@pytest.mark.slow
def test_with_the_length_linear_fails_on_max_and_softmax_does_not():
    risks = [population_risk(SLRProblem("max", INF, L), "linear").risk for L in (2, 10, 200)]
    assert np.all(np.diff(risks) > 0.0)
    assert 0.9 < risks[-1] < 1.0
    assert population_risk(SLRProblem("max", INF, 200), "softmax").risk < 1e-5


def test_with_the_signal_softmax_falls_exponentially_and_linear_as_its_inverse():
    signals, L = np.array([10.0, 20.0, 30.0]), 3
    softmax = np.log([bayes_risk(SLRProblem("spiked", nu, L)) for nu in signals])
    linear = np.array([population_risk(SLRProblem("spiked", nu, L), "linear").risk for nu in signals])
    np.testing.assert_allclose(linear, (L - 1) / (L + signals * (L - 1) / L), rtol=1e-3)
    # the gap of two scores is N(nu, 2 nu): exp(-nu / 4) up to powers, which only steepen it
    assert np.all(-np.diff(softmax) > 0.25 * np.diff(signals))
    assert np.all(-np.diff(softmax) < 0.40 * np.diff(signals))


# -- the risk of any key and value -------------------------------------------------------------------------

PROBLEMS = [
    SLRProblem("spiked", 2.0, 3, 0.3),
    SLRProblem("spiked", 0.7, {1: 0.3, 4: 0.7}),
    SLRProblem("max", 1.5, [2, 3], 0.2),
    SLRProblem("max", INF, 4),
]
CROSSED = Overlaps(0.8, 0.6, 1.3, 0.9, m_key_value=0.35, m_value_key=-0.4, q_key_value=0.25)
PLAIN = Overlaps(0.8, 0.6, 1.3, 0.9)
AWAY = Overlaps(-0.5, -0.3, 0.9, 2.0, m_key_value=-0.6, m_value_key=0.7, q_key_value=-0.5)
# with hidden directions that overlap
TILTED = Overlaps(0.8, 0.6, 1.5, 1.1, m_key_value=0.35, m_value_key=-0.2, q_key_value=0.25, m_star=0.3)
OVERLAPS = pytest.mark.parametrize(
    "overlaps", [CROSSED, PLAIN, AWAY, TILTED], ids=["cross terms", "manifold", "wrong signs", "tilted"]
)


@OVERLAPS
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_risk_against_monte_carlo_in_four_dimensions(problem, name, overlaps):
    offset = -0.4 if name == "erf" else 0.0
    mean, error = monte_carlo_risk(problem, name, overlaps, 60_000, np.random.default_rng(7), offset)
    assert risk_at(problem, name, overlaps, offset=offset) == pytest.approx(mean, abs=4.5 * error + 2e-4)


def test_the_oracle_has_the_overlaps_it_is_asked_for():
    for overlaps in (CROSSED, AWAY, TILTED):
        rows = directions(overlaps)
        np.testing.assert_allclose(rows @ rows.T / 4.0, overlaps.gram(), atol=1e-12)


@OVERLAPS
@pytest.mark.parametrize("L", [2, 3, 6])
def test_linear_risk_is_exact_to_the_documented_error(L, overlaps):
    exact = linear_risk_of_spiked(2.0, L, overlaps, noise=0.3)
    risk = risk_at(SLRProblem("spiked", 2.0, L, 0.3), "linear", overlaps)
    # what the docstring promises
    assert risk == pytest.approx(exact, rel=3e-5 if overlaps is PLAIN else 3e-4)


def test_cross_terms_matter():
    # else the comparison above would not see them
    problem = PROBLEMS[0]
    for name in NAMES:
        assert abs(risk_at(problem, name, CROSSED) - risk_at(problem, name, PLAIN)) > 0.02


@pytest.mark.parametrize("m_star", [0.0, 0.4])
@pytest.mark.parametrize("name", NAMES)
def test_risk_of_a_key_along_the_hidden_one(name, m_star):
    # no component of k beyond k*: a special case in the code, continuous with its neighbours
    problem = SLRProblem("spiked", 2.0, 3)
    along = Overlaps(
        0.7, 0.5, 0.49, 0.4, m_key_value=0.7 * m_star, m_value_key=0.3, q_key_value=0.21, m_star=m_star
    )
    at = risk_at(problem, name, along)
    near = risk_at(problem, name, replace(along, q_key=0.49 + 1e-7))
    assert near == pytest.approx(at, rel=3e-4)  # two averages over other points
    mean, error = monte_carlo_risk(problem, name, along, 100_000, np.random.default_rng(1))
    assert at == pytest.approx(mean, abs=4.5 * error + 2e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rounding_of_a_large_key_along_the_hidden_one(sign):
    # what is left of the key beside k* is rounding, and nothing may be divided by it
    problem, m = SLRProblem("spiked", 2.0, 3), 100.0 * sign
    exact = Overlaps(m, 0.5, 1e4, 0.4, m_value_key=0.3, q_key_value=0.3 * m)
    rounded = replace(exact, q_key=1e4 + 4e-11, q_key_value=0.3 * m + 3e-6)
    assert rounded.q_key > exact.q_key
    assert risk_at(problem, "softmax", rounded) == pytest.approx(risk_at(problem, "softmax", exact), rel=1e-5)


def test_risk_of_nothing_is_the_variance():
    for name in NAMES:
        assert risk_at(PROBLEMS[0], name, Overlaps(0.0, 0.0, 0.0, 0.0)) == pytest.approx(1.09, abs=1e-12)


@pytest.mark.parametrize("name", ["softmax", "softplus"])
def test_one_token_is_linear_regression(name):
    problem = SLRProblem("spiked", 3.0, 1, 0.5)
    overlaps = Overlaps(0.8, 0.6, 1.3, 0.9)
    assert risk_at(problem, name, overlaps) == pytest.approx(0.25 + 1.0 - 1.2 + 0.9, abs=1e-10)
    best = population_risk(problem, name)
    assert best.risk == pytest.approx(0.25, abs=1e-9)
    assert best.value_scale == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", ["linear", pytest.param("erf", marks=SLOW)])
def test_one_token_leaves_the_unnormalised_without_error_too(name):
    assert population_risk(SLRProblem("max", 2.0, 1, 0.5), name).risk == pytest.approx(0.25, abs=CLOSED_FORM)


def test_a_law_of_lengths_is_the_mixture():
    parts = [risk_at(SLRProblem("max", 1.5, L), "softplus", CROSSED) for L in (2, 5)]
    both = risk_at(SLRProblem("max", 1.5, {2: 0.25, 5: 0.75}), "softplus", CROSSED)
    assert both == pytest.approx(0.25 * parts[0] + 0.75 * parts[1], abs=1e-12)


def test_long_sequences():
    problem = SLRProblem("max", 3.0, 300)
    risk = risk_at(problem, "linear", Overlaps(0.5, 0.1, 0.3, 0.02, m_key_value=0.05))
    mean, error = monte_carlo_risk(
        problem, "linear", Overlaps(0.5, 0.1, 0.3, 0.02, m_key_value=0.05), 8_000, np.random.default_rng(0)
    )
    assert risk == pytest.approx(mean, abs=4.5 * error)


def test_results_are_deterministic():
    problem = SLRProblem("max", 1.5, 2)
    assert uncached_population_risk(problem, "linear") == uncached_population_risk(problem, "linear")
    assert risk_at(problem, "erf", CROSSED) == risk_at(problem, "erf", CROSSED)
    assert bayes_risk(problem) == bayes_risk(problem)

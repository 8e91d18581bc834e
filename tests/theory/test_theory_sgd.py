"""One-pass SGD: its ODE against quoted numbers, a simulation in plain numpy, and the minimum it ends in."""

import math

import numpy as np
import pytest
from theory_oracles import INF, NAMES, draw_sequences, gauss_hermite, weights

from sklearn_attn.activations import get_activation
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import Overlaps, population_risk, risk_at, sgd_dynamics
from sklearn_attn.theory.sgd import _Averages

SPIKED = SLRProblem("spiked", 2.0, 3)


def test_numbers_of_reference_runs():
    d = sgd_dynamics(SPIKED, "softmax", 0.4, [0.0, 10.0, 19.5])
    np.testing.assert_array_equal(
        [d.m_key[0], d.m_value[0], d.q_key[0], d.q_value[0]], [0.0, 0.0, 0.25, 0.25]
    )
    # the document's averages were over fewer draws: 1 % of what has grown by then
    np.testing.assert_allclose(
        [d.m_key[1], d.m_value[1], d.q_key[1], d.q_value[1]], [0.433, 0.796, 0.427, 0.776], rtol=0.01
    )
    np.testing.assert_allclose(
        [d.m_key[2], d.m_value[2], d.q_key[2], d.q_value[2]], [0.801, 1.024, 0.861, 1.138], rtol=0.01
    )


def simulate(problem, name, rate, tau, D, rng, *, q=0.25, batch_size=1, power_t=0.0):
    """One pass of SGD on (y - f)^2 / 2 from random directions; overlaps at time tau."""
    (L,) = problem.lengths.tolist()
    k_star, v_star, k, v = rng.standard_normal((4, D))
    k_star, v_star = (a * math.sqrt(D) / np.linalg.norm(a) for a in (k_star, v_star))
    for a in (k, v):  # orthogonal to the hidden directions: no overlap at the start
        a -= (a @ k_star) * k_star / D + (a @ v_star) * v_star / D
        a *= math.sqrt(q * D) / np.linalg.norm(a)
    n_steps = round(tau * D)
    step = 0
    h = 1e-30j
    while step < n_steps:
        chunk = min(500, n_steps - step)
        X, y, _ = draw_sequences(problem, L, chunk * batch_size, k_star, v_star, rng)
        for t in range(chunk):
            gamma = rate / (1.0 + step / D) ** power_t
            step += 1
            k_step, v_step = np.zeros(D), np.zeros(D)
            for i in range(t * batch_size, (t + 1) * batch_size):
                chi, z = X[i] @ k / math.sqrt(D), X[i] @ v / math.sqrt(D)
                sigma = weights(name, chi)
                r = y[i] - sigma @ z
                pulled = np.array([(weights(name, chi + h * e) @ z).imag / 1e-30 for e in np.eye(L)])  # J^T z
                k_step += r * (pulled @ X[i]) / math.sqrt(D)
                v_step += r * (sigma @ X[i]) / math.sqrt(D)
            k = k + gamma * k_step / batch_size
            v = v + gamma * v_step / batch_size
    return np.array([k @ k_star, v @ v_star, k @ k, v @ v]) / D


CASES = [
    (SPIKED, "softmax", 0.4, 12.0, {}),
    (SLRProblem("max", INF, 3, 0.3), "softplus", 0.4, 8.0, {}),
    (SLRProblem("max", 2.0, 2), "erf", 0.15, 8.0, {"power_t": 0.3}),
    (SPIKED, "linear", 0.06, 10.0, {}),
    (SPIKED, "softmax", 0.8, 8.0, {"batch_size": 4}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "name", "rate", "tau", "options"), CASES)
def test_against_a_simulation(problem, name, rate, tau, options):
    d = sgd_dynamics(problem, name, rate, [tau], **options)
    predicted = np.array([d.m_key[0], d.m_value[0], d.q_key[0], d.q_value[0]])
    runs = np.array(
        [simulate(problem, name, rate, tau, 300, np.random.default_rng(s), **options) for s in range(5)]
    )
    error = runs.std(axis=0, ddof=1) / math.sqrt(len(runs))
    # 3 standard errors (t law with 4 degrees of freedom) and finite-size effects: D = 300 lags by a few %
    np.testing.assert_array_less(
        np.abs(runs.mean(axis=0) - predicted), 4.0 * error + 0.02 + 0.03 * np.abs(predicted)
    )
    assert np.abs(predicted[:2]).min() > 0.03  # it has learned something of both


def test_derivatives_in_time_against_monte_carlo():
    # one step of the ODE at overlaps with everything non-zero, from plain draws of the same averages
    o, gamma, tau = Overlaps(0.4, 0.5, 0.6, 0.8), 0.3, 1e-4
    rng = np.random.default_rng(0)
    n, key, value = 400_000, *(math.sqrt(2.0) * np.eye(2))
    problem = SLRProblem("max", 1.5, 2, 0.4)
    X, y, _ = draw_sequences(problem, 2, n, key, value, rng)
    zeta, zeta_z = rng.standard_normal((2, n, 2))
    chi_star, z_star = X[..., 0], X[..., 1]
    chi, z = 0.4 * chi_star + math.sqrt(0.6 - 0.16) * zeta, 0.5 * z_star + math.sqrt(0.8 - 0.25) * zeta_z
    for name in ("softmax", "erf"):
        sigma = weights(name, chi)
        r = (y - np.sum(sigma * z, axis=1))[:, None]
        J_z = np.stack(
            [np.sum(weights(name, chi + 1e-30j * e) * z, axis=1).imag / 1e-30 for e in np.eye(2)], axis=1
        )
        g_chi, g_z = -r * J_z, -r * sigma
        terms = [
            -gamma * np.sum(g_chi * chi_star, axis=1),
            -gamma * np.sum(g_z * z_star, axis=1),
            -2.0 * gamma * np.sum(g_chi * chi, axis=1) + gamma**2 * np.sum(g_chi**2, axis=1),
            -2.0 * gamma * np.sum(g_z * z, axis=1) + gamma**2 * np.sum(g_z**2, axis=1),
        ]
        d = sgd_dynamics(problem, name, gamma, [0.0, tau], start=o)
        for values, term in zip((d.m_key, d.m_value, d.q_key, d.q_value), terms, strict=True):
            error = 4.0 * term.std() / math.sqrt(n)
            # the curve's own difference over 1e-4 is exact to 1e-3 of it
            assert (values[1] - values[0]) / tau == pytest.approx(term.mean(), abs=error + 2e-3)


def test_the_limit_at_small_rates_is_the_population_minimum():
    best = population_risk(SPIKED, "softmax")
    ends = [sgd_dynamics(SPIKED, "softmax", rate, [900.0, 1000.0]) for rate in (0.1, 0.05)]
    for d in ends:
        assert d.risk[0] == pytest.approx(d.risk[1], abs=1e-3)
    # the stationary risk lies above the minimum by a term linear in the rate
    excess = [d.risk[1] - best.risk for d in ends]
    assert 0.0 < excess[1] < 0.02
    assert excess[0] / excess[1] == pytest.approx(2.0, abs=0.3)
    assert ends[1].m_key[1] == pytest.approx(best.key_scale, rel=0.1)
    assert ends[1].m_value[1] == pytest.approx(best.value_scale, rel=0.03)


def test_a_falling_rate_ends_lower():
    risks = [sgd_dynamics(SPIKED, "softmax", 0.5, [200.0], power_t=p).risk[0] for p in (0.0, 0.6)]
    assert risks[1] < risks[0] - 0.02


def test_without_noise_from_steps_power_t_is_a_change_of_clock():
    # at a vanishing rate only the integral of the rate counts: of (1 + tau)^-1 it is log(1 + tau)
    tau = math.e**3 - 1.0
    slow = sgd_dynamics(SPIKED, "softmax", 1e-3, [tau], power_t=1.0)
    plain = sgd_dynamics(SPIKED, "softmax", 1e-3, [3.0])
    assert slow.q_value[0] == pytest.approx(plain.q_value[0], abs=2e-6)
    assert abs(plain.q_value[0] - 0.25) > 1e-4


def test_a_batch_divides_the_noise_of_a_step():
    # gamma drift + gamma^2 / b diffusion: a batch of 2 lies midway between 1 and infinity, at short times
    d = {b: sgd_dynamics(SPIKED, "softmax", 0.5, [1e-3], batch_size=b).q_value[0] for b in (1, 2, 10**9)}
    assert d[1] > d[10**9]
    assert d[2] - d[10**9] == pytest.approx(0.5 * (d[1] - d[10**9]), rel=1e-3)


@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus"])
def test_risk_is_that_of_the_overlaps(name):
    start = Overlaps(0.3, 0.2, 0.5, 0.4)
    d = sgd_dynamics(SLRProblem("max", 2.0, [1, 3], 0.3), name, 0.1, [0.0, 1.0], start=start, offset=0.3)
    at = Overlaps(d.m_key[1], d.m_value[1], d.q_key[1], d.q_value[1])
    for risk, overlaps in zip(d.risk, (start, at), strict=True):
        expected = risk_at(SLRProblem("max", 2.0, [1, 3], 0.3), name, overlaps, offset=0.3)
        assert risk == pytest.approx(expected, abs=3e-3)


def test_times():
    d = sgd_dynamics(SPIKED, "softmax", 0.4, [0, 2, 5])
    np.testing.assert_array_equal(d.times, [0.0, 2.0, 5.0])
    alone = sgd_dynamics(SPIKED, "softmax", 0.4, [5.0])
    assert alone.risk.shape == (1,)
    assert alone.m_value[0] == pytest.approx(d.m_value[2], abs=1e-4)
    assert sgd_dynamics(SPIKED, "softmax", 0.4, [0.0]).m_value.tolist() == [0.0]
    np.testing.assert_array_equal(d.risk, sgd_dynamics(SPIKED, "softmax", 0.4, [0, 2, 5]).risk)


def test_a_rate_that_is_too_large():
    with pytest.raises(FloatingPointError, match="lower it"):
        sgd_dynamics(SPIKED, "linear", 50.0, [50.0])


def test_averages_of_linear_attention_to_one_token_against_quadrature():
    problem, (m_k, m_v, q_k, q_v) = SLRProblem("spiked", 1.5, 1, 0.4), (0.4, 0.5, 0.6, 0.8)
    g, w = gauss_hermite(5)
    grid = np.stack(np.meshgrid(g, g, g, g, indexing="ij")).reshape(4, -1)
    density = np.einsum("i,j,k,l->ijkl", w, w, w, w).ravel()
    chi_star, z_star = math.sqrt(1.5) + grid[0], grid[1]
    chi = m_k * chi_star + math.sqrt(q_k - m_k**2) * grid[2]
    z = m_v * z_star + math.sqrt(q_v - m_v**2) * grid[3]
    r = z_star - (1.0 + chi) * z  # and the noise, whose square has the mean 0.4^2
    square = r**2 + 0.4**2
    drift, diffusion, risk = _Averages(problem, get_activation("linear"))(np.array([m_k, m_v, q_k, q_v]))
    expected = [r * z * chi_star, r * (1.0 + chi) * z_star, 2.0 * r * z * chi, 2.0 * r * (1.0 + chi) * z]
    np.testing.assert_allclose(drift, [density @ x for x in expected], atol=1e-3)
    np.testing.assert_allclose(
        diffusion, [0.0, 0.0, density @ (square * z**2), density @ (square * (1.0 + chi) ** 2)], rtol=1e-3
    )
    assert risk == pytest.approx(density @ square, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_norm_of_the_jacobian(name):
    averages = _Averages(SPIKED, get_activation(name))
    chi = np.random.default_rng(0).standard_normal((30, 4))
    columns = [weights(name, chi + 1e-30j * e).imag / 1e-30 for e in np.eye(4)]
    np.testing.assert_allclose(
        averages._jacobian_norm(chi, weights(name, chi)), np.sum(np.square(columns), axis=(0, 2)), rtol=1e-12
    )


@pytest.mark.parametrize("name", ["softmax", "erf"])
def test_a_law_of_lengths_is_the_mixture(name):
    def averages(length):
        problem = SLRProblem("max", 1.5, length, 0.3)
        return np.hstack(_Averages(problem, get_activation(name, 0.2))(np.array([0.4, 0.5, 0.6, 0.8])))

    np.testing.assert_allclose(
        averages({2: 0.25, 5: 0.75}), 0.25 * averages(2) + 0.75 * averages(5), rtol=1e-12, atol=1e-13
    )
    assert np.abs(averages(2) - averages(5)).max() > 0.02

"""One step of the replica map, part by part, against derivatives by differences and the equations it stands for."""

import math

import numpy as np
import pytest
from theory_oracles import INF, NAMES, weights

from sklearn_attn._compiled import ACTIVATION_CODES
from sklearn_attn.activations import ACTIVATIONS, get_activation
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import _replica_map, _replica_solver, _stability
from sklearn_attn.theory._proximal import proximal
from sklearn_attn.theory._replica_map import Draws, ReplicaMap
from sklearn_attn.theory._sensitivity import sensitivities
from sklearn_attn.theory._stability import loss_hessian, replicon

# (m_k, m_v, q_k, q_v, V_k, V_v), near fixed points of stable settings
SETTINGS = {
    "spiked": (SLRProblem("spiked", 2.0, 3, 0.3), "softmax", (0.42, 0.73, 0.32, 0.65, 0.71, 0.46)),
    "erf": (SLRProblem("spiked", 2.0, 3), "erf", (0.26, 0.35, 0.214, 0.167, 0.52, 0.1)),
    "max": (SLRProblem("max", INF, 3, 0.3), "softplus", (0.79, 1.0, 0.89, 1.06, 1.0, 0.21)),
    "noisy max": (SLRProblem("max", 2.0, 2), "linear", (0.2, 0.3, 0.3, 0.2, 0.5, 0.2)),
}
every_setting = pytest.mark.parametrize(("problem", "name", "x"), SETTINGS.values(), ids=SETTINGS)


@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_sensitivities_are_derivatives_of_the_proximal_point(name, L):
    n, V_k, V_v, offset = 12, 0.6, 0.3, 0.2
    rng = np.random.default_rng(5)
    y, w, o = rng.standard_normal(n), rng.standard_normal((n, L)), rng.standard_normal((n, L))
    kind, normalised = ACTIVATION_CODES[name], ACTIVATIONS[name].normalised
    base = None

    def solve(y, w, o):
        chi, sigma, lam = (o if base is None else base).copy(), np.empty((n, L)), np.empty(n)
        proximal(kind, normalised, offset, y, w, o, V_k, V_v, base is None, 1e-12, 0, n, chi, sigma, lam)
        return chi, sigma, lam

    base, sigma, lam = solve(y, w, o)
    out = np.full((n, 3), np.nan)
    sensitivities(kind, normalised, offset, w, V_k, V_v, base, sigma, lam, 0, n, out)

    def f_chi(o):
        return (solve(y, w, o)[0] - o) / V_k

    def f_z(y, w):
        _, sigma, lam = solve(y, w, o)
        return lam[:, None] * sigma

    h, expected = 3e-4, np.zeros((n, 3))
    for i, e in enumerate(np.eye(L)):
        expected[:, 0] += (f_chi(o + h * e) - f_chi(o - h * e))[:, i] / (2 * h)
        expected[:, 1] += (f_z(y, w + h * e) - f_z(y, w - h * e))[:, i] / (2 * h)
    expected[:, 2] = (f_z(y + h, w) - f_z(y - h, w))[:, 0] / (2 * h)
    smooth = np.abs(expected).max(axis=1) < 100.0
    assert smooth.sum() >= n - 1
    np.testing.assert_allclose(out[smooth], expected[smooth], rtol=2e-3, atol=1e-3)


def test_a_point_that_is_no_minimum_has_no_sensitivity():
    # between two minima of one token: the Hessian of the proximal objective is negative there
    chi, w, lam = np.zeros((1, 2)), np.array([[8.0, -8.0]]), np.array([0.0])
    sigma, out = np.full((1, 2), 0.5), np.full((1, 3), np.nan)
    sensitivities(0, True, 0.0, w, 1e3, 1e-6, chi, sigma, np.array([-5.0]), 0, 1, out)
    assert np.all(np.isfinite(out))
    sensitivities(3, True, 0.0, w, 1e3, 10.0, chi, sigma, lam - 50.0, 0, 1, out)
    np.testing.assert_array_equal(out, 0.0)


@every_setting
def test_fields_have_their_means_and_variances(problem, name, x):
    m_k, m_v, q_k, q_v, _, _ = x
    L = int(problem.lengths[0])
    draws = Draws(problem, L, 1.0, 256)
    o, w, y, sd, rho, s = draws.fields(np.array(x))
    is_spiked = problem.task == "spiked"
    assert sd == pytest.approx(math.sqrt(q_k if is_spiked else q_k - m_k**2))
    assert rho == pytest.approx(m_v / math.sqrt(q_v))
    assert s == pytest.approx(math.sqrt(1.0 + problem.noise**2 - m_v**2 / q_v))
    if is_spiked:
        mean = np.zeros(L)
        mean[0] = math.sqrt(problem.signal) * m_k
    else:
        mean = m_k * draws.chi_star
        assert draws.chi_star[:, 0].mean() > 0.3  # the hidden one is large
        assert draws.chi_star.mean() == pytest.approx(0.0, abs=0.02)
        assert draws.chi_star.var() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose((o - mean).mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose((o - mean).std(axis=0), sd, rtol=0.02)
    np.testing.assert_allclose(np.cov(w.T), q_v * np.eye(L), atol=0.03)
    np.testing.assert_allclose([np.mean(y * w[:, i]) for i in range(L)], [m_v] + [0.0] * (L - 1), atol=0.03)
    assert y.var() == pytest.approx(1.0 + problem.noise**2, rel=0.03)
    assert np.abs(np.corrcoef(np.column_stack([o - mean, w]).T) - np.eye(2 * L)).max() < 0.05


@every_setting
def test_averages_are_those_of_the_proximal_points(problem, name, x):
    x, activation = np.array(x), get_activation(name)
    _, _, _, q_v, V_k, V_v = x
    L, N = int(problem.lengths[0]), _replica_map.N_REPLICATES
    draws = Draws(problem, L, 1.0, 64)
    averages = draws.averages(activation, x, True, 1e-8)
    assert averages.shape == (N, 10)
    o, w, y, sd, rho, s = draws.fields(x)
    chi = draws.chi_hat
    sigma = weights(name, chi)
    lam = (y - np.sum(sigma * w, axis=1)) / (1.0 + V_v * np.sum(sigma**2, axis=1))
    f_chi, f_z = (chi - o) / V_k, lam[:, None] * sigma
    out = np.empty((lam.size, 3))
    kind, normalised = ACTIVATION_CODES[name], activation.normalised
    sensitivities(kind, normalised, 0.0, w, V_k, V_v, chi, sigma, lam, 0, lam.size, out)
    by_y = f_z[:, 0] * draws.n_y / s
    columns = {
        1: out[:, 2],
        2: np.sum(f_chi**2, axis=1),
        3: np.sum(f_z**2, axis=1),
        4: -out[:, 0],
        5: -out[:, 1],
        6: lam**2,
        7: by_y,
        8: -np.sum(f_chi * draws.n_k, axis=1) / sd,
        9: -(np.sum(f_z * draws.n_z, axis=1) - rho * by_y) / math.sqrt(q_v),
    }
    if problem.task == "spiked":
        columns[0] = math.sqrt(problem.signal) * f_chi[:, 0]
    for column, numbers in columns.items():
        np.testing.assert_allclose(
            averages[:, column], numbers.reshape(N, -1).mean(axis=1), rtol=1e-6, atol=1e-7
        )


@every_setting
def test_both_forms_of_an_average_agree(problem, name, x):
    # derivatives, and products with the fields: Stein's lemma, where no jumps are to speak of
    x = np.array(x)
    draws = Draws(problem, int(problem.lengths[0]), 1.0, 512)
    averages = draws.averages(get_activation(name), x, True, 1e-8)
    mean, error = averages.mean(axis=0), averages.std(axis=0) / math.sqrt(len(averages))
    for smooth, by_parts in _replica_map._ESTIMATED_TWICE:
        assert mean[smooth] == pytest.approx(mean[by_parts], abs=0.01 + 4.0 * error[by_parts])
    assert np.abs(mean).min() > 0.01


@pytest.mark.parametrize("setting", ["max", "noisy max"])
def test_the_two_forms_of_m_hat_agree(monkeypatch, setting):
    problem, name, x = SETTINGS[setting]
    outcomes, errors = [], []
    for share in (0.0, 1.0):
        monkeypatch.setattr(_replica_map, "_direct_share", lambda x, share=share: share)
        replica_map = ReplicaMap(problem, get_activation(name), 4.0, 0.5, 0.5, 2**15)
        outcomes.append(replica_map(np.array(x), search=True)[0])
        errors.append(replica_map.replicates()[:, 0].std(ddof=1) / math.sqrt(8))
    assert max(errors) < 0.01 * outcomes[0]
    assert outcomes[1] == pytest.approx(outcomes[0], abs=4.0 * math.hypot(*errors))


def test_a_step_is_the_update_of_the_averages():
    problem, name, x = SETTINGS["spiked"]
    replica_map = ReplicaMap(problem, get_activation(name), 4.0, 0.7, 0.5, 2**10)
    new = replica_map(np.array(x), search=True)
    a = 4.0 * replica_map._last_averages.mean(axis=0)
    V = 1.0 / (a[4:6] + np.array([0.7, 0.5]))
    expected = [*(a[0:2] * V), *((a[0:2] ** 2 + a[2:4]) * V**2), *V]
    np.testing.assert_allclose(new, expected, rtol=1e-12)
    assert replica_map.train_error == pytest.approx(a[6] / 4.0)
    replicates = replica_map.replicates()
    assert replicates.shape == (8, 6)
    a = 4.0 * replica_map._last_averages[3]
    V = 1.0 / (a[4:6] + np.array([0.7, 0.5]))
    np.testing.assert_allclose(
        replicates[3], [*(a[0:2] * V), *((a[0:2] ** 2 + a[2:4]) * V**2), *V], rtol=1e-12
    )
    # far from a fixed point V grows at most fourfold
    tiny = np.array([0.0, 0.0, 1.0, 1.0, 1e-3, 2e-3])
    np.testing.assert_allclose(replica_map(tiny)[4:], [4e-3, 8e-3], rtol=1e-12)


def test_a_law_of_lengths_is_averaged_over():
    _, name, x = SETTINGS["max"]
    mixed = SLRProblem("max", INF, (2, 3), 0.3)
    replica_map = ReplicaMap(mixed, get_activation(name), 4.0, 0.5, 0.5, 2**10)
    replica_map(np.array(x), search=True)
    parts = [draws.averages(get_activation(name), np.array(x), False, 1e-6) for draws in replica_map.draws]
    expected = 0.5 * parts[0] + 0.5 * parts[1]
    np.testing.assert_allclose(replica_map._last_averages[:, [2, 3, 6]], expected[:, [2, 3, 6]], rtol=1e-6)


def test_jumps_count_as_far_as_they_are_seen():
    same = np.full(8, 0.3)
    np.testing.assert_allclose(_replica_map._significant(same), same, rtol=1e-12)
    np.testing.assert_array_equal(_replica_map._significant(np.zeros(8)), 0.0)
    noisy = np.array([0.5, -0.3, 0.4, -0.2, 0.6, -0.4, 0.3, -0.1])
    noise = np.var(noisy, ddof=1) / 8
    shrunk = noisy * noisy.mean() ** 2 / (noisy.mean() ** 2 + 4.0 * noise)
    np.testing.assert_allclose(_replica_map._significant(noisy), shrunk, rtol=1e-12)


def test_free_coordinates():
    x = np.array([0.4, -3.0, 0.5, 9.7, 0.3, 4.0])
    u = _replica_solver.to_free(x)
    spread = np.array([0.5 - 0.16, 0.7])
    np.testing.assert_allclose(
        u, [*np.arcsinh([0.4, -3.0]), *np.log(spread + 1e-6), *np.log([0.3, 4.0])], rtol=1e-12
    )
    np.testing.assert_allclose(_replica_solver.from_free(u), x, rtol=1e-12)
    none = np.array([0.4, 1.0, 0.16, 1.0, 0.3, 4.0])  # no spread at all
    again = _replica_solver.from_free(_replica_solver.to_free(none))
    np.testing.assert_allclose(again, none, atol=2e-9)
    assert np.all(again[2:4] > again[:2] ** 2)


def test_the_response_is_the_inverse_of_one_less_the_jacobian():
    rng = np.random.default_rng(0)
    A, b = 0.3 * rng.standard_normal((6, 6)), rng.standard_normal(6)

    def linear(x):
        return _replica_solver.from_free(A @ _replica_solver.to_free(x) + b)

    response = _replica_solver.response_of(linear, rng.standard_normal(6))
    np.testing.assert_allclose(response, np.linalg.inv(np.eye(6) - A), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_replicon_is_the_radius_of_the_mean_squares_of_the_derivatives(monkeypatch, name):
    x = np.array([0.42, 0.73, 0.32, 0.65, 0.71, 0.46])
    problem, activation = SLRProblem("max", INF, {2: 0.3, 3: 0.7}, 0.3), get_activation(name)
    replica_map = ReplicaMap(problem, activation, 4.0, 0.5, 0.5, 2**8)
    replica_map(x, search=True, tol=1e-8)
    V, S = x[4:], np.zeros((2, 2))
    for draws, probability in zip(replica_map.draws, (0.3, 0.7), strict=True):
        L = draws.L
        (_, w, *_), sigma, lam = draws.proximal_points(activation, x, False, 1e-8)
        for i in range(lam.size):
            z_hat = w[i] + V[1] * lam[i] * sigma[i]
            H = loss_hessian(
                activation, draws.chi_hat[i : i + 1], z_hat[None], sigma[i : i + 1], lam[i : i + 1]
            )[0]
            derivative = np.linalg.inv(np.eye(2 * L) + H @ np.diag(np.repeat(V, L))) @ H
            for a in range(2):
                for b in range(2):
                    part = derivative[a * L : (a + 1) * L, b * L : (b + 1) * L]
                    S[a, b] += 4.0 * V[a] ** 2 * probability * np.sum(part**2) / lam.size
    expected = np.abs(np.linalg.eigvals(S)).max()
    assert replicon(replica_map, x) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(_stability, "_MAX_NUMBERS", 7 * 36)  # a few matrices at a time
    assert replicon(replica_map, x) == pytest.approx(expected, rel=1e-6)


def test_a_quarter_of_the_draws_is_the_first_of_every_replicate():
    problem, name, x = SETTINGS["max"]
    draws = Draws(problem, 3, 1.0, 128)
    draws.proximal_points(get_activation(name), np.array(x), True, 1e-6)
    some = draws.first_quarter()
    assert some.n_points == 32
    for numbers in ("n_y", "n_z", "n_k", "chi_star", "chi_hat"):
        whole, part = getattr(draws, numbers), getattr(some, numbers)
        expected = np.concatenate([whole[128 * r : 128 * r + 32] for r in range(8)])
        np.testing.assert_array_equal(part, expected)
        assert not np.shares_memory(part, whole)
    assert Draws(problem, 3, 1.0, 32).first_quarter().n_points == 16
    assert Draws(problem, 3, 1.0, 8).first_quarter().n_points == 8
    assert Draws(SETTINGS["spiked"][0], 3, 1.0, 64).first_quarter().chi_star is None


def test_unlikely_and_long_sequences_have_fewer_draws():
    problem = SLRProblem("max", INF, {1: 0.8, 2: 0.1, 16: 0.1})
    found = [(draws.L, draws.n_points) for draws in _replica_map.draw_all(problem, 2**12)]
    # 2^12 / 8 of each, times at most twice the probability and 8 / L
    assert found == [(1, 512), (2, 128), (16, 128)]
    (long,) = _replica_map.draw_all(SLRProblem("max", INF, 32), 2**12)
    assert long.n_points == 128
    assert [draws.n_points for draws in _replica_map.draw_all(problem, 8)] == [16, 16, 16]


def test_the_share_of_the_direct_form_grows_with_what_the_fields_tell():
    for m, q, expected in (
        (0.3, 0.5, (0.09 / 0.5) ** 4),
        (0.9, 0.9, 0.9**4),
        (-0.9, 0.9, 0.9**4),
        (2.0, 3.9, 1.0),
    ):
        assert _replica_map._direct_share(np.array([m, 0.7, q])) == pytest.approx(expected)


def test_a_spread_too_small_to_divide_by_is_left_out():
    problem, name, x = SETTINGS["noisy max"]
    x = np.array(x)
    for variance, V_k, is_small in ((9e-10, 4e-4, False), (9e-10, 1e-3, True), (0.0, 1e4, True)):
        x[2], x[4] = x[0] ** 2 + variance, V_k
        averages = Draws(problem, 2, 1.0, 32).averages(get_activation(name), x, True, 1e-8)
        assert np.array_equal(averages[:, 8], averages[:, 4]) == is_small


def test_jumps_are_added_to_the_averages():
    problem, name, x = SETTINGS["spiked"]
    replica_map = ReplicaMap(problem, get_activation(name), 4.0, 0.7, 0.5, 2**10)
    replica_map(np.array(x), search=True, tol=1e-8)
    draws = replica_map.draws[0].averages(get_activation(name), np.array(x), False, 1e-8)
    for smooth, by_parts in _replica_map._ESTIMATED_TWICE:
        expected = draws[:, smooth] + _replica_map._significant(draws[:, by_parts] - draws[:, smooth])
        np.testing.assert_allclose(replica_map._last_averages[:, smooth], expected, rtol=1e-6, atol=1e-9)

"""The parts of the proximal step one by one: the scan for starts, Newton's steps and their factors."""

import numpy as np
import pytest
from theory_oracles import NAMES, proximal_gradient, proximal_objective, weights

from sklearn_attn._compiled import ACTIVATION_CODES
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.theory import _proximal
from sklearn_attn.theory._proximal import _minimise, _scan, factorise_shifted, solve_factorised

OFFSET = -0.4


def draw(L, seed=0):
    rng = np.random.default_rng(seed)
    return float(rng.standard_normal()), *rng.standard_normal((2, L)), 0.7, 1.3


def scan(name, sample, centre):
    L = centre.size
    starts, values = np.full((_proximal._N_STARTS + 1, L), np.nan), np.empty(_proximal._N_STARTS)
    kind, normalised = ACTIVATION_CODES[name], ACTIVATIONS[name].normalised
    _scan(kind, normalised, OFFSET, sample, centre, np.empty((5, L)), starts, values)
    return starts, values


def candidates(name, sample, centre):
    """The best shift of every token and move, and the objective there, by the definition."""
    y, w, o, V_k, V_v = sample
    L, leader = centre.size, int(centre.argmax())
    units, found = np.eye(L), []
    for token in range(L):
        moves = [-units[token], units[token], units[token] - units[leader]]
        for move in moves[: 2 if token == leader else 3]:
            points = [centre + t * np.sqrt(1.0 + V_k) * move for t in (0.7, 1.5, 3.0, 6.0)]
            values = [proximal_objective(name, point, y, w, o, V_k, V_v, OFFSET) for point in points]
            found.append((min(values), points[int(np.argmin(values))]))
    return sorted(found, key=lambda pair: pair[0])


@pytest.mark.parametrize("L", [1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_the_scan_keeps_the_best_of_its_candidates(name, L):
    for seed in range(6):
        sample = draw(L, seed)
        centre = np.random.default_rng(100 + seed).standard_normal(L)
        starts, values = scan(name, sample, centre)
        expected = candidates(name, sample, centre)[: _proximal._N_STARTS]
        n = len(expected)
        np.testing.assert_allclose(values[:n], [value for value, _ in expected], rtol=1e-10)
        np.testing.assert_allclose(starts[:n], [point for _, point in expected], rtol=1e-12)
        assert np.all(values[n:] == np.inf)


def test_the_scan_is_safe_at_far_scores():
    sample = draw(3)
    centre = np.array([-3000.0, -3001.0, -3000.5])  # whose exponentials are none
    starts, values = scan("softmax", (sample[0], sample[1], centre + 0.1, *sample[3:]), centre)
    assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(starts[:8]))


def minimise(name, sample, start, known, tol=1e-9):
    L = start.size
    chi = start.copy()
    kind, normalised = ACTIVATION_CODES[name], ACTIVATIONS[name].normalised
    work, H, factor = np.empty((5, L)), np.empty((L, L)), np.empty((L, L))
    return _minimise(kind, normalised, OFFSET, sample, chi, known, work, H, factor, tol), chi


@pytest.mark.parametrize("name", NAMES)
def test_newton_steps_reach_a_minimum_that_is_lower_than_the_start(name):
    for seed in range(4):
        L = 1 + seed
        sample = draw(L, seed)
        start = 2.0 * np.random.default_rng(100 + seed).standard_normal(L)
        before = start.copy()
        value, chi = minimise(name, sample, start, np.full(L, np.inf))
        np.testing.assert_array_equal(start, before)
        assert value == pytest.approx(proximal_objective(name, chi, *sample, OFFSET), rel=1e-12)
        assert value < proximal_objective(name, start, *sample, OFFSET)
        assert np.abs(proximal_gradient(name, chi, *sample, OFFSET)).max() * sample[3] < 1e-7
        # again from there: nothing is left to do, and it is no other minimum than the one that is known
        again, same = minimise(name, sample, chi, np.full(L, np.inf))
        assert again == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(same, chi, atol=1e-8)
        assert minimise(name, sample, start, chi)[0] == np.inf
        # a known point that is far in one token alone is another one
        other = chi.copy()
        other[-1] += 50.0
        assert np.isfinite(minimise(name, sample, start, other)[0])


def test_few_newton_steps_suffice(monkeypatch):
    """Steps with the exact Hessian: from near a minimum three of them leave rounding."""
    for name in NAMES:
        sample = draw(3, 5)
        _, chi = minimise(name, sample, np.zeros(3), np.full(3, np.inf))
        L, kind, normalised = 3, ACTIVATION_CODES[name], ACTIVATIONS[name].normalised
        point = chi + 1e-2 * np.array([1.0, -1.0, 0.5])
        for _ in range(3):
            _, w, o, V_k, V_v = sample
            sigma, slope, gradient, H = np.empty(L), np.empty(L), np.empty(L), np.empty((L, L))
            _proximal._weights(kind, normalised, OFFSET, point, sigma, slope)
            np.testing.assert_allclose(sigma, weights(name, point, OFFSET), rtol=1e-12)
            _, lam, scale = _proximal._value(sample, point, sigma)
            _proximal.loss_derivatives(
                kind, normalised, OFFSET, V_v, w, lam, scale, point, sigma, slope, gradient, H
            )
            gradient += (point - o) / V_k
            factor, step = np.zeros((L, L)), np.empty(L)
            assert factorise_shifted(H, 1.0 / V_k, factor)
            solve_factorised(factor, gradient, step)
            point = point + step
        np.testing.assert_allclose(point, chi, atol=1e-8)


@pytest.mark.parametrize("L", [1, 2, 3, 5])
def test_factors_and_their_solutions(L):
    rng = np.random.default_rng(L)
    A = rng.standard_normal((L, L))
    H, gradient, shift = A + A.T, rng.standard_normal(L), 10.0
    factor, step = np.zeros((L, L)), np.empty(L)
    assert factorise_shifted(H, shift, factor)
    np.testing.assert_allclose(
        np.tril(factor) @ np.tril(factor).T, H + shift * np.eye(L), rtol=1e-12, atol=1e-13
    )
    solve_factorised(factor, gradient, step)
    np.testing.assert_allclose((H + shift * np.eye(L)) @ step, -gradient, rtol=1e-11, atol=1e-12)
    lowest = np.linalg.eigvalsh(H)[0]
    assert factorise_shifted(H, -lowest + 1e-3, factor)
    assert not factorise_shifted(H, -lowest - 1e-3, factor)
    assert not factorise_shifted(-shift * np.eye(L), shift, factor)  # singular


@pytest.mark.parametrize("shift", [-1000.0, 1000.0])
def test_weights_are_safe_at_far_scores(shift):
    chi = shift + np.array([0.0, 1.0, -2.0])
    sigma, slope = np.empty(3), np.empty(3)
    _proximal._weights(0, True, 0.0, chi, sigma, slope)
    np.testing.assert_allclose(sigma, weights("softmax", chi - shift), rtol=1e-12)


def test_the_scan_is_safe_where_scores_differ_much():
    sample = draw(3)
    for order in ([900.0, 0.0, -900.0], [-900.0, 0.0, 900.0]):
        centre = np.array(order)
        starts, values = scan("softmax", (sample[0], sample[1], centre, *sample[3:]), centre)
        assert np.all(np.isfinite(values))
        expected = [
            proximal_objective("softmax", s - s.max(), *sample[:2], centre - s.max(), *sample[3:])
            for s in starts[:8]
        ]
        np.testing.assert_allclose(values, expected, rtol=1e-10)


@pytest.mark.parametrize("V_k", [1e-3, 1e3])
def test_steps_end_where_the_scaled_gradient_is_below_the_tolerance(V_k):
    y, w, o, _, V_v = draw(3, 2)
    sample = y, w, o, V_k, V_v
    for tol in (1e-2, 1e-5):
        _, chi = minimise("softmax", sample, o + 0.3 * np.sqrt(V_k), np.full(3, np.inf), tol)
        assert np.abs(proximal_gradient("softmax", chi, *sample, OFFSET)).max() * V_k <= tol

"""The law of the hidden location given noisy scores, against quadrature."""

import numpy as np
import pytest
from theory_oracles import INF, argmax_of_normals, softmax_of_normals

from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory._location import location_evidence

SIGNALS = [0.3, 2.0, 60.0, INF]
VARIANCES = [0.5, 0.01]


def exact_weights(mean, V, signal):
    if np.isinf(signal):
        return argmax_of_normals(mean, V)
    return np.array([softmax_of_normals(row, V, signal, n=801) for row in mean])


@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("V", VARIANCES)
@pytest.mark.parametrize("signal", SIGNALS)
def test_max_against_quadrature(signal, V, L):
    rng = np.random.default_rng(L)
    mean, N = 0.3 * rng.standard_normal((3, L)), rng.random((3, L)) + 0.05
    problem = SLRProblem("max", signal, L)
    w, score = location_evidence(problem, mean, V, N)
    # linear interpolation in a table of 2048 cells, and a step of half a width: about 1e-5
    np.testing.assert_allclose(w, exact_weights(mean, V, signal), atol=2e-5)

    def log_evidence(mean):
        return np.log(np.sum(exact_weights(mean, V, signal) * N, axis=1))

    h = 1e-3  # against the width 0.1 over which the evidence varies: (h / 0.1)^2 = 1e-4 of it at most
    differences = np.stack(
        [(log_evidence(mean + h * e) - log_evidence(mean - h * e)) / (2.0 * h) for e in np.eye(L)], axis=1
    )
    np.testing.assert_allclose(score, differences, atol=2e-4)
    assert np.abs(differences).max() > 0.02


def test_tokens_are_exchangeable():
    rng = np.random.default_rng(0)
    mean, N, order = rng.standard_normal((50, 4)), rng.random((50, 4)), np.array([2, 0, 3, 1])
    for problem in (SLRProblem("max", 2.0, 4), SLRProblem("max", INF, 4), SLRProblem("spiked", 2.0, 4)):
        w, score = location_evidence(problem, mean, 0.3, N)
        permuted_w, permuted_score = location_evidence(problem, mean[:, order], 0.3, N[:, order])
        np.testing.assert_allclose(permuted_w, w[:, order], atol=1e-12)
        np.testing.assert_allclose(permuted_score, score[:, order], atol=1e-12)


@pytest.mark.parametrize("V", VARIANCES)
@pytest.mark.parametrize("signal", SIGNALS)
def test_sixty_four_tokens(signal, V):
    rng = np.random.default_rng(1)
    mean, N = rng.standard_normal((100, 64)), rng.random((100, 64)) + 0.05
    problem = SLRProblem("max", signal, 64)
    w, score = location_evidence(problem, mean, V, N)
    np.testing.assert_allclose(w.sum(axis=1), 1.0, atol=1e-4)
    if np.isinf(signal):
        np.testing.assert_allclose(w[:20], argmax_of_normals(mean[:20], V, n=301), atol=1e-4)
    # a shift of all means changes nothing
    np.testing.assert_allclose(score.sum(axis=1), 0.0, atol=1e-10)
    # the score along one token; h is wider than a cell of the table, 18 sd / 2048, so as to see its
    # interpolation averaged, and a fiftieth of the width
    h = 0.02 * np.sqrt(V)
    along = np.eye(64)[mean.argmax(axis=1)]
    ahead, behind = (
        np.log(np.sum(location_evidence(problem, mean + sign * h * along, V, N)[0] * N, axis=1))
        for sign in (1, -1)
    )
    expected = (ahead - behind) / (2.0 * h)
    scale = 1.0 / np.sqrt(V + 1.0 / signal**2)
    np.testing.assert_allclose(np.sum(score * along, axis=1), expected, atol=5e-4 * max(scale, 1.0))


@pytest.mark.parametrize("signal", [0.3, 2.0, 60.0])
@pytest.mark.parametrize("V", VARIANCES)
def test_spiked_in_closed_form(signal, V):
    # E exp(sqrt(nu) chi_e) ~ exp(sqrt(nu) mean_e), whatever V; its score is that of the unnormalised evidence
    rng = np.random.default_rng(2)
    mean, N = rng.standard_normal((20, 5)), rng.random((20, 5)) + 0.05
    w, score = location_evidence(SLRProblem("spiked", signal, 5), mean, V, N)
    unnormalised = np.exp(np.sqrt(signal) * mean)
    np.testing.assert_allclose(w, unnormalised / unnormalised.sum(axis=1, keepdims=True), rtol=1e-12)

    def log_evidence(mean):
        return np.log(np.sum(np.exp(np.sqrt(signal) * mean) * N, axis=1))

    differences = np.stack(
        [(log_evidence(mean + 1e-5 * e) - log_evidence(mean - 1e-5 * e)) / 2e-5 for e in np.eye(5)], axis=1
    )
    np.testing.assert_allclose(score, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("task", ["spiked", "max"])
def test_one_token_is_where_it_is(task):
    mean = np.array([[0.3], [-2.0]])
    w, score = location_evidence(SLRProblem(task, 2.0, 1), mean, 0.3, np.ones((2, 1)))
    np.testing.assert_array_equal(w, 1.0)
    if task == "max":
        np.testing.assert_array_equal(score, 0.0)
    else:  # exp(sqrt(nu) mean) has the slope sqrt(nu) in the mean; GAMP counts on it
        np.testing.assert_allclose(score, np.sqrt(2.0))


def test_scores_that_are_known_and_scores_that_are_not():
    mean = np.array([[0.5, 0.1, -2.0]])
    known, _ = location_evidence(SLRProblem("max", INF, 3), mean, 1e-8, np.ones((1, 3)))
    np.testing.assert_allclose(known, [[1.0, 0.0, 0.0]], atol=1e-6)
    unknown, _ = location_evidence(SLRProblem("max", INF, 3), mean, 1e6, np.ones((1, 3)))
    np.testing.assert_allclose(unknown, 1.0 / 3.0, atol=2e-3)  # means over the width: 2.5e-3
    p = np.exp(2.0 * mean)
    known, _ = location_evidence(SLRProblem("max", 2.0, 3), mean, 1e-8, np.ones((1, 3)))
    np.testing.assert_allclose(known, p / p.sum(), atol=2e-5)


def test_far_apart_means():
    mean = np.array([[40.0, -40.0, 0.0], [1e3, 1e3, 0.0]])
    for signal in (2.0, INF):
        w, score = location_evidence(SLRProblem("max", signal, 3), mean, 0.5, np.ones((2, 3)))
        np.testing.assert_allclose(w, [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], atol=2e-5)
        np.testing.assert_allclose(score, 0.0, atol=1e-4)
        # evidence only for what is next to impossible: finite, not NaN
        _, score = location_evidence(SLRProblem("max", signal, 3), mean, 0.5, np.array([[0.0, 1.0, 0.0]] * 2))
        assert np.all(np.isfinite(score))

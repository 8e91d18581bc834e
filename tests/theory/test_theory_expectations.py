"""Quasi-random draws of the hidden scores: their laws."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm
from theory_oracles import INF

from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import _expectations

N = 2**12


def test_uniforms_are_uniform_and_replicates_differ():
    points = _expectations.uniforms(N, 3, 2)
    assert points.shape == (2 * N, 3)
    assert points.min() >= 1e-16
    assert points.max() <= 1.0 - 1e-16
    assert not points.flags.writeable
    for half in (points[:N], points[N:]):
        np.testing.assert_allclose(half.mean(axis=0), 0.5, atol=1e-3)
        np.testing.assert_allclose((half[:, 0] * half[:, 1]).mean(), 0.25, atol=1e-3)
    assert np.abs(points[:N] - points[N:]).max() > 0.5
    assert _expectations.uniforms(N, 3, 2) is points
    with pytest.raises(ValueError, match="7,000 tokens"):
        _expectations.uniforms(16, 21_202)


def test_uniforms_at_the_ends_stay_inside():
    _expectations.uniforms.cache_clear()
    points = _expectations.uniforms(2, _expectations._MAX_DIMENSIONS)
    assert points.shape == (2, 21_201)


@pytest.mark.parametrize("L", [1, 2, 5])
def test_hidden_scores_of_max_are_normals_the_largest_first(L):
    chi = _expectations.hidden_scores(SLRProblem("max", INF, L), _expectations.uniforms(N, L))
    assert np.all(chi[:, 0] >= chi.max(axis=1))
    assert kstest(norm.cdf(chi[:, 0]) ** L, "uniform").statistic < 0.01
    others = norm.cdf(chi[:, 1:]) / norm.cdf(chi[:, :1])
    for column in others.T:
        assert kstest(column, "uniform").statistic < 0.01
    # taken together they are standard normals
    assert kstest(chi.ravel(), "norm").statistic < 0.01


def test_hidden_scores_of_spiked_are_shifted_normals():
    chi = _expectations.hidden_scores(SLRProblem("spiked", 4.0, 3), _expectations.uniforms(N, 3))
    for column, shift in zip(chi.T, (2.0, 0.0, 0.0), strict=True):
        assert kstest(column - shift, "norm").statistic < 0.01


@pytest.mark.parametrize(("task", "factor"), [("spiked", math.sqrt(3.0)), ("max", 3.0)])
def test_the_posterior_is_a_softmax(task, factor):
    chi = np.random.default_rng(0).standard_normal((20, 4))
    p = _expectations.posterior(SLRProblem(task, 3.0, 4), chi)
    expected = np.exp(factor * chi)
    np.testing.assert_allclose(p, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    sure = _expectations.posterior(SLRProblem("max", INF, 4), chi)
    np.testing.assert_array_equal(sure, chi == chi.max(axis=1, keepdims=True))


def test_the_hidden_token_comes_first_and_is_drawn_from_the_posterior():
    problem = SLRProblem("max", 1.5, 3)
    chi = np.tile([[0.5, -0.2, 0.1]], (N, 1)) + np.linspace(0.0, 1e-9, N)[:, None] * [1.0, 2.0, 3.0]
    moved = _expectations.hidden_first(problem, chi, _expectations.uniforms(N, 1)[:, 0])
    np.testing.assert_array_equal(np.sort(moved, axis=1), np.sort(chi, axis=1))
    p = np.exp(1.5 * chi[0]) / np.exp(1.5 * chi[0]).sum()
    first = np.array([np.mean(np.isclose(moved[:, 0], x, atol=1e-6)) for x in chi[0]])
    np.testing.assert_allclose(first, p, atol=1e-3)
    # the two change places, and the third stays
    assert np.all(np.isclose(moved[:, 1:], chi[:, 1:], atol=1e-6).sum(axis=1) >= 1)
    np.testing.assert_array_equal(_expectations.hidden_first(problem, chi, np.ones(N))[:, 0], chi[:, 2])
    for same in (SLRProblem("spiked", 1.5, 3), SLRProblem("max", INF, 3)):
        assert _expectations.hidden_first(same, chi, np.ones(N)) is chi

"""Means and mean squares of features, against plain sums."""

import numpy as np
import pytest

from sklearn_attn import RaggedArray
from sklearn_attn.objective import _cpu, _moments, moments

LENGTHS = {
    "ones": np.ones(60, int),
    "mixed": np.random.default_rng(1).integers(1, 12, 40),
    "heavy tail": np.array([1, 2, 150, 1, 3, 40, 1, 1, 8, 2]),
    "one giant": np.array([300]),
}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(_cpu, "_MIN_SIZE_PER_THREAD", 1)
    monkeypatch.setattr(_cpu, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(_moments, "_BLOCK_NUMBERS", 16)


@pytest.mark.parametrize("D", [1, 7, 8, 19])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_every_weighting_however_the_tokens_are_cut(small_pieces, lengths, n_threads, dtype, D):
    rng = np.random.default_rng(0)
    X = RaggedArray.from_flat((3.0 + rng.standard_normal((lengths.sum(), D))).astype(dtype), lengths=lengths)
    weights = rng.random((3, lengths.size))
    weights[1, : lengths.size // 2] = 0.0
    mean, mean_square = moments(X, weights, n_threads)
    generic = _moments._generic(X, weights / weights.sum(axis=1)[:, None])
    values = X.values.astype(np.float64)
    for row in range(3):
        share = np.repeat(weights[row] / lengths, lengths) / weights[row].sum()
        np.testing.assert_allclose(mean[row], share @ values, rtol=1e-12)
        np.testing.assert_allclose(mean_square[row], share @ values**2, rtol=1e-12)
    np.testing.assert_allclose(generic, [mean, mean_square], rtol=1e-12 if dtype == np.float64 else 1e-5)


def test_a_large_constant_has_no_variance():
    X = RaggedArray.from_flat(np.full((300_000, 2), [1e6 / 3.0, -0.1]), lengths=[3] * 100_000)
    mean, mean_square = moments(X, np.random.default_rng(0).random((1, 100_000)))
    np.testing.assert_allclose(mean[0], [1e6 / 3.0, -0.1], rtol=1e-15)
    assert np.all(np.abs(mean_square - mean**2) <= 4e-16 * mean**2)


def test_sequences_of_no_weight_leave_no_trace():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 3))
    values[:4] = 1e12
    X = RaggedArray.from_flat(values, lengths=[4] * 10)
    weights = rng.random((1, 10))
    weights[0, 0] = 0.0
    expected = moments(RaggedArray.from_flat(values[4:], lengths=[4] * 9), weights[:, 1:])
    np.testing.assert_allclose(moments(X, weights), expected, rtol=1e-13)


def test_an_outlier_that_hardly_counts_does_no_harm_wherever_it_stands():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3000, 3, 4))
    values[0] *= 1e9
    weights = np.ones(3000)
    weights[0] = 1e-20
    first, last = (
        moments(RaggedArray.from_padded(values[order]), weights[None, order])
        for order in (np.arange(3000), np.arange(3000)[::-1])
    )
    np.testing.assert_allclose(first, last, rtol=1e-11, atol=1e-15)
    assert np.all(first[1] >= first[0] ** 2)


def test_squares_that_vanish_are_refused():
    X = RaggedArray.from_flat(np.full((4, 2), 1e-200), lengths=[2, 2])
    with pytest.raises(ValueError, match="squares of X vanish"):
        moments(X, np.ones((1, 2)))
    zeros = RaggedArray.from_flat(np.zeros((4, 2)), lengths=[2, 2])
    np.testing.assert_array_equal(moments(zeros, np.ones((1, 2))), 0.0)


def test_squares_that_overflow_are_not_finite_and_warn_nobody():
    X = RaggedArray.from_flat(np.array([[1e200], [-1e200]]), lengths=[1, 1])
    assert not np.isfinite(moments(X, np.ones((1, 2)))[1]).any()

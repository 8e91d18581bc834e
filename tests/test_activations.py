"""Every registered activation: its formula, its derivatives, and what it does at the limits."""

import math

import array_api_strict
import numpy as np
import pytest

from sklearn_attn.activations import ACTIVATIONS, Erf, get_activation

ALL = [cls() for cls in ACTIVATIONS.values()] + [Erf(-1.3), Erf(0.7)]
NORMALISED = [activation for activation in ALL if activation.normalised]

every = pytest.mark.parametrize("activation", ALL, ids=str)
every_normalised = pytest.mark.parametrize("activation", NORMALISED, ids=str)


def naive_weights(activation, scores):
    """The definition, token by token, in plain Python."""
    if activation.name == "linear":
        return [1 + x for x in scores]
    if activation.name == "erf":
        return [1 + math.erf(activation.offset + x) for x in scores]
    function = {"softmax": math.exp, "softplus": lambda x: math.log1p(math.exp(x))}[activation.name]
    values = [function(x) for x in scores]
    return [value / math.fsum(values) for value in values]


@every
def test_weights_are_the_formula(activation, rng):
    scores = 3 * rng.standard_normal((6, 5))
    expected = [naive_weights(activation, row) for row in scores]
    np.testing.assert_allclose(activation.weights(scores), expected, rtol=1e-12)


@every
def test_pullback_is_the_transposed_jacobian(activation, rng):
    scores, cotangent = 2 * rng.standard_normal((2, 7)), rng.standard_normal((2, 7))
    step = 1e-6
    jacobian = np.stack(
        [
            (activation.weights(scores + d) - activation.weights(scores - d)) / (2 * step)
            for d in step * np.eye(7)
        ],
        axis=-1,
    )  # (2, weights, scores)
    expected = np.einsum("nws,nw->ns", jacobian, cotangent)
    np.testing.assert_allclose(activation.pullback(scores, cotangent), expected, atol=1e-8)


@every
def test_slope_is_the_derivative_of_the_potential(activation):
    scores = np.linspace(-60, 60, 401)
    expected = (activation.potential(scores + 1e-5) - activation.potential(scores - 1e-5)) / 2e-5
    np.testing.assert_allclose(activation.slope(scores), expected, atol=1e-7)


def test_the_derivative_with_respect_to_the_offset_is_the_sum_of_the_pullback(rng):
    scores, cotangent = rng.standard_normal((2, 6))
    expected = cotangent @ (Erf(0.3 + 1e-6).weights(scores) - Erf(0.3 - 1e-6).weights(scores)) / 2e-6
    assert Erf(0.3).pullback(scores, cotangent).sum() == pytest.approx(expected, rel=1e-8)
    assert Erf().with_offset(2.0) == Erf(2.0)


EXTREME = {
    "both ends": [-1e4, 1e4, 0.0, 1.0],
    "all low": [-1e4, -1e4 + 1.0, -1e4 + 2.0],
    "all high": [1e4, 1e4 - 1.0, 1e4 - 2.0],
    "equal": [5.0, 5.0, 5.0],
    "around the tail": [-38.0, -37.9, -38.1, -100.0],
    "one token": [-1e4],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scores", EXTREME.values(), ids=EXTREME)
@every
def test_is_safe_at_extreme_scores(activation, scores, dtype):
    scores = np.array([scores], dtype=dtype)
    weights = activation.weights(scores)
    gradient = activation.pullback(scores, np.linspace(-1, 1, scores.size, dtype=dtype)[None])
    for array in (weights, gradient):
        assert array.dtype == dtype
        assert np.isfinite(array).all()
    if activation.normalised:
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1, rel=float(4 * np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every
def test_no_step_on_the_way_overflows_at_far_scores(activation, dtype):
    # 1e30 is finite in float32, but its square is not
    scores = np.array([[-1e30, -1e4, 0.0, 1e4, 1e30]], dtype=dtype)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        pulled = activation.pullback(scores, np.ones_like(scores))
    assert np.isfinite(pulled).all()


def test_low_scores_keep_their_ratios():
    # softplus(x) -> exp(x) far below zero: the weights become those of softmax
    scores = np.array([[-1e4, -1e4 + 1.0, -1e4 + 2.0]])
    expected = get_activation("softmax").weights(scores)
    np.testing.assert_allclose(get_activation("softplus").weights(scores), expected, rtol=1e-12)


@every_normalised
def test_one_token_has_weight_one_and_no_gradient(activation, rng):
    scores = 10 * rng.standard_normal((5, 1))
    np.testing.assert_array_equal(activation.weights(scores), 1.0)
    np.testing.assert_array_equal(activation.pullback(scores, scores), 0.0)


def test_softmax_does_not_see_a_constant():
    scores = np.array([[0.3, -1.0, 2.0]])
    softmax = get_activation("softmax")
    np.testing.assert_allclose(softmax.weights(scores), softmax.weights(scores + 7.0), rtol=1e-14)


def test_erf_is_linear_at_small_scale():
    scores = np.array([[1e-4, -2e-4]])
    expected = 1 + 2 / math.sqrt(math.pi) * scores
    np.testing.assert_allclose(get_activation("erf").weights(scores), expected, atol=1e-11)


@every
def test_other_namespaces_agree(activation, rng):
    scores, cotangent = 3 * rng.standard_normal((2, 4, 6))
    strict = [array_api_strict.asarray(array) for array in (scores, cotangent)]
    np.testing.assert_allclose(
        np.asarray(activation.weights(strict[0])), activation.weights(scores), rtol=1e-12
    )
    expected = activation.pullback(scores, cotangent)
    np.testing.assert_allclose(np.asarray(activation.pullback(*strict)), expected, rtol=1e-11, atol=1e-15)


def test_lookup():
    assert get_activation("erf", 0.5) == Erf(0.5)
    assert get_activation("linear", 0.5).name == "linear"
    with pytest.raises(ValueError, match=r"one of \['erf', 'linear', 'softmax', 'softplus'\], got 'relu'"):
        get_activation("relu")

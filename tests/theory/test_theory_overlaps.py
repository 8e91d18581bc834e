"""Order parameters: what is a Gram matrix, and what a fitted estimator has."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.theory import Overlaps, order_parameters, risk_at


def test_gram():
    overlaps = Overlaps(0.8, 0.6, 1.3, 0.9, m_key_value=0.35, m_value_key=-0.4, q_key_value=0.25)
    gram = overlaps.gram()
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram[2], [0.8, 0.35, 1.3, 0.25])  # k with k*, v*, k, v
    np.testing.assert_allclose(gram[3], [-0.4, 0.6, 0.25, 0.9])


@pytest.mark.parametrize(
    "overlaps",
    [
        {"m_key": 1.0, "m_value": 0.0, "q_key": 0.99, "q_value": 1.0},  # m_k^2 > q_k
        {"m_key": 0.0, "m_value": -1.0, "q_key": 1.0, "q_value": 0.9},
        {"m_key": 0.0, "m_value": 0.0, "q_key": -0.1, "q_value": 1.0},
        {
            "m_key": 0.8,
            "m_value": 0.0,
            "q_key": 1.0,
            "q_value": 1.0,
            "m_key_value": 0.7,
        },  # each alone is fine
        {"m_key": 0.0, "m_value": 0.8, "q_key": 1.0, "q_value": 1.0, "m_value_key": 0.7},
        {"m_key": 0.0, "m_value": 0.0, "q_key": 1.0, "q_value": 1.0, "q_key_value": 1.1},
        {"m_key": 0.9, "m_value": 0.9, "q_key": 1.0, "q_value": 1.0, "q_key_value": 0.5},
    ],
)
def test_what_no_directions_have(overlaps):
    with pytest.raises(ValueError, match="No directions have these overlaps"):
        Overlaps(**overlaps)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_not_finite(number):
    with pytest.raises(ValueError, match="must be finite"):
        Overlaps(0.0, 0.0, number, 1.0)


def test_equality_in_cauchy_schwarz_is_allowed_up_to_rounding():
    assert Overlaps(1.7, 0.3, 1.7**2, 0.3**2).q_key == 1.7**2
    Overlaps(0.1, 1e3, 0.1**2 - 1e-18, 1e6)
    Overlaps(0.6, 0.8, 1.0, 1.0, m_key_value=0.8, m_value_key=-0.6, q_key_value=0.28)


def test_is_a_value():
    overlaps = Overlaps(0.1, 0.2, 1.0, 1.0)
    assert overlaps == Overlaps(0.1, 0.2, 1.0, 1.0, 0.0, 0.0, 0.0)
    with pytest.raises(AttributeError):
        overlaps.m_key = 0.0


def test_of_a_fitted_regressor():
    dataset = SLRDataset("spiked", 40, signal=4.0, random_state=0)
    model = SoftmaxAttentionRegressor(alpha=0.5).fit(*dataset.sample(400))
    o = order_parameters(model, dataset)
    k, v, k_star, v_star = model.key_, model.value_, dataset.key_, dataset.value_

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True)) / 40

    expected = Overlaps(
        dot(k, k_star), dot(v, v_star), dot(k, k), dot(v, v), dot(k, v_star), dot(v, k_star), dot(k, v)
    )
    np.testing.assert_allclose(
        [o.m_key, o.m_value, o.q_key, o.q_value, o.m_key_value, o.m_value_key, o.q_key_value],
        [expected.m_key, expected.m_value, expected.q_key, expected.q_value, expected.m_key_value,
         expected.m_value_key, expected.q_key_value], rtol=1e-10,
    )  # fmt: skip
    assert o.m_key > 0.3  # the fit found something, so the signs are told apart
    assert o.m_key_value != o.m_value_key


def test_of_float32_directions():
    rng = np.random.default_rng(0)
    k, v, k_star, v_star = rng.standard_normal((4, 50))
    model = SimpleNamespace(key_=k.astype(np.float32), value_=v.astype(np.float32))
    o = order_parameters(model, SimpleNamespace(key_=k_star, value_=v_star))
    assert o.q_key == pytest.approx(k @ k / 50, rel=1e-6)
    assert isinstance(o.q_key, float)


def test_bad_input():
    dataset = SLRDataset("spiked", 5, random_state=0)
    with pytest.raises(ValueError, match="estimator has no attribute 'key_'"):
        order_parameters(SoftmaxAttentionRegressor(), dataset)
    with pytest.raises(ValueError, match="dataset has no attribute 'key_'"):
        order_parameters(dataset, dataset.problem)
    with pytest.raises(ValueError, match="The estimator has 5 features, the dataset 6"):
        order_parameters(dataset, SLRDataset("spiked", 6, random_state=0))


@pytest.mark.parametrize(("task", "signal"), [("spiked", 2.0), ("max", math.inf)])
def test_the_risk_of_a_fit_is_that_of_a_test_set_though_hidden_directions_overlap(task, signal):
    # k*.v*/D is .139 for this seed, and left out it would be worth 7 % on the spiked task
    dataset = SLRDataset(task, 100, signal=signal, length=3, noise=0.3, random_state=5)
    model = SoftmaxAttentionRegressor(0.5, fit_intercept=False).fit(*dataset.sample(800))
    overlaps = order_parameters(model, dataset)
    assert overlaps.m_star == pytest.approx(dataset.key_ @ dataset.value_ / 100, abs=1e-12)
    X, y = dataset.sample(40_000)
    squares = (y - model.predict(X)) ** 2
    error = squares.std() / math.sqrt(len(y))
    risk = risk_at(dataset.problem, "softmax", overlaps)
    assert abs(risk - squares.mean()) < 3.0 * error
    if task == "spiked":
        without = replace(overlaps, m_star=0.0)
        assert risk_at(dataset.problem, "softmax", without) > risk + 0.03


def test_the_truth_has_overlaps():
    dataset = SLRDataset("spiked", 50, signal=2.0, random_state=0)
    overlaps = order_parameters(dataset, dataset)
    assert overlaps.m_key == overlaps.m_value == pytest.approx(1.0)
    assert overlaps.m_key_value == pytest.approx(overlaps.m_star)


def test_overlaps_must_be_numbers():
    with pytest.raises(TypeError, match="m_key must be a number, got 'a'"):
        Overlaps("a", 1.0, 1.0, 1.0)

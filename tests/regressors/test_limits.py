"""Limits in which a fit is known from elsewhere; invariances are in tests/test_invariances.py."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sklearn_attn import (
    LinearAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)
from sklearn_attn.preprocessing import SequencePooler

TIGHT = {"tol": 1e-7, "max_iter": 5000}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_one_token_is_ridge(Normalised, noisy, fit_intercept, weighted):
    X, y = noisy
    X = X.values[:80]  # one token each
    weight = np.random.default_rng(0).random(80) if weighted else None
    # z = x . v / sqrt(D): a coefficient w is v / sqrt(D), and alpha |v|^2 is alpha D |w|^2
    ridge = Ridge(0.3 * 4, fit_intercept=fit_intercept).fit(X, y, sample_weight=weight)
    model = Normalised(0.3, fit_intercept=fit_intercept, **TIGHT).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.value_ / 2, ridge.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.key_, 0.0, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_a_key_held_at_zero_pools(noisy, pooling):
    X, y = noisy
    classes = (
        [LinearAttentionRegressor]
        if pooling == "sum"
        else [SoftmaxAttentionRegressor, SoftplusAttentionRegressor]
    )
    pooled = SequencePooler(pooling).fit_transform(X)
    ridge = Ridge(0.3 * 4).fit(pooled, y)
    for cls in classes:
        model = cls(0.3, alpha_key=1e6, tol=1e-6, max_iter=5000).fit(X, y)
        np.testing.assert_allclose(model.predict(X), ridge.predict(pooled), atol=1e-4)


def test_padding_with_a_mask_is_ragged(Regressor, noisy):
    X, y = noisy
    padded, mask = X.to_padded(fill_value=77.0, return_mask=True)
    a, b = (Regressor().fit(form, y) for form in (X, RaggedArray.from_padded(padded, mask)))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_float32_twin(Regressor, noisy):
    X, y = noisy
    half = X.astype(np.float32)
    a, b = Regressor(**TIGHT).fit(X, y), Regressor(**TIGHT).fit(half, y.astype(np.float32))
    np.testing.assert_allclose(a.predict(X), b.predict(half), atol=1e-4)
    for array in (b.key_, b.value_, b.predict(half), b.transform(half), b.attention_weights(half).values):
        assert array.dtype == np.float32
    assert b.predict(X).dtype == np.float64


def test_integers_become_float64(Regressor, noisy):
    X, y = noisy
    model = Regressor().fit((10 * X.values[:80]).astype(int), y)
    assert model.value_.dtype == model.predict(np.ones((2, 4), int)).dtype == np.float64

"""Numbers near the ends of float64 and float32: a finite result, or a message that names what is too large."""

import numpy as np
import pytest

from sklearn_attn import (
    RaggedArray,
    SoftmaxAttentionClassifier,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
)


def test_a_target_whose_squares_vanish(Regressor, noisy):
    X, y = noisy
    with pytest.raises(ValueError, match=r"squares of y vanish.*divide y"):
        Regressor().fit(X, 1e-200 * y)


@pytest.mark.parametrize("constant", [1e59, -1e140, 1e-130, 1e-300])
def test_a_constant_target_of_any_size(Regressor, noisy, constant):
    X, _ = noisy
    for Estimator in (Regressor, SoftmaxAttentionRegressorCV):
        options = {"cv": 3, "scoring": "neg_mean_squared_error"} if Estimator is not Regressor else {}
        model = Estimator(**options).fit(X[:77], np.full(77, constant))
        assert model.stop_crit_ <= model.tol
        np.testing.assert_allclose(model.predict(X), constant, rtol=1e-8)


@pytest.mark.parametrize(
    ("size_X", "size_y", "weight"),
    [(1.0, 1e-150, 1e-160), (1e-150, 1e150, 1.0), (1.0, 1.0, 1e-300), (1e150, 1e-150, 1.0)],
)
def test_sizes_that_leave_the_range_together(Regressor, noisy, size_X, size_y, weight):
    X, y = noisy
    X = RaggedArray(size_X * X.values, X.offsets)
    with pytest.raises(ValueError, match=r"sizes of X, y, the weights, alpha and alpha_key together"):
        Regressor(0.0).fit(X, size_y * y, sample_weight=weight)


@pytest.mark.parametrize("kind", ["regressor", "search"])
def test_large_weights_of_a_large_target(noisy, kind):
    X, y = noisy
    model = SoftmaxAttentionRegressor() if kind == "regressor" else SoftmaxAttentionRegressorCV(cv=3)
    with pytest.raises(ValueError, match="squares of y overflow"):
        model.fit(X, 1e160 * y, sample_weight=1e160)
    with pytest.raises(ValueError, match="squares of y overflow"):
        model.fit(X, np.where(y > 1.0, 1e155, y))


def test_weights_whose_sum_overflows(noisy):
    X, y = noisy
    for model in (SoftmaxAttentionRegressor(), SoftmaxAttentionRegressorCV(), SoftmaxAttentionClassifier()):
        with pytest.raises(ValueError, match="sum of the weights overflows"):
            model.fit(X, (y > 1.0).astype(int), sample_weight=1e308)


def test_penalties_of_any_size_beside_small_weights(Regressor, noisy):
    X, y = noisy
    model = Regressor(1e6, max_iter=20).fit(X, 1e-60 * y, sample_weight=1e-60)
    np.testing.assert_allclose(model.predict(X), 1e-60 * y.mean(), rtol=1e-6)


def test_parameters_that_vanish_in_float32(Regressor, noisy):
    X, y = noisy
    X = X.astype(np.float32)
    with pytest.raises(ValueError, match="underflows or overflows float32: pass X in float64"):
        Regressor().fit(X, 1e-50 * y)
    fitted = Regressor(alpha_key=1e-60).fit(X, 1e-30 * y)
    assert fitted.score(X, 1e-30 * y) == pytest.approx(Regressor().fit(X, y).score(X, y), abs=0.01)


def test_predictions_too_large_for_float32(noisy):
    X, y = noisy
    model = SoftmaxAttentionRegressor().fit(X.astype(np.float32), 1e37 * y)
    for method in ("predict", "token_contributions"):
        with pytest.raises(ValueError, match="makes of X overflows float32"):
            getattr(model, method)(RaggedArray((1e4 * X.values).astype(np.float32), X.offsets))


@pytest.mark.parametrize("size", [1e170, 1e308])
def test_tokens_too_large_for_the_fitted_model(Regressor, noisy, size):
    X, y = noisy
    model = Regressor(0.1).fit(X, y)
    absurd = [size * np.sign(x) for x in X]
    for method in ("predict", "attention_weights", "token_contributions", "transform"):
        try:
            result = getattr(model, method)(absurd)
        except ValueError as error:
            outcome = str(error)
        else:
            outcome = "" if np.isfinite(getattr(result, "values", result)).all() else "not finite"
        assert outcome == "" or "makes of X overflows float64: tokens are too large" in outcome


def test_scores_of_large_targets(noisy):
    X, y = noisy
    single = X.astype(np.float32)
    model = SoftmaxAttentionRegressor(alpha_key=1e60).fit(single, (1e30 * y).astype(np.float32))
    expected = SoftmaxAttentionRegressor().fit(X, y).score(X, y)
    assert model.score(single, (1e30 * y).astype(np.float32)) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="squares of y overflow"):
        model.score(single, 1e200 * y)
    with pytest.raises(ValueError, match="R2 overflows: y is constant"):
        model.score(single, np.where(y > 1.0, 1e-160, 2e-160))

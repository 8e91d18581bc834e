"""The display of a searched path: what it reads, and what it draws."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_attn import SoftmaxAttentionClassifier, SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.datasets import make_spiked_slr
from sklearn_attn.inspection import PenaltyPathDisplay
from sklearn_attn.preprocessing import TokenTransformer

ALPHAS = [10.0, 0.1, 1.0]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_spiked_slr(60, 5, signal=9.0, random_state=0)


@pytest.mark.parametrize(
    ("scoring", "label"),
    [(None, "R2"), ("neg_mean_squared_error", "mean squared error"), (lambda *_: 1.0, "score")],
)
def test_draws_the_mean_over_folds(data, scoring, label):
    model = SoftmaxAttentionRegressorCV(ALPHAS, cv=3, scoring=scoring).fit(*data)
    display = PenaltyPathDisplay.from_estimator(model)
    assert display.plot() is display
    x, y = display.line_.get_data()
    order = np.argsort(model.alphas_)
    sign = -1.0 if label == "mean squared error" else 1.0
    np.testing.assert_array_equal(x, model.alphas_[order])
    np.testing.assert_allclose(y, sign * model.cv_scores_.mean(axis=1)[order])
    assert display.ax_.get_ylabel() == label
    assert display.ax_.get_xscale() == "log"
    assert f"chosen, alpha = {model.alpha_:.3g}" in [t.get_text() for t in display.ax_.get_legend().texts]
    assert len(display.ax_.lines) == 3 + 2  # folds, mean, choice
    assert len(PenaltyPathDisplay.from_estimator(model).plot(folds=False).ax_.lines) == 2


def test_the_best_key_penalty_stands_for_every_alpha(data):
    model = SoftmaxAttentionRegressorCV(ALPHAS, alpha_keys=[0.1, 10.0], cv=3).fit(*data)
    assert model.cv_scores_.shape == (3, 2, 3)
    display = PenaltyPathDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.scores.mean(axis=1), model.cv_scores_.mean(axis=2).max(axis=1))


@pytest.mark.parametrize("scoring", [None, "neg_log_loss", ["accuracy", "neg_log_loss"]], ids=str)
def test_of_a_search_over_alpha(data, scoring):
    X, y = data
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), SoftmaxAttentionClassifier())
    refit = "neg_log_loss" if isinstance(scoring, list) else True
    grid = {"softmaxattentionclassifier__alpha": ALPHAS}
    search = GridSearchCV(pipeline, grid, scoring=scoring, refit=refit, cv=3).fit(X, y > 0)
    display = PenaltyPathDisplay.from_estimator(search).plot()
    name = "neg_log_loss" if isinstance(scoring, list) else "score"
    mean = search.cv_results_[f"mean_test_{name}"][np.argsort(ALPHAS)]
    sign = 1.0 if scoring is None else -1.0
    np.testing.assert_allclose(display.line_.get_ydata(), sign * mean)
    assert display.ax_.get_ylabel() == ("accuracy" if scoring is None else "log loss")
    assert display.alpha == search.best_params_["softmaxattentionclassifier__alpha"]


def test_what_a_search_or_a_wrapper_holds(data):
    model = SoftmaxAttentionRegressorCV(ALPHAS, cv=3)
    expected = clone(model).fit(*data).cv_scores_
    inner = TransformedTargetRegressor(model, func=np.negative, inverse_func=np.negative)
    for wrapper in (
        GridSearchCV(model, {"n_init": [1]}, cv=2),
        inner,
        make_pipeline(TokenTransformer(FunctionTransformer()), inner),
    ):
        display = PenaltyPathDisplay.from_estimator(wrapper.fit(*data))
        np.testing.assert_allclose(display.scores, expected, atol=1e-5)


def test_searches_that_are_no_path(data):
    X, y = data
    other = GridSearchCV(SoftmaxAttentionRegressor(), {"n_init": [1, 2]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="must name one searched penalty"):
        PenaltyPathDisplay.from_estimator(other)
    two = GridSearchCV(SoftmaxAttentionRegressor(), {"alpha": [0.1, 1.0], "n_init": [1]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="of which a curve can show one"):
        PenaltyPathDisplay.from_estimator(two)
    several = GridSearchCV(
        SoftmaxAttentionRegressor(), {"alpha": [0.1, 1.0]}, scoring=["r2", "neg_max_error"], refit=False, cv=2
    ).fit(X, y)
    with pytest.raises(ValueError, match="several scores; pass refit"):
        PenaltyPathDisplay.from_estimator(several)
    failed = GridSearchCV(SoftmaxAttentionRegressor(), {"alpha": [-1.0, 1.0]}, cv=2)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        failed.fit(X, y)
    with pytest.raises(ValueError, match="fits of some candidates failed"):
        PenaltyPathDisplay.from_estimator(failed)


def test_of_a_pipeline_on_given_axes(data):
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), SoftmaxAttentionRegressorCV(ALPHAS, cv=3))
    _, ax = plt.subplots()
    display = PenaltyPathDisplay.from_estimator(pipeline.fit(*data)).plot(ax)
    assert display.ax_ is ax


def test_what_it_cannot_show_is_refused():
    with pytest.raises(TypeError, match="Ridge has no cv_scores_; pass a fitted SoftmaxAttentionRegressorCV"):
        PenaltyPathDisplay.from_estimator(Ridge())
    with pytest.raises(ValueError, match="positive"):
        PenaltyPathDisplay.from_scores([1.0, 0.0], np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"n_alphas = 2, got \(3, 2\)"):
        PenaltyPathDisplay.from_scores([1.0, 2.0], np.zeros((3, 2)))

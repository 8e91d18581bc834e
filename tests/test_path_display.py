"""The display of a searched path: what it reads, and what it draws."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_attn import SoftmaxAttentionRegressorCV
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

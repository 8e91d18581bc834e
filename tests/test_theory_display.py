"""The theory display: its arguments, its columns and penalties, and what it draws."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_attn import LinearAttentionRegressor, SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.inspection import TheoryDisplay
from sklearn_attn.preprocessing import TokenTransformer
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import ReplicaTheory, replica_erm

SCORING = "neg_mean_squared_error"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def theory():
    return ReplicaTheory("softmax", signal=2.0, noise=0.3).fit([[4.0, 1.0]], [0.7])


@pytest.fixture(scope="module")
def data():
    return SLRDataset("spiked", n_features=30, signal=2.0, length=3, noise=0.3, random_state=0).sample(150)


@pytest.fixture(scope="module")
def search(data):
    return fitted_search(data, {"alpha": [1.0, 0.5, 3.0]})


def fitted_search(data, grid, estimator=None, scoring=SCORING, **options):
    estimator = SoftmaxAttentionRegressor(fit_intercept=False) if estimator is None else estimator
    return GridSearchCV(estimator, grid, scoring=scoring, **({"cv": 2} | options)).fit(*data)


def predicted(sample_ratio, alpha, alpha_key=None):
    problem = SLRProblem("spiked", signal=2.0, length=3, noise=0.3)
    return replica_erm(problem, "softmax", sample_ratio, alpha, alpha_key).test_error


def test_draws_curve_points_and_the_unstable_region():
    display = TheoryDisplay(
        [16.0, 1.0, 4.0],
        [0.5, 0.9, 0.6],
        stability=[0.2, 3.0, 1 / 3],
        measured_settings=[4.0, 16.0],
        measured=[0.62, 0.49],
        measured_std=[0.02, 0.01],
    ).plot()
    assert display.ax_.get_xscale() == "log"
    assert display.figure_ is display.ax_.figure
    # The stability is 1 a quarter of the way from 4 to 1 on the logarithmic axis.
    edge = 4.0 ** (1.0 - 0.25)
    x, y = display.line_.get_data()
    np.testing.assert_allclose(x, [1.0, edge, 4.0, 16.0])
    np.testing.assert_allclose(y, [np.nan, 0.675, 0.6, 0.5])
    np.testing.assert_allclose(display.unstable_line_.get_ydata(), [0.9, 0.675, np.nan, np.nan])
    (region,) = display.unstable_regions_
    np.testing.assert_allclose(
        region.get_extents().transformed(display.ax_.transData.inverted()).intervalx, [1.0, edge]
    )
    points = display.errorbar_.lines[0]
    np.testing.assert_array_equal(points.get_data(), [[4.0, 16.0], [0.62, 0.49]])
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["replica theory", "unstable: no prediction", "measured"]
    assert display.ax_.get_xlabel() == "sample ratio N / D"


def test_numbers_that_are_no_prediction_leave_the_limits_alone():
    display = TheoryDisplay([1.0, 2.0, 3.0], [1e3, 0.6, 0.5], stability=[np.nan, 0.5, 0.2]).plot()
    low, high = display.ax_.get_ylim()
    assert high > 100.0  # up to the edge, in the middle of the first two
    display = TheoryDisplay([1.0, 2.0, 3.0], [np.nan, 0.6, 0.5], stability=[np.nan, 0.5, 0.2]).plot()
    low, high = display.ax_.get_ylim()
    assert 0.4 < low < high < 0.7
    assert display.ax_.get_xscale() == "linear"
    assert display.predicted_minimum == (3.0, 0.5)


def test_several_regions_have_one_entry_in_the_legend():
    display = TheoryDisplay(
        [1.0, 2.0, 3.0, 4.0, 5.0], np.ones(5), stability=[2.0, 0.5, 2.0, 0.5, 2.0], name="signal"
    ).plot(measured_label=None)
    assert len(display.unstable_regions_) == 3
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["replica theory", "unstable: no prediction"]


def test_minima_leave_out_what_is_no_prediction():
    display = TheoryDisplay([1.0, 2.0, 3.0], [0.1, 0.6, 0.5], stability=[2.0, 0.5, 0.2])
    assert display.predicted_minimum == (3.0, 0.5)
    assert display.measured_minimum is None
    assert len(display.plot(minima=True).minima_) == 1
    assert TheoryDisplay([1.0], [0.5], stability=[1.0]).predicted_minimum is None
    assert TheoryDisplay([1.0], [0.5], stability=[1.0]).plot(minima=True).minima_ == []


def test_draws_on_given_axes_with_given_styles():
    _, ax = plt.subplots()
    display = TheoryDisplay([1.0, 2.0], [0.6, 0.5], measured_settings=[1.0], measured=[0.5])
    display.plot(ax, line_kw={"color": "red", "lw": 3}, errorbar_kw={"fmt": "s"})
    assert display.ax_ is ax
    assert display.line_.get_linewidth() == 3
    assert display.errorbar_.lines[0].get_marker() == "s"
    assert display.errorbar_.lines[0].get_color() == "red"  # the curve's own, unless told otherwise


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "at least one"),
        (([1.0, np.nan], [0.5, 0.5]), "finite"),
        (([1.0, 2.0], [0.5]), r"predicted must be of shape \(2,\)"),
        (([[1.0]], [0.5]), "settings must be 1-D"),
    ],
)
def test_refuses_a_curve_that_is_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        TheoryDisplay(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measured": [0.5]}, "together"),
        ({"measured_settings": [0.5]}, "together"),
        ({"measured_std": [0.5]}, "not passed"),
        ({"measured": [0.5], "measured_settings": [1.0, 2.0]}, r"measured must be of shape \(2,\)"),
        ({"measured": [0.5], "measured_settings": [1.0], "measured_std": [-1.0]}, "negative"),
        ({"stability": [0.5]}, "stability"),
    ],
)
def test_refuses_what_does_not_match(options, message):
    with pytest.raises(ValueError, match=message):
        TheoryDisplay([1.0, 2.0], [0.6, 0.5], **options)


def test_from_theory_is_the_theory(theory):
    X = [[8.0, 1.0], [4.0, 1.0]]
    display = TheoryDisplay.from_theory(theory, X, measured=[np.nan, 0.7], measured_std=[np.nan, 0.02])
    np.testing.assert_array_equal(display.settings, [4.0, 8.0])
    np.testing.assert_array_equal(display.predicted, [predicted(4.0, 1.0), predicted(8.0, 1.0)])
    assert (display.stability < 1.0).all()
    assert not display.unstable_regions_
    np.testing.assert_array_equal(display.measured_settings, [4.0])
    np.testing.assert_array_equal(display.measured_std, [0.02])
    assert display.line_ in display.ax_.lines  # drawn at once


def test_from_theory_shades_what_is_unstable_without_a_warning():
    theory = ReplicaTheory("softmax", signal=1.0).fit([[4.0, 1.0]], [0.9])
    display = TheoryDisplay.from_theory(theory, [[4.0, 0.1], [4.0, 1.0]], x="alpha")
    assert display.stability[0] > 1.0 > display.stability[1]
    assert len(display.unstable_regions_) == 1
    assert display.ax_.get_xlabel() == "penalty alpha"


def test_repeated_rows_are_one_point_of_the_curve(theory):
    X = [[4.0, 1.0], [4.0, 1.0], [8.0, 3.0]]  # the other column may vary along the curve
    display = TheoryDisplay.from_theory(theory, X, measured=[0.7, 0.72, 0.6])
    np.testing.assert_array_equal(display.settings, [4.0, 8.0])
    np.testing.assert_array_equal(display.measured, [0.7, 0.72, 0.6])
    with pytest.raises(ValueError, match="several curves"):
        TheoryDisplay.from_theory(theory, [[4.0, 1.0], [4.0, 3.0]])


def test_from_theory_reads_frames_by_name():
    frame = pd.DataFrame({"alpha": [1.0, 1.0], "sample_ratio": [4.0, 8.0]})
    theory = ReplicaTheory("softmax", signal=2.0, noise=0.3).fit(frame, [0.7, 0.6])
    display = TheoryDisplay.from_theory(theory, frame)
    np.testing.assert_array_equal(display.settings, [4.0, 8.0])
    np.testing.assert_array_equal(display.predicted, [predicted(4.0, 1.0), predicted(8.0, 1.0)])


def test_from_theory_refuses_bad_input(theory):
    with pytest.raises(ValueError, match="x must be a column"):
        TheoryDisplay.from_theory(theory, [[4.0, 1.0]], x="signal")
    with pytest.raises(ValueError, match=r"measured must be of shape \(1,\)"):
        TheoryDisplay.from_theory(theory, [[4.0, 1.0]], measured=[0.5, 0.6])
    with pytest.raises(ValueError, match="not passed"):
        TheoryDisplay.from_theory(theory, [[4.0, 1.0]], measured_std=[0.5])
    with pytest.raises(NotFittedError):
        TheoryDisplay.from_theory(ReplicaTheory(), [[4.0, 1.0]])


def test_from_search_lays_the_curve_over_the_search(theory, search):
    display = TheoryDisplay.from_search(search, theory, 2.5, n_points=5)
    np.testing.assert_array_equal(display.measured_settings, [1.0, 0.5, 3.0])
    np.testing.assert_array_equal(display.measured, -search.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(display.measured_std, search.cv_results_["std_test_score"])
    np.testing.assert_allclose(display.settings, [0.5, np.sqrt(0.5), 1.0, np.sqrt(3.0), 3.0])
    assert display.predicted[2] == predicted(2.5, 1.0)
    assert display.measured_minimum[0] == search.best_params_["alpha"]
    labels = [line.get_label() for line in display.minima_]
    assert labels == [
        f"lowest predicted: {display.predicted_minimum[0]:.3g}",
        f"lowest measured: {search.best_params_['alpha']:.3g}",
    ]


def test_from_search_finds_the_penalty_in_a_pipeline_and_uses_what_was_calibrated(theory, data):
    pipeline = make_pipeline(TokenTransformer(FunctionTransformer()), SoftmaxAttentionRegressor())
    pipeline.set_params(softmaxattentionregressor__alpha_key=2.0)
    search = fitted_search(data, {"softmaxattentionregressor__alpha": [1.0]}, pipeline)
    calibrated = clone(theory).set_params(signal=7.0, alpha_key=9.0).fit([[4.0, 1.0]], [0.7])
    calibrated.signal_ = 2.0  # as if fit_params had found it
    for param in ("alpha", "softmaxattentionregressor__alpha"):
        display = TheoryDisplay.from_search(search, calibrated, 2.5, param=param)
        np.testing.assert_array_equal(display.predicted, [predicted(2.5, 1.0, 2.0)])
        assert display.name == "alpha"


def test_from_search_over_the_penalty_of_the_key(theory, data):
    search = fitted_search(data, {"alpha_key": [3.0]}, SoftmaxAttentionRegressor(2.0))
    display = TheoryDisplay.from_search(search, theory, 2.5, param="alpha_key")
    np.testing.assert_array_equal(display.predicted, [predicted(2.5, 2.0, 3.0)])
    assert display.ax_.get_xlabel() == "penalty alpha_key"


@pytest.mark.parametrize(
    "scoring",
    [
        {"fit": "r2", "loss": SCORING},
        make_scorer(mean_squared_error, greater_is_better=False),
    ],
)
def test_from_search_finds_the_mean_squared_error_among_scores(theory, data, scoring):
    search = fitted_search(data, {"alpha": [1.0]}, scoring=scoring, refit=False)
    display = TheoryDisplay.from_search(search, theory, 2.5)
    name = "loss" if isinstance(scoring, dict) else "score"
    np.testing.assert_array_equal(display.measured, -search.cv_results_[f"mean_test_{name}"])


@pytest.mark.parametrize("scoring", [None, "r2", "neg_root_mean_squared_error", {"a": "r2"}])
def test_from_search_refuses_other_scores(theory, data, scoring):
    search = fitted_search(data, {"alpha": [1.0]}, scoring=scoring, refit=False)
    with pytest.raises(ValueError, match="pass scoring='neg_mean_squared_error'"):
        TheoryDisplay.from_search(search, theory, 2.5)


@pytest.mark.parametrize(
    ("grid", "param", "message"),
    [
        ({"tol": [1e-3]}, "alpha", "a search over \\['tol'\\]"),
        ({"tol": [1e-3]}, "tol", "must name one searched penalty"),
        ({"alpha": [1.0], "tol": [1e-3, 1e-4]}, "alpha", "search 'alpha' alone"),
    ],
)
def test_from_search_refuses_what_is_no_penalty_curve(theory, data, grid, param, message):
    search = fitted_search(data, grid)
    with pytest.raises(ValueError, match=message):
        TheoryDisplay.from_search(search, theory, 2.5, param=param)


def test_from_search_refuses_what_is_no_search(theory, search):
    for wrong in (Ridge(), clone(search)):
        with pytest.raises(TypeError, match="must be a fitted GridSearchCV"):
            TheoryDisplay.from_search(wrong, theory, 2.5)
    with pytest.raises(ValueError, match="sample_ratio must be a positive number"):
        TheoryDisplay.from_search(search, theory, -1.0)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_from_search_refuses_the_theory_of_another_activation(theory, data, in_pipeline):
    regressor = LinearAttentionRegressor(fit_intercept=False)
    param = "linearattentionregressor__alpha" if in_pipeline else "alpha"
    estimator = make_pipeline(FunctionTransformer(), regressor) if in_pipeline else regressor
    search = fitted_search(data, {param: [30.0, 100.0]}, estimator)
    with pytest.raises(
        ValueError, match=r"has linear weights and the theory softmax .*ReplicaTheory\('linear'"
    ):
        TheoryDisplay.from_search(search, theory, 2.5)


@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more of the test scores")
def test_from_search_leaves_out_fits_that_failed(theory, data):
    failing = fitted_search(
        data, {"alpha": [1.0, 3.0]}, FailingRegressor(fit_intercept=False), error_score=np.nan, refit=False,
        cv=ShuffleSplit(1, random_state=0),
    )  # fmt: skip
    display = TheoryDisplay.from_search(failing, theory, 2.5)
    np.testing.assert_array_equal(display.measured_settings, [1.0])


class FailingRegressor(SoftmaxAttentionRegressor):
    def predict(self, X):
        return np.full(len(X), np.nan) if self.alpha > 1.0 else super().predict(X)


def test_importing_inspection_imports_neither_theory_nor_matplotlib():
    code = (
        "import sys, sklearn_attn.inspection\n"
        "print([name for name in ('sklearn_attn.theory', 'matplotlib') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_says_that_matplotlib_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"sklearn_attn\[plot\]"):
        TheoryDisplay([1.0], [0.5]).plot()

"""ReplicaTheory, a regressor on tables of settings: the plumbing on a cheap theory, the numbers on the real one."""

import math
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import ReplicaSymmetryWarning, ReplicaTheory, estimator, replica_erm

STRENGTH = {"softmax": 1.0, "linear": 0.4, "erf": 0.5, "softplus": 0.8}


def cheap_error(problem, activation, sample_ratio, alpha, alpha_key):
    """A made-up theory with a best penalty at 3 / sqrt(n), smooth in everything."""
    penalty = math.log(alpha * math.sqrt(sample_ratio) / 3.0)
    key = 0.0 if alpha_key is None else 0.01 * math.log(alpha_key) ** 2
    rest = 1.0 / (1.0 + STRENGTH[activation] * problem.signal * sample_ratio / 4.0)
    return problem.noise**2 + rest * (1.0 + 0.1 * penalty**2) + key


@pytest.fixture
def cheap(monkeypatch):
    """Put the made-up theory in the place of `replica_erm`, and count its calls."""
    calls = []

    def solve(problem, activation, sample_ratio, alpha=1.0, alpha_key=None, init="auto", **options):
        del options
        calls.append((problem, activation, sample_ratio, alpha, alpha_key))
        error = cheap_error(problem, activation, sample_ratio, alpha, alpha_key)
        return SimpleNamespace(
            test_error=error, train_error=0.5 * error, m_key=0.1, m_value=0.2, q_key=0.3, q_value=0.4, V_key=0.5,
            V_value=0.6, stability=2.0 if alpha < 0.05 else 0.5, converged=alpha > 0.01, error_estimate=1e-4,
        )  # fmt: skip

    monkeypatch.setattr(estimator, "replica_erm", solve)
    return calls


TABLE = np.array([[2.0, 1.0], [5.0, 1.0], [5.0, 0.3], [12.0, 1.0], [30.0, 2.0]])


# -- the real theory ---------------------------------------------------------------------------------------


def test_predictions_are_those_of_replica_erm():
    theory = ReplicaTheory("softplus", signal=2.0, length=2, noise=0.3).fit([[4.0, 1.0]], [0.5])
    X = [[4.0, 1.0], [9.0, 1.6]]
    exact = [replica_erm(SLRProblem("spiked", 2.0, 2, 0.3), "softplus", n, alpha) for n, alpha in X]
    np.testing.assert_allclose(theory.predict(X), [result.test_error for result in exact], rtol=1e-12)
    results = theory.results(X[:1])
    assert results[0] == exact[0]
    np.testing.assert_allclose(theory.predict_train_error(X[:1]), [exact[0].train_error], rtol=1e-12)
    np.testing.assert_allclose(
        theory.order_parameters(X[:1]),
        [
            [
                exact[0].m_key,
                exact[0].m_value,
                exact[0].q_key,
                exact[0].q_value,
                exact[0].V_key,
                exact[0].V_value,
            ]
        ],
    )


@pytest.mark.slow
def test_calibration_recovers_signal_and_noise_of_its_own_predictions():
    X = np.array([[3.0, 1.0], [6.0, 1.0], [10.0, 0.5], [10.0, 2.0]])
    y = ReplicaTheory(signal=2.5, noise=0.4).fit(X, np.ones(4)).predict(X)
    theory = ReplicaTheory(signal=1.5, noise=0.2, fit_params=("signal", "noise")).fit(X, y)
    assert theory.signal_ == pytest.approx(2.5, rel=0.03)
    assert theory.noise_ == pytest.approx(0.4, abs=0.02)
    assert theory.score(X, y) > 0.999


@pytest.mark.slow
def test_calibration_on_the_max_task():
    X = np.array([[3.0, 1.0], [8.0, 1.0]])
    y = ReplicaTheory(task="max", signal=3.0, length=2).fit(X, np.ones(2)).predict(X)
    theory = ReplicaTheory(task="max", signal=1.0, length=2, fit_params=("signal",)).fit(X, y)
    assert theory.signal_ == pytest.approx(3.0, rel=0.05)
    assert theory.noise_ == 0.0


@pytest.mark.slow
def test_optimal_alpha_against_a_fine_grid():
    best = ReplicaTheory(signal=2.0).fit(TABLE, np.ones(5)).optimal_alpha(4.0)
    errors = {
        factor: replica_erm(SLRProblem("spiked", 2.0, 3), "softmax", 4.0, factor * best).test_error
        for factor in (0.7, 0.85, 1.0, 1.15, 1.4)
    }
    # the minimum is flat: 15 % off costs 2e-3
    assert errors[1.0] < min(errors.values()) + 1e-3
    assert min(errors[0.7], errors[1.4]) > errors[1.0] + 2e-3


@pytest.mark.slow
def test_grid_search_finds_the_activation_that_made_the_curve():
    X = np.array([[4.0, 1.0], [6.0, 1.0], [10.0, 1.0], [15.0, 1.0]])
    y = np.array([replica_erm(SLRProblem("spiked", 2.0, 3), "softplus", *row).test_error for row in X])
    y = y * (1.0 + 0.01 * np.random.default_rng(0).standard_normal(4))
    search = GridSearchCV(
        ReplicaTheory(signal=2.0), {"activation": ["softmax", "linear", "erf", "softplus"]}, cv=2,
        scoring="neg_mean_squared_error",
    ).fit(X, y)  # fmt: skip
    assert search.best_params_ == {"activation": "softplus"}


# -- columns -----------------------------------------------------------------------------------------------


def test_columns_of_an_array(cheap):
    del cheap
    theory = ReplicaTheory(
        signal=2.0, noise=0.1, columns=("alpha", "noise", "sample_ratio", "alpha_key", "signal")
    )
    row = [0.7, 0.4, 6.0, 2.0, 3.0]
    expected = cheap_error(SLRProblem("spiked", 3.0, 3, 0.4), "softmax", 6.0, 0.7, 2.0)
    assert theory.fit([row], [1.0]).predict([row])[0] == pytest.approx(expected, rel=1e-12)
    assert theory.columns_ == ("alpha", "noise", "sample_ratio", "alpha_key", "signal")
    assert theory.n_features_in_ == 5


def test_what_is_no_column_is_a_parameter(cheap):
    del cheap
    theory = ReplicaTheory(
        "linear", signal=2.0, noise=0.1, alpha=0.3, alpha_key=0.9, columns=["sample_ratio"]
    )
    expected = cheap_error(SLRProblem("spiked", 2.0, 3, 0.1), "linear", 6.0, 0.3, 0.9)
    assert theory.fit([[6.0]], [1.0]).predict([[6.0]])[0] == pytest.approx(expected, rel=1e-12)


def test_a_frame_names_its_own(cheap):
    del cheap
    frame = pd.DataFrame({"signal": [1.0, 3.0], "sample_ratio": [4, 8]})
    theory = ReplicaTheory(alpha=0.5).fit(frame, [0.5, 0.4])
    expected = [
        cheap_error(SLRProblem("spiked", s, 3), "softmax", n, 0.5, None) for s, n in ((1.0, 4.0), (3.0, 8.0))
    ]
    np.testing.assert_allclose(theory.predict(frame), expected, rtol=1e-12)
    assert theory.columns_ == ("signal", "sample_ratio")
    assert theory.feature_names_in_.tolist() == ["signal", "sample_ratio"]
    with pytest.raises(ValueError):
        theory.predict(frame[["sample_ratio", "signal"]])
    with pytest.raises(ValueError, match=r"fit was given the columns|feature names"):
        theory.predict(pd.DataFrame({"alpha": [1.0], "sample_ratio": [4.0]}))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("sample_ratio", "nu"), "'sample_ratio' and any of"),
        (("alpha",), "'sample_ratio' and any of"),
        (("sample_ratio", "alpha", "alpha"), "each once"),
    ],
)
def test_unknown_columns(cheap, columns, message):
    del cheap
    X = np.ones((2, len(columns)))
    with pytest.raises(ValueError, match=message):
        ReplicaTheory(columns=columns).fit(X, [0.5, 0.4])
    if len(set(columns)) == len(columns):
        with pytest.raises(ValueError, match=message):
            ReplicaTheory().fit(pd.DataFrame(X, columns=columns), [0.5, 0.4])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.0, 1.0, 0.1], "'sample_ratio' must be positive"),
        ([-1.0, 1.0, 0.1], "'sample_ratio' must be positive"),
        ([4.0, 0.0, 0.1], "'alpha' must be positive"),
        ([4.0, 1.0, -0.1], "'noise'"),
        ([4.0, np.nan, 0.1], "NaN"),
    ],
)
def test_bad_numbers_in_the_table(cheap, row, message):
    del cheap
    columns = ("sample_ratio", "alpha", "noise")
    with pytest.raises(ValueError, match=message):
        ReplicaTheory(columns=columns).fit([row], [0.5])
    theory = ReplicaTheory(columns=columns).fit([[4.0, 1.0, 0.1]], [0.5])
    with pytest.raises(ValueError, match=message):
        theory.predict([row])


def test_a_noise_of_zero_is_allowed(cheap):
    del cheap
    theory = ReplicaTheory(columns=("sample_ratio", "noise")).fit([[4.0, 0.0]], [0.5])
    assert np.isfinite(theory.predict([[4.0, 0.0]])).all()
    # and the message about a negative one does not say otherwise
    with pytest.raises(ValueError) as caught:
        theory.predict([[4.0, -1.0]])
    assert "must be positive" not in str(caught.value)


def test_the_number_of_columns(cheap):
    del cheap
    with pytest.raises(ValueError, match=r"X has 3 columns, but columns="):
        ReplicaTheory().fit(np.ones((2, 3)), [0.5, 0.4])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"activation": "relu"}, ValueError, "activation must be one of"),
        ({"task": "min"}, ValueError, "task must be one of"),
        ({"signal": 0.0}, ValueError, "signal must be positive"),
        ({"signal": -1.0}, ValueError, "signal"),
        ({"signal": math.inf}, ValueError, "needs task='max'"),
        ({"noise": -1.0}, ValueError, "noise"),
        ({"length": {2: 0.4, 3: 0.4}}, ValueError, "sum to 1"),
        ({"alpha": 0.0}, ValueError, "alpha must be positive"),
        ({"alpha_key": -1.0}, ValueError, "alpha_key must be positive"),
        ({"fit_params": ("length",)}, ValueError, "fit_params may name"),
        ({"fit_params": ("noise",), "columns": ("sample_ratio", "noise")}, ValueError, "drop one of the two"),
        (
            {"signal": math.inf, "task": "max", "fit_params": ("signal",)},
            ValueError,
            "start at a finite number",
        ),
    ],
)
def test_bad_parameters(cheap, parameters, error, message):
    del cheap
    with pytest.raises(error, match=message):
        ReplicaTheory(**parameters).fit(np.full((2, 2), 2.0), [0.5, 0.4])


def test_an_infinite_signal_in_a_column_of_the_spiked_task(cheap):
    del cheap
    theory = ReplicaTheory(columns=("sample_ratio", "signal")).fit([[4.0, 2.0]], [0.5])
    with pytest.raises(ValueError, match=r"infinity|needs task='max'"):
        theory.predict([[4.0, math.inf]])


# -- fitting, on the cheap theory --------------------------------------------------------------------------


def test_fit_without_parameters_only_records(cheap):
    theory = ReplicaTheory(signal=2.0, noise=0.3).fit(TABLE, np.ones(5))
    assert (theory.signal_, theory.noise_) == (2.0, 0.3)
    assert cheap == []


@pytest.mark.parametrize("fit_params", [("signal", "noise"), ("noise", "signal"), ("signal",), ["noise"]])
def test_calibration(cheap, fit_params):
    del cheap
    truth = {"signal": 3.0, "noise": 0.5}
    y = [cheap_error(SLRProblem("spiked", 3.0, 3, 0.5), "softmax", n, a, None) for n, a in TABLE]
    start = {"signal": 1.0, "noise": 0.1}
    given = {name: start[name] if name in fit_params else truth[name] for name in truth}
    theory = ReplicaTheory(**given, fit_params=fit_params).fit(TABLE, y)
    assert theory.signal_ == pytest.approx(3.0, rel=0.02)
    assert theory.noise_ == pytest.approx(0.5, abs=0.01)
    assert theory.score(TABLE, y) > 0.9999
    # parameters stay as they were given
    assert theory.signal == given["signal"]
    assert theory.noise == given["noise"]


def test_calibration_from_no_noise_and_to_no_noise(cheap):
    del cheap
    for noise, start in ((0.4, 0.0), (0.0, 0.5)):
        y = [cheap_error(SLRProblem("spiked", 3.0, 3, noise), "softmax", n, a, None) for n, a in TABLE]
        theory = ReplicaTheory(signal=3.0, noise=start, fit_params=("noise",)).fit(TABLE, y)
        # errors know the square of the noise: near 0 that is sqrt(1e-3)
        assert theory.noise_ == pytest.approx(noise, abs=0.04)
        assert theory.noise_ >= 0.0


def test_score_is_r2_against_the_measured_errors(cheap):
    del cheap
    theory = ReplicaTheory(signal=2.0).fit(TABLE, np.ones(5))
    predicted = theory.predict(TABLE)
    y = predicted + np.array([0.02, -0.02, 0.01, 0.0, 0.0])
    expected = 1.0 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
    assert theory.score(TABLE, y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sample_ratio", [0.5, 4.0, 100.0])
def test_optimal_alpha_of_the_cheap_theory(cheap, sample_ratio):
    del cheap
    theory = ReplicaTheory(signal=2.0).fit(TABLE, np.ones(5))
    assert theory.optimal_alpha(sample_ratio) == pytest.approx(3.0 / math.sqrt(sample_ratio), rel=0.03)


def test_optimal_alpha_keeps_to_stable_penalties(cheap):
    # the minimum, 3 / sqrt(n) = 0.003, lies where the theory is unstable (below .05)
    del cheap
    theory = ReplicaTheory(signal=2.0).fit(TABLE, np.ones(5))
    with pytest.warns(ConvergenceWarning, match="still falls at the last stable penalty"):
        best = theory.optimal_alpha(1e6)
    # the edge of stability; the grid of the search has a factor 2.7
    assert 0.05 <= best < 0.08


def test_optimal_alpha_at_the_end_of_its_range(cheap):
    # the minimum, 3 / sqrt(n) = 3e4, lies beyond
    del cheap
    theory = ReplicaTheory(signal=2.0).fit(TABLE, np.ones(5))
    with pytest.warns(ConvergenceWarning, match="still falls at the end of the range"):
        assert theory.optimal_alpha(1e-8) > 5e3


def test_calibration_on_what_is_no_prediction_warns(cheap):
    # below alpha = .05 the cheap theory is unstable
    del cheap
    with pytest.warns(ReplicaSymmetryWarning, match="at 1 of 2 settings"):
        ReplicaTheory(signal=2.0, fit_params=("noise",)).fit([[4.0, 0.02], [4.0, 1.0]], [1.2, 0.6])


def test_a_column_of_signals_may_be_infinite_on_max(cheap):
    del cheap
    theory = ReplicaTheory(task="max", columns=("sample_ratio", "signal"))
    X = [[4.0, math.inf], [4.0, 2.0]]
    assert np.isfinite(theory.fit(X, [0.5, 0.6]).predict(X)).any()
    with pytest.raises(ValueError, match="infinity in column 'sample_ratio'"):
        theory.fit([[math.inf, 2.0]], [0.5])


@pytest.mark.parametrize("sample_ratio", [0.0, -1.0, math.inf, math.nan])
def test_optimal_alpha_of_no_ratio(cheap, sample_ratio):
    del cheap
    theory = ReplicaTheory().fit(TABLE, np.ones(5))
    with pytest.raises(ValueError, match="sample_ratio must be positive"):
        theory.optimal_alpha(sample_ratio)


def test_optimal_alpha_where_none_is_stable(monkeypatch):
    monkeypatch.setattr(
        estimator,
        "replica_erm",
        lambda *a, **k: SimpleNamespace(test_error=1.0, stability=3.0, converged=True),
    )
    theory = ReplicaTheory().fit(TABLE, np.ones(5))
    with pytest.raises(ValueError, match="stable at no penalty"):
        theory.optimal_alpha(4.0)


def test_equal_rows_are_solved_once(cheap):
    theory = ReplicaTheory().fit(TABLE, np.ones(5))
    predicted = theory.predict([[4.0, 1.0], [4.0, 1.0], [5.0, 1.0]])
    assert len(cheap) == 2
    assert predicted[0] == predicted[1] != predicted[2]


def test_warnings_of_a_table(cheap):
    del cheap
    theory = ReplicaTheory().fit(TABLE, np.ones(5))
    for method in (theory.predict, theory.predict_train_error, theory.order_parameters):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            method([[4.0, 0.03], [4.0, 0.04], [4.0, 1.0]])
        assert [warning.category for warning in caught] == [ReplicaSymmetryWarning]  # once for all rows
        assert "at 2 of 3 settings" in str(caught[0].message)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            method([[4.0, 0.005], [4.0, 1.0]])
        assert {warning.category for warning in caught} == {ReplicaSymmetryWarning, ConvergenceWarning}
        assert "no fixed point at 1 of 2 settings" in str(caught[1].message)


def test_warnings_point_at_the_caller(cheap):
    del cheap
    theory = ReplicaTheory().fit(TABLE, np.ones(5))
    with pytest.warns(ReplicaSymmetryWarning) as caught:
        theory.predict([[4.0, 0.03]])
    assert caught[0].filename == __file__


def test_grid_search_and_pipeline_on_the_cheap_theory(cheap):
    del cheap
    X = np.column_stack([np.geomspace(1.0, 30.0, 9), np.ones(9)])
    y = [cheap_error(SLRProblem("spiked", 2.0, 3), "softplus", n, a, None) for n, a in X]
    grid = {"activation": ["softmax", "linear", "erf", "softplus"], "signal": [1.0, 2.0]}
    search = GridSearchCV(ReplicaTheory(), grid, cv=3).fit(X, y)
    assert search.best_params_ == {"activation": "softplus", "signal": 2.0}
    assert search.best_score_ == pytest.approx(1.0, abs=1e-6)
    counts = make_pipeline(
        FunctionTransformer(lambda X: X / [100.0, 1.0]), ReplicaTheory("softplus", signal=2.0)
    )
    np.testing.assert_allclose(counts.fit(X * [100.0, 1.0], y).predict(X * [100.0, 1.0]), y, rtol=1e-12)


def test_not_fitted():
    for method in ("predict", "predict_train_error", "order_parameters", "results"):
        with pytest.raises(NotFittedError):
            getattr(ReplicaTheory(), method)([[4.0, 1.0]])
    with pytest.raises(NotFittedError):
        ReplicaTheory().optimal_alpha(4.0)


def test_clone_pickle_params_and_repr(cheap):
    del cheap
    theory = ReplicaTheory("linear", task="max", signal=2.0, length=(1, 2), noise=0.1, fit_params=("noise",))
    assert eval(repr(theory), {"ReplicaTheory": ReplicaTheory}).get_params() == theory.get_params()
    assert "alpha" not in repr(theory)  # only what differs from the default
    assert clone(theory).get_params() == theory.get_params()
    theory.set_params(activation="softmax", fit_params=())
    fitted = theory.fit(TABLE, np.ones(5))
    assert fitted is theory
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(TABLE), fitted.predict(TABLE))
    # predictions use what fit recorded
    before = fitted.predict(TABLE)
    np.testing.assert_array_equal(fitted.set_params(signal=9.0).predict(TABLE), before)


# Every check that is expected to fail, with its reason: the checks make their own tables, whose numbers of columns
# are not those of a setting, or with zeros, which are no sample ratio or penalty.
_NO_SETTINGS = "the check passes a table whose columns are no settings"
_ZEROS = "the check passes zeros, which are no sample ratio or penalty"
EXPECTED_FAILED_CHECKS = dict.fromkeys(
    [
        "check_fit_score_takes_y", "check_dont_overwrite_parameters", "check_n_features_in_after_fitting",
        "check_positive_only_tag_during_fit", "check_estimators_dtypes", "check_dtype_object",
        "check_pipeline_consistency", "check_estimators_nan_inf", "check_estimators_pickle",
        "check_f_contiguous_array_estimator", "check_regressors_train", "check_regressor_data_not_an_array",
        "check_regressors_no_decision_function", "check_supervised_y_2d", "check_regressors_int",
        "check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_fit2d_1sample",
        "check_array_api_input", "check_fit2d_1feature", "check_dict_unchanged", "check_fit2d_predict1d",
    ],
    _NO_SETTINGS,
) | dict.fromkeys(
    ["check_estimators_overwrite_params", "check_estimators_fit_returns_self", "check_readonly_memmap_input",
     "check_fit_idempotent", "check_fit_check_is_fitted", "check_n_features_in"],
    _ZEROS,
)  # fmt: skip


@parametrize_with_checks([ReplicaTheory()], expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS)
def test_scikit_learn_checks_of_the_theory(estimator, check):
    check(estimator)

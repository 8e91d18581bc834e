"""Regressors with solver="sgd": what fit and partial_fit find, remember and refuse."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_attn import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)
from sklearn_attn.datasets import SLRDataset

EVERY_STEP = {"solver": "sgd", "learning_rate": 0.05}
unconverged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def assert_same(a, b, rtol=0.0):
    for name in ("key_", "value_", "intercept_", "objective_", "stop_crit_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=rtol)
    assert a.t_ == b.t_


# -- fit ----------------------------------------------------------------------------------------


def test_full_batches_find_the_minimum_of_lbfgs(Regressor, noisy):
    X, y = noisy
    weight = np.random.default_rng(0).random(80) + 1.0
    if Regressor in (SoftmaxAttentionRegressor, SoftplusAttentionRegressor):
        options = {"learning_rate": 0.5, "max_iter": 5000}
    else:
        options = {"learning_rate": 0.03, "max_iter": 20_000}
    best = Regressor(5.0, tol=1e-8, max_iter=5000).fit(X, y, weight)
    model = Regressor(5.0, solver="sgd", batch_size=80, tol=1e-6, **options).fit(X, y, weight)
    assert model.stop_crit_ <= 1e-6
    assert model.objective_ == pytest.approx(best.objective_, rel=1e-7)
    np.testing.assert_allclose(model.predict(X), best.predict(X), atol=1e-3)


@unconverged
@pytest.mark.parametrize("options", [{"power_t": 0.6}, {"average": 800}, {"power_t": 0.5, "average": True}])
def test_single_steps_come_near_the_minimum(Normalised, noisy, options):
    X, y = noisy
    best = Normalised(2.0).fit(X, y)
    options = {"solver": "sgd", "learning_rate": 0.3, "max_iter": 300} | options
    model = Normalised(2.0, random_state=0, **options).fit(X, y)
    assert model.objective_ == pytest.approx(best.objective_, rel=0.01)
    assert model.loss_curve_[0] > 1.1 * best.objective_


@unconverged
def test_averaging_quietens_the_steps(Normalised, noisy):
    X, y = noisy
    options = {"solver": "sgd", "learning_rate": 0.3, "max_iter": 100, "random_state": 0}
    plain, averaged = (Normalised(2.0, average=average, **options).fit(X, y) for average in (False, 2000))
    best = Normalised(2.0).fit(X, y).objective_
    assert averaged.objective_ - best < 0.3 * (plain.objective_ - best)


def test_what_a_fit_remembers(Regressor, noisy):
    X, y = noisy
    options = {"max_iter": 7, "batch_size": 3, "random_state": 0}
    message = (
        r"did not converge: it reached max_iter=7.*above tol=1.0e-05.*Lower learning_rate.*power_t above 0.5"
        r".*average=True.*solver='lbfgs'"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        model = Regressor(**EVERY_STEP, **options).fit(X, y)
    assert (model.n_iter_, model.t_, model.loss_curve_.shape) == (7, 7 * 27, (8,))
    assert model.loss_curve_[-1] == model.objective_
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    residual = y - model.predict(X)
    penalty = model.key_ @ model.key_ + model.value_ @ model.value_
    assert model.objective_ == pytest.approx(residual @ residual + penalty, rel=1e-10)
    assert model.stop_crit_ > model.tol
    again = pickle.loads(pickle.dumps(model))
    assert_same(again.partial_fit(X, y), model.partial_fit(X, y))


@unconverged
def test_random_state_drives_the_order(Regressor, noisy):
    X, y = noisy
    a, b, c = (Regressor(**EVERY_STEP, max_iter=2, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_same(a, b)
    assert not np.allclose(a.key_, c.key_, rtol=1e-6)


@unconverged
def test_starts(Normalised, noisy):
    X, y = noisy
    options = {"max_iter": 3, "random_state": 0, **EVERY_STEP}
    poor = np.full(4, 3.0), np.full(4, -3.0)
    one, several = (Normalised(n_init=n, init=poor, **options).fit(X, y) for n in (1, 4))
    assert several.objective_ < one.objective_
    best = Normalised().fit(X, y)
    given = Normalised(init=(best.key_, best.value_), tol=1e-3, **EVERY_STEP).fit(X, y)
    assert (given.n_iter_, given.t_) == (0, 0)
    warm = clone(best).set_params(warm_start=True, **EVERY_STEP).set_params(tol=1e-3)
    warm.fit(X, y)
    first = warm.loss_curve_[-1]
    assert warm.fit(X, y).loss_curve_[0] == pytest.approx(first, rel=1e-12)


def test_another_solver_forgets_the_steps(noisy):
    X, y = noisy
    model = SoftmaxAttentionRegressor(**EVERY_STEP).partial_fit(X, y)
    model.set_params(solver="lbfgs").fit(X, y)
    assert not hasattr(model, "t_")
    key, objective = model.key_, model.objective_
    model.set_params(solver="sgd", learning_rate=1e-9).partial_fit(X, y)
    np.testing.assert_allclose(model.key_, key, rtol=1e-6)  # from the minimum, not from the earlier steps
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
    assert model.t_ == 80


@unconverged
def test_in_a_search(noisy):
    X, y = noisy
    grid = {"learning_rate": [1e-6, 0.1], "batch_size": [1, 2]}
    model = SoftmaxAttentionRegressor(1.0, solver="sgd", max_iter=20, random_state=0)
    assert GridSearchCV(model, grid, cv=3).fit(X, y).best_params_["learning_rate"] == 0.1


# -- partial_fit --------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True, 30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pieces_are_the_whole(Regressor, noisy, average, dtype):
    X, y = noisy
    X, weight = X.astype(dtype), np.random.default_rng(0).random(80)
    options = {"batch_size": 4, "average": average, "power_t": 0.3, "init": (np.full(4, 0.1), np.ones(4))}
    whole, pieces = (Regressor(0.0, fit_intercept=False, **EVERY_STEP, **options) for _ in range(2))
    whole.partial_fit(X, y, weight)
    for start, stop in ((0, 4), (4, 32), (32, 80)):
        pieces.partial_fit(X[start:stop], y[start:stop], weight[start:stop])
    rtol = 1e-12 if dtype is np.float64 else 1e-6
    np.testing.assert_allclose(whole.key_, pieces.key_, rtol=rtol)
    np.testing.assert_allclose(whole.value_, pieces.value_, rtol=rtol)
    assert (whole.t_, whole.n_iter_, pieces.t_, pieces.n_iter_) == (20, 1, 20, 3)
    assert whole.loss_curve_.shape == (2,)
    assert pieces.loss_curve_.shape == (4,)
    assert whole.key_.dtype == dtype


def test_the_penalty_belongs_to_all_sequences_seen(Regressor, noisy):
    X, y = noisy
    options = {"solver": "sgd", "batch_size": 10, "learning_rate": 0.1, "fit_intercept": False}
    once, half = (Regressor(alpha, **options) for alpha in (50.0, 25.0))
    once.partial_fit(X, y)
    half.set_params(init=(once.key_, once.value_)).partial_fit(X, y)  # the first call: 25 for 80 sequences
    twice = once.partial_fit(X, y)  # the second: 50 for 160
    np.testing.assert_allclose(twice.key_, half.key_, rtol=1e-10)
    np.testing.assert_allclose(twice.value_, half.value_, rtol=1e-10)
    free = Regressor(0.0, **options, init=half.init).partial_fit(X, y)
    assert np.linalg.norm(free.value_) > 1.01 * np.linalg.norm(half.value_)


def test_one_call_reports_on_its_own_data(Regressor, noisy):
    X, y = noisy
    model = Regressor(0.5, **EVERY_STEP).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    residual = y[50:] - model.predict(X[50:])
    penalty = 0.5 * (model.key_ @ model.key_ + model.value_ @ model.value_)
    assert model.objective_ == pytest.approx(residual @ residual + penalty, rel=1e-10)
    assert model.loss_curve_[-1] == model.objective_
    assert (model.n_features_in_, model.n_iter_, model.t_) == (4, 2, 80)


@unconverged
def test_goes_on_after_fit(Regressor, noisy):
    X, y = noisy
    model = Regressor(**EVERY_STEP, max_iter=2, random_state=0).fit(X, y)
    key, curve = model.key_, model.loss_curve_
    model.set_params(learning_rate=1e-9).partial_fit(X, y)
    np.testing.assert_allclose(model.key_, key, rtol=1e-6)
    assert (model.n_iter_, model.t_) == (3, 240)
    np.testing.assert_array_equal(model.loss_curve_[:3], curve)


def test_the_order_given_is_the_order_taken(Regressor, noisy):
    X, y = noisy
    a, b = (Regressor(**EVERY_STEP, random_state=seed).partial_fit(X, y) for seed in (0, 1))
    assert_same(a, b)
    c = Regressor(**EVERY_STEP).partial_fit(X[::-1], y[::-1])
    assert not np.allclose(a.value_, c.value_, rtol=1e-6)


def test_a_learned_offset_moves(noisy):
    X, y = noisy
    fixed, learned = (ErfAttentionRegressor(offset=offset, **EVERY_STEP) for offset in (0.5, "learn"))
    for _ in range(5):
        fixed.partial_fit(X, y)
        learned.partial_fit(X, y)
    assert fixed.offset_ == 0.5
    assert learned.offset_ != 0.0
    assert learned.objective_ < learned.loss_curve_[1]
    assert learned.set_params(offset=0.25).partial_fit(X, y).offset_ == 0.25
    assert learned.set_params(fit_intercept=False).partial_fit(X, y).intercept_ == 0.0


def test_only_with_sgd(Regressor, noisy):
    model = Regressor()
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as error:
        model.partial_fit(*noisy)
    assert "pass solver='sgd', got 'lbfgs'" in str(error.value.__cause__)
    assert hasattr(model.set_params(solver="sgd"), "partial_fit")


def test_makes_no_convergence_warning_and_prints_nothing(Regressor, noisy, capsys):
    Regressor(verbose=2, **EVERY_STEP).partial_fit(*noisy)  # warnings are errors here
    assert capsys.readouterr().out == ""


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["sgd", "lbfgs"])
@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("learning_rate", 0.0, ValueError, "learning_rate == 0.0, must be > 0"),
        ("learning_rate", -1, ValueError, "learning_rate == -1, must be > 0"),
        ("learning_rate", float("inf"), ValueError, "learning_rate must be finite"),
        ("learning_rate", "optimal", TypeError, "learning_rate must be an instance of"),
        ("power_t", -0.1, ValueError, "power_t == -0.1, must be >= 0"),
        ("power_t", float("nan"), ValueError, "power_t must be finite"),
        ("batch_size", 0, ValueError, "batch_size == 0, must be >= 1"),
        ("batch_size", 2.0, TypeError, "batch_size must be an instance of"),
        ("batch_size", True, TypeError, "batch_size must be a number, got True"),
        ("average", 0, ValueError, "average == 0, must be >= 1"),
        ("average", 1.5, TypeError, "average must be an instance of"),
        ("average", None, TypeError, "average must be an instance of"),
    ],
)
def test_parameters(Regressor, noisy, solver, name, value, error, message):
    model = Regressor(solver=solver).set_params(**{name: value})
    assert model.get_params()[name] is value
    for method in ("fit", "partial_fit") if solver == "sgd" else ("fit",):
        with pytest.raises(error, match=message):
            getattr(model, method)(*noisy)


@unconverged
def test_numpy_numbers_and_large_batches(Regressor, noisy):
    options = {
        "learning_rate": np.float32(0.05), "power_t": 1, "batch_size": np.int64(10**15), "average": np.bool_(True),
        "fit_intercept": np.bool_(True), "max_iter": 2,
    }  # fmt: skip
    assert Regressor(1, solver="sgd", **options).fit(*noisy).t_ == 2


def bad_calls(X, y):
    bad_token = X.to_list()
    bad_token[7] = np.full((2, 4), np.nan)
    return {
        "token": ((bad_token, y), {}),
        "features": ((X.values[:80, :3], y), {}),
        "target": ((X, np.full(80, np.nan)), {}),
        "weights": ((X, y, -np.ones(80)), {}),
        "parameter": ((X, y), {"alpha": -1.0}),
        "overflow": ((RaggedArray(1e200 * X.values, X.offsets), y), {}),
        "divergence": ((RaggedArray(1e10 * X.values, X.offsets), 1e30 * y), {"learning_rate": 1e6}),
    }


BAD_KINDS = ["token", "target", "weights", "parameter", "overflow", "divergence"]
CALLS = [
    *((method, kind) for method in ("fit", "partial_fit") for kind in BAD_KINDS),
    ("partial_fit", "features"),
]


@pytest.mark.parametrize(("method", "kind"), CALLS)
def test_a_failed_call_changes_nothing(Regressor, noisy, method, kind):
    X, y = noisy
    model = Regressor(average=True, max_iter=200, **EVERY_STEP).partial_fit(X, y)
    arguments, parameters = bad_calls(X, y)[kind]
    model.set_params(**parameters)
    before = pickle.dumps(model)
    with pytest.raises(ValueError):
        getattr(model, method)(*arguments)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", BAD_KINDS)
def test_a_failed_first_call_leaves_nothing_fitted(Regressor, noisy, kind):
    arguments, parameters = bad_calls(*noisy)[kind]
    model = Regressor(**EVERY_STEP).set_params(**parameters)
    with pytest.raises(ValueError):
        model.partial_fit(*arguments)
    assert set(vars(model)) == set(model.get_params())


def test_divergence_says_what_to_do(Regressor, noisy):
    X, y = noisy
    model = Regressor(solver="sgd", learning_rate=1e6, max_iter=200)
    with pytest.raises(ValueError, match=r"diverged.*Lower learning_rate=1e\+06, or scale X and y"):
        model.fit(1e3 * X.values[:80], 1e3 * y)


def test_features_and_names(Regressor, noisy):
    import pandas as pd

    X, y = noisy
    frame = pd.DataFrame(X.values[:80], columns=list("abcd"))
    model = Regressor(**EVERY_STEP).partial_fit(frame, y).partial_fit(frame, y)
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"a": "z"}), y)
    with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 4"):
        Regressor(**EVERY_STEP).partial_fit(X, y).partial_fit(X.values[:80, :3], y)


# -- the theory's dynamics ----------------------------------------------------------------------


def test_one_pass_finds_the_hidden_directions():
    dataset = SLRDataset("spiked", n_features=200, signal=4.0, random_state=0)
    X, y = dataset.sample(8000)
    for model in (
        SoftmaxAttentionRegressor(0.0, solver="sgd", random_state=1),
        LinearAttentionRegressor(0.0, solver="sgd", learning_rate=0.05, random_state=1),
    ):
        overlaps = []
        for start in range(0, 8000, 2000):
            model.partial_fit(X[start : start + 2000], y[start : start + 2000])
            overlaps.append(model.key_ @ dataset.key_ / 200)
        assert model.t_ == 8000
        assert overlaps[-1] > max(0.2, 1.5 * overlaps[0])
        assert model.value_ @ dataset.value_ / 200 > 0.2


def test_overlaps_follow_the_ordinary_differential_equations():
    # dm/dtau and dq/dtau of theory, softmax, L = 3, nu = 2, gamma = 0.4, from q = 0.25 and no overlap,
    # integrated by an independent program: m_key, m_value, q_key, q_value at tau = 10 and 19.5
    expected = {10.0: (0.433, 0.796, 0.427, 0.776), 19.5: (0.801, 1.024, 0.861, 1.138)}
    D = 600
    dataset = SLRDataset("spiked", n_features=D, signal=2.0, random_state=0)
    hidden = np.stack([dataset.key_, dataset.value_], axis=1)
    start = np.random.default_rng(1).standard_normal((D, 2))
    start -= hidden @ np.linalg.lstsq(hidden, start)[0]
    start *= 0.5 * np.sqrt(D) / np.linalg.norm(start, axis=0)
    options = {"learning_rate": 0.4, "init": (start[:, 0], start[:, 1]), "fit_intercept": False}
    model = SoftmaxAttentionRegressor(0.0, solver="sgd", **options)
    for _ in range(39):
        model.partial_fit(*dataset.sample(300))
        key, value = model.key_, model.value_
        overlaps = np.array([key @ dataset.key_, value @ dataset.value_, key @ key, value @ value]) / D
        if model.t_ / D in expected:
            np.testing.assert_allclose(overlaps, expected.pop(model.t_ / D), atol=0.08)
    assert not expected

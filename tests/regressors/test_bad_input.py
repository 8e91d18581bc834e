"""What fit and predict refuse, and what they say."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_attn import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionRegressor,
)
from sklearn_attn.solvers import SolverResult


@pytest.fixture
def data(noisy):
    X, y = noisy
    return X.to_list(), y


@pytest.mark.parametrize("method", ["predict", "attention_weights", "token_contributions", "transform"])
def test_before_a_fit(Regressor, data, method):
    with pytest.raises(NotFittedError):
        getattr(Regressor(), method)(data[0])


def test_tokens(Regressor, data):
    X, y = data
    X[3] = np.full((2, 4), np.inf)
    with pytest.raises(ValueError, match=r"infinity: X\[3\] \(shape \(2, 4\)\) at token 0"):
        Regressor().fit(X, y)
    X[3] = np.empty((0, 4))
    with pytest.raises(ValueError, match=r"X\[3\] is an empty sequence"):
        Regressor().fit(X, y)
    with pytest.raises(TypeError, match=r"generator"):
        Regressor().fit((x for x in X), y)


def test_transposed_or_narrow_sequences_at_predict(Regressor, data):
    X, y = data
    model = Regressor().fit(X, y)
    with pytest.raises(ValueError, match=r"expecting 4 features.*they look transposed.*channel_first=True"):
        model.predict([np.ones((4, 7)), np.ones((4, 7))])
    with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 4 features as input"):
        model.predict(np.ones((2, 5, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y[:-1], "X has 80 sequences, y has 79 values.*one value per sequence"),
        (lambda y: None, "requires y to be passed, but the target y is None"),
        (lambda y: np.where(np.arange(80) == 5, np.nan, y), "Input y contains NaN"),
        (lambda y: [*y.astype(str).astype(object).tolist()[:-1], "good"], "could not convert string"),
        (lambda y: y + 1j, "Complex data not supported"),
        (lambda y: y[:, None, None], "y should be a 1d array, got an array of shape"),
    ],
)
def test_target(Regressor, data, change, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        Regressor().fit(X, change(y))


def test_a_single_sequence_of_tokens(Regressor, data):
    with pytest.raises(ValueError, match=r"for a single sequence of tokens pass \[X\]"):
        Regressor().fit(data[0][0], [1.0] * (len(data[0][0]) + 1))


@pytest.mark.parametrize(("scale_X", "scale_y", "name"), [(1e200, 1.0, "X"), (1.0, 1e200, "y")])
def test_numbers_whose_squares_overflow(Regressor, data, scale_X, scale_y, name):
    with pytest.raises(ValueError, match=f"squares of {name} overflow.*divide {name}"):
        Regressor().fit([scale_X * x for x in data[0]], scale_y * data[1])


def test_numbers_whose_squares_vanish(Regressor, data):
    with pytest.raises(ValueError, match=r"squares of X vanish.*divide X"):
        Regressor().fit([1e-200 * x for x in data[0]], data[1])


def test_a_result_too_large_for_float32(Regressor, data):
    with pytest.raises(ValueError, match="overflows float32: pass X in float64"):
        Regressor(0.0).fit([(1e-30 * x).astype("f4") for x in data[0]], 1e20 * data[1])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(80), "All of sample_weight is zero"),
        (0.0, "All of sample_weight is zero"),
        (-1.0, r"sample_weight\[0\] is negative"),
        (np.append(np.ones(79), -1.0), r"sample_weight\[79\] is negative"),
        (np.ones(79), r"shape \(80,\), got \(79,\)"),
        (np.ones((80, 2)), r"shape \(80,\), got \(80, 2\)"),
        (np.append(np.ones(79), np.nan), "Input sample_weight contains NaN"),
    ],
)
def test_weights(Regressor, data, weight, message):
    with pytest.raises(ValueError, match=message):
        Regressor().fit(*data, sample_weight=weight)


def test_a_scalar_weight_is_every_sequences(Regressor, data):
    X, y = data
    a, b = Regressor().fit(X, y, sample_weight=2), Regressor().fit(X, y, sample_weight=np.full(80, 2.0))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("alpha", -0.1, ValueError, "alpha == -0.1, must be >= 0"),
        ("alpha", "1", TypeError, "alpha must be an instance of"),
        ("alpha", None, TypeError, "alpha must be an instance of"),
        ("alpha", float("nan"), ValueError, "alpha must be finite"),
        ("alpha", True, TypeError, "alpha must be a number, got True"),
        ("alpha_key", -1, ValueError, "alpha_key == -1, must be >= 0"),
        ("alpha_key", float("inf"), ValueError, "alpha_key must be finite"),
        ("tol", -1e-3, ValueError, "tol == -0.001, must be >= 0"),
        ("tol", float("nan"), ValueError, "tol must be finite"),
        ("max_iter", 0, ValueError, "max_iter == 0, must be >= 1"),
        ("max_iter", 10.0, TypeError, "max_iter must be an instance of"),
        ("n_init", 0, ValueError, "n_init == 0, must be >= 1"),
        ("n_init", True, TypeError, "n_init must be a number, got True"),
        ("fit_intercept", "yes", TypeError, "fit_intercept must be an instance of"),
        ("warm_start", 1, TypeError, "warm_start must be an instance of"),
        ("verbose", -1, ValueError, "verbose == -1, must be >= 0"),
        ("solver", "adam", ValueError, "solver must be 'lbfgs' or 'sgd', got 'adam'"),
        ("init", "ridge", ValueError, "init must be 'auto', 'random' or a"),
        ("init", 3, ValueError, r"init must be 'auto', 'random' or a \(key, value\) pair, got 3"),
        ("init", (np.ones(4),) * 3, ValueError, "pair"),
        (
            "init",
            (np.ones(4), np.ones(3)),
            ValueError,
            r"init's value must have shape \(D,\) = \(4,\).*got \(3,\)",
        ),
        ("init", (np.full(4, np.nan), np.ones(4)), ValueError, "Input init's key contains NaN"),
        ("random_state", "seed", ValueError, "seed"),
    ],
)
def test_parameters(Regressor, data, name, value, error, message):
    model = Regressor(**{name: value})  # stored untouched
    assert model.get_params()[name] is value
    with pytest.raises(error, match=message):
        model.fit(*data)


@pytest.mark.parametrize(
    ("offset", "error"),
    [("learned", ValueError), (float("inf"), ValueError), (None, TypeError), (True, TypeError)],
)
def test_offset(data, offset, error):
    with pytest.raises(error, match="offset"):
        ErfAttentionRegressor(offset=offset).fit(*data)


def test_verbose_may_be_a_bool(data, capsys):
    printed = []
    for verbose in (True, 1, False, 0):
        SoftmaxAttentionRegressor(1e-6, tol=1e-9, verbose=verbose).fit(*data)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""
    assert printed[2] == printed[3] == ""


def test_frames_of_single_tokens_carry_names(Regressor, data):
    import pandas as pd

    X = pd.DataFrame(np.stack([x[0] for x in data[0]]), columns=list("abcd"))
    model = Regressor().fit(X, data[1])
    assert list(model.feature_names_in_) == list("abcd")
    assert list(model.get_feature_names_out()) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"a": "z"}))
    column = pd.DataFrame({"X": np.asarray(RaggedArray.from_list(data[0]))})
    assert not hasattr(Regressor().fit(column, data[1]), "feature_names_in_")


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        (["a"] * 80, None, "y must be an array of real numbers: could not convert"),
        (1.0, None, "y must be an array of real numbers: .*scalar"),
        (np.append(np.ones(79), np.nan), None, r"Input y contains NaN: y\[79\]"),
        (np.append(np.inf, np.ones(79)), None, r"Input y contains infinity: y\[0\]"),
        (None, ["a"] * 80, "sample_weight must be an array of real numbers"),
        (np.ma.masked_less(np.arange(80.0), 3), None, r"y is a masked array; pass y.filled"),
    ],
    ids=str,
)
def test_targets_and_weights_that_are_no_numbers(Regressor, data, y, weight, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Regressor().fit(data[0], data[1] if y is None else y, sample_weight=weight)


def test_a_tolerance_beyond_rounding_says_so(data):
    """Whether the line search ends the fit or max_iter: rounding decides that."""
    with pytest.warns(ConvergenceWarning, match="precision of float64: accept a larger tol"):
        LinearAttentionRegressor(tol=0.0).fit(*data)


@pytest.mark.parametrize(("curve", "advice"), [
    ([3.0, 1.0], "Raise alpha or max_iter"),
    ([3.0, 2.0, 1.0, 1.0], "Raise alpha or max_iter"),
    ([3.0, 2.0, 1.0, 1.0, 1.0], "precision of float64: accept a larger tol"),
    ([-3.0, -5.0, -5.0 + 1e-14, -5.0 - 1e-14], "precision of float64: accept a larger tol"),
])  # fmt: skip
def test_advice_where_max_iter_was_reached(data, monkeypatch, curve, advice):
    n_iter = len(curve) - 1
    end = SolverResult(np.zeros(9), curve[-1], 1e-3, n_iter, False, f"it reached max_iter={n_iter}", curve)
    monkeypatch.setattr(LinearAttentionRegressor, "_run_solver", lambda *_: end)
    with pytest.warns(ConvergenceWarning, match=advice):
        LinearAttentionRegressor(max_iter=n_iter).fit(*data)

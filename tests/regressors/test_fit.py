"""What a fit finds, certifies and remembers."""

import math
import pickle
import tracemalloc
import warnings

import joblib
import numpy as np
import pytest
from scipy.special import erf
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.multioutput import MultiOutputRegressor

from sklearn_attn import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionRegressor,
)
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import AttentionObjective
from sklearn_attn.regressors import _fit


def numpy_attention(model, X):
    """Weights and predictions of a fitted model, from the formulas alone."""
    weights, predictions = [], []
    for x in X:
        chi, z = x @ model.key_ / math.sqrt(x.shape[1]), x @ model.value_ / math.sqrt(x.shape[1])
        name = type(model).__name__
        if name.startswith("Linear"):
            sigma = 1 + chi
        elif name.startswith("Erf"):
            sigma = 1 + erf(model.offset_ + chi)
        else:
            sigma = np.exp(chi) if name.startswith("Softmax") else np.log1p(np.exp(chi))
            sigma = sigma / sigma.sum()
        weights.append(sigma)
        predictions.append(model.intercept_ + sigma @ z)
    return weights, np.array(predictions)


def numpy_objective(model, X, y, key, value, intercept):
    probe = clone(model)
    probe.key_, probe.value_, probe.intercept_ = key, value, intercept
    probe.offset_ = getattr(model, "offset_", 0.0)
    residual = y - numpy_attention(probe, X)[1]
    alpha_key = model.alpha if model.alpha_key is None else model.alpha_key
    return residual @ residual + alpha_key * key @ key + model.alpha * value @ value


def test_outputs_are_consistent(Regressor, noisy):
    X, y = noisy
    model = Regressor(0.5).fit(X, y)
    weights, predictions = numpy_attention(model, X)
    np.testing.assert_allclose(model.predict(X), predictions, rtol=1e-10)
    attention, contributions = model.attention_weights(X), model.token_contributions(X)
    assert isinstance(attention, RaggedArray)
    for array in (attention, contributions):
        np.testing.assert_array_equal(array.offsets, X.offsets)
        assert array.n_features == 1
    for a, b in zip(attention, weights, strict=True):
        np.testing.assert_allclose(a[:, 0], b, rtol=1e-10)
    sums = [c.sum() + model.intercept_ for c in contributions]
    np.testing.assert_allclose(sums, predictions, rtol=1e-10)
    np.testing.assert_allclose(
        model.transform(X) @ model.value_ / 2 + model.intercept_, predictions, rtol=1e-10
    )
    residual = y - predictions
    assert model.score(X, y) == pytest.approx(1 - residual @ residual / ((y - y.mean()) @ (y - y.mean())))


@pytest.mark.parametrize("alpha_key", [None, 2.0])
def test_certificates(Regressor, noisy, alpha_key):
    X, y = noisy
    model = Regressor(0.3, alpha_key=alpha_key).fit(X, y)
    assert model.stop_crit_ <= model.tol
    assert len(model.loss_curve_) == model.n_iter_ + 1
    assert (np.diff(model.loss_curve_) <= 0).all()
    assert model.loss_curve_[-1] == model.objective_
    point = model.key_, model.value_, model.intercept_
    assert model.objective_ == pytest.approx(numpy_objective(model, X, y, *point), rel=1e-10)
    # the docstring's scaled gradient, by finite differences of the docstring's objective
    s_x = math.sqrt(np.mean([np.mean(x**2) for x in X]))
    s_y = y.std()
    unit = np.concatenate([np.full(4, 2 / s_x), np.full(4, 2 * s_y / s_x), [s_y]])
    flat = np.concatenate([model.key_, model.value_, [model.intercept_]])

    def scaled(theta):
        return numpy_objective(model, X, y, theta[:4], theta[4:8], theta[8]) / (2 * len(y) * s_y**2)

    steps = 1e-4 * np.diag(unit)
    gradient = [(scaled(flat + step) - scaled(flat - step)) / 2e-4 for step in steps]
    assert np.linalg.norm(gradient) == pytest.approx(model.stop_crit_, abs=1e-6)
    assert np.linalg.norm(gradient) < 2e-5


def test_recovers_the_hidden_directions(spiked):
    model = SoftmaxAttentionRegressor(0.1).fit(*spiked.train)
    assert model.value_ @ spiked.value / spiked.D == pytest.approx(1.0, abs=0.05)
    cosine = model.key_ @ spiked.key / np.linalg.norm(model.key_) / math.sqrt(spiked.D)
    assert cosine > 0.95
    X, _ = spiked.test
    found = [
        w.argmax() == place for w, place in zip(model.attention_weights(X), spiked.location, strict=True)
    ]
    assert np.mean(found) > 0.9
    linear = LinearAttentionRegressor(0.1).fit(*spiked.train)
    assert model.score(*spiked.test) > linear.score(*spiked.test) + 0.1 > 0.5


def test_unconverged_fits_warn_and_say_what_to_do(Regressor, noisy):
    X, y = noisy
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2.*above tol=1.0e-05.*Raise alpha"):
        model = Regressor(max_iter=2).fit(X, y)
    assert model.n_iter_ == 2
    assert model.stop_crit_ > model.tol


def test_refits_are_bitwise_equal(Regressor, noisy):
    X, y = noisy
    a, b = (Regressor().fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.key_, b.key_)
    np.testing.assert_array_equal(a.value_, b.value_)


def test_random_starts(Regressor, noisy):
    X, y = noisy
    options = {"init": "random", "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a, b, c = (Regressor(random_state=seed, **options).fit(X, y) for seed in (0, 0, 1))
        states = [Regressor(random_state=np.random.RandomState(0), **options).fit(X, y) for _ in range(2)]
    for left, right in ((a, b), (*states,)):
        np.testing.assert_array_equal(left.key_, right.key_)
    assert not np.allclose(a.key_, c.key_)


def test_a_given_start_is_used(Regressor, noisy):
    X, y = noisy
    model = Regressor(tol=1e-7).fit(X, y)
    again = Regressor(init=(model.key_, model.value_), tol=1e-4).fit(X, y)
    assert again.n_iter_ <= 3
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-3)


def test_the_lowest_of_several_starts_is_kept(noisy):
    X, y = noisy
    one = ErfAttentionRegressor(0.01, random_state=0).fit(X, y)
    several = ErfAttentionRegressor(0.01, n_init=5, random_state=0).fit(X, y)
    assert several.objective_ <= one.objective_
    random = [ErfAttentionRegressor(0.01, init="random", n_init=n, random_state=0).fit(X, y) for n in (1, 5)]
    assert random[1].objective_ <= random[0].objective_


def test_warm_start(Regressor, noisy):
    X, y = noisy
    model = Regressor(1.0, warm_start=True).fit(X, y)
    cold = Regressor(0.99).fit(X, y)
    warm = model.set_params(alpha=0.99).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-6)
    with pytest.raises(ValueError, match=r"warm_start=True continues a fit on 4 features, but X has 3"):
        model.fit(X.values[:80, :3], y)


def test_round_trips(Regressor, noisy, tmp_path):
    X, y = noisy
    model = Regressor(0.5).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib", mmap_mode="r"))
    for copy in again:
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()


def failures(X, y):
    bad_token = X.to_list()
    bad_token[7] = np.full((2, 4), np.nan)
    return {
        "token": ((bad_token, y), {}, {}),
        "other D and bad y": ((X.values[:80, :3], np.full(80, np.nan)), {}, {}),
        "weights": ((X, y), {"sample_weight": -np.ones(80)}, {}),
        "parameter": ((X, y), {}, {"alpha": -1.0}),
        "init": ((X, y), {}, {"init": "ridge"}),
    }


@pytest.mark.parametrize("kind", ["token", "other D and bad y", "weights", "parameter", "init"])
def test_a_failed_fit_changes_nothing(Regressor, noisy, kind):
    X, y = noisy
    model = Regressor().fit(X, y)
    arguments, keywords, parameters = failures(X, y)[kind]
    model.set_params(**parameters)
    before = pickle.dumps(model)
    with pytest.raises(ValueError):
        model.fit(*arguments, **keywords)
    assert pickle.dumps(model) == before


def test_an_interrupted_fit_changes_nothing(Regressor, noisy, monkeypatch):
    X, y = noisy
    model = Regressor().fit(X, y)
    before = pickle.dumps(model)
    calls = []
    evaluate = AttentionObjective.evaluate

    def interrupted(self, parameters):
        calls.append(None)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return evaluate(self, parameters)

    monkeypatch.setattr(AttentionObjective, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y + 1.0)
    assert pickle.dumps(model) == before


def test_targets(Regressor, noisy):
    X, y = noisy
    with pytest.raises(ValueError, match=rf"\(80, 2\).*MultiOutputRegressor\({Regressor.__name__}\(\)\)"):
        Regressor().fit(X, np.stack([y, y], axis=1))
    both = MultiOutputRegressor(Regressor()).fit(X, np.stack([y, -y], axis=1))
    assert both.predict(X).shape == (80, 2)
    with pytest.warns(DataConversionWarning):
        column = Regressor().fit(X, y[:, None])
    np.testing.assert_array_equal(column.predict(X), Regressor().fit(X, y).predict(X))


@pytest.mark.parametrize("constant", [3.0, 0.1, 1e6 + 0.1])
def test_a_constant_target(Regressor, noisy, constant):
    X, _ = noisy
    model = Regressor().fit(X[:77], np.full(77, constant))
    assert model.stop_crit_ <= model.tol
    np.testing.assert_allclose(model.predict(X), constant, rtol=1e-8)
    zero = Regressor(fit_intercept=False).fit(X, np.zeros(80))
    np.testing.assert_allclose(zero.predict(X), 0.0, atol=1e-8)


def test_a_saddle_is_left(Regressor):
    """Pooled tokens vanish where every sequence was centred, and k = v = 0 is stationary."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, 1000)
    X = [
        x - x.mean(axis=0) for x in np.split(rng.standard_normal((lengths.sum(), 8)), np.cumsum(lengths)[:-1])
    ]
    y = np.array([x[x[:, 0].argmax(), 1] for x in X])
    model = Regressor(0.1).fit(X, y)
    assert model.score(X, y) > 0.3


@pytest.mark.parametrize("scale", [1e-4, 1e3, 1e6])
def test_a_feature_in_other_units_does_not_spoil_the_certificate(Regressor, noisy, scale):
    X, y = noisy
    noise = np.random.default_rng(1).standard_normal((X.n_tokens, 1))
    fits = [
        Regressor(0.0, tol=1e-6, max_iter=5000).fit(
            RaggedArray(np.hstack([X.values, s * noise]), X.offsets), y
        )
        for s in (1.0, scale)
    ]
    assert fits[1].objective_ == pytest.approx(fits[0].objective_, rel=1e-6)


def test_tokens_far_from_zero_are_named(Regressor, noisy):
    X, y = noisy
    far = RaggedArray(X.values + np.array([0.0, 1e5, 0.0, 0.0]), X.offsets)
    constant = RaggedArray(X.values * [1.0, 0.0, 1.0, 1.0] + [0.0, 1e5, 0.0, 0.0], X.offsets)
    if Regressor is SoftmaxAttentionRegressor:
        Regressor().fit(far, y)
        return
    with pytest.warns(UserWarning, match="first being feature 1, vary by less.*Centre the tokens"):
        Regressor(tol=1.0).fit(far, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        Regressor().fit(constant, y)


@pytest.mark.parametrize("shift", [1e2, 1e5])
def test_an_offset_of_the_tokens_does_not_spoil_softmax(noisy, shift):
    X, y = noisy
    model = SoftmaxAttentionRegressor(0.1).fit(X, y)
    shifted = RaggedArray(X.values + shift, X.offsets)
    np.testing.assert_allclose(
        SoftmaxAttentionRegressor(0.1).fit(shifted, y).predict(shifted), model.predict(X), atol=1e-4
    )


def test_a_start_that_overflows_does_not_win(noisy):
    X, y = noisy
    huge = np.full(4, 1e200)
    with np.errstate(over="ignore", invalid="ignore"):
        model = LinearAttentionRegressor(init=(huge, huge), n_init=2, random_state=0).fit(X, y)
        assert np.isfinite(model.objective_)
        with pytest.raises(ValueError, match="overflows at every start"):
            LinearAttentionRegressor(init=(huge, huge)).fit(X, y)


def test_one_kernel_is_compiled_whatever_holds_y_and_the_weights(noisy):
    from sklearn_attn.objective._cpu import evaluate

    X, y = noisy
    SoftmaxAttentionRegressor().fit(X, y)
    before = len(evaluate.signatures)
    read_only = y.copy()
    read_only.flags.writeable = False
    for target, weight in ((read_only, None), (y[::1].astype("f4"), np.ones(160)[::2]), (y, read_only**2)):
        SoftmaxAttentionRegressor().fit(X, target, sample_weight=weight)
    assert len(evaluate.signatures) == before


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 2), (6, 1, 1), (3, 2, 10)])
def test_tiny_data(Regressor, shape):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    model = Regressor().fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.stop_crit_ <= model.tol


def test_no_penalty(Normalised, noisy):
    X, y = noisy
    model = Normalised(alpha=0.0, max_iter=5000).fit(X, y)
    penalised = Normalised(alpha=1.0).fit(X, y)
    assert model.score(X, y) > penalised.score(X, y)


def test_the_offset(noisy):
    X, y = noisy
    fixed = ErfAttentionRegressor(0.3, offset=0.5).fit(X, y)
    assert fixed.offset_ == 0.5
    learned = ErfAttentionRegressor(0.3, offset="learn", tol=1e-7, max_iter=5000).fit(X, y)
    assert learned.objective_ < min(fixed.objective_, ErfAttentionRegressor(0.3).fit(X, y).objective_)
    around = [ErfAttentionRegressor(0.3, offset=learned.offset_ + d, init=(learned.key_, learned.value_), tol=1e-7,
                                    max_iter=5000).fit(X, y).objective_ for d in (-0.05, 0.05)]  # fmt: skip
    assert learned.objective_ <= min(around)
    warm = ErfAttentionRegressor(0.3, offset="learn", warm_start=True).fit(X, y).fit(X, y)
    assert warm.n_iter_ == 0


def test_transform_names_and_frames(Regressor, noisy):
    X, y = noisy
    model = Regressor().fit(X, y)
    assert list(model.get_feature_names_out()) == ["x0", "x1", "x2", "x3"]
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["x0", "x1", "x2", "x3"]
    np.testing.assert_allclose(frame.to_numpy() @ model.value_ / 2 + model.intercept_, model.predict(X))


def test_verbose(Regressor, noisy, capsys):
    Regressor(verbose=2).fit(*noisy)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"[{Regressor.__name__}] iteration 1: scaled objective ")
    Regressor().fit(*noisy)
    assert capsys.readouterr().out == ""


def test_memory_and_inputs(Regressor):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20_000, 200))  # 32 MB
    X = RaggedArray.from_flat(values, lengths=np.full(5000, 4))
    y = values[::4, 0] + 0.1 * rng.standard_normal(5000)
    before = values.copy()
    tracemalloc.start()
    model = Regressor(10.0, max_iter=3000).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.stop_crit_ <= model.tol
    assert peak < 0.2 * X.nbytes
    np.testing.assert_array_equal(values, before)


def test_passes_are_counted(monkeypatch):
    X, y = SLRDataset("spiked", 20, signal=4.0, length=3, random_state=0).sample(200)
    n_evaluations = 0
    evaluate = AttentionObjective.evaluate

    def count(self, parameters):
        nonlocal n_evaluations
        n_evaluations += 1
        return evaluate(self, parameters)

    monkeypatch.setattr(AttentionObjective, "evaluate", count)
    model = SoftmaxAttentionRegressor(n_init=2, random_state=0).fit(X, y)
    assert model.n_passes_ == 1 + n_evaluations > 2 * model.n_iter_ > 4
    n_evaluations = 0
    descent = SoftmaxAttentionRegressor(solver="sgd", max_iter=5, tol=1e-12, learning_rate=1e-3)
    with pytest.warns(ConvergenceWarning):
        descent.fit(X, y)
    assert descent.n_passes_ == 1 + n_evaluations + 5


@pytest.mark.usefixtures("on_host")
def test_curvature_saves_passes_on_badly_conditioned_data(monkeypatch):
    rng = np.random.default_rng(0)
    tokens, y = SLRDataset("spiked", 30, signal=9.0, length=3, noise=0.1, random_state=0).sample(600)
    mixing = np.linalg.qr(rng.standard_normal((30, 30)))[0] * np.logspace(0, -2, 30)[:, None]
    X = RaggedArray(tokens.values @ mixing, tokens.offsets)  # which no scale per feature mends
    renewed = SoftmaxAttentionRegressor(1e-4, tol=1e-7, max_iter=5000).fit(X, y)
    monkeypatch.setattr(_fit, "_PATIENCE", np.inf)
    plain = SoftmaxAttentionRegressor(1e-4, tol=1e-7, max_iter=5000).fit(X, y)
    assert renewed.n_passes_ < 0.4 * plain.n_passes_
    assert renewed.objective_ == pytest.approx(plain.objective_, rel=1e-8)

"""The CV estimators against GridSearchCV with the regressors that they search."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from certificates import assert_certified
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, ShuffleSplit
from sklearn.utils.fixes import parse_version

import sklearn_attn
from sklearn_attn import (
    ErfAttentionRegressor,
    ErfAttentionRegressorCV,
    RaggedArray,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
)
from sklearn_attn.activations import get_activation
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import AttentionObjective
from sklearn_attn.regressors._path import PenaltyPath

ALPHAS = [3.0, 0.3, 30.0, 1.0]  # in no order
NAMES = ["Softmax", "Linear", "Erf", "Softplus"]


@pytest.fixture(params=NAMES)
def pair(request):
    """A regressor and its CV sibling."""
    name = f"{request.param}AttentionRegressor"
    return getattr(sklearn_attn, name), getattr(sklearn_attn, f"{name}CV")


@pytest.fixture(scope="module")
def benign():
    """Six hundred sequences whose objective has one minimum at the penalties of the tests."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 6, 600)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 4)), lengths=lengths)
    y = np.array([x[x[:, 0].argmax(), 1] for x in X]) + 0.3 * rng.standard_normal(600) + 1.5
    return X, y


def scores_of(search, n_folds):
    return np.stack([search.cv_results_[f"split{i}_test_score"] for i in range(n_folds)], axis=-1)


def assert_same(model, search, n_folds, rtol=1e-5):
    scores = scores_of(search, n_folds).reshape(model.cv_scores_.shape)
    np.testing.assert_allclose(model.cv_scores_, scores, rtol=rtol, atol=1e-6)
    assert model.alpha_ == search.best_params_["alpha"]
    assert model.best_score_ == pytest.approx(search.best_score_, rel=rtol)
    best = search.best_estimator_
    np.testing.assert_allclose(model.key_, best.key_, atol=1e-4)
    np.testing.assert_allclose(model.value_, best.value_, atol=1e-4)
    assert model.objective_ == pytest.approx(best.objective_, rel=1e-9)
    assert model.stop_crit_ <= model.tol


def test_equals_grid_search(pair, benign):
    Regressor, RegressorCV = pair
    X, y = benign
    model = RegressorCV(ALPHAS, tol=1e-7).fit(X, y)
    search = GridSearchCV(Regressor(tol=1e-7), {"alpha": ALPHAS}).fit(X, y)
    assert_same(model, search, 5)
    assert model.cv_scores_.shape == (4, 5)
    np.testing.assert_array_equal(model.alphas_, ALPHAS)
    assert model.alpha_key_ == model.alpha_
    assert model.n_passes_ < 150
    assert len(model.loss_curve_) == model.n_iter_ + 1
    plain = Regressor(model.alpha_, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-5)
    np.testing.assert_allclose(
        model.attention_weights(X).values, plain.attention_weights(X).values, atol=1e-5
    )
    np.testing.assert_allclose(
        model.token_contributions(X).values, plain.token_contributions(X).values, atol=1e-5
    )
    np.testing.assert_allclose(model.transform(X), plain.transform(X), atol=1e-5)
    assert model.score(X, y) == pytest.approx(plain.score(X, y), abs=1e-6)


@pytest.mark.parametrize(
    "cv",
    [2, KFold(3, shuffle=True, random_state=0), ShuffleSplit(3, test_size=0.2, random_state=1), "pairs"],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_any_folds_and_weights(benign, cv, weighted):
    if weighted and parse_version(sklearn.__version__) < parse_version("1.7"):
        pytest.skip("searches of scikit-learn before 1.7 score without weights")
    X, y = benign
    if cv == "pairs":  # overlapping, with a sequence twice, and as a mask
        everything = np.arange(600)
        cv = [
            (np.append(everything[:400], [3, 3]), everything[350:500]),
            (everything > 100, everything <= 90),
        ]
    weight = np.random.default_rng(0).integers(0, 4, 600).astype(float) if weighted else None
    model = SoftmaxAttentionRegressorCV(ALPHAS, cv=cv, tol=1e-7).fit(X, y, sample_weight=weight)
    search = GridSearchCV(SoftmaxAttentionRegressor(tol=1e-7), {"alpha": ALPHAS}, cv=cv)
    assert_same(model, search.fit(X, y, sample_weight=weight), model.cv_scores_.shape[-1])


def test_groups_are_passed_on(benign):
    X, y = benign
    groups = np.arange(600) % 7
    model = SoftmaxAttentionRegressorCV(ALPHAS, cv=GroupKFold(3), tol=1e-7).fit(X, y, groups=groups)
    search = GridSearchCV(SoftmaxAttentionRegressor(tol=1e-7), {"alpha": ALPHAS}, cv=GroupKFold(3))
    assert_same(model, search.fit(X, y, groups=groups), 3)
    with pytest.raises(ValueError, match="groups"):
        clone(model).fit(X, y)


def mean_attention_of_the_first(estimator, X, y):
    """A scorer that needs the model itself."""
    assert isinstance(estimator, SoftmaxAttentionRegressor)
    assert len(X) == len(y)
    weights = estimator.attention_weights(X)
    return float(weights.values[weights.offsets[:-1], 0].mean()) + estimator.alpha


@pytest.mark.parametrize(
    "scoring",
    [
        "neg_mean_squared_error",
        make_scorer(mean_absolute_error, greater_is_better=False),
        mean_attention_of_the_first,
    ],
    ids=["name", "make_scorer", "callable"],
)
def test_any_scoring(benign, scoring):
    X, y = benign
    model = SoftmaxAttentionRegressorCV(ALPHAS, scoring=scoring, cv=3, tol=1e-7).fit(X, y)
    search = GridSearchCV(SoftmaxAttentionRegressor(tol=1e-7), {"alpha": ALPHAS}, scoring=scoring, cv=3)
    assert_same(model, search.fit(X, y), 3)


def test_penalties_of_the_key(benign):
    X, y = benign
    ratio = SoftmaxAttentionRegressorCV([1.0, 10.0], alpha_key_ratio=0.1, cv=3, tol=1e-7).fit(X, y)
    assert ratio.alpha_key_ == pytest.approx(0.1 * ratio.alpha_)
    plain = SoftmaxAttentionRegressor(ratio.alpha_, alpha_key=ratio.alpha_key_, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(ratio.key_, plain.key_, atol=1e-4)
    keys = [0.5, 20.0, 5.0]
    model = SoftmaxAttentionRegressorCV([1.0, 10.0], alpha_keys=keys, cv=3, tol=1e-7).fit(X, y)
    assert model.cv_scores_.shape == (2, 3, 3)
    search = GridSearchCV(
        SoftmaxAttentionRegressor(tol=1e-7), {"alpha": [1.0, 10.0], "alpha_key": keys}, cv=3
    )
    assert_same(model, search.fit(X, y), 3)
    assert model.alpha_key_ == search.best_params_["alpha_key"]


@pytest.mark.parametrize("options", [{"offset": 0.5}, {"offset": "learn"}, {"fit_intercept": False}])
def test_parameters_of_the_model_are_passed_on(benign, options):
    X, y = benign
    model = ErfAttentionRegressorCV([1.0, 10.0], cv=2, tol=1e-7, **options).fit(X, y)
    search = GridSearchCV(ErfAttentionRegressor(tol=1e-7, **options), {"alpha": [1.0, 10.0]}, cv=2)
    assert_same(model, search.fit(X, y), 2, rtol=1e-4)
    assert model.offset_ == pytest.approx(search.best_estimator_.offset_, abs=1e-5)


def test_float32_and_other_namespaces(benign):
    X, y = benign
    model = SoftmaxAttentionRegressorCV(ALPHAS, cv=3, tol=1e-7).fit(X, y)
    single = SoftmaxAttentionRegressorCV(ALPHAS, cv=3, tol=1e-7).fit(X.astype(np.float32), y)
    assert single.key_.dtype == np.float32
    np.testing.assert_allclose(single.cv_scores_, model.cv_scores_, atol=1e-5)
    xp = pytest.importorskip("array_api_strict")
    strict = RaggedArray(xp.asarray(X.values), X.offsets)
    weights = np.stack([np.arange(600) % 3 != 0, np.ones(600)]).astype(float)
    options = {
        "fit_intercept": True, "fit_offset": False, "init": "auto", "n_init": 1, "max_iter": 500, "tol": 1e-7,
        "random_state": np.random.RandomState(0),
    }  # fmt: skip
    fits = []
    for data in (X, strict):
        with PenaltyPath(data, y, weights, get_activation("softmax"), **options) as path:
            fits.append(path.fit([(3.0, 3.0)]))
            assert path.n_passes <= 30  # one for all problems
    for fused, generic in zip(*(fit[0] for fit in fits), strict=True):
        np.testing.assert_allclose(fused.predictions, generic.predictions, atol=1e-5)


def test_several_starts_are_not_worse(benign):
    X, y = benign
    options = {"cv": 3, "random_state": 0}
    one = ErfAttentionRegressorCV([0.01, 1.0], **options).fit(X, y)
    several = ErfAttentionRegressorCV([0.01, 1.0], n_init=4, **options).fit(X, y)
    assert several.n_passes_ > one.n_passes_
    if one.alpha_ == several.alpha_:
        assert several.objective_ <= one.objective_ * (1 + 1e-6)
    again = ErfAttentionRegressorCV([0.01, 1.0], n_init=4, **options).fit(X, y)
    np.testing.assert_array_equal(several.cv_scores_, again.cv_scores_)


@pytest.mark.usefixtures("on_host")
def test_curvature_changes_the_passes_and_not_the_result(benign, monkeypatch):
    X, y = benign
    model = SoftmaxAttentionRegressorCV(ALPHAS, cv=3, tol=1e-7)
    shared = model.fit(X, y).cv_scores_
    built = []
    renew = PenaltyPath._renew_curvature

    def always(self, previous):
        self._last_passes, self._curvature_cost = np.inf, 0.0
        renew(self, previous)
        built.append(self._curvature is not None)

    monkeypatch.setattr(PenaltyPath, "_renew_curvature", always)
    np.testing.assert_allclose(model.fit(X, y).cv_scores_, shared, atol=1e-6)
    assert built == [False, True]
    assert model.stop_crit_ <= 1e-7


def test_a_collapsed_solution_is_no_start():
    """At a large penalty k = v = 0 is the minimum where sequences were centred, and a saddle below."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 4, 6))
    X -= X.mean(axis=1, keepdims=True)
    y = np.array([x[x[:, 0].argmax(), 1] for x in X])
    model = SoftmaxAttentionRegressorCV([0.1, 1e5], cv=3).fit(X, y)
    assert model.alpha_ == 0.1
    assert model.best_score_ > 0.3


def test_no_copy_of_X(benign):
    import tracemalloc

    rng = np.random.default_rng(0)
    X = RaggedArray.from_flat(rng.standard_normal((60_000, 60)), lengths=[5] * 12_000)
    y = X.values[::5, 0]
    model = SoftmaxAttentionRegressorCV([1.0, 100.0], tol=1e-2)
    model.fit(X, y)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * X.nbytes


def test_unconverged_fits_are_counted_once(benign):
    with pytest.warns(ConvergenceWarning, match=r"of the 16 fits of SoftmaxAttentionRegressorCV") as record:
        SoftmaxAttentionRegressorCV(ALPHAS, cv=3, max_iter=1, tol=1e-9).fit(*benign)
    assert len(record) == 1


def test_parts_of_folds_without_weight_are_refused(benign):
    X, y = benign
    folds = [(np.arange(300, 600), np.arange(300)), (np.arange(400), np.arange(400, 600))]
    model = SoftmaxAttentionRegressorCV([1.0], cv=folds)
    for first, message in ((0, "training part of fold 0"), (300, "test part of fold 0")):
        weight = np.zeros(600)
        weight[first : first + 300] = 1.0
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alphas": []}, "minimum of 1 is required"),
        ({"alphas": [1.0, -1.0]}, r"alphas\[1\] is negative"),
        ({"alphas": [1.0, np.nan]}, "alphas contains NaN"),
        ({"alphas": 1.0}, "at least 1 dimension"),
        ({"alpha_keys": [-1.0]}, r"alpha_keys\[0\] is negative"),
        ({"alpha_keys": [1.0], "alpha_key_ratio": 2.0}, "leave alpha_key_ratio at 1.0"),
        ({"alpha_key_ratio": -1.0}, "alpha_key_ratio"),
        ({"cv": [(np.arange(0), np.arange(9))]}, "training part of fold 0 of cv is empty"),
        ({"cv": [(np.arange(9), np.arange(0))]}, "test part of fold 0 of cv is empty"),
        ({"cv": []}, "no folds"),
        ({"cv": 1}, "n_splits"),
        ({"cv": LeaveOneOut()}, "score of fold 0 is NaN"),
        ({"scoring": "no such"}, "no such"),
        ({"scoring": lambda model, X, y: {"a": 1.0}}, "must return a number"),
        ({"tol": -1.0}, "tol"),
        ({"init": "ridge"}, "init must be"),
    ],
)
def test_bad_input_is_refused(benign, parameters, message):
    X, y = benign
    model = SoftmaxAttentionRegressorCV([1.0], cv=2).fit(X[:50], y[:50])
    before = pickle.dumps(model)
    fresh = clone(model).set_params(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # R2 of one sample warns before it is NaN
        with pytest.raises((TypeError, ValueError), match=message):
            fresh.fit(X[:50], y[:50])
    assert not hasattr(fresh, "key_")
    with pytest.raises(TypeError, match="scoring must be"):
        clone(model).set_params(scoring=["r2"]).fit(X, y)
    assert pickle.dumps(model) == before


def test_an_interrupted_fit_changes_nothing(benign, monkeypatch):
    X, y = benign
    model = SoftmaxAttentionRegressorCV([1.0, 10.0], cv=2).fit(X, y)
    before = pickle.dumps(model)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(AttentionObjective, "penalise", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y + 1.0)
    assert pickle.dumps(model) == before


def test_verbose_prints_a_line_for_every_penalty(benign, capsys):
    SoftmaxAttentionRegressorCV(ALPHAS, cv=2, verbose=1).fit(*benign)
    assert len(capsys.readouterr().out.splitlines()) == len(ALPHAS)


def test_a_learned_offset_does_not_get_lost_on_the_way_from_large_penalties():
    X, y = SLRDataset("spiked", 20, signal=9.0, length=(2, 5, 9), noise=0.1, random_state=0).sample(600)
    few = ErfAttentionRegressorCV([0.1, 1.0], offset="learn", cv=3).fit(X, y)
    path = ErfAttentionRegressorCV([0.1, 1.0, 10.0, 100.0, 1000.0], offset="learn", cv=3).fit(X, y)
    assert few.best_score_ > 0.6
    assert path.best_score_ > few.best_score_ - 0.02


def test_a_certificate_survives_penalties_that_dwarf_the_data(pair, benign):
    X, y = benign
    init = 1e10 * np.ones(4), np.linspace(-1e10, 1e10, 4)  # at which the first penalty is all that counts
    model = pair[1]([1e3, 1e-8, 0.0], cv=3, init=init, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y, sample_weight=1e-60)
    assert model.objective_ > 0.0
    assert_certified(model, X, y, 1e-60)

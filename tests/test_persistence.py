"""Fitted estimators survive pickle, joblib and skops, and show themselves in a notebook."""

import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_attn import (
    ErfAttentionClassifier,
    ErfAttentionRegressor,
    ErfAttentionRegressorCV,
    LinearAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionClassifier,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
    SoftplusAttentionClassifier,
    SoftplusAttentionRegressor,
)
from sklearn_attn.datasets import make_spiked_slr
from sklearn_attn.preprocessing import SequencePadder, SequencePooler, TokenTransformer
from sklearn_attn.theory import BayesGAMPRegressor, ReplicaTheory

ESTIMATORS = {
    "softmax": SoftmaxAttentionRegressor(),
    "linear": LinearAttentionRegressor(10.0),
    "erf": ErfAttentionRegressor(10.0, offset="learn"),
    "softplus": SoftplusAttentionRegressor(),
    "sgd": SoftmaxAttentionRegressor(solver="sgd", max_iter=3),
    "cv": SoftmaxAttentionRegressorCV([0.1, 1.0], cv=2),
    "two classes": SoftmaxAttentionClassifier(),
    "three classes": ErfAttentionClassifier(10.0, offset="learn"),
    "pipeline": make_pipeline(TokenTransformer(StandardScaler()), SoftmaxAttentionRegressor()),
    "softplus classes": SoftplusAttentionClassifier(),
    "erf cv": ErfAttentionRegressorCV([1.0, 10.0], offset="learn", cv=2),
    "pipeline of three": make_pipeline(
        TokenTransformer(make_pipeline(StandardScaler(), PCA(2))), SequencePooler(), Ridge()
    ),
    "gamp": BayesGAMPRegressor("spiked", signal=6.0, max_iter=20),
    "pooler": SequencePooler(["mean", "max"]),
    "padder": SequencePadder(),
}


@pytest.fixture(scope="module")
def data():
    return make_spiked_slr(60, 4, random_state=0)


@pytest.fixture(params=ESTIMATORS)
def fitted(request, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = data
        if "classes" in request.param:
            names = np.array(["low", "middle", "high"])[: 2 if "two" in request.param else 3]
            y = names[np.digitize(y, [0.0, 1.0][: names.size - 1])]
        return ESTIMATORS[request.param].fit(X, y)


def output(estimator, X):
    if hasattr(estimator, "predict_proba"):
        assert set(estimator.predict(X)) <= {"low", "middle", "high"}
        return estimator.predict_proba(X)
    return (estimator.predict if hasattr(estimator, "predict") else estimator.transform)(X)


def through_pickle(estimator, folder):
    return pickle.loads(pickle.dumps(estimator, protocol=5))


def through_joblib(estimator, folder):
    joblib.dump(estimator, folder / "estimator.joblib")
    return joblib.load(folder / "estimator.joblib", mmap_mode="r")


def through_skops(estimator, folder):
    skops = pytest.importorskip("skops.io")
    skops.dump(estimator, folder / "estimator.skops")
    types = skops.get_untrusted_types(file=folder / "estimator.skops")
    assert types, "skops should ask"
    assert all(name.startswith("sklearn_attn.") for name in types)
    return skops.load(folder / "estimator.skops", trusted=types)


@pytest.mark.parametrize("through", [through_pickle, through_joblib, through_skops], ids=lambda f: f.__name__)
def test_round_trips(fitted, data, tmp_path, through):
    again = through(fitted, tmp_path)
    np.testing.assert_array_equal(output(again, data[0]), output(fitted, data[0]))
    assert str(again.get_params()) == str(fitted.get_params())


@pytest.mark.parametrize("through", [through_pickle, through_joblib, through_skops], ids=lambda f: f.__name__)
def test_sequences_round_trip(tmp_path, through):
    X = RaggedArray.from_flat(np.arange(12.0).reshape(6, 2), lengths=[2, 1, 3])
    again = through(X, tmp_path)
    np.testing.assert_array_equal(again.values, X.values)
    np.testing.assert_array_equal(again.offsets, X.offsets)
    with pytest.raises(AttributeError, match="immutable"):
        again.values = None
    with pytest.raises(ValueError, match="read-only"):
        again.values[0, 0] = 1.0


def test_theory_of_tables(tmp_path):
    table = np.array([[4.0, 1.0]])
    theory = ReplicaTheory(signal=2.0).fit(table, [0.6])
    for through in (through_pickle, through_joblib, through_skops):
        np.testing.assert_array_equal(through(theory, tmp_path).predict(table), theory.predict(table))


def test_a_descent_goes_on_after_skops(data, tmp_path):
    X, y = data
    model = SoftmaxAttentionRegressor(solver="sgd", max_iter=3).partial_fit(X, y)
    again = through_skops(model, tmp_path).partial_fit(X, y)
    np.testing.assert_array_equal(again.key_, model.partial_fit(X, y).key_)


def test_the_notebook_shows_parameters_and_whether_it_is_fitted(data):
    model = SoftmaxAttentionRegressor(alpha=0.123)
    before = model._repr_html_()
    assert "SoftmaxAttentionRegressor" in before
    assert "0.123" in before
    assert "Not fitted" in before
    assert "Not fitted" not in model.fit(*data)._repr_html_()
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), model)
    html = pipeline._repr_html_()
    assert (
        html.index("TokenTransformer")
        < html.index("StandardScaler")
        < html.rindex("SoftmaxAttentionRegressor")
    )


def test_columns_of_tables_name_the_features(data):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.standard_normal((30, 3)), columns=["a", "b", "c"])
    model = SoftmaxAttentionRegressor().fit(frame, rng.standard_normal(30))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])
    sequences = [frame.iloc[:10], frame.iloc[10:25], frame.iloc[25:]]
    model = SoftmaxAttentionRegressor().fit(sequences, [0.0, 1.0, 2.0])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]

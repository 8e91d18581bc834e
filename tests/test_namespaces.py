"""Estimators on arrays of other namespaces: what they compute, and where."""

import math
import pickle
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn._backend import array_namespace, device, in_c_order, to_device, to_numpy
from sklearn_attn.classifiers import CLASSIFIERS
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import _generic, pool
from sklearn_attn.ragged import _validation
from sklearn_attn.regressors import REGRESSORS
from sklearn_attn.theory import ReplicaTheory
from sklearn_attn.theory import estimator as theory_module

ESTIMATORS = {
    **{f"{name} regressor": cls(0.3, tol=1e-7) for name, cls in REGRESSORS.items()},
    **{f"{name} classifier": cls(0.3, tol=1e-7) for name, cls in CLASSIFIERS.items()},
    "learned offset": REGRESSORS["erf"](0.3, offset="learn", tol=1e-7),
    "descent": SoftmaxAttentionRegressor(0.3, solver="sgd", learning_rate=0.05, max_iter=3, random_state=0),
    "penalty path": SoftmaxAttentionRegressorCV([0.1, 1.0], cv=3, tol=1e-7),
}


def strict(values, name):
    return array_api_strict.asarray(values, device=array_api_strict.Device(name))


def torch_tensor(values):
    return pytest.importorskip("torch").tensor(values)


NAMESPACES = {
    "strict": lambda values: strict(values, "CPU_DEVICE"),
    "second device": lambda values: strict(values, "device1"),
    "torch": torch_tensor,
}


@pytest.fixture(params=NAMESPACES)
def move(request):
    return NAMESPACES[request.param]


@pytest.fixture(autouse=True)
def dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def data(request):
    dataset = SLRDataset("spiked", n_features=6, signal=9.0, length=(1, 2, 5), noise=0.1, random_state=0)
    X, y = dataset.sample(80)
    return X.astype(request.param), y


def is_where(x, moved):
    return (
        array_namespace(x) is array_namespace(moved) and device(x) == device(moved) and x.dtype == moved.dtype
    )


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_same_fit_there(estimator, data, move):
    X, y = data
    classifies = hasattr(estimator, "predict_proba")
    y = np.digitize(y, [-0.5, 0.5]) if classifies else y
    moved = RaggedArray(move(X.values), X.offsets)
    here, there = clone(estimator).fit(X, y), clone(estimator).fit(moved, move(y))
    atol = 1e-5 if X.dtype == np.float64 else 5e-4
    np.testing.assert_allclose(to_numpy(there.key_), here.key_, atol=atol)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-7)
    for name in ("key_", "value_"):
        assert is_where(getattr(there, name), moved.values), name
    methods = ["predict", "transform"]
    if classifies:
        methods = ["decision_function", "predict_proba", "predict_log_proba", "transform"]
        labels = there.predict(moved)
        assert array_namespace(labels) is array_namespace(moved.values)
        assert np.mean(to_numpy(labels) == here.predict(X)) > 0.98
    for method in methods:
        result = getattr(there, method)(moved)
        assert is_where(result, moved.values), method
        np.testing.assert_allclose(to_numpy(result), getattr(here, method)(X), atol=20 * atol)
    for method in ("attention_weights", "token_contributions"):
        result = getattr(there, method)(moved)
        assert is_where(result.values, moved.values), method
        np.testing.assert_allclose(to_numpy(result.values), getattr(here, method)(X).values, atol=20 * atol)
    assert there.score(moved, move(y)) == pytest.approx(here.score(X, y), abs=0.02 if classifies else 1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "descent"])
def test_iterations_move_no_vectors(name, monkeypatch):
    """Between host and device only scalars travel in an iteration."""
    X, y = SLRDataset("spiked", n_features=60, signal=9.0, length=(1, 2), random_state=0).sample(100)
    y = np.digitize(y, [-0.5, 0.5]) if "classifier" in name else y
    moved, sizes = RaggedArray(strict(X.values, "device1"), X.offsets), []
    Array, asarray = type(moved.values), array_api_strict.asarray
    to_device = Array.to_device

    def download(self, target, /, **options):
        sizes.append(math.prod(self.shape))
        return to_device(self, target, **options)

    def upload(x, /, **options):
        sizes.append(np.size(x) if isinstance(x, np.ndarray) else 0)
        return asarray(x, **options)

    monkeypatch.setattr(Array, "to_device", download)
    monkeypatch.setattr(array_api_strict, "asarray", upload)
    vectors = []
    for max_iter in (3, 9):
        sizes.clear()
        model = clone(ESTIMATORS[name]).set_params(max_iter=max_iter, tol=1e-12).fit(moved, y)
        assert model.n_iter_ == max_iter
        vectors.append(sorted(size for size in sizes if size >= 60))
    assert vectors[0] == vectors[1]
    assert len(vectors[0]) > 2  # the fitted attributes at least: the counters count


def test_x_decides(data, move):
    X, y = data
    moved = RaggedArray(move(X.values), X.offsets)
    here, there = (
        SoftmaxAttentionRegressor().fit(X, y),
        SoftmaxAttentionRegressor().fit(moved, y, np.ones(80)),
    )
    assert is_where(here.predict(moved), moved.values)
    assert isinstance(there.predict(X), np.ndarray)
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=1e-4)
    warm = there.set_params(warm_start=True).fit(X, y)
    assert isinstance(warm.key_, np.ndarray)
    assert warm.n_iter_ <= 1


def test_other_forms_of_x(move):
    pytest.importorskip("sklearn", minversion="1.9", reason="older splitters refuse lists of such arrays")
    rng = np.random.default_rng(0)
    dense, y = rng.standard_normal((30, 4, 3)), rng.standard_normal(30)
    expected = SoftmaxAttentionRegressor().fit(dense, y).predict(dense)
    model = SoftmaxAttentionRegressor().fit(move(dense), move(y))
    assert is_where(model.predict(move(dense)), move(dense))
    np.testing.assert_allclose(to_numpy(model.predict(move(dense))), expected, atol=1e-6)
    rows = SoftmaxAttentionRegressor().fit(move(dense[:, 0]), y)
    assert is_where(rows.predict(move(dense[:, 0])), move(dense))
    assert rows.n_features_in_ == 3
    sequences = [move(sequence) for sequence in dense]
    listed = SoftmaxAttentionRegressor().fit(sequences, y)
    assert is_where(listed.key_, move(dense))
    for method in ("predict", "transform"):
        assert isinstance(getattr(listed, method)(sequences), np.ndarray)
    assert isinstance(listed.attention_weights(sequences).values, np.ndarray)
    np.testing.assert_allclose(listed.predict(sequences), expected, atol=1e-6)
    assert cross_val_predict(SoftmaxAttentionRegressor(), sequences, y, cv=3).shape == (30,)
    with pytest.raises(ValueError, match="same number of features D"):
        SoftmaxAttentionRegressor().fit([move(dense[0]), move(dense[1, :, :2])], y[:2])
    mixed = SoftmaxAttentionRegressor().fit([sequences[0], *dense[1:]], y)
    assert isinstance(mixed.key_, np.ndarray)
    whole = SoftmaxAttentionRegressor().fit(move(np.arange(90).reshape(30, 3)), y)
    assert whole.key_.dtype == move(dense).dtype


def test_descents_go_on_there(data, move):
    X, y = data
    moved = RaggedArray(move(X.values), X.offsets)
    options = {"solver": "sgd", "learning_rate": 0.05, "random_state": 0}
    here, there = SoftmaxAttentionRegressor(**options), SoftmaxAttentionRegressor(**options)
    for _ in range(3):
        here.partial_fit(X, y)
        there.partial_fit(moved, move(y))
    assert is_where(there.key_, moved.values)
    np.testing.assert_allclose(to_numpy(there.key_), here.key_, atol=1e-4)


def test_copies_are_on_the_host(data, move):
    X, y = data
    moved = RaggedArray(move(X.values), X.offsets)
    model = SoftmaxAttentionRegressor().fit(moved, y)
    for copied in (pickle.loads(pickle.dumps(model)), model.to_cpu()):
        assert isinstance(copied.key_, np.ndarray)
        assert copied.predict(X) == pytest.approx(to_numpy(model.predict(moved)), abs=1e-5)
        assert is_where(copied.predict(moved), moved.values)
    assert is_where(model.key_, moved.values)


def test_searches(data, move):
    pytest.importorskip("sklearn", minversion="1.9", reason="older splitters select no rows of such a y")
    X, y = data
    moved = RaggedArray(move(X.values), X.offsets)
    grid = {"alpha": [0.1, 10.0]}
    here = GridSearchCV(SoftmaxAttentionRegressor(), grid, cv=3).fit(X, y)
    there = GridSearchCV(SoftmaxAttentionRegressor(), grid, cv=3).fit(moved, move(y))
    assert there.best_params_ == here.best_params_
    np.testing.assert_allclose(
        there.cv_results_["mean_test_score"].astype(float), here.cv_results_["mean_test_score"], atol=1e-4
    )
    held_out = cross_val_predict(SoftmaxAttentionRegressor(), moved, move(y), cv=3)
    expected = cross_val_predict(SoftmaxAttentionRegressor(), X, y, cv=3)
    np.testing.assert_allclose(to_numpy(held_out), expected, atol=1e-3)


def test_without_dispatch_it_is_numpy(data, move):
    X, y = data
    moved = RaggedArray(move(X.values), X.offsets)
    with sklearn.config_context(array_api_dispatch=False):
        model = SoftmaxAttentionRegressor().fit(moved, y)
        assert isinstance(model.key_, np.ndarray)
        assert isinstance(model.predict(moved), np.ndarray)


@pytest.mark.parametrize(("bad", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
def test_bad_numbers_are_named(move, bad, message, monkeypatch):
    values = np.ones((6, 2))
    values[4, 1] = bad
    X = RaggedArray(move(values), np.array([0, 2, 3, 6]))
    with pytest.raises(ValueError, match=rf"{message}: X\[2\] \(shape \(3, 2\)\) at token 1, feature 1"):
        SoftmaxAttentionRegressor().fit(X, [0.0, 1.0, 2.0])
    monkeypatch.setattr(_validation, "_FOREIGN_BLOCK", 4)  # two tokens at a time
    with pytest.raises(ValueError, match=rf"{message}: X\[2\] \(shape \(3, 2\)\) at token 1, feature 1"):
        SoftmaxAttentionRegressor().fit(X, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="X has 3 features, but SoftmaxAttentionRegressor is expecting 2"):
        SoftmaxAttentionRegressor().fit(move(np.eye(2)), [0.0, 1.0]).predict(move(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        SoftmaxAttentionRegressor().fit(move(np.ones((2, 0))), [0.0, 1.0])
    with pytest.raises(ValueError, match="Complex data not supported"):
        SoftmaxAttentionRegressor().fit(move(np.ones((2, 2), complex)), [0.0, 1.0])


@pytest.mark.parametrize("Model", [SoftmaxAttentionRegressor, CLASSIFIERS["softmax"]])
def test_lists_are_lists_where_dispatch_is_on(ragged, Model):
    y, weights = np.arange(12) % 2, np.linspace(0.5, 2.0, 12)
    expected = Model(tol=1e-7).fit(ragged, y, sample_weight=weights)
    lists = [sequence.tolist() for sequence in ragged]
    model = Model(tol=1e-7).fit(lists, y.tolist(), sample_weight=weights.tolist())
    np.testing.assert_array_equal(model.key_, expected.key_)
    np.testing.assert_array_equal(model.predict(lists), expected.predict(ragged))


@pytest.mark.parametrize("convert", [list, np.array, array_api_strict.asarray], ids=lambda c: c.__name__)
def test_the_theory_reads_its_table_on_the_host(monkeypatch, convert):
    def solve(problem, activation, sample_ratio, alpha, *others, **options):
        return SimpleNamespace(
            test_error=alpha / sample_ratio, stability=0.5, converged=True, error_estimate=0.0
        )

    monkeypatch.setattr(theory_module, "replica_erm", solve)
    rows = [[4.0, 1.0], [8.0, 1.0]]
    theory = ReplicaTheory("softmax", signal=2.0).fit(convert(rows), convert([0.6, 0.5]))
    np.testing.assert_array_equal(theory.predict(convert(rows)), [0.25, 0.125])


def test_devices(ragged, move):
    moved = RaggedArray(move(ragged.values), ragged.offsets)
    back = moved.to_device("cpu")
    np.testing.assert_array_equal(back.values, ragged.values)
    assert ragged.to_device("cpu") is ragged
    with pytest.raises(ValueError, match="'cpu' or 'cuda', got 'gpu'"):
        ragged.to_device("gpu")


def test_without_cupy(ragged, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn_attn\[gpu\]'"):
        to_device(ragged.values, "cuda")


@pytest.mark.parametrize("at_once", [1, 60, 10_000], ids=["sequences in place", "blocks", "lengths at once"])
def test_attended_vectors(ragged, move, monkeypatch, at_once):
    monkeypatch.setattr(_generic, "_BLOCK_NUMBERS", at_once)
    weights = np.random.default_rng(1).random(ragged.n_tokens)
    moved = RaggedArray(move(ragged.values.astype(np.float32)), ragged.offsets)
    pooled = pool(moved, move(weights))
    assert array_namespace(pooled) is array_namespace(moved.values)
    assert device(pooled) == device(moved.values)
    exact = RaggedArray(ragged.values.astype(np.float32), ragged.offsets)
    np.testing.assert_allclose(to_numpy(pooled), pool(exact, weights), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("strided", [lambda x: x.T.copy().T, lambda x: x[:, ::2], lambda x: x[::-1]])
def test_kernels_get_rows_one_after_another(strided):
    x = strided(np.random.default_rng(0).standard_normal((5, 4)))
    ordered = in_c_order(x)
    assert ordered.flags.c_contiguous
    np.testing.assert_array_equal(ordered, x)
    assert in_c_order(ordered) is ordered

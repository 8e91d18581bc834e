"""On a GPU: run with `pytest -m gpu` where CuPy and a CUDA device are; without them these tests fail."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV, _backend
from sklearn_attn._backend import to_numpy
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.classifiers import CLASSIFIERS
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import (
    AttentionObjective,
    AttentionParameters,
    _coordinates,
    _objective,
    shared_pass,
)
from sklearn_attn.regressors import REGRESSORS
from sklearn_attn.solvers import _array_pairs

pytestmark = pytest.mark.gpu


def on_host(part):
    return part if isinstance(part, float) else to_numpy(part)


@pytest.fixture
def cupy():
    import cupy

    return cupy


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def data(request):
    dataset = SLRDataset("spiked", 50, signal=9.0, length=(1, 3, 700), noise=0.1, random_state=0)
    X, y = dataset.sample(400)
    return X.astype(request.param), y


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_kernel_agrees_with_the_generic_form(cupy, data, name):
    X, y = data
    rng = np.random.default_rng(0)
    parameters = AttentionParameters(*rng.standard_normal((2, 50)), 0.3, 0.2)
    options = {"alpha_key": 0.7, "alpha_value": 0.4}
    with AttentionObjective(X.to_device("cuda"), y, ACTIVATIONS[name](), **options) as objective:
        assert objective.backend == "cuda"
        actual = objective.deviance(parameters)
    with AttentionObjective(
        X.astype(np.float64), y, ACTIVATIONS[name](), backend="generic", **options
    ) as objective:
        expected = objective.deviance(parameters)
    for part, reference in zip(map(on_host, actual), expected, strict=True):
        np.testing.assert_allclose(part, reference, rtol=1e-9, atol=1e-9 * np.max(np.abs(reference)) + 1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_several_problems_in_one_pass(cupy, data, name):
    X, y = data
    rng = np.random.default_rng(0)
    problems = [AttentionParameters(*rng.standard_normal((2, 50)), 0.3, 0.2 * b) for b in range(3)]
    weights, results = rng.random((2, len(X))), []
    for moved in (X.to_device("cuda"), X):
        with shared_pass(moved, y, weights, ACTIVATIONS[name]()) as batch:
            results.append(batch.deviances(ACTIVATIONS[name](), problems, [0, 1, 1]))
    (actual, actual_predictions), (expected, predictions) = results
    assert isinstance(actual[0][1], cupy.ndarray)
    for terms, references in zip(actual, expected, strict=True):
        for part, reference in zip(map(on_host, terms), references, strict=True):
            scale = np.max(np.abs(reference))
            np.testing.assert_allclose(part, reference, rtol=1e-9, atol=1e-9 * scale + 1e-12)
    np.testing.assert_allclose(to_numpy(actual_predictions), predictions, rtol=1e-9, atol=1e-9)


def test_penalty_paths(cupy, data):
    X, y = data
    here = SoftmaxAttentionRegressorCV([0.1, 1.0], cv=3, tol=1e-7).fit(X, y)
    there = SoftmaxAttentionRegressorCV([0.1, 1.0], cv=3, tol=1e-7).fit(X.to_device("cuda"), y)
    assert isinstance(there.key_, cupy.ndarray)
    assert there.alpha_ == here.alpha_
    np.testing.assert_allclose(there.cv_scores_, here.cv_scores_, atol=1e-4)


def test_iterations_move_no_vectors(cupy, data, monkeypatch):
    X, y = data
    moved, counts = X.to_device("cuda"), []
    for max_iter in (3, 9):
        sizes = []

        def get(x, sizes=sizes):
            if isinstance(x, cupy.ndarray):
                sizes.append(x.size)
            return to_numpy(x)

        for module in (_coordinates, _objective, _array_pairs, _backend):
            monkeypatch.setattr(module, "to_numpy", get, raising=False)
        with pytest.warns(ConvergenceWarning):
            SoftmaxAttentionRegressor(0.3, tol=1e-13, max_iter=max_iter).fit(moved, y)
        counts.append(sum(size >= 50 for size in sizes))
    assert counts[0] == counts[1]


def test_memory_of_a_fit(cupy):
    X, y = SLRDataset("spiked", 500, length=(1, 2, 60), random_state=0, device="cuda").sample(20_000)
    SoftmaxAttentionRegressor().fit(X[:100], y[:100])  # compiles
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    SoftmaxAttentionRegressor().fit(X, y)
    assert pool.total_bytes() - before < 0.1 * X.nbytes


@pytest.mark.parametrize("task", ["spiked", "max"])
def test_samples_are_drawn_there(cupy, task):
    dataset = SLRDataset(task, 40, signal=3.0, length=(2, 6), noise=0.5, random_state=0, device="cuda")
    X, y, location = dataset.sample(4000, return_location=True)
    assert all(isinstance(x, cupy.ndarray) for x in (X.values, y, location))
    again = SLRDataset(task, 40, signal=3.0, length=(2, 6), noise=0.5, random_state=0, device="cuda").sample(
        4000
    )
    cupy.testing.assert_array_equal(again[0].values, X.values)
    hidden = to_numpy(X.values)[X.offsets[:-1] + to_numpy(location)]
    assert np.std(to_numpy(y) - hidden @ dataset.value_ / np.sqrt(40)) == pytest.approx(0.5, rel=0.05)
    chi, law = (
        hidden @ dataset.key_ / np.sqrt(40),
        SLRDataset(task, 40, signal=3.0, length=(2, 6), random_state=0),
    )
    on_the_host, _, places = law.sample(4000, return_location=True)
    expected = on_the_host.values[on_the_host.offsets[:-1] + places] @ law.key_ / np.sqrt(40)
    assert chi.mean() == pytest.approx(expected.mean(), abs=0.1)


@pytest.mark.parametrize("name", [*REGRESSORS, *(f"{name} classifier" for name in CLASSIFIERS)])
def test_fits(cupy, data, name):
    X, y = data
    Estimator = REGRESSORS.get(name) or CLASSIFIERS[name.removesuffix(" classifier")]
    y = np.digitize(y, [-0.5, 0.5]) if "classifier" in name else y
    moved = X.to_device("cuda")
    here, there = Estimator(0.3, tol=1e-7).fit(X, y), Estimator(0.3, tol=1e-7).fit(moved, y)
    assert isinstance(there.key_, cupy.ndarray)
    assert isinstance(there.predict(moved), cupy.ndarray)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-6)
    assert isinstance(there.to_cpu().key_, np.ndarray)
    assert isinstance(pickle.loads(pickle.dumps(there)).predict(X), np.ndarray)
    np.testing.assert_allclose(to_numpy(there.transform(moved)), here.transform(X), atol=1e-3)


@pytest.mark.parametrize("strided", ["columns first", "every second feature", "backwards"])
def test_layouts(cupy, data, strided):
    X, y = data
    values = X.to_device("cuda").values
    values = {
        "columns first": lambda: cupy.asfortranarray(values),
        "every second feature": lambda: cupy.repeat(values, 2, axis=1)[:, ::2],
        "backwards": lambda: cupy.ascontiguousarray(values[::-1])[::-1],
    }[strided]()
    assert not values.flags.c_contiguous
    model = SoftmaxAttentionRegressor(0.3, tol=1e-7).fit(RaggedArray(values, X.offsets), y)
    assert model.objective_ == pytest.approx(
        SoftmaxAttentionRegressor(0.3, tol=1e-7).fit(X, y).objective_, rel=1e-6
    )


def test_dense_arrays(cupy):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4, 3)), rng.standard_normal(60)
    model = SoftmaxAttentionRegressor().fit(cupy.asarray(X), cupy.asarray(y))
    np.testing.assert_allclose(
        to_numpy(model.predict(cupy.asarray(X))), SoftmaxAttentionRegressor().fit(X, y).predict(X), atol=1e-5
    )

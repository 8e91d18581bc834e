"""On a GPU: run with `pytest -m gpu` where CuPy and a CUDA device are; without them these tests fail."""

import pickle

import numpy as np
import pytest

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn._backend import to_numpy
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.classifiers import CLASSIFIERS
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import AttentionObjective, AttentionParameters
from sklearn_attn.regressors import REGRESSORS

pytestmark = pytest.mark.gpu


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
    for part, reference in zip(actual, expected, strict=True):
        np.testing.assert_allclose(part, reference, rtol=1e-9, atol=1e-9 * np.max(np.abs(reference)) + 1e-12)


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


def test_dense_arrays(cupy):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4, 3)), rng.standard_normal(60)
    model = SoftmaxAttentionRegressor().fit(cupy.asarray(X), cupy.asarray(y))
    np.testing.assert_allclose(
        to_numpy(model.predict(cupy.asarray(X))), SoftmaxAttentionRegressor().fit(X, y).predict(X), atol=1e-5
    )

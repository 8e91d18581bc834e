"""Fits to partitions on Dask workers, against the same fit on one machine."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sklearn_attn import (
    ErfAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionClassifier,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
)
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.distributed import fit_partitions
from sklearn_attn.regressors import REGRESSORS

distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
dask = pytest.importorskip("dask")

# Dask closes its own sockets and loops late.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
D = 12
BOUNDS = [0, 70, 71, 300]  # partitions of different sizes, one of a single sequence


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def data():
    dataset = SLRDataset("spiked", D, signal=4.0, length=[1, 3, 6], noise=0.2, random_state=0)
    X, y = dataset.sample(BOUNDS[-1])
    return X, y, np.random.default_rng(0).uniform(0.0, 2.0, len(y))


def split(*arrays):
    return [tuple(array[a:b] for array in arrays) for a, b in pairwise(BOUNDS)]


def with_lying_offsets(X):
    """A RaggedArray whose offsets were changed by force."""
    X = RaggedArray(X.values, X.offsets)
    X.offsets.flags.writeable = True
    X.offsets[1] = 10**9
    return X


def assert_same(model, exact):
    for name in ("key_", "value_", "intercept_"):
        np.testing.assert_allclose(getattr(model, name), getattr(exact, name), rtol=1e-8, atol=1e-8)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-10)


@pytest.mark.parametrize("regressor", REGRESSORS.values())
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_to_the_fit_on_one_machine(client, data, regressor, weighted):
    arrays = data if weighted else data[:2]
    exact = regressor(0.5, alpha_key=2.0, tol=1e-7).fit(*arrays)
    model = regressor(0.5, alpha_key=2.0, tol=1e-7)
    assert fit_partitions(model, split(*arrays), client=client) is model
    assert_same(model, exact)
    assert model.n_features_in_ == D
    np.testing.assert_allclose(model.predict(data[0]), exact.predict(data[0]), rtol=1e-8, atol=1e-8)


def test_a_learned_offset(client, data):
    X, y, _ = data
    exact = ErfAttentionRegressor(offset="learn", tol=1e-7).fit(X, y)
    model = fit_partitions(ErfAttentionRegressor(offset="learn", tol=1e-7), split(X, y), client=client)
    assert model.offset_ == pytest.approx(exact.offset_, abs=1e-8)


def test_futures_and_delayed_partitions_and_random_starts(client, data):
    X, y, _ = data
    parts = split(X, y)
    mixed = [client.scatter([parts[0]])[0], dask.delayed(lambda: parts[1])(), parts[2]]
    options = {"init": "random", "n_init": 2, "random_state": 3, "tol": 1e-7}
    exact = SoftmaxAttentionRegressor(**options).fit(X, y)
    assert_same(fit_partitions(SoftmaxAttentionRegressor(**options), mixed, client=client), exact)


def test_the_current_client_lists_and_warm_starts(client, data):
    X, y, _ = data
    lists = [(part.to_list(), target) for part, target in split(X, y)]
    model = SoftmaxAttentionRegressor(warm_start=True, tol=1e-7)
    with client.as_current():
        fit_partitions(model, lists)
        n_first = model.n_iter_
        fit_partitions(model, lists)
    assert n_first > 3
    assert model.n_iter_ == 0


def test_float32_stays_float32(client, data):
    X, y, _ = data
    model = fit_partitions(SoftmaxAttentionRegressor(), split(X.astype(np.float32), y), client=client)
    assert model.key_.dtype == np.float32


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X, y: [], ValueError, "partitions is empty"),
        (lambda X, y: [X], TypeError, r"must be \(X, y\)"),
        (lambda X, y: [(X, y[:-1])], ValueError, "inconsistent numbers of samples"),
        (lambda X, y: [(X, y), ([np.ones((2, 3))], [1.0])], ValueError, "same n_features, got 12 and 3"),
        (lambda X, y: [(X, y), (X.astype(np.float32), y)], ValueError, "same dtype, got float32 and float64"),
        (lambda X, y: [(X, np.full(len(y), np.nan))], ValueError, "NaN"),
        (lambda X, y: [(X, y), (with_lying_offsets(X), y)], ValueError, "must not decrease"),
    ],
)
def test_bad_partitions(client, data, make, error, message):
    X, y, _ = data
    model = SoftmaxAttentionRegressor()
    with pytest.raises(error, match=message):
        fit_partitions(model, make(X, y), client=client)
    assert not hasattr(model, "key_")


def test_other_solvers_and_parameters(client, data):
    X, y, _ = data
    with pytest.raises(ValueError, match="needs solver='lbfgs'"):
        fit_partitions(SoftmaxAttentionRegressor(solver="sgd"), [(X, y)], client=client)
    with pytest.raises(ValueError, match="alpha"):
        fit_partitions(SoftmaxAttentionRegressor(-1.0), [(X, y)], client=client)
    for other in (SoftmaxAttentionClassifier(), SoftmaxAttentionRegressorCV(), Ridge()):
        with pytest.raises(TypeError, match=f"and its siblings, not a {type(other).__name__}"):
            fit_partitions(other, [(X, y)], client=client)


def test_without_dask(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install \"dask\[distributed\]\""):
        fit_partitions(SoftmaxAttentionRegressor(), [data[:2]])


@pytest.mark.slow
def test_worker_processes(data):
    X, y, _ = data
    exact = SoftmaxAttentionRegressor(tol=1e-7).fit(X, y)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        model = fit_partitions(SoftmaxAttentionRegressor(tol=1e-7), split(X, y), client=client)
    assert_same(model, exact)

"""Threads and processes that fit and predict at the same time get what one gets alone, to the last bit."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_attn import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    RaggedArray,
    SoftmaxAttentionClassifier,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
    SoftplusAttentionRegressor,
)
from sklearn_attn.datasets import SLRDataset

# set once: the filters of warnings belong to all threads, and `catch_warnings` in one changes them for the others
pytestmark = pytest.mark.filterwarnings("ignore")

ESTIMATORS = {
    "softmax": SoftmaxAttentionRegressor(),
    "linear": LinearAttentionRegressor(10.0),
    "erf": ErfAttentionRegressor(1.0, offset="learn", max_iter=30),
    "softplus": SoftplusAttentionRegressor(n_init=2, random_state=0),
    "sgd": SoftmaxAttentionRegressor(solver="sgd", max_iter=5, random_state=0),
    "cv": SoftmaxAttentionRegressorCV([0.1, 1.0], cv=2),
    "two classes": SoftmaxAttentionClassifier(),
    "three classes": SoftmaxAttentionClassifier(),
}


@pytest.fixture(scope="module")
def data():
    """Two threads' worth of data, with sequences from 1 to 300 tokens."""
    dataset = SLRDataset("spiked", 20, signal=6.0, length=(1, 4, 300), noise=0.1, random_state=0)
    return dataset.sample(100)


def results(name, X, y):
    """What a fit of a new estimator finds, and what comes of it, as one vector of numbers."""
    if "classes" in name:
        y = np.digitize(y, [0.0] if "two" in name else [-0.5, 0.5])
    model = clone(ESTIMATORS[name]).fit(X, y)
    return np.concatenate([np.ravel(part) for part in (
        model.key_, model.value_, model.intercept_, model.loss_curve_, model.stop_crit_, model.predict(X),
        model.attention_weights(X).values, model.transform(X), X.lengths, model.score(X, y),
    )])  # fmt: skip


def test_eight_threads_on_shared_data(data):
    """All kinds of fits at the same time, each twice."""
    X, y = data
    alone = {name: results(name, X, y) for name in ESTIMATORS}
    tasks = [*ESTIMATORS, *reversed(ESTIMATORS)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda name: results(name, X, y), tasks))
    for name, result in zip(tasks, together, strict=True):
        np.testing.assert_array_equal(result, alone[name], err_msg=name)


def test_eight_threads_with_one_fitted_model(data):
    X = RaggedArray(data[0].values, data[0].offsets)  # nothing of it has been asked for
    model = SoftmaxAttentionRegressor().fit(*data)
    expected = model.predict(X), model.attention_weights(X).values, model.transform(X), X[::7].values
    barrier = threading.Barrier(8)

    def use(_):
        barrier.wait()
        return model.predict(X), model.attention_weights(X).values, model.transform(X), X[::7].values

    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(use, range(8)):
            for part, whole in zip(result, expected, strict=True):
                np.testing.assert_array_equal(part, whole)


def fit_in_child(pipe, names, X, y):
    pipe.send({name: results(name, X, y) for name in names})
    pipe.close()


def fits_of_child(method, names, X, y):
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=fit_in_child, args=(sender, names, X, y))
    child.start()
    sender.close()
    try:
        assert receiver.poll(120), "the child hangs"
        found = receiver.recv()
        child.join(60)
        assert child.exitcode == 0
        return found
    finally:
        receiver.close()
        if child.is_alive():
            child.kill()
            child.join()


METHODS = [
    pytest.param(method, marks=[] if method == "fork" else pytest.mark.slow)
    for method in multiprocessing.get_all_start_methods()
]


@pytest.mark.parametrize("method", METHODS)
def test_child_processes_after_a_first_fit(data, method):
    expected = {name: results(name, *data) for name in ESTIMATORS}
    for name, result in fits_of_child(method, list(ESTIMATORS), *data).items():
        np.testing.assert_array_equal(result, expected[name], err_msg=name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forks_while_other_threads_fit(data):
    names = ["softmax", "sgd", "cv", "three classes"]
    expected = {name: results(name, *data) for name in names}
    stop = threading.Event()

    def fit_on_and_on(name):
        while not stop.is_set():
            results(name, *data)

    threads = [threading.Thread(target=fit_on_and_on, args=[name]) for name in names[:3]]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            for name, result in fits_of_child("fork", names, *data).items():
                np.testing.assert_array_equal(result, expected[name], err_msg=name)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts threads and files in /proc")
def test_fits_and_errors_leave_no_thread_and_no_file(data):
    X, y = data
    bad = y.copy()
    bad[-1] = np.nan

    def left(at_most=(0, 0)):
        """Threads and files of this process, once those that are about to end have ended."""
        deadline = time.monotonic() + (5.0 if any(at_most) else 0.5)
        while True:
            found = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
            if time.monotonic() > deadline or (found[0] <= at_most[0] and found[1] <= at_most[1]):
                return found
            time.sleep(0.001)

    first = (0, 0)
    for _ in range(3):
        for name, estimator in ESTIMATORS.items():
            results(name, X, y)
            with pytest.raises(ValueError, match="NaN"):
                clone(estimator).fit(X, bad)
        now = left(first)
        first = first if any(first) else now
        assert now <= first

"""Runs fits that its parent interrupts, and reports on each; see test_interrupts.py.

For every trial it prints "go", fits, waits for the interrupt where the fit was faster, and prints as JSON what
is left.
"""

import json
import os
import pickle
import sys
import threading
import time
import warnings

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_info

import sklearn_attn
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.preprocessing import TokenTransformer
from sklearn_attn.theory import BayesGAMPRegressor

warnings.simplefilter("ignore")
MODELS = {
    "lbfgs": lambda: sklearn_attn.SoftmaxAttentionRegressor(0.01, tol=1e-9, n_init=3, random_state=0),
    "erf": lambda: sklearn_attn.ErfAttentionRegressor(0.01, offset="learn", tol=1e-9, max_iter=200),
    "sgd": lambda: sklearn_attn.SoftplusAttentionRegressor(solver="sgd", max_iter=60, random_state=0),
    "partial_fit": lambda: sklearn_attn.LinearAttentionRegressor(10.0, solver="sgd", learning_rate=0.01),
    "cv": lambda: sklearn_attn.SoftmaxAttentionRegressorCV([0.1, 1.0, 10.0], cv=3),
    "two classes": lambda: sklearn_attn.SoftmaxAttentionClassifier(0.01, tol=1e-9),
    "three classes": lambda: sklearn_attn.SoftmaxAttentionClassifier(0.1),
    "gamp": lambda: BayesGAMPRegressor("spiked", signal=6.0, noise=0.1, random_state=0),
    "tokens": lambda: TokenTransformer(sklearn_attn.SoftmaxAttentionRegressor(tol=1e-9)),
}


def target(name, y):
    if "classes" not in name:
        return y
    return np.digitize(y, [0.0] if name.startswith("two") else [-0.5, 0.5])


def fit(name, model, X, y):
    if name == "partial_fit":
        for _ in range(3):
            model.partial_fit(X, y)
        return model
    return model.fit(X, y)


def contents(thing):
    """All that an estimator holds, to the last bit, in a form that compares."""
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.shape, thing.tobytes()
    if isinstance(thing, dict):
        return tuple((name, contents(thing[name])) for name in sorted(thing))
    if hasattr(thing, "__dict__"):
        return type(thing).__name__, contents(vars(thing))
    return repr(thing)


def leftover_threads():
    """Names of the threads but the main one, once those that are about to end have ended."""
    deadline = time.monotonic() + 5.0
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


def trial(name, model, X, y):
    was_interrupted = False
    try:
        print("go", flush=True)
        fit(name, model, X, y)
        time.sleep(60.0)
    except KeyboardInterrupt:
        was_interrupted = True
    return was_interrupted


def main(name, n_trials):
    dataset = SLRDataset("spiked", 20, signal=6.0, length=(2, 5), noise=0.1, random_state=0)
    (X, y), (X_new, y_new) = (dataset.sample(n) for n in (1000, 3000))
    y, y_new = target(name, y), target(name, y_new)
    first = fit(name, MODELS[name](), X, y)
    start = time.perf_counter()
    complete = fit(name, pickle.loads(pickle.dumps(first)), X_new, y_new)
    print(time.perf_counter() - start, flush=True)
    blas = [library["num_threads"] for library in threadpool_info()]
    n_files = None
    states = {contents(first): "as it was", contents(complete): "fitted"}
    if name == "partial_fit":  # between two calls the estimator is what the first left
        model = pickle.loads(pickle.dumps(first))
        for _ in range(2):
            states[contents(model.partial_fit(X_new, y_new))] = "as it was"
    for _ in range(n_trials):
        model = pickle.loads(pickle.dumps(first))
        was_interrupted = trial(name, model, X_new, y_new)
        report = {"interrupted": was_interrupted, "threads": leftover_threads()}
        report["state"] = states.get(contents(model), "something else")
        again = fit(name, clone(model), X, y)  # the next fit
        report["next fit"] = contents(again) == contents(first)
        report["blas"] = [library["num_threads"] for library in threadpool_info()] == blas
        n_files = n_files or len(os.listdir("/proc/self/fd"))
        report["files"] = len(os.listdir("/proc/self/fd")) - n_files
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""The same input gives the same output to the last bit, in any process and with any number of threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from digests import ESTIMATORS, fitted, outputs, sequences

from sklearn_attn.activations import get_activation
from sklearn_attn.objective import AttentionObjective
from sklearn_attn.objective._cpu import n_shares_for


def digests(hash_seed):
    """Run digests.py in a new process, with two threads."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "NUMBA_NUM_THREADS": "2"}
    script = Path(__file__).with_name("digests.py")
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def compare(hash_seeds):
    first, *others = [digests(seed) for seed in hash_seeds]
    assert len({run["process"] for run in (first, *others)}) == len(hash_seeds)
    assert any(run["hash of a word"] != first["hash of a word"] for run in others)
    assert len(first["found"]) == 2 * len(ESTIMATORS) + 2
    for run in others:
        assert run["found"] == first["found"]


def test_two_processes_agree_to_the_last_bit():
    compare(["0", "1"])


@pytest.mark.slow
def test_many_processes_agree_to_the_last_bit():
    compare(["0", "12345", "random", "random", "random", "0"])


@pytest.fixture(scope="module")
def shared_by_eight():
    """Sequences that are enough for eight threads."""
    X, y = sequences(200, 100)
    assert n_shares_for(X) >= 8
    return X, y


def on_threads(function, numbers):
    before = numba.get_num_threads()
    try:
        for n in numbers:
            numba.set_num_threads(n)
            yield function()
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("activation", ["softmax", "linear", "erf", "softplus"])
def test_a_pass_with_any_number_of_threads(shared_by_eight, activation, dtype):
    X, y = shared_by_eight
    X = X.astype(dtype)

    def evaluate(n_threads):
        options = {"alpha_key": 1.0, "alpha_value": 1.0, "n_threads": n_threads}
        with AttentionObjective(X, y, get_activation(activation), **options) as objective:
            theta = np.cos(np.arange(objective.n_parameters))
            value, gradient = objective.value_and_gradient(theta)
            assert objective._kernel.n_threads == n_threads
            return value, gradient

    value, gradient = evaluate(1)
    for n_threads in range(2, 9):
        again = evaluate(n_threads)
        assert again[0] == value
        np.testing.assert_array_equal(again[1], gradient)


def check_fits(name, shared_by_eight, dtype, numbers, **parameters):
    X, y = shared_by_eight
    X = X.astype(dtype)
    first, *others = list(on_threads(lambda: fitted(name, X, y, **parameters), [1, *numbers]))
    for other in others:
        if hasattr(first, "objective_"):
            assert other.objective_ == first.objective_
        for attribute in ("key_", "value_"):
            np.testing.assert_array_equal(getattr(other, attribute), getattr(first, attribute))
        np.testing.assert_array_equal(outputs(name, other, X), outputs(name, first, X))


available = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads: NUMBA_NUM_THREADS=8 gives eight anywhere"
)


@available
@pytest.mark.parametrize(
    "name", ["softmax", "small penalty", "descent", "cross-validation", "two classes", "three classes"]
)
def test_fits_with_one_thread_and_two(shared_by_eight, name):
    check_fits(name, shared_by_eight, np.float64, [2])


@pytest.mark.slow
def test_fits_with_one_to_eight_threads():
    """In a process that may have eight."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "slow", f"{__file__}::test_fits_on_eight"]
    run = subprocess.run(command, env=os.environ | {"NUMBA_NUM_THREADS": "8"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert f"{2 * (len(ESTIMATORS) - 1)} passed" in run.stdout


@pytest.mark.slow
@pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 8, reason="run by the test before, with NUMBA_NUM_THREADS=8"
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "name", [name for name in ESTIMATORS if name != "GAMP"]
)  # which takes minutes on long sequences
def test_fits_on_eight(shared_by_eight, name, dtype):
    check_fits(name, shared_by_eight, dtype, [2, 3, 5, 8])

"""Compiled code that several parts share."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from joblib import Parallel, delayed

from sklearn_attn import _compiled
from sklearn_attn._compiled import ACTIVATION_CODES, available_threads, curvature, exponentiate, potential
from sklearn_attn.activations import get_activation


def test_exponentiate():
    x = np.concatenate([-np.geomspace(1e-300, 708, 20_000), np.linspace(-708, 0, 20_001), [-0.0]])
    y = x.copy()
    exponentiate(y, y.size)
    np.testing.assert_allclose(y, np.exp(x), rtol=5e-16)
    ends = np.array([-np.inf, -1e4, -745.0, np.nan, -1.0])
    exponentiate(ends, 4)
    np.testing.assert_allclose(ends[:3], 0.0, atol=1e-307)
    assert np.isnan(ends[3])
    assert ends[4] == -1.0  # beyond n


@pytest.mark.parametrize("name", ACTIVATION_CODES)
def test_scalar_forms_are_those_of_the_activations(name):
    activation, kind = get_activation(name, 0.3), ACTIVATION_CODES[name]
    scores = np.concatenate([np.linspace(-6.0, 6.0, 49), [-1e4, -50.0, 50.0, 1e4]])
    values, slopes = np.array([potential(kind, score, 0.3) for score in scores]).T
    np.testing.assert_allclose(values, activation.potential(scores), rtol=1e-13)
    np.testing.assert_allclose(slopes, activation.slope(scores), rtol=1e-13, atol=1e-300)
    h = 1e-4
    differences = (activation.slope(scores + h) - activation.slope(scores - h)) / (2 * h)
    actual = [curvature(kind, score, 0.3) for score in scores]
    np.testing.assert_allclose(actual, differences, atol=1e-6)


@pytest.mark.parametrize(
    ("numba_says", "omp_says", "expected"),
    [(None, None, 8), (None, "3", 3), (None, "16", 8), (None, "3,1", 3), (None, "1", 1), ("8", "1", 8)]
    + [(None, omp, 8) for omp in ("", "0", "many", "-1")],
)
def test_threads_are_those_that_the_environment_allows(monkeypatch, numba_says, omp_says, expected):
    monkeypatch.setattr(numba, "get_num_threads", lambda: 8)
    for name, value in (("NUMBA_NUM_THREADS", numba_says), ("OMP_NUM_THREADS", omp_says)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert available_threads() == expected


@pytest.mark.parametrize(
    ("level", "names", "in_main_thread", "expected"),
    [
        (0, (), True, 8),
        (1, (), True, 1),
        (1, ("NUMBA_NUM_THREADS",), True, 8),
        (1, ("OMP_NUM_THREADS",), True, 5),
        (1, ("OMP_NUM_THREADS",), False, 1),
        (0, ("OMP_NUM_THREADS",), False, 5),
    ],
)
def test_a_worker_that_nothing_limits_has_one_thread(monkeypatch, level, names, in_main_thread, expected):
    class Backend:
        nesting_level = level

    monkeypatch.setattr(numba, "get_num_threads", lambda: 8)
    monkeypatch.setattr(_compiled, "get_active_backend", lambda: (Backend, 2))
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name in names:
        monkeypatch.setenv(name, "5")
    if in_main_thread:
        assert available_threads() == expected
    else:
        with ThreadPoolExecutor(1) as executor:
            assert executor.submit(available_threads).result() == expected


@pytest.mark.parametrize(
    "backend",
    [
        "threading",
        pytest.param("loky", marks=pytest.mark.slow),
        pytest.param("multiprocessing", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("n_jobs", [2, 4])
def test_threads_times_workers_are_at_most_the_cores(monkeypatch, backend, n_jobs):
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    cores = available_threads()
    threads = Parallel(n_jobs, backend=backend)(delayed(available_threads)() for _ in range(8))
    assert max(threads) <= max(1, cores // n_jobs)
    assert available_threads() == cores


def test_one_job_has_all_threads():
    assert Parallel(1)(delayed(available_threads)() for _ in range(2)) == [available_threads()] * 2


RUN = "import numpy as np, sklearn_attn; sklearn_attn.SoftmaxAttentionRegressor().fit(np.eye(4), np.arange(4.0)); print('fine')"


@pytest.mark.slow
def test_a_fit_needs_no_threading_layer():
    environment = os.environ | {"NUMBA_THREADING_LAYER": "tbb"}  # which is not installed
    out = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "fine"


def test_without_a_folder_for_the_cache(monkeypatch):
    njit = numba.njit

    def refuse_cache(*args, **options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **options)

    monkeypatch.setattr(_compiled.numba, "njit", refuse_cache)
    assert _compiled.jit(lambda x: x + 1)(1) == 2

"""L-BFGS on functions whose minimum is known."""

import multiprocessing
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_attn import SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.datasets import make_spiked_slr
from sklearn_attn.objective import _objective
from sklearn_attn.objective._coordinates import Coordinates
from sklearn_attn.solvers import _blas, lbfgs
from sklearn_attn.solvers._blas import single_threaded_blas


class Counted:
    """A smooth function that counts its evaluations and watches the BLAS threads."""

    def __init__(self, value, gradient):
        self.value, self.gradient = value, gradient
        self.points, self.blas_threads = [], set()

    def value_and_gradient(self, theta):
        self.points.append(theta.copy())
        self.blas_threads |= {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}
        return self.value(theta), self.gradient(theta)


def quadratic():
    scales, centre = np.logspace(0, 2, 8), np.arange(8.0)
    return Counted(lambda x: 0.5 * float(scales @ (x - centre) ** 2), lambda x: scales * (x - centre)), centre


def test_finds_the_minimum_of_a_quadratic():
    objective, centre = quadratic()
    result = lbfgs(objective, np.zeros(8), tol=1e-8)
    assert result.converged
    np.testing.assert_allclose(result.params, centre, atol=1e-7)
    assert result.objective == pytest.approx(0.0, abs=1e-12)


def test_finds_the_minimum_of_rosenbrock():
    result = lbfgs(Counted(rosen, rosen_der), np.full(6, -1.0), tol=1e-7)
    assert result.converged
    np.testing.assert_allclose(result.params, 1.0, atol=1e-5)


@pytest.mark.parametrize("max_iter", [1, 7, 1000])
def test_says_whether_it_converged(max_iter):
    objective, _ = quadratic()
    result = lbfgs(objective, np.zeros(8), tol=1e-6, max_iter=max_iter)
    assert result.stop_crit == pytest.approx(np.linalg.norm(objective.gradient(result.params)), rel=1e-14)
    assert result.converged == (result.stop_crit <= 1e-6) == (max_iter == 1000)
    assert result.n_iter <= max_iter
    assert ("max_iter=" in result.message) == (not result.converged)


def test_curve_and_callback():
    objective, _ = quadratic()
    calls = []
    result = lbfgs(objective, np.zeros(8), callback=lambda *state: calls.append(state))
    assert len(result.loss_curve) == result.n_iter + 1
    assert result.loss_curve[0] == objective.value(np.zeros(8))
    assert result.loss_curve[-1] == result.objective == objective.value(result.params)
    assert (np.diff(result.loss_curve) <= 0).all()
    assert [call[0] for call in calls] == list(range(1, result.n_iter + 1))
    assert calls[-1][1:3] == (result.objective, result.stop_crit)
    np.testing.assert_array_equal(calls[-1][3], result.params)
    assert not result.stopped


def test_a_callback_stops_it():
    objective, _ = quadratic()
    result = lbfgs(objective, np.zeros(8), callback=lambda n_iter, *_: n_iter == 2)
    assert (result.n_iter, result.converged, result.stopped) == (2, False, True)
    assert result.message == "a callback stopped it"


def test_no_point_is_evaluated_twice():
    objective, _ = quadratic()
    lbfgs(objective, np.zeros(8))
    assert len({point.tobytes() for point in objective.points}) == len(objective.points)


def test_a_stationary_start_is_the_result():
    objective, centre = quadratic()
    result = lbfgs(objective, centre)
    assert (result.n_iter, result.converged, len(objective.points)) == (0, True, 1)


def test_a_tolerance_beyond_rounding_is_not_called_converged():
    objective, _ = quadratic()
    result = lbfgs(objective, np.full(8, 0.1), tol=0.0, max_iter=10_000)
    assert result.converged == (result.stop_crit == 0.0)
    if not result.converged:
        assert "line search" in result.message


def test_blas_is_held_to_one_thread():
    before = [lib["num_threads"] for lib in threadpool_info()]
    objective, _ = quadratic()
    lbfgs(objective, np.zeros(8))
    assert objective.blas_threads == {1}
    assert [lib["num_threads"] for lib in threadpool_info()] == before


def test_nothing_of_a_fit_wakes_threads_of_blas(monkeypatch):
    """They would spin for a while beside the threads of the kernel."""
    threads = set()

    def coordinates(*arguments):
        threads.update(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")
        return Coordinates(*arguments)

    monkeypatch.setattr(_objective, "Coordinates", coordinates)
    X, y = make_spiked_slr(50, 5, random_state=0)
    SoftmaxAttentionRegressor().fit(X, y)
    SoftmaxAttentionRegressor(solver="sgd").partial_fit(X, y)
    SoftmaxAttentionRegressorCV([1.0], cv=2).fit(X, y)
    assert threads == {1}


def test_blas_is_held_in_any_thread_and_set_free_by_any_other():
    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    def in_a_thread(function):
        with ThreadPoolExecutor(1) as executor:
            executor.submit(function).result()

    before = threads()
    with single_threaded_blas():
        assert threads() == {1}
    holds = single_threaded_blas(), single_threaded_blas()
    in_a_thread(holds[0].__enter__)
    in_a_thread(holds[1].__enter__)
    assert threads() == {1}
    in_a_thread(lambda: holds[0].__exit__(None, None, None))
    assert threads() == {1}
    in_a_thread(lambda: holds[1].__exit__(None, None, None))
    assert threads() == before
    with threadpool_limits(1):  # a user's own
        with single_threaded_blas():
            pass
        assert threads() == {1}
    assert threads() == before


def test_a_hold_whose_end_was_interrupted_ends_with_the_next():
    before = [lib["num_threads"] for lib in threadpool_info()]
    with _blas._lock:
        _blas._holds.add(_blas._Hold())  # forgotten at once, as is what an interrupt left
        _blas._limit = _blas._threadpools().limit(limits=1, user_api="blas")
    with single_threaded_blas():
        pass
    assert [lib["num_threads"] for lib in threadpool_info()] == before


def _fit_and_count_threads_of_blas(queue, X, y):
    model = SoftmaxAttentionRegressor().fit(X, y)
    queue.put((model.objective_, [lib["num_threads"] for lib in threadpool_info()]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forks_beside_a_fit_of_another_thread_can_fit():
    X, y = make_spiked_slr(600, 20, random_state=0)
    expected = SoftmaxAttentionRegressor().fit(X, y).objective_
    before = [lib["num_threads"] for lib in threadpool_info()]
    stop = threading.Event()

    def fit_on_and_on():
        while not stop.is_set():
            SoftmaxAttentionRegressor().fit(X, y)

    thread = threading.Thread(target=fit_on_and_on)
    thread.start()
    context = multiprocessing.get_context("fork")
    try:
        for _ in range(10):
            queue = context.SimpleQueue()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
                child = context.Process(target=_fit_and_count_threads_of_blas, args=(queue, X, y))
                child.start()
            child.join(timeout=30)
            assert child.exitcode == 0, "the child hangs or has failed"
            objective, threads = queue.get()
            assert objective == pytest.approx(expected, rel=1e-12)
            assert threads == before
    finally:
        stop.set()
        thread.join()
        if child.is_alive():
            child.kill()


def _count_threads_of_blas(queue):
    queue.put([lib["num_threads"] for lib in threadpool_info()])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_while_another_thread_sets_the_limit_is_free_of_it(monkeypatch):
    before, pools = [lib["num_threads"] for lib in threadpool_info()], _blas._threadpools()
    is_set = threading.Event()

    class Slow:
        lib_controllers = pools.lib_controllers

        def limit(self, **options):
            limit = pools.limit(**options)
            is_set.set()
            time.sleep(0.2)
            return limit

    def hold():
        with single_threaded_blas():
            pass

    monkeypatch.setattr(_blas, "_threadpools", Slow)
    thread = threading.Thread(target=hold)
    thread.start()
    is_set.wait()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
        child = context.Process(target=_count_threads_of_blas, args=(queue,))
        child.start()
    child.join(timeout=30)
    thread.join()
    assert child.exitcode == 0, "the child hangs or has failed"
    assert queue.get() == before


def test_overlapping_fits_leave_blas_as_they_found_it():
    before = [lib["num_threads"] for lib in threadpool_info()]
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"} == {1}
    second.__exit__(None, None, None)
    assert [lib["num_threads"] for lib in threadpool_info()] == before

"""Steps of stochastic gradient descent against the formula, and the compiled pass against the generic one."""

import math
import threading

import array_api_strict
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sklearn_attn import RaggedArray
from sklearn_attn.activations import ACTIVATIONS, get_activation
from sklearn_attn.objective import AttentionObjective, AttentionParameters
from sklearn_attn.solvers import Schedule, SGDState, lbfgs, sgd, sgd_pass

ALL = [*((name, False) for name in ACTIVATIONS), ("erf", True)]
every = pytest.mark.parametrize(("name", "fit_offset"), ALL, ids=[*ACTIVATIONS, "erf learned"])
backends = pytest.mark.parametrize("backend", ["cpu", "generic"])


@pytest.fixture
def problem(ragged, rng):
    weight = rng.random(len(ragged)) + 0.5
    weight[4] = 0.0
    return ragged, rng.standard_normal(len(ragged)) + 2.0, weight


@pytest.fixture
def parameters(rng):
    key, value = rng.standard_normal((2, 3))
    return AttentionParameters(key, value, 0.3, 0.2)


def build(problem, name, fit_offset=False, **options):
    X, y, weight = problem
    options = {"alpha_key": 0.7, "alpha_value": 0.4, "sample_weight": weight} | options
    return AttentionObjective(X, y, get_activation(name, 0.2), fit_offset=fit_offset, **options)


def batch_loss(problem, batch, name, flat):
    """1 / (2 |B|) sum_{i in B} w_i (y_i - b - f(X_i))^2 of (k, v, b, c), one sequence at a time."""
    X, y, weight = problem
    key, value, (intercept, offset) = flat[:3], flat[3:6], flat[6:]
    loss = 0.0
    for i in batch:
        chi, z = X[i] @ key / math.sqrt(3), X[i] @ value / math.sqrt(3)
        if name == "linear":
            sigma = 1 + chi
        elif name == "erf":
            sigma = np.array([1 + math.erf(offset + c) for c in chi])
        else:
            sigma = np.exp(chi) if name == "softmax" else np.log1p(np.exp(chi))
            sigma = sigma / sigma.sum()
        loss += weight[i] * (y[i] - intercept - sigma @ z) ** 2
    return loss / (2 * len(batch))


def one_step(problem, batch, name, flat, t, *, n, fit_intercept, fit_offset):
    """The step of the docstring, its gradient by finite differences."""
    units = 1e-5 * np.eye(8)
    gradient = np.array(
        [
            (batch_loss(problem, batch, name, flat + u) - batch_loss(problem, batch, name, flat - u)) / 2e-5
            for u in units
        ]
    )
    rate = 0.1 / (1 + t / 3) ** 0.6
    flat = flat - rate * gradient * np.array([1.0] * 6 + [fit_intercept / 3, fit_offset / 3])
    flat[:3] /= 1 + rate * 0.7 / n
    flat[3:6] /= 1 + rate * 0.4 / n
    return flat


@every
@backends
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_a_pass_is_steps_along_the_gradient(
    problem, parameters, name, fit_offset, backend, fit_intercept, batch_size
):
    if not fit_intercept:
        parameters = parameters._replace(intercept=0.0)
    flat = np.concatenate([parameters.key, parameters.value, parameters[2:]])
    state = SGDState.at(parameters)
    state.n_steps, state.n_samples, before = 7, 10, state.iterate.copy()
    with build(problem, name, fit_offset, backend=backend, fit_intercept=fit_intercept) as objective:
        result = sgd_pass(objective, state, Schedule(0.1, 0.6, batch_size))
        actual = objective.unpack(result.params)
        value, gradient = objective.value_and_gradient(result.params)
        assert (result.objective, result.stop_crit) == (value, np.linalg.norm(gradient))
        assert (result.n_iter, objective.n_passes) == (1, 4)  # moments, the pass, and two evaluations
    fitted = {"fit_intercept": fit_intercept, "fit_offset": fit_offset}
    n_steps = 0
    for first in range(0, 12, batch_size):
        batch = range(first, min(first + batch_size, 12))
        flat = one_step(problem, batch, name, flat, 7 + n_steps, n=22, **fitted)
        n_steps += 1
    np.testing.assert_allclose(np.concatenate([actual.key, actual.value]), flat[:6], rtol=1e-7)
    assert actual.intercept == pytest.approx(flat[6], rel=1e-7)
    if name == "erf":
        assert actual.offset == pytest.approx(flat[7], rel=1e-7)
    assert (result.state.n_steps, result.state.n_drawn, result.state.n_samples) == (7 + n_steps, 12, 22)
    assert (state.n_steps, state.n_samples) == (7, 10)  # left as it was
    np.testing.assert_array_equal(state.iterate, before)


@every
@pytest.mark.parametrize("average", [False, True, 9])
@pytest.mark.parametrize("form", ["numpy", "array_api_strict"])
def test_compiled_and_generic_passes_agree(problem, name, fit_offset, average, form):
    X, y, weight = problem
    other = RaggedArray(array_api_strict.asarray(X.values), X.offsets) if form == "array_api_strict" else X
    ends = []
    for tokens, backend in ((X, "auto"), (other, "generic" if form == "numpy" else "auto")):
        with build((tokens, y, weight), name, fit_offset, backend=backend) as objective:
            start = np.full(objective.n_parameters, 0.1)
            options = {"random_state": 3, "max_iter": 4, "tol": 0.0}
            ends.append(sgd(objective, start, Schedule(0.2, 0.5, 5, average), **options))
            assert objective.backend == ("cpu" if len(ends) == 1 else "generic")
    compiled, generic = ends
    np.testing.assert_allclose(compiled.params, generic.params, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(compiled.loss_curve, generic.loss_curve, rtol=1e-10)
    for field in ("n_steps", "n_drawn", "n_averaged", "n_samples"):
        assert getattr(compiled.state, field) == getattr(generic.state, field)


@backends
@pytest.mark.parametrize(("average", "first"), [(True, 1), (1, 1), (3, 2), (5, 3), (12, 6), (13, None)])
def test_the_average_is_that_of_the_iterates(problem, parameters, backend, average, first):
    # batches of two: step s has seen 2 s sequences
    X, y, weight = problem
    state, iterates = SGDState.at(parameters), []
    options = {"backend": backend, "alpha_key": 0.0, "alpha_value": 0.0}
    for stop in range(2, 13, 2):
        with build((X[:stop], y[:stop], weight[:stop]), "softmax", **options) as part:
            iterates.append(sgd_pass(part, state, Schedule(0.2, 0.0, 2)).state.iterate)
    with build(problem, "softmax", **options) as objective:
        result = sgd_pass(objective, state, Schedule(0.2, 0.0, 2, average))
    np.testing.assert_array_equal(result.state.iterate, iterates[-1])
    assert result.state.n_averaged == (0 if first is None else 7 - first)
    expected = iterates[-1] if first is None else np.mean(iterates[first - 1 :], axis=0)
    np.testing.assert_allclose(objective.unpack(result.params).key, expected[:3] * math.sqrt(3), rtol=1e-12)


def test_averaging_can_be_switched_off_and_on(problem, parameters):
    with build(problem, "softmax") as objective:
        averaged = sgd_pass(objective, SGDState.at(parameters), Schedule(average=True)).state
        plain = sgd_pass(objective, averaged, Schedule())
        again = sgd_pass(objective, plain.state, Schedule(average=True)).state
    assert (averaged.n_averaged, plain.state.n_averaged, again.n_averaged) == (12, 0, 12)
    np.testing.assert_array_equal(plain.state.parameters.key, plain.state.iterate[:3] * math.sqrt(3))


@every
def test_full_batches_come_to_rest_at_the_minimum_that_lbfgs_finds(problem, name, fit_offset):
    # weights with a mean other than one: the penalty is shared by number, as the gradient is
    with build(problem, name, fit_offset) as objective:
        best = lbfgs(objective, np.full(objective.n_parameters, 0.1), tol=1e-9)
        schedule = Schedule(0.2, batch_size=12)
        result = sgd(objective, best.params + 0.03, schedule, random_state=0, max_iter=10_000, tol=1e-6)
    assert result.converged
    assert result.message == "converged"
    np.testing.assert_allclose(result.params, best.params, atol=1e-3)
    assert result.objective == pytest.approx(best.objective, rel=1e-9)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_shrinking_averaged_steps_come_near_the_minimum(problem, name):
    with build(problem, name) as objective:
        best = lbfgs(objective, np.full(objective.n_parameters, 0.1), tol=1e-9)
        start = best.params + 0.05
        schedule = Schedule(0.1, 0.5, 3, 6000)
        result = sgd(objective, start, schedule, random_state=0, max_iter=3000, tol=1e-6)
        above = objective.value_and_gradient(start)[0] - best.objective
    assert not result.converged
    assert result.objective - best.objective < 0.05 * above
    assert result.objective == pytest.approx(best.objective, rel=1e-3)


def test_curve_callback_and_message(problem):
    calls = []
    with build(problem, "softmax") as objective:
        start = np.full(objective.n_parameters, 0.1)
        result = sgd(
            objective, start, max_iter=3, tol=0.0, random_state=0, callback=lambda *state: calls.append(state)
        )
        assert result.loss_curve[0] == objective.value_and_gradient(start)[0]
    assert (result.n_iter, result.converged, result.message) == (3, False, "it reached max_iter=3")
    assert len(result.loss_curve) == 4
    assert result.loss_curve[-1] == result.objective
    assert [call[0] for call in calls] == [1, 2, 3]
    assert calls[-1][1:3] == (result.objective, result.stop_crit)
    np.testing.assert_array_equal(calls[-1][3], result.params)
    assert (result.state.n_steps, result.state.n_drawn, result.state.n_samples) == (36, 36, 12)


def test_a_callback_stops_it(problem):
    with build(problem, "softmax") as objective:
        start = np.full(objective.n_parameters, 0.1)
        result = sgd(objective, start, max_iter=5, tol=0.0, callback=lambda n_iter, *_: n_iter == 2)
    assert (result.n_iter, result.converged, result.stopped) == (2, False, True)
    assert result.message == "a callback stopped it"


def test_a_stationary_start_is_the_result(problem):
    with build(problem, "softmax") as objective:
        best = lbfgs(objective, np.full(objective.n_parameters, 0.1), tol=1e-6)
        result = sgd(objective, best.params, tol=1e-5)
    assert (result.n_iter, result.converged, result.message) == (0, True, "the start is stationary")
    np.testing.assert_allclose(result.params, best.params, rtol=1e-12)


def test_the_order_is_drawn_for_every_pass(problem):
    with build(problem, "softmax") as objective:
        start = np.full(objective.n_parameters, 0.1)
        same = [sgd(objective, start, random_state=seed, max_iter=3, tol=0.0).params for seed in (0, 0, 1)]
        unshuffled = SGDState.at(objective.unpack(start))
        for _ in range(3):
            unshuffled = sgd_pass(objective, unshuffled, Schedule()).state
    np.testing.assert_array_equal(same[0], same[1])
    assert not np.allclose(same[0], same[2], rtol=1e-6)
    assert not np.allclose(same[0], objective.pack(unshuffled.parameters), rtol=1e-6)


@backends
@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_divergence_is_an_error(problem, name, backend):
    X, y, weight = problem
    with build((RaggedArray(1e3 * X.values, X.offsets), y, weight), name, backend=backend) as objective:
        start = np.full(objective.n_parameters, 0.1)
        with pytest.raises(
            ValueError, match=r"diverged within \d+ steps.*Lower learning_rate=50, or scale X"
        ):
            sgd(objective, start, Schedule(50.0), max_iter=500, tol=0.0)
        with pytest.raises(ValueError, match=r"diverged within 12 steps"):
            sgd_pass(objective, SGDState.at(objective.unpack(start)), Schedule(1e20))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sequence_longer_than_a_cache_block(rng, dtype):
    values = rng.standard_normal((9000, 5)).astype(dtype)
    X = RaggedArray.from_flat(values, lengths=[1, 8990, 9])
    problem = X, rng.standard_normal(3), np.ones(3)
    wide = RaggedArray(values.astype(np.float64), X.offsets), *problem[1:]
    with build(problem, "softmax") as objective, build(wide, "softmax", backend="generic") as oracle:
        state = SGDState.at(AttentionParameters(*rng.standard_normal((2, 5)), 0.0, 0.0))
        actual, expected = (sgd_pass(o, state, Schedule(0.1)).state.iterate for o in (objective, oracle))
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def test_blas_is_held_to_one_thread_and_none_is_left_behind(problem):
    def blas_threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before, threads, during = blas_threads(), threading.active_count(), set()
    with build(problem, "softmax") as objective:
        start = np.full(objective.n_parameters, 0.1)
        sgd(objective, start, max_iter=2, tol=0.0, callback=lambda *_: during.update(blas_threads()))
    assert during == {1}
    assert blas_threads() == before
    assert threading.active_count() == threads


@backends
@pytest.mark.parametrize(("fit_offset", "expected"), [(False, 0.2), (True, 0.7)])
def test_an_offset_that_is_not_fitted_is_that_of_the_activation(
    problem, parameters, backend, fit_offset, expected
):
    state = SGDState.at(parameters._replace(offset=0.7))
    with build(problem, "erf", fit_offset, backend=backend) as objective:
        result = sgd_pass(objective, state, Schedule(1e-12))
    assert result.state.iterate[-1] == pytest.approx(expected, rel=1e-6)


def test_a_gradient_at_the_tolerance_is_converged(problem):
    with build(problem, "softmax") as objective:
        start = np.full(objective.n_parameters, 0.1)
        norm = objective.stop_criterion(start)
        result = sgd(objective, start, tol=norm)
    assert (result.n_iter, result.converged, result.message) == (0, True, "the start is stationary")
    with build(problem, "softmax") as objective:
        best = lbfgs(objective, start, tol=1e-4).params
        result = sgd(
            objective, best, Schedule(1e-3, batch_size=12), tol=0.999 * objective.stop_criterion(best)
        )
    assert result.n_iter > 0
    assert (result.converged, result.message) == (True, "converged")

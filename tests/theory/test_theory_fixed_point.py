"""The fixed-point iteration on maps whose fixed points are known."""

import numpy as np
import pytest

from sklearn_attn.theory._fixed_point import fixed_point


def contraction(norm=0.9, d=5, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    A *= norm / np.linalg.norm(A, 2)
    b = rng.standard_normal(d)
    return A, b, np.linalg.solve(np.eye(d) - A, b)


@pytest.mark.parametrize("damping", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("norm", [0.3, 0.99])
def test_linear_contraction(norm, damping):
    A, b, exact = contraction(norm)
    result = fixed_point(lambda x: A @ x + b, np.zeros(5), tol=1e-10, max_iter=500, damping=damping)
    assert result.converged
    assert result.residual <= 1e-10
    # |x - exact| <= |(I - A)^{-1}| residual
    bound = np.linalg.norm(np.linalg.inv(np.eye(5) - A), np.inf) * 1e-10
    np.testing.assert_allclose(result.x, exact, atol=bound + 1e-13)


def test_acceleration_pays():
    A, b, _ = contraction(0.9)
    F = lambda x: A @ x + b  # noqa: E731
    n_iter = fixed_point(F, np.zeros(5), tol=1e-10, max_iter=1000).n_iter
    x, plain = np.zeros(5), 0
    while np.abs(F(x) - x).max() > 1e-10:
        x, plain = 0.4 * x + 0.6 * F(x), plain + 1
    assert n_iter < 0.7 * plain


def test_counts_evaluations_and_measures_the_residual_before_damping():
    calls = []

    def F(x):
        calls.append(x.copy())
        return 0.5 * x + 1.0

    result = fixed_point(F, np.array([10.0]), tol=1e-12, max_iter=3, damping=0.9)
    assert len(calls) == result.n_iter == 3
    assert not result.converged
    # of the map at the point returned: 0.5 x + 1 - x, ten times what the damped step would show
    assert result.residual == pytest.approx(abs(1.0 - 0.5 * result.x[0]), rel=1e-12)
    np.testing.assert_array_equal(result.x, calls[-1])
    assert result.x[0] == pytest.approx(2.0 + 8.0 * 0.95**2)


def test_a_damped_step_must_not_pass_for_convergence():
    # with damping 0.999 a step is 1e-3 of the residual
    result = fixed_point(lambda x: x + 0.05, np.array([0.0]), tol=1e-3, max_iter=20, damping=0.999)
    assert not result.converged
    assert result.residual == pytest.approx(0.05)


@pytest.mark.parametrize(
    "F",
    [
        lambda x: 2.0 * x + 1e3,
        lambda x: np.full_like(x, np.nan),
        lambda x: x + 1.0,
        lambda x: np.exp(x) + 1.0,
    ],
)
def test_no_fixed_point(F):
    with np.errstate(over="ignore", invalid="ignore"):
        result = fixed_point(F, np.array([1.0, 2.0]), tol=1e-8, max_iter=100)
    assert not result.converged
    assert not result.residual <= 1e-8
    assert result.n_iter <= 100


def test_a_map_is_not_evaluated_where_it_must_not_be():
    def F(x):
        assert x[0] > 0.0
        return np.sqrt(x) * 0.5

    result = fixed_point(F, np.array([4.0]), tol=1e-12, max_iter=500, admissible=lambda x: x[0] > 0.0)
    assert result.converged
    assert result.x[0] == pytest.approx(0.25, abs=1e-10)


def test_starts_at_the_fixed_point():
    start = np.array([2.0])
    result = fixed_point(lambda x: 0.5 * x + 1.0, start, tol=1e-12, max_iter=10)
    assert (result.converged, result.n_iter, result.residual) == (True, 1, 0.0)
    assert result.x is not start

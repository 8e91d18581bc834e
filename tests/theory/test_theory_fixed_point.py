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


class Image:
    """What F returns: from it the point may be subtracted, which leaves the residual without rounding."""

    def __init__(self, residual):
        self.residual = residual

    def __sub__(self, x):
        return self.residual


def slow_points(residuals, x, *, damping, below, admissible):
    """The iterates from the definition, by residuals that are given; and how often a combination was left or begun anew."""
    points, kept, best, counts = [], [], np.inf, {"grew": 0, "far": 0, "left": 0, "combined": 0}
    for r in residuals:
        points.append(x)
        size = max(abs(number) for number in r)
        if size > 2.0 * best:
            kept, counts["grew"] = [], counts["grew"] + bool(kept and size < below)
        best = min(best, size)
        if size < below:
            kept = [*kept, (x, r)][-5:]
        else:
            kept, counts["far"] = [], counts["far"] + bool(kept)
        plain = x + (1.0 - damping) * r
        x = plain
        if len(kept) > 1:
            # shares that add up to one, of which the combined residual is least
            R = np.array([residual for _, residual in kept])
            system = np.block(
                [[R @ R.T, np.ones((len(kept), 1))], [np.ones((1, len(kept))), np.zeros((1, 1))]]
            )
            shares = np.linalg.solve(system, np.eye(len(kept) + 1)[-1])[:-1]
            x = sum(
                s * (old + (1.0 - damping) * residual)
                for s, (old, residual) in zip(shares, kept, strict=True)
            )
            counts["combined"] += 1
            if not admissible(x):
                x, kept, counts["left"] = plain, [], counts["left"] + 1
    return np.array(points), counts


@pytest.mark.parametrize("bound", [np.inf, 1.5])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_iterates_are_the_combinations_of_least_residual(damping, bound):
    rng = np.random.default_rng(2)
    # in units of a quarter: near, far where they are 4 or more, and grown where they are more than twice the least so far
    sizes = [4, 3, 3, 2, 2, 3, 3, 2, 3, 4, 2, 2, 1, 2, 2, 1, 2, 3, 2, 2, 2, 1, 5, 2, 2, 2, 1, 1, 1, 1, 1, 1]
    residuals = rng.uniform(-1.0, 1.0, (len(sizes), 7))
    residuals *= 0.25 * np.array(sizes)[:, None] / np.abs(residuals).max(axis=1, keepdims=True)
    # the largest are of either sign, and the sizes are met exactly
    residuals[np.arange(len(sizes)), np.abs(residuals).argmax(axis=1)] = 0.25 * np.array(sizes) * rng.choice(
        [-1.0, 1.0], len(sizes)
    )  # fmt: skip
    calls = []

    def F(x):
        calls.append(x.copy())
        return Image(residuals[len(calls) - 1])

    def admissible(x):
        return np.abs(x).max() < bound

    start = rng.uniform(-0.1, 0.1, 7)
    expected, counts = slow_points(residuals, start, damping=damping, below=1.0, admissible=admissible)
    assert counts["combined"] > 10
    assert counts["grew"] > 0
    assert counts["far"] > 0
    assert (counts["left"] > 0) == (bound < np.inf)
    result = fixed_point(
        F, start, tol=0.125, max_iter=len(sizes), damping=damping, accelerate_below=1.0, admissible=admissible
    )
    np.testing.assert_allclose(calls, expected, rtol=0.0, atol=1e-9)
    assert (result.residual, result.n_iter, result.converged) == (0.25, len(sizes), False)


def test_a_combination_that_overflows_is_left_for_a_plain_step():
    residuals = [np.array([1e308, 1.0]), np.array([9e307, 1.0]), np.zeros(2)]
    calls = []

    def F(x):
        calls.append(x.copy())
        return x + residuals[len(calls) - 1]

    with np.errstate(over="ignore"):
        fixed_point(F, [-1e308, 0.0], tol=1e-8, max_iter=3, damping=0.0, accelerate_below=np.inf)
    np.testing.assert_array_equal(calls, [[-1e308, 0.0], [0.0, 1.0], [9e307, 2.0]])


def test_a_residual_of_the_tolerance_is_enough():
    result = fixed_point(lambda x: x + np.array([0.25, -0.5]), [0.0, 0.0], tol=0.5, max_iter=5)
    assert (result.converged, result.n_iter, result.residual) == (True, 1, 0.5)

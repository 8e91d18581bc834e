"""Our own L-BFGS against SciPy's, and several of them in lockstep."""

import array_api_strict
import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from sklearn_attn._backend import to_numpy
from sklearn_attn.solvers import CurvaturePairs, Renewal, lbfgs_steps, run_in_lockstep
from sklearn_attn.solvers._array_pairs import curvature_pairs

SCALES, CENTRE = np.logspace(0, 3, 12), np.arange(12.0)


def quadratic(x):
    return 0.5 * float(SCALES @ (x - CENTRE) ** 2) + 3.0, SCALES * (x - CENTRE)


def rosenbrock(x):
    return float(rosen(x)), rosen_der(x)


def quartic(x):
    return float(np.sum(x**4) + np.sum(x)), 4.0 * x**3 + 1.0


def walled(x):
    """A function that is infinite outside the unit ball."""
    room = 1.0 - float(x @ x)
    if room <= 0.0:
        return np.inf, np.full_like(x, np.nan)
    slope = np.zeros_like(x)
    slope[0] = -3.0
    return -3.0 * x[0] - np.log(room), slope + 2.0 * x / room


def solve(function, start, **options):
    points = []

    def evaluate(indices, thetas):
        assert indices == [0]
        points.extend(thetas)
        return [function(theta) for theta in thetas]

    return run_in_lockstep([lbfgs_steps(start, **options)], evaluate)[0], points


STARTS = {
    quadratic: np.zeros(12),
    rosenbrock: np.full(6, -1.0),
    quartic: np.linspace(1.0, 3.0, 5),
    walled: np.full(4, 0.3),
}


@pytest.mark.parametrize("function", STARTS, ids=lambda f: f.__name__)
def test_finds_the_minimum_in_about_as_many_evaluations_as_scipy(function):
    start = STARTS[function]
    result, points = solve(function, start, tol=1e-6)
    assert result.converged
    assert result.stop_crit == pytest.approx(np.linalg.norm(function(result.params)[1]), rel=1e-14)
    assert result.stop_crit <= 1e-6
    assert len(result.loss_curve) == result.n_iter + 1
    assert result.loss_curve[-1] == result.objective == function(result.params)[0]
    if function is not walled:
        scipy = minimize(
            function, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "ftol": 0.0, "maxcor": 20}
        )
        np.testing.assert_allclose(result.params, scipy.x, atol=1e-4)
        assert len(points) <= 1.5 * scipy.nfev + 5


@pytest.mark.parametrize("function", STARTS, ids=lambda f: f.__name__)
def test_the_objective_falls_but_for_rounding(function):
    curve = np.array(solve(function, STARTS[function], tol=1e-7)[0].loss_curve)
    assert (np.diff(curve) <= 1e-13 * np.abs(curve[:-1])).all()


@pytest.mark.parametrize("max_iter", [1, 3])
def test_says_that_it_did_not_converge(max_iter):
    result, _ = solve(quadratic, np.zeros(12), max_iter=max_iter)
    assert (result.n_iter, result.converged) == (max_iter, False)
    assert f"max_iter={max_iter}" in result.message


def test_a_tolerance_beyond_rounding_ends_in_the_line_search():
    result, points = solve(quadratic, np.full(12, 0.1), tol=0.0)
    assert result.stop_crit < 1e-5
    if not result.converged:
        assert "line search" in result.message
    assert len(points) < 500


def test_a_known_evaluation_costs_no_point():
    start = np.zeros(12)
    cold, all_points = solve(quadratic, start)
    warm, points = solve(quadratic, start, evaluation=quadratic(start))
    assert len(points) == len(all_points) - 1
    np.testing.assert_array_equal(warm.params, cold.params)
    still, points = solve(quadratic, CENTRE, evaluation=quadratic(CENTRE))
    assert (still.n_iter, still.converged, points) == (0, True, [])


def test_known_curvature_saves_iterations():
    first, _ = solve(quadratic, np.zeros(12))
    again, _ = solve(quadratic, CENTRE + 1.0, pairs=first.state)
    cold, _ = solve(quadratic, CENTRE + 1.0)
    assert again.n_iter < cold.n_iter / 2
    exact, _ = solve(quadratic, np.zeros(12), inverse=lambda vector: vector / SCALES)
    assert exact.n_iter <= 2


def test_renewed_curvature_saves_iterations():
    rng = np.random.default_rng(0)
    scales = np.logspace(0, 6, 60)
    start, asked = rng.standard_normal(60), []

    def stretched(x):
        return 0.5 * float(scales @ x**2), scales * x

    def inverse_at(point):
        asked.append(point)
        return lambda vector: vector / scales

    plain, _ = solve(stretched, start)
    renewed, points = solve(stretched, start, renewal=Renewal(10, inverse_at))
    assert plain.n_iter > 40
    assert (renewed.converged, renewed.n_iter) == (True, 11)  # the step of the exact metric is Newton's
    assert len(asked) == 1
    assert any(np.array_equal(asked[0], point) for point in points)


def test_renewals_become_rarer_and_may_fail():
    asked = []
    plain, all_points = solve(quadratic, np.zeros(12))
    result, points = solve(quadratic, np.zeros(12), renewal=Renewal(4, asked.append))
    np.testing.assert_array_equal(result.params, plain.params)  # None keeps what there is
    assert len(points) == len(all_points)
    patience, at, expected = 4.0, 5.0, 0
    while at <= plain.n_iter:
        patience, at, expected = 1.5 * patience, at + 1.5 * patience, expected + 1
    assert 1 < len(asked) == expected


def elsewhere(x):
    return array_api_strict.asarray(x, device=array_api_strict.Device("device1"))


CONTAINERS = {
    "host": (lambda D, *args: CurvaturePairs(D, *args), np.asarray),
    "elsewhere": (lambda D, *args: curvature_pairs(elsewhere(np.zeros(D)), *args), elsewhere),
}


@pytest.fixture(params=CONTAINERS)
def container(request):
    return CONTAINERS[request.param]


def test_the_direction_is_that_of_the_bfgs_matrix(container):
    make, move = container
    rng = np.random.default_rng(0)
    hessian = np.diag(np.arange(1.0, 6.0))
    steps = rng.standard_normal((4, 5))
    kept = make(5, [(move(step), move(hessian @ step)) for step in steps], 3)
    pairs = [(step, hessian @ step) for step in steps[1:]]
    _, change = pairs[-1]
    H = np.eye(5) * (steps[-1] @ change) / (change @ change)
    for step, change in pairs:
        rho = 1.0 / (step @ change)
        V = np.eye(5) - rho * np.outer(change, step)
        H = V.T @ H @ V + rho * np.outer(step, step)
    gradient = rng.standard_normal(5)
    np.testing.assert_allclose(to_numpy(kept.direction(move(gradient))), -H @ gradient, rtol=1e-10)


def test_pairs_are_kept_and_dropped(container):
    make, move = container
    pairs = make(2, (), 3)
    gradient = np.array([1.0, 2.0])
    np.testing.assert_array_equal(to_numpy(pairs.direction(move(gradient))), -gradient)
    pairs.add(move(np.array([1.0, 0.0])), move(np.array([-1.0, 0.0])))  # negative curvature
    assert len(pairs) == 0
    for i in range(1, 6):
        pairs.add(move(np.array([float(i), 0.0])), move(np.array([1.0, 0.0])))
    np.testing.assert_array_equal([to_numpy(step)[0] for step, _ in pairs], [3.0, 4.0, 5.0])


@pytest.mark.parametrize("function", STARTS, ids=lambda function: function.__name__)
def test_vectors_may_be_elsewhere(function):
    """The same iterations with all vectors on another device, from which only products of vectors come back."""

    def there(theta):
        value, gradient = function(to_numpy(theta))
        return float(value), elsewhere(gradient)

    here, points = solve(function, STARTS[function], tol=1e-6)
    result, points_there = solve(there, elsewhere(STARTS[function]), tol=1e-6)
    assert result.converged == here.converged
    assert len(points_there) == len(points)
    np.testing.assert_allclose(to_numpy(result.params), here.params, rtol=1e-4, atol=1e-6)
    assert result.objective == pytest.approx(here.objective, rel=1e-8, abs=1e-12)
    assert len(result.state) == len(here.state)


def test_another_metric_is_refused_elsewhere():
    with pytest.raises(NotImplementedError, match="Off the host"):
        curvature_pairs(elsewhere(np.zeros(2))).direction(elsewhere(np.ones(2)), lambda vector: vector)


def test_pairs_without_positive_curvature_but_for_rounding_are_left_out():
    for step, change, is_kept in (
        (0.0, 0.0, False),
        (1e-10, 1e8, False),  # 0.01 of a change of 1e16
        (1e-9, 1e-8, True),
        (1e-25, 1e-8, False),
        (1e-23, 1e-8, True),
    ):
        pairs = CurvaturePairs(2, [(np.array([step, 0.0]), np.array([change, 0.0]))])
        assert len(pairs) == is_kept, (step, change)


@pytest.mark.parametrize(("n_parameters", "size"), [(10, 200), (10**5, 41), (2**20, 20)])
def test_pairs_fill_64_megabytes_at_most_but_there_are_twenty(n_parameters, size):
    assert CurvaturePairs(n_parameters)._scales.size == size


def test_the_first_step_is_of_length_one_at_most():
    flat, steep = np.full(12, 1e-4) + CENTRE, np.zeros(12)
    for start in (flat, steep):
        gradient = quadratic(start)[1]
        norm = np.linalg.norm(gradient)
        first = solve(quadratic, start, max_iter=1)[1][1]
        np.testing.assert_allclose(first - start, -gradient * min(1.0, 1.0 / norm), rtol=1e-9)
    assert np.linalg.norm(quadratic(flat)[1]) < 0.5


def test_known_curvature_gives_the_whole_first_step():
    start = np.zeros(12)
    gradient = quadratic(start)[1]
    points = solve(quadratic, start, inverse=lambda vector: 0.3 * vector / SCALES, max_iter=1)[1]
    np.testing.assert_allclose(points[1], start - 0.3 * gradient / SCALES, rtol=1e-12)
    pairs = CurvaturePairs(12, [(np.ones(12), SCALES)])
    points = solve(quadratic, start, pairs=pairs, max_iter=1)[1]
    np.testing.assert_allclose(points[1], start + pairs.direction(gradient), rtol=1e-12)


@pytest.mark.parametrize(
    "inverse",
    [lambda vector: -vector, lambda vector: np.roll(vector, 1) * np.tile([1.0, -1.0], 6)],
    ids=["upwards", "across"],
)
def test_a_metric_that_does_not_point_down_is_dropped_at_once(inverse):
    def sphere(x):
        return 0.5 * float(x @ x), x

    start = np.ones(12)
    assert -inverse(-start) @ start <= 0.0  # exactly
    plain, expected = solve(sphere, start, tol=1e-9)
    result, points = solve(sphere, start, tol=1e-9, inverse=inverse)
    assert len(points) == len(expected)
    np.testing.assert_array_equal(result.params, plain.params)


def test_renewals_come_after_so_many_iterations():
    n_iter, asked = [0], []
    solve(
        quadratic,
        np.zeros(12),
        renewal=Renewal(4, lambda point: asked.append(n_iter[-1])),
        callback=lambda n, *_: n_iter.append(n),
    )
    assert asked[:2] == [4, 10]  # and half as many more


def test_messages_of_success():
    assert solve(quadratic, np.zeros(12))[0].message == "converged"
    assert solve(quadratic, CENTRE)[0].message == "the start is stationary"
    result, _ = solve(lambda x: (0.5 * float(x @ x), x), np.array([0.25]), tol=0.25)  # at the tolerance
    assert (result.converged, result.n_iter, result.message) == (True, 0, "the start is stationary")


def test_lockstep_gives_what_each_gives_alone_and_drops_the_finished():
    functions = list(STARTS)
    alone = [solve(function, STARTS[function], tol=1e-6) for function in functions]
    batches = []

    def evaluate(indices, thetas):
        batches.append(list(indices))
        return [functions[i](theta) for i, theta in zip(indices, thetas, strict=True)]

    together = run_in_lockstep([lbfgs_steps(STARTS[f], tol=1e-6) for f in functions], evaluate)
    for (result, _), other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(result.params, other.params)
    assert len(batches) == max(len(points) for _, points in alone)
    assert batches[0] == [0, 1, 2, 3]
    assert len(batches[-1]) == 1


def test_a_start_that_is_not_finite_ends():
    result, points = solve(lambda x: (np.nan, np.full_like(x, np.nan)), np.zeros(3))
    assert not result.converged
    assert len(points) <= 1


def test_a_search_that_fails_is_repeated_along_the_gradient():
    points, failed, over = [], [], []

    def interrupted(x):
        """Fails from the 20th point on, until a search begins anew: far from the point before."""
        points.append(x)
        if len(failed) > 2:
            steps = np.linalg.norm(np.diff([*failed[-2:], x], axis=0), axis=1)
            if steps[1] > 10.0 * steps[0]:
                over.append(True)
        if len(points) < 20 or over:
            return quadratic(x)
        failed.append(x)
        return np.inf, np.full_like(x, np.nan)

    result, _ = solve(interrupted, np.zeros(12))
    assert over
    assert result.converged
    np.testing.assert_allclose(result.params, CENTRE, atol=1e-4)


def test_a_start_with_nothing_around_it_ends():
    start = np.ones(3)
    result, points = solve(lambda x: (1.0, x) if np.array_equal(x, start) else (np.nan, np.nan * x), start)
    assert not result.converged
    assert "line search" in result.message
    assert len(points) <= 31
    np.testing.assert_array_equal(result.params, start)

"""The line search of L-BFGS: its trial points on functions of one variable, and the cubic between two of them."""

import math

import numpy as np
import pytest

from sklearn_attn.solvers._lbfgs import _interpolate, _line_search


def search(function, step, direction=1.0):
    """Trial steps, and the step that is taken, None where none is."""
    start = np.array([0.0])
    value, slope = function(0.0)
    steps = _line_search(start, value, np.array([slope]), np.array([direction]), step)
    points, answer = [], None
    while True:
        try:
            points.append(float(steps.send(answer)[0]))
        except StopIteration as stop:
            if stop.value is not None:
                point, value, gradient = stop.value
                assert (value, gradient[0]) == function(float(point[0]))
            return points, None if stop.value is None else float(stop.value[0][0])
        value, slope = function(points[-1])
        answer = value, np.array([slope])


def parabola(minimum, height=0.0):
    return lambda t: (0.5 * (t - minimum) ** 2 + height, t - minimum)


def wall(t):
    return ((t - 0.04) ** 2, 2.0 * (t - 0.04)) if t < 0.5 else (math.inf, math.nan)


def tilted(t):
    """Its slope is -1 up to 2, and +1 beyond 2.1."""
    if t < 2.0:
        return -t, -1.0
    x = t - 2.0
    return (-2.0 - x + 10.0 * x**2, -1.0 + 20.0 * x) if x < 0.1 else (-2.1 + x, 1.0)


@pytest.mark.parametrize(
    ("function", "step", "expected"),
    [
        (parabola(10.0), 1.0, [1.0]),  # the slope falls to nine tenths, which suffices
        (parabola(100.0), 1.0, [1.0, 4.0, 16.0]),
        (parabola(0.02), 1.0, [1.0, 0.1, 0.02]),  # shrinks to a tenth at most
        (parabola(0.02, 1e6), 1.0, [1.0, 0.1, 0.02]),
        (parabola(1.0), 1.95, [1.95, 1.0]),  # lower, but beyond the minimum and as steep
        (parabola(1.0), 2.5, [2.5, 1.0]),
        (parabola(3.0), 5.9, [5.9, 3.0]),
        (wall, 1.0, [1.0, 0.1, 0.04]),
        (parabola(0.3), 0.3, [0.3]),
    ],
)
def test_trial_points(function, step, expected):
    points, taken = search(function, step)
    np.testing.assert_allclose(points, expected, rtol=1e-6)
    assert taken == points[-1]


def test_what_is_taken_fulfils_the_strong_wolfe_conditions():
    def wavy(t):
        return math.cos(3.0 * t) - 0.5 * t + 0.02 * t**4, -3.0 * math.sin(3.0 * t) - 0.5 + 0.08 * t**3

    counts = []
    for function in (wavy, tilted, parabola(7.0), parabola(0.001)):
        for step in np.geomspace(1e-3, 1e3, 25):
            points, taken = search(function, step)
            value, slope = function(0.0)
            assert function(taken)[0] <= value + 1e-4 * taken * slope + 1e-12
            assert abs(function(taken)[1]) <= 0.9 * abs(slope)
            counts.append(len(points))
    assert max(counts) <= 12
    assert np.mean(counts) < 4.9


def test_after_a_point_beyond_the_minimum_trials_stay_between():
    points, _ = search(lambda t: (abs(t - 1.0), math.copysign(1.0, t - 1.0)), 3.0)  # has no point to take
    assert len(points) == 30 or points[-1] == points[-2] or abs(points[-1] - 1.0) < 1e-6
    assert all(0.0 < point < 3.0 for point in points[1:])
    assert min(abs(point - 1.0) for point in points) < 0.02


def test_nothing_is_taken_where_nothing_is_lower():
    points, taken = search(lambda t: (t, -1.0), 1.0)  # the slope lies
    assert taken is None
    assert len(points) <= 30
    points, taken = search(lambda t: (math.nan if t else 0.0, -1.0), 1.0)
    assert taken is None
    points, taken = search(parabola(1.0), 0.0)
    assert (points, taken) == ([], None)


@pytest.mark.parametrize("height", [1e6, -1e6])
def test_values_that_differ_by_rounding_are_told_by_their_slopes(height):
    # the last digit is 1e-10: 1e-9 more says nothing, but the slopes say that 1 is the minimum
    def rounded(t):
        return height + 1e-9 * (t > 0.0), 1e-9 * (t - 1.0)

    for function in (rounded, lambda t: (rounded(t)[0] + 1e-9 * (0.0 < t < 1.5), rounded(t)[1])):
        points, taken = search(function, 1.95)
        assert len(points) == 2
        assert abs(rounded(taken)[1]) < 0.9e-9


@pytest.mark.parametrize("height", [0.0, 1e6, -1e6])
def test_a_higher_point_is_not_taken_though_it_is_level(height):
    points, taken = search(lambda t: (height - 3 * t**3 + 5 * t**2 - t, -9 * t**2 + 10 * t - 1), 1.0)
    assert points[0] == 1.0
    assert taken < 0.25


def test_a_point_that_is_hardly_lower_is_not_taken():
    # at 1 the function is level and has fallen by half of what the first condition asks for
    points, taken = search(
        lambda t: (-0.9999 * t**3 + 1.99985 * t**2 - t, -2.9997 * t**2 + 3.9997 * t - 1), 1.0
    )
    assert points[0] == 1.0
    assert taken < 0.5


def test_a_slope_that_is_not_a_number_is_beyond_the_end():
    points, taken = search(lambda t: (0.5 * (t - 0.04) ** 2, t - 0.04 if t < 0.5 else math.nan), 0.6)
    np.testing.assert_allclose(points, [0.6, 0.06], rtol=1e-9)
    assert taken == points[-1]
    points, taken = search(lambda t: (-t if t < 0.5 else -math.inf, -1.0 + 9.0 * (t > 0.03)), 0.6)
    assert taken is None or taken < 0.5


def cubic(t):
    return t**3 - 3.0 * t + 2.0, 3.0 * t**2 - 3.0  # minimum at 1


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (0.0, 3.0, 1.0),
        (3.0, 0.0, 1.0),
        (0.5, 1.3, 1.0),
        (1.3, 0.5, 1.0),
        (0.0, 1.05, 0.9 * 1.05),  # at least a tenth from the ends
        (0.95, 3.0, 0.95 + 0.1 * 2.05),
        (1.05, 0.0, 0.1 * -1.05 + 1.05),
    ],
)
def test_the_cubic_between_two_points(a, b, expected):
    assert _interpolate((a, *cubic(a)), (b, *cubic(b))) == pytest.approx(expected, rel=1e-12)


def test_the_parabola_between_two_points():
    assert _interpolate((0.0, *parabola(0.7)(0.0)), (2.0, *parabola(0.7)(2.0))) == pytest.approx(0.7)
    assert _interpolate((2.0, *parabola(0.7)(2.0)), (0.0, *parabola(0.7)(0.0))) == pytest.approx(0.7)


def test_where_there_is_no_cubic():
    assert _interpolate((1.0, 0.0, -1.0), (3.0, math.inf, math.nan)) == pytest.approx(1.2)
    assert _interpolate((3.0, 0.0, 1.0), (1.0, math.nan, math.nan)) == pytest.approx(2.8)
    # d1^2 < f'(a) f'(b): monotone, with no minimum
    assert _interpolate((0.0, 0.0, -1.0), (2.0, -2.0, -1.0)) == pytest.approx(1.0)
    assert _interpolate((0.0, 0.0, -1.0), (2.0, -1.9, -1.0)) == pytest.approx(1.0)
    assert _interpolate((0.0, 0.0, -1.0), (2.0, -1.0, math.nan)) == pytest.approx(1.0)
    assert _interpolate((0.0, 0.0, -1.0), (2.0, 1.0, 1e200)) == pytest.approx(1.0)  # overflows

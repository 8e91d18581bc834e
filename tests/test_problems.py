"""The problem record, and the weights that define its tasks."""

import pickle

import numpy as np
import pytest

from sklearn_attn.problems import TASKS, SLRProblem


@pytest.mark.parametrize(
    ("length", "kept", "lengths", "probabilities"),
    [
        (4, 4, [4], [1.0]),
        ([3, 1], (1, 3), [1, 3], [0.5, 0.5]),
        (np.array([2, 5]), (2, 5), [2, 5], [0.5, 0.5]),
        (range(1, 4), (1, 2, 3), [1, 2, 3], [1 / 3] * 3),
        ({6: 0.75, 2: 0.25}, ((2, 0.25), (6, 0.75)), [2, 6], [0.25, 0.75]),
        ({6: 1.0, 2: 0.0}, ((6, 1.0),), [6], [1.0]),
    ],
)
def test_laws_of_the_length(length, kept, lengths, probabilities):
    problem = SLRProblem(length=length)
    assert problem.length == kept
    assert problem.lengths.tolist() == lengths
    np.testing.assert_allclose(problem.length_probabilities, probabilities)
    assert problem.mean_length == pytest.approx(np.dot(lengths, probabilities))
    assert SLRProblem(length=kept) == problem
    assert eval(repr(problem), {"SLRProblem": SLRProblem}) == problem


def test_is_a_value():
    problem = SLRProblem("max", signal=np.float64(2), length=[1, 2], noise=1)
    assert problem == SLRProblem("max", signal=2.0, length=(2, 1), noise=1.0)
    assert len({problem, pickle.loads(pickle.dumps(problem))}) == 1
    with pytest.raises(AttributeError):
        problem.signal = 3.0


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"task": "min"}, ValueError, r"task must be one of \['max', 'spiked'\]"),
        ({"signal": -1}, ValueError, "signal must be at least 0"),
        ({"signal": float("nan")}, ValueError, "signal must be at least 0, got nan"),
        ({"signal": "2"}, TypeError, "signal must be a number"),
        ({"signal": True}, TypeError, "signal must be a number"),
        ({"signal": float("inf")}, ValueError, "needs task='max'"),
        ({"noise": -0.1}, ValueError, "noise must be at least 0"),
        ({"noise": float("inf")}, ValueError, "noise must be finite"),
        ({"length": 0}, ValueError, "length must be at least 1"),
        ({"length": 2.5}, TypeError, "length must be an int, a sequence"),
        ({"length": [2, 2.5]}, TypeError, "made of ints"),
        ({"length": "3"}, TypeError, "length must be an int"),
        ({"length": []}, ValueError, "at least one length"),
        ({"length": [2, 2]}, ValueError, "distinct lengths"),
        ({"length": {2: 0.4, 3: 0.4}}, ValueError, "sum to 1, got 0.8"),
        ({"length": {2: -0.5, 3: 1.5}}, ValueError, "between 0 and 1"),
        ({"length": True}, TypeError, "length"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        SLRProblem(**parameters)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("signal", [0.0, 0.7, 2.0])
def test_the_weight_is_a_density(task, signal):
    # over chi ~ N(0, I), and eps uniform, g integrates to one
    chi = np.random.default_rng(0).standard_normal((200_000, 3))
    weight = np.exp(SLRProblem(task, signal=signal).log_weight(chi))
    assert weight.mean() == pytest.approx(1.0, abs=0.03)


def test_max_at_infinite_signal_weighs_the_argmax_alone():
    weight = np.exp(SLRProblem("max", signal=float("inf")).log_weight(np.array([[0.1, 2.0, -1.0]])))
    np.testing.assert_allclose(weight, [[0.0, 3.0, 0.0]])
    large = np.exp(SLRProblem("max", signal=1e4).log_weight(np.array([[0.1, 2.0, -1.0]])))
    np.testing.assert_allclose(large, weight, atol=1e-12)

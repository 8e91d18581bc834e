"""What the functions of the theory refuse, and how: an error that says what is allowed."""

import math

import numpy as np
import pytest

from sklearn_attn import theory
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import (
    Overlaps,
    bayes_optimal,
    bayes_risk,
    hard_phase,
    population_risk,
    replica_erm,
    risk_at,
    sgd,
    sgd_dynamics,
)

INF, NAN = math.inf, math.nan
GOOD = SLRProblem("spiked", 2.0, 3)
SILENT = SLRProblem("spiked", 0.0, 3)
OVERLAPS = Overlaps(0.1, 0.1, 0.5, 0.5)

CALLS = {
    "bayes_risk": lambda problem: bayes_risk(problem),
    "population_risk": lambda problem: population_risk(problem, "softmax"),
    "risk_at": lambda problem: risk_at(problem, "softmax", OVERLAPS),
    "replica_erm": lambda problem: replica_erm(problem, "softmax", 4.0),
    "bayes_optimal": lambda problem: bayes_optimal(problem, 4.0),
    "hard_phase": lambda problem: hard_phase(problem),
    "sgd_dynamics": lambda problem: sgd_dynamics(problem, "softmax", 0.1, [1.0]),
}


def test_every_public_function_is_here():
    functions = {name for name in theory.__all__ if name.islower()}
    assert functions == set(CALLS) | {"order_parameters"}


@pytest.mark.parametrize("name", ["replica_erm", "bayes_optimal", "hard_phase", "sgd_dynamics"])
def test_no_signal_is_refused(name):
    with pytest.raises(ValueError, match="signal must be positive"):
        CALLS[name](SILENT)


@pytest.mark.parametrize("L", [2, 3])
def test_no_signal_has_a_population_risk(L):
    # 1 - 1 / L: mean pooling; the limit of small signals, so these functions may take it
    problem = SLRProblem("max", 0.0, L, 0.3)
    assert bayes_risk(problem) == pytest.approx(1.09 - 1.0 / L, abs=1e-5)
    assert population_risk(problem, "softmax").risk == pytest.approx(1.09 - 1.0 / L, abs=1e-4)
    assert risk_at(problem, "softmax", Overlaps(0.0, 1.0, 0.0, 1.0)) == pytest.approx(
        1.09 - 1.0 / L, abs=1e-5
    )


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_problem(name):
    for problem in ("spiked", None, 3.0, SLRDataset("spiked", 5, random_state=0)):
        with pytest.raises(TypeError, match="problem must be an SLRProblem"):
            CALLS[name](problem)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"signal": INF}, "needs task='max'"),
        ({"signal": -1.0}, "signal must be at least 0"),
        ({"length": {2: 0.5, 3: 0.4}}, "sum to 1"),
        ({"length": 0}, "length must be at least 1"),
        ({"noise": -1.0}, "noise must be at least 0"),
        ({"noise": INF}, "noise must be finite"),
    ],
)
def test_what_is_no_law_of_the_data(parameters, message):
    # the record refuses it, so that no function sees it
    with pytest.raises(ValueError, match=message):
        SLRProblem("spiked", **parameters)


@pytest.mark.parametrize("activation", ["relu", "Softmax", None, 3])
@pytest.mark.parametrize(
    "call",
    [
        lambda a: population_risk(GOOD, a),
        lambda a: risk_at(GOOD, a, OVERLAPS),
        lambda a: replica_erm(GOOD, a, 4.0),
        lambda a: sgd_dynamics(GOOD, a, 0.1, [1.0]),
    ],
    ids=["population_risk", "risk_at", "replica_erm", "sgd_dynamics"],
)
def test_unknown_activations(call, activation):
    with pytest.raises(
        ValueError, match=r"activation must be one of \['erf', 'linear', 'softmax', 'softplus'\]"
    ):
        call(activation)


NOT_POSITIVE = [(0.0, ValueError), (-1.0, ValueError), (NAN, ValueError), (INF, ValueError), ("1", TypeError),
                (True, TypeError), (None, TypeError), (np.ones(2), TypeError)]  # fmt: skip


@pytest.mark.parametrize(("number", "error"), NOT_POSITIVE)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("sample_ratio", lambda x: replica_erm(GOOD, "softmax", x)),
        ("alpha", lambda x: replica_erm(GOOD, "softmax", 4.0, x)),
        ("tol", lambda x: replica_erm(GOOD, "softmax", 4.0, tol=x)),
        ("sample_ratio", lambda x: bayes_optimal(GOOD, x)),
        ("tol", lambda x: bayes_optimal(GOOD, 4.0, tol=x)),
        (r"sample_ratios\[0\]", lambda x: hard_phase(GOOD, sample_ratios=(x, 10.0))),
        (r"sample_ratios\[1\]", lambda x: hard_phase(GOOD, sample_ratios=(0.1, x))),
        ("rtol", lambda x: hard_phase(GOOD, rtol=x)),
        ("learning_rate", lambda x: sgd_dynamics(GOOD, "softmax", x, [1.0])),
    ],
)
def test_numbers_that_must_be_positive(name, call, number, error):
    with pytest.raises(error, match=f"{name} must be"):
        call(number)


@pytest.mark.parametrize(("number", "error"), [case for case in NOT_POSITIVE if case[0] is not None])
def test_alpha_key_must_be_positive_or_none(number, error):
    with pytest.raises(error, match="alpha_key must be"):
        replica_erm(GOOD, "softmax", 4.0, 1.0, number)


@pytest.mark.parametrize("number", [0, -3, 2.5, True, "many"])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("n_points", lambda x: replica_erm(GOOD, "softmax", 4.0, n_points=x)),
        ("max_iter", lambda x: replica_erm(GOOD, "softmax", 4.0, max_iter=x)),
        ("n_points", lambda x: bayes_optimal(GOOD, 4.0, n_points=x)),
        ("max_iter", lambda x: bayes_optimal(GOOD, 4.0, max_iter=x)),
        ("batch_size", lambda x: sgd_dynamics(GOOD, "softmax", 0.1, [1.0], batch_size=x)),
    ],
)
def test_counts(name, call, number):
    with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
        call(number)


def test_numpy_numbers_are_numbers():
    result = replica_erm(GOOD, "softmax", np.int64(4), np.float32(1.0), n_points=np.int64(256))
    assert result == replica_erm(GOOD, "softmax", 4.0, 1.0, n_points=256)


@pytest.mark.parametrize(
    "init",
    [
        "best",
        None,
        3.0,
        [1.0] * 5,
        [0.1, 0.1, -0.5, 0.5, 1.0, 1.0],
        [0.1, 0.1, 0.5, 0.5, 1.0, NAN],
        Overlaps(0, 0, 1, 1),
    ],
    ids=str,
)
def test_starts_of_replica_erm(init):
    with pytest.raises((ValueError, TypeError), match="init must be"):
        replica_erm(GOOD, "softmax", 4.0, init=init)


def test_a_start_that_breaks_cauchy_schwarz():
    # m_key^2 > q_key: no order parameters; refused, or left at once
    result = None
    try:
        result = replica_erm(GOOD, "softmax", 4.0, init=[2.0, 0.1, 0.5, 0.5, 1.0, 1.0])
    except ValueError as error:
        assert "init" in str(error)  # noqa: PT017
    if result is not None:
        assert result.test_error == pytest.approx(replica_erm(GOOD, "softmax", 4.0).test_error, abs=1e-3)


@pytest.mark.parametrize("init", ["both", "auto", None, 3])
def test_starts_of_bayes_optimal(init):
    with pytest.raises(ValueError, match=r"init must be one of \['informed', 'uninformed'\]"):
        bayes_optimal(GOOD, 4.0, init)


def test_ranges_of_the_hard_phase():
    for sample_ratios in ((2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="increasing pair"):
            hard_phase(GOOD, sample_ratios=sample_ratios)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": [2.0, 1.0]}, "times must be"),
        ({"times": [-1.0, 1.0]}, "times must be"),
        ({"times": []}, "times must be"),
        ({"times": 3.0}, "times must be"),
        ({"times": [[1.0]]}, "times must be"),
        ({"times": [0.0, NAN]}, "times must be"),
        ({"times": [0.0, INF]}, "times must be"),
        ({"power_t": -0.1}, "power_t must be at least 0"),
        ({"power_t": NAN}, "power_t must be at least 0"),
        ({"start": (0.0, 0.0, 1.0, 1.0)}, "start must be Overlaps"),
        ({"start": Overlaps(0.0, 0.0, 1.0, 1.0, m_key_value=0.1)}, "cross terms are 0"),
        ({"start": Overlaps(0.0, 0.0, 1.0, 1.0, q_key_value=0.1)}, "cross terms are 0"),
    ],
    ids=str,
)
def test_options_of_sgd_dynamics(options, message, monkeypatch):
    def integrate(*args, **kwargs):
        raise AssertionError("refused too late: the integration began, and may never end")

    monkeypatch.setattr(sgd, "solve_ivp", integrate)
    with pytest.raises(ValueError, match=message):
        sgd_dynamics(GOOD, "softmax", 0.1, **({"times": [1.0]} | options))


def test_risk_at_takes_overlaps():
    for overlaps in ((0.1, 0.1, 0.5, 0.5), None, {"m_key": 0.1}):
        with pytest.raises((TypeError, ValueError), match=r"[Oo]verlaps"):
            risk_at(GOOD, "softmax", overlaps)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: replica_erm(GOOD, "erf", 4.0, offset=c),
        lambda c: risk_at(GOOD, "erf", OVERLAPS, offset=c),
        lambda c: population_risk(GOOD, "erf", offset=c),
        lambda c: sgd_dynamics(GOOD, "erf", 0.1, [1.0], offset=c),
    ],
    ids=["replica_erm", "risk_at", "population_risk", "sgd_dynamics"],
)
def test_an_offset_that_is_no_number(call, monkeypatch):
    monkeypatch.setattr(sgd, "solve_ivp", None)  # an integration of NaN may never end
    with pytest.raises(ValueError, match="offset"):
        call(NAN)

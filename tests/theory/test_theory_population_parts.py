"""Steps of the population risk: moments of weights, and the search for the best key and offset."""

import math

import numpy as np
import pytest
from theory_oracles import on_a_line

from sklearn_attn.activations import get_activation
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import population_risk
from sklearn_attn.theory.population import _best_scale, _best_scale_and_offset, weight_moments

CLOSED_FORM = 1e-4  # what averages over quasi-random draws may err by


@pytest.mark.parametrize("q_key", [1.3, 0.64])
@pytest.mark.parametrize(
    "problem", [SLRProblem("spiked", 2.0, 2), SLRProblem("spiked", 2.0, {2: 0.3, 5: 0.7})], ids=str
)
def test_moments_of_weights_against_closed_forms(problem, q_key):
    shift = 0.8 * math.sqrt(2.0)
    L = problem.lengths @ problem.length_probabilities
    exact = 1.0 + shift, (1.0 + shift) ** 2 + q_key + (L - 1.0) * (1.0 + q_key)
    moments = weight_moments(problem, get_activation("linear"), 0.8, q_key)
    assert moments == pytest.approx(exact, rel=CLOSED_FORM)
    if L == 2:
        # the weights depend on chi_1 - chi_2 ~ N(shift, 2 q_key) alone
        def p(g):
            return 1.0 / (1.0 + np.exp(-(shift + math.sqrt(2.0 * q_key) * g)))

        exact = on_a_line(p), on_a_line(lambda g: p(g) ** 2 + (1.0 - p(g)) ** 2)
        moments = weight_moments(problem, get_activation("softmax"), 0.8, q_key)
        assert moments == pytest.approx(exact, abs=CLOSED_FORM)


@pytest.mark.parametrize("scale", [1e-5, 1.3e-3, 0.02, 1.0, 6.0, 800.0, 1e4])
def test_the_best_scale_is_in_the_deepest_valley_of_the_range(scale):
    expected = min(max(scale, 1e-3), 1e3)
    found = _best_scale(lambda a: math.log(a / scale) ** 2)
    assert found == pytest.approx(expected, rel=1e-5)
    assert 1e-3 <= found <= 1e3
    shallow = 0.1 if scale > 1.0 else 60.0
    assert _best_scale(
        lambda a: min(math.log(a / scale) ** 2, 0.5 + 0.2 * math.log(a / shallow) ** 2)
    ) == pytest.approx(expected if scale not in (1e-5, 1e4) else shallow, rel=1e-5)


def test_the_best_scale_and_offset_are_those_of_the_deepest_valley():
    for scale, offset in ((0.3, 0.4), (2.0, -2.6), (20.0, 1.5)):
        found = _best_scale_and_offset(lambda a, c: math.log(a / scale) ** 2 + 3.0 * (c - offset) ** 2)  # noqa: B023
        assert found == pytest.approx((scale, offset), rel=1e-3)
    # the best point of the grid is in the shallower one, the second in the other
    distance = math.log(10.0) / 3.0

    def risk(a, c):
        shallow = 20.0 * (math.log(a) ** 2 + c**2)
        return min(shallow, 8.0 * ((math.log(a) - 2.0 * distance + 0.3) ** 2 + (c + 1.7) ** 2) - 1.0)

    assert _best_scale_and_offset(risk) == pytest.approx((math.exp(2.0 * distance - 0.3), -1.7), rel=1e-3)


def test_an_offset_that_leaves_no_weight():
    best = population_risk(SLRProblem("spiked", 2.0, 3, 0.3), "erf", offset=-1e12)
    assert (best.risk, best.value_scale) == (1.09, 0.0)

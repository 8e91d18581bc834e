"""Coefficients of the gradient, against loops over one sequence at a time."""

import numpy as np
import pytest

from sklearn_attn._compiled import ACTIVATION_CODES, SQUARED
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.objective._sequences import coefficients, number_tokens


def place(offsets, first, last):
    places = np.full(offsets[-1], -1)
    number_tokens(offsets, first, last, places)
    return places


def test_tokens_are_numbered_from_the_first_sequence_asked_for():
    offsets = np.array([0, 2, 3, 6, 7])
    assert place(offsets, 0, 4).tolist() == [0, 0, 1, 2, 2, 2, 3]
    assert place(offsets, 1, 3).tolist() == [0, 1, 1, 1, -1, -1, -1]
    assert place(offsets, 3, 4)[:1].tolist() == [0]


# Scores of 1e4 leave no digits in sums of linear weights, and no slope of erf.
CASES = [(name, spread, 0.0) for name in ACTIVATIONS for spread in (1.0, 100.0)]
CASES += [("softmax", 1e4, 0.0), ("softplus", 1e4, 0.0), ("softmax", 1.0, 2e3), ("softmax", 1.0, -2e3)]


@pytest.mark.parametrize(("name", "spread", "shift"), CASES)
def test_coefficients_are_those_of_each_sequence_by_itself(name, spread, shift):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first, last, b = 4, 27, 0.3
    here = slice(offsets[first], offsets[last])
    # Sequences differ by `spread`, tokens of a sequence by about one.
    scores = shift + rng.standard_normal(offsets[-1]) + np.repeat(spread * rng.standard_normal(30), lengths)
    values, y, weight = rng.standard_normal(offsets[-1]), rng.standard_normal(30), rng.random(30)
    activation = ACTIVATIONS[name]()
    offset = getattr(activation, "offset", 0.0)

    expected, scalars = np.zeros((2, offsets[-1])), np.zeros(2)
    for s in range(first, last):
        tokens = slice(offsets[s], offsets[s + 1])
        sigma = activation.weights(scores[tokens][None])[0]
        residual = y[s] - b - sigma @ values[tokens]
        factor = -2.0 * weight[s] * residual
        expected[0, tokens] = activation.pullback(scores[tokens][None], factor * values[tokens][None])[0]
        expected[1, tokens] = factor * sigma
        scalars += weight[s] * residual**2, factor

    a, z, sums = scores[here].copy(), values[here].copy(), np.zeros(3)
    coefficients(
        offsets, y, weight, SQUARED, ACTIVATION_CODES[name], activation.normalised, offset, b, first, last,
        place(offsets, first, last), a, z, np.empty((5, a.size)), sums,
    )  # fmt: skip
    np.testing.assert_allclose(a, expected[0, here], rtol=1e-9, atol=1e-9 * np.abs(expected[0]).max())
    np.testing.assert_allclose(z, expected[1, here], rtol=1e-9, atol=1e-9 * np.abs(expected[1]).max())
    np.testing.assert_allclose(sums[:2], scalars, rtol=1e-10)
    if activation.has_offset:
        assert sums[2] == pytest.approx(expected[0].sum(), rel=1e-9)

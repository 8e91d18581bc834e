"""Sequence-wise operations against plain loops."""

import itertools

import array_api_strict
import numpy as np
import pytest

from sklearn_attn.ragged import Segments

LENGTHS = {
    "equal": np.full(5, 3),
    "ones": np.ones(4, int),
    "mixed": np.array([3, 1, 4, 1, 5, 9, 2, 6]),
    "heavy tail": np.minimum(np.ceil(np.random.default_rng(0).pareto(1.0, 40) + 1).astype(int), 500),
    "one": np.array([7]),
    "two lengths": np.array([3, 1, 3, 1]),
}


@pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_against_loops(lengths, xp, rng):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x, y = rng.standard_normal((2, offsets[-1]))
    per_sequence = rng.standard_normal(lengths.size)
    segments = Segments(offsets, xp.asarray(x))
    assert (segments.n_sequences, segments.n_tokens) == (lengths.size, offsets[-1])
    pieces = [slice(a, b) for a, b in itertools.pairwise(offsets)]

    actual = segments.sum(xp.asarray(x))
    np.testing.assert_allclose(np.asarray(actual), [x[p].sum() for p in pieces], rtol=1e-13)
    actual = segments.reduce(lambda a, b: xp.max(a * b, axis=-1), xp.asarray(x), xp.asarray(y))
    np.testing.assert_allclose(np.asarray(actual), [(x[p] * y[p]).max() for p in pieces])
    actual = segments.map(lambda a, b: a - xp.sum(b, axis=-1, keepdims=True), xp.asarray(x), xp.asarray(y))
    np.testing.assert_allclose(
        np.asarray(actual), np.concatenate([x[p] - y[p].sum() for p in pieces]), rtol=1e-12
    )
    actual = segments.spread(xp.asarray(per_sequence))
    np.testing.assert_array_equal(np.asarray(actual), np.repeat(per_sequence, lengths))


@pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])
@pytest.mark.parametrize("before", [(3,), (2, 4)])
def test_axes_before_that_of_the_tokens_are_left_as_they_are(before, xp, rng):
    lengths = LENGTHS["mixed"]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x, per_sequence = (
        rng.standard_normal((*before, offsets[-1])),
        rng.standard_normal((*before, lengths.size)),
    )
    segments = Segments(offsets, xp.asarray(x))
    rows = [np.s_[place] for place in np.ndindex(before)]
    for result, alone in [
        (segments.sum(xp.asarray(x)), lambda row: segments.sum(xp.asarray(x[row]))),
        (
            segments.spread(xp.asarray(per_sequence)),
            lambda row: segments.spread(xp.asarray(per_sequence[row])),
        ),
        (
            segments.map(lambda a: a / xp.max(a, axis=-1, keepdims=True), xp.asarray(x)),
            lambda row: segments.map(lambda a: a / xp.max(a, axis=-1, keepdims=True), xp.asarray(x[row])),
        ),
    ]:
        result = np.asarray(result)
        assert result.shape[:-1] == before
        for row in rows:
            np.testing.assert_allclose(result[row], np.asarray(alone(row)), rtol=1e-13)

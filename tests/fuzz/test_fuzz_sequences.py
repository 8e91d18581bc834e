"""Containers, files and preprocessing on generated data: ways there and back, and sequence-by-sequence oracles."""

import tempfile

import numpy as np
from fuzz_cases import assert_finite, bytes_of, fuzz, outcome, reloaded, sequences
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sklearn_attn import RaggedArray
from sklearn_attn.preprocessing import SequencePadder, SequencePooler, TokenTransformer
from sklearn_attn.ragged import check_ragged, load_ragged, save_ragged

POOLINGS = ["mean", "max", "sum", "std", "first", "last"]


def assert_same_sequences(X, parts):
    assert len(X) == len(parts)
    for x, part in zip(X, parts, strict=True):
        np.testing.assert_array_equal(x, part)


def parts_of(data):
    """Return the drawn sequences as a list of native arrays."""
    native = data.values.astype(data.values.dtype.newbyteorder("="))
    return np.split(native, data.offsets[1:-1])


@fuzz(sequences(), few=60, many=4000)
def test_every_form_is_packed_alike(data):
    before = bytes_of(data.kept)
    X = check_ragged(data.X)
    assert bytes_of(data.kept) == before
    kept = data.values.dtype.newbyteorder("=") == np.float32 and data.form != "nested"
    assert X.values.dtype == (np.float32 if kept else np.float64)
    assert X.values.flags.c_contiguous
    assert X.values.flags.aligned
    assert X.values.dtype.isnative
    assert_same_sequences(X, [part.astype(X.values.dtype) for part in parts_of(data)])
    assert check_ragged(X) is X


@fuzz(sequences(), st.data(), few=50, many=3000)
def test_round_trips(data, choice):
    parts = parts_of(data)
    X = RaggedArray.from_list(parts)
    assert_same_sequences(RaggedArray.from_list(X.to_list()), parts)
    assert_same_sequences(check_ragged(X.to_column()), list(check_ragged(X)))
    padded, mask = X.to_padded(fill_value=0, return_mask=True)
    assert_same_sequences(RaggedArray.from_padded(padded, mask), parts)
    assert_same_sequences(RaggedArray.from_padded(X.to_padded()), parts)
    assert_same_sequences(RaggedArray.from_flat(X.values, lengths=X.lengths), parts)
    assert_same_sequences(RaggedArray.from_groups(X.values, np.repeat(np.arange(len(X)), X.lengths)), parts)
    assert_same_sequences(reloaded(X), parts)
    chosen = np.array(choice.draw(st.lists(st.integers(-len(X), len(X) - 1), max_size=15)), dtype=int)
    assert_same_sequences(X[chosen], [parts[i] for i in chosen])
    keep = np.array(choice.draw(st.lists(st.booleans(), min_size=len(X), max_size=len(X))))
    assert_same_sequences(X[keep], [part for part, kept in zip(parts, keep, strict=True) if kept])
    start, stop, step = (choice.draw(st.integers(-14, 14)) for _ in range(3))
    cut = slice(start, stop, step or None)
    assert_same_sequences(X[cut], parts[cut])


@fuzz(sequences(), few=15, many=700)
def test_files(data):
    X = check_ragged(data.X)
    with tempfile.TemporaryDirectory() as folder:
        save_ragged(folder, data.X)
        for mode in (None, "r", "c"):
            loaded = load_ragged(folder, mmap_mode=mode)
            assert loaded.values.dtype == X.values.dtype
            np.testing.assert_array_equal(loaded.values, X.values)
            np.testing.assert_array_equal(loaded.offsets, X.offsets)


# Beyond these sizes it is the inner transformer's squares that overflow.
@fuzz(
    sequences(st.sampled_from([1.0, 1e-60, 1e-8, 1e8, 1e15])),
    st.sampled_from([StandardScaler(), StandardScaler(with_std=False), MinMaxScaler()]),
    few=30,
    many=1000,
)
def test_token_transformer(data, inner):
    before = bytes_of(data.kept)
    transformer = TokenTransformer(inner)
    result = outcome(transformer.fit_transform, data.X)
    assert bytes_of(data.kept) == before
    if result is None:
        return
    assert_finite(fit_transform=result)
    again = outcome(reloaded(transformer).transform, data.X)
    np.testing.assert_array_equal(getattr(again, "values", again), getattr(result, "values", result))


@fuzz(sequences(), st.lists(st.sampled_from(POOLINGS), min_size=1, unique=True), few=40, many=2000)
def test_pooler(data, poolings):
    before = bytes_of(data.kept)
    pooler = SequencePooler(poolings)
    result = outcome(pooler.fit_transform, data.X)
    assert bytes_of(data.kept) == before
    if result is None:
        return
    assert_finite(pooled=result)
    np.testing.assert_array_equal(reloaded(pooler).transform(data.X), result)
    D = data.values.shape[1]
    parts = [part.astype(float) for part in parts_of(data)]
    for j, name in enumerate(poolings):
        pool = {"first": lambda x, axis: x[0], "last": lambda x, axis: x[-1]}.get(name) or getattr(np, name)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = np.array([pool(part, axis=0) for part in parts])
        size = np.array([np.abs(part).sum(axis=0) for part in parts])
        eps = np.finfo(result.dtype).eps
        np.testing.assert_array_less(
            np.abs(result[:, j * D : (j + 1) * D] - expected), 8 * eps * size + 1e-300
        )


@fuzz(sequences(), st.one_of(st.none(), st.integers(1, 8)), few=20, many=800)
def test_padder(data, max_length):
    before = bytes_of(data.kept)
    padder = SequencePadder(max_length)
    result = padder.fit_transform(data.X)
    assert bytes_of(data.kept) == before
    D = data.values.shape[1]
    for row, part in zip(result.reshape(data.n, -1, D), parts_of(data), strict=True):
        kept = part[: row.shape[0]]
        np.testing.assert_array_equal(row[: len(kept)], kept.astype(result.dtype))
        assert not row[len(kept) :].any()

"""RaggedArray: an immutable packed buffer that scikit-learn takes for a 1-D object array."""

import copy
import pickle

import array_api_strict
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing

from sklearn_attn import RaggedArray
from sklearn_attn.preprocessing import SequencePooler


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_describes_itself(ragged, sequences):
    assert ragged.shape == (12,)
    assert (ragged.ndim, ragged.size, len(ragged)) == (1, 12, 12)
    assert ragged.dtype == np.dtype(object)
    assert (ragged.n_tokens, ragged.n_features) == (45, 3)
    assert ragged.nbytes == 45 * 3 * 8
    np.testing.assert_array_equal(ragged.lengths, [len(s) for s in sequences])
    assert repr(ragged) == "RaggedArray(n=12, n_tokens=45, n_features=3, dtype=float64)"
    assert_same(list(ragged), sequences)
    assert_same(ragged.to_list(), sequences)


@pytest.mark.parametrize("i", [0, 5, 11, -1, -12, np.int64(3), np.int32(-2), np.array(4)])
def test_an_integer_gives_a_view_of_one_sequence(ragged, sequences, i):
    one = ragged[i]
    np.testing.assert_array_equal(one, sequences[int(i)])
    assert np.shares_memory(one, ragged.values)
    assert not one.flags.writeable


@pytest.mark.parametrize(
    "key",
    [
        slice(None), slice(2, 7), slice(7, 2), slice(-3, None), slice(None, None, 2), slice(None, None, -1),
        slice(20, 30), [0, 3, 3], [-1, 2], np.array([4, 1]), np.array([4, 1], dtype=np.int8),
        np.array([4, 1], dtype=np.uint64), [], np.array([], dtype=int), np.arange(12) % 3 == 0,
        np.zeros(12, bool), list(np.arange(12) % 2 == 0), range(3, 6), pd.Series([5, 0]), pd.Index([7]),
        array_api_strict.asarray([2, -3]), array_api_strict.arange(12) < 4, np.array([1, 2], dtype=">i4"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("spell", [lambda k: k, lambda k: (k, ...), lambda k: (k, slice(None))])
def test_other_keys_select_as_from_an_object_array(ragged, sequences, key, spell):
    objects = np.asarray(ragged)
    on_host = key if isinstance(key, slice) else np.asarray(key)
    expected = objects[on_host.astype(int) if np.size(on_host) == 0 else on_host]
    selected = ragged[spell(key)]
    assert isinstance(selected, RaggedArray)
    assert selected.n_features == 3
    assert_same(selected, expected)


def test_a_slice_shares_the_buffer_and_a_selection_does_not(ragged):
    assert np.shares_memory(ragged[3:9].values, ragged.values)
    assert not np.shares_memory(ragged[[3, 4]].values, ragged.values)


@pytest.mark.parametrize("key", [12, -13, [0, 12], [-13], np.array([2**64 - 1], dtype=np.uint64)])
def test_an_index_outside_is_refused(ragged, key):
    with pytest.raises(IndexError, match="out of range for 12 sequences"):
        ragged[key]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (1.5, "an int, a slice, or a 1-D array of ints or booleans; got 1.5"),
        ("a", "1-D array of ints or booleans; got 'a'"),
        (True, "got True"),
        (None, "got None"),
        ([0.5], "integers; got dtype float64"),
        (["a"], "integers; got dtype <U1"),
        (np.zeros((2, 2), int), r"got an array of shape \(2, 2\)"),
        ((0, 1), r"one axis, its sequences; index the tokens of one with X\[i\]\[...\]"),
        ((0, np.array([0, 1])), "one axis"),
        ((0, slice(2)), "one axis"),
        ((slice(None), ..., slice(None)), "one axis"),
        ((), "one axis"),
    ],
    ids=str,
)
def test_a_key_that_selects_no_sequences_is_refused(ragged, key, message):
    with pytest.raises(IndexError, match=message):
        ragged[key]


def test_an_ellipsis_selects_everything(ragged, sequences):
    assert ragged[...] is ragged
    np.testing.assert_array_equal(ragged[(2,)], sequences[2])
    np.testing.assert_array_equal(ragged[2, ...], sequences[2])


def test_selection_keeps_empty_sequences():
    ragged = RaggedArray(np.arange(6.0).reshape(3, 2), [0, 0, 2, 2, 3, 3])
    assert ragged.lengths.tolist() == [0, 2, 0, 1, 0]
    assert ragged[[4, 1, 0]].lengths.tolist() == [0, 2, 0]
    assert ragged[1:3].lengths.tolist() == [2, 0]
    assert ragged[2].shape == (0, 2)


def test_random_keys_against_a_list(rng):
    lengths = rng.integers(0, 6, size=30)
    oracle = [rng.standard_normal((length, 2)) for length in lengths]
    ragged = RaggedArray.from_list(oracle)
    for _ in range(200):
        start, stop, step = (int(i) for i in rng.integers([-40, -40, 1], [40, 40, 5]))
        step *= int(rng.choice([-1, 1]))
        assert_same(ragged[start:stop:step], oracle[start:stop:step])
        indices = rng.integers(-30, 30, size=rng.integers(0, 8))
        assert_same(ragged[indices], [oracle[i] for i in indices])
        mask = rng.random(30) < 0.3
        assert_same(ragged[mask], [oracle[i] for i in range(30) if mask[i]])


def test_a_mask_of_another_length_is_refused(ragged):
    with pytest.raises(IndexError, match="length 3 does not match 12"):
        ragged[np.array([True, False, True])]


def test_take(ragged, sequences):
    for axis in (0, -1, None):
        assert_same(np.take(ragged, [2, -1], axis=axis), [sequences[2], sequences[-1]])
    np.testing.assert_array_equal(np.take(ragged, 2), sequences[2])
    assert len(ragged.take([])) == 0
    with pytest.raises(IndexError, match="1-D array of integers"):
        ragged.take([True] * 12)
    with pytest.raises(IndexError, match="1-D array of integers"):
        ragged.take([[0, 1]])
    for wrong in ({"axis": 1}, {"mode": "clip"}, {"out": []}):
        with pytest.raises(ValueError, match="axis=0"):
            ragged.take([0], **wrong)


def test_scikit_learn_indexes_it(ragged, sequences, array_api_dispatch):
    for key in (np.array([3, 1]), [3, 1], pd.Series([3, 1])):
        assert_same(_safe_indexing(ragged, key), [sequences[3], sequences[1]])
    assert_same(_safe_indexing(ragged, slice(2, 4)), sequences[2:4])
    assert_same(_safe_indexing(ragged, np.arange(12) > 9), sequences[10:])
    np.testing.assert_array_equal(_safe_indexing(ragged, 5), sequences[5])
    train, test, y_train, y_test = train_test_split(ragged, np.arange(12), random_state=0, test_size=0.25)
    assert isinstance(train, RaggedArray)
    assert_same(train, [sequences[i] for i in y_train])
    assert_same(test, [sequences[i] for i in y_test])
    folds = [test.tolist() for _, test in KFold(4).split(ragged)]
    assert folds == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert len(list(GroupKFold(3).split(ragged, groups=np.arange(12) % 3))) == 3


def test_large_buffers_reach_worker_processes_as_memory_maps(rng):
    lengths = rng.integers(1, 40, size=300)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 60)), lengths=lengths)
    assert X[:150].nbytes > 2**20  # above this joblib maps arrays, read-only
    model, y = make_pipeline(SequencePooler(), Ridge()), rng.standard_normal(300)
    predictions = [cross_val_predict(model, X, y, cv=2, n_jobs=n_jobs) for n_jobs in (1, 2)]
    np.testing.assert_allclose(*predictions, rtol=1e-10)


def test_scikit_learn_indexes_a_strict_buffer(ragged, sequences):
    strict = RaggedArray(array_api_strict.asarray(ragged.values.copy()), ragged.offsets)
    picked = _safe_indexing(strict, np.array([3, 1]))
    train, *_ = train_test_split(strict, random_state=0, test_size=0.25)
    for selection in (picked, train):
        assert selection.__array_namespace__() == array_api_strict
    assert_same([np.asarray(x) for x in picked], [sequences[3], sequences[1]])
    assert len(train) == 9


def test_becomes_a_1d_object_array_even_at_equal_lengths():
    equal = RaggedArray.from_padded(np.zeros((4, 2, 3)))
    assert np.asarray(equal).shape == (4,)
    assert np.asarray(equal).dtype == object
    assert np.array(equal, dtype=object)[0].shape == (2, 3)
    assert equal.to_column().shape == (4, 1)
    assert equal.to_column()[2, 0].shape == (2, 3)


def test_refuses_to_become_a_float_array(ragged):
    with pytest.raises(TypeError, match=r"to_padded\(\)"):
        np.asarray(ragged, dtype=float)
    with pytest.raises(TypeError, match=r"float32.*to_padded\(\), or X.values"):
        np.asarray(ragged, dtype="f4")
    with pytest.raises(ValueError, match="without a copy"):
        np.array(ragged, copy=False)
    assert np.array(ragged, copy=True).shape == (12,)


def test_is_immutable(ragged):
    with pytest.raises(AttributeError, match="immutable"):
        ragged.values = np.zeros((45, 3))
    with pytest.raises(AttributeError, match="immutable"):
        del ragged.offsets
    with pytest.raises(ValueError, match="read-only"):
        ragged.values[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        ragged.offsets[0] = 1


def test_the_users_buffer_stays_writeable():
    values = np.zeros((4, 2))
    ragged = RaggedArray(values, [0, 1, 4])
    values[0] = 1.0
    assert values.flags.writeable
    assert np.shares_memory(ragged.values, values)


def test_offsets_cannot_be_changed_from_outside():
    offsets = np.array([0, 1, 4])
    ragged = RaggedArray(np.zeros((4, 2)), offsets)
    offsets[1] = 1000  # kernels would read far outside
    assert ragged.offsets.tolist() == [0, 1, 4]


def test_read_only_and_mapped_buffers_are_shared(tmp_path, ragged):
    np.save(tmp_path / "values.npy", ragged.values)
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
    for values in (mapped, ragged.values):
        assert np.shares_memory(RaggedArray(values, ragged.offsets).values, values)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal_and_immutable(ragged, duplicate):
    other = duplicate(ragged)
    assert_same(other, list(ragged))
    assert joblib.hash(other) == joblib.hash(ragged)
    assert joblib.hash(other) != joblib.hash(ragged[::-1])
    assert not other.values.flags.writeable
    assert not other.offsets.flags.writeable
    assert np.shares_memory(other.values, ragged.values) == (duplicate is copy.copy)
    with pytest.raises(AttributeError, match="immutable"):
        other.values = ragged.values


def test_pickling_a_slice_does_not_carry_the_rest(rng):
    ragged = RaggedArray.from_padded(rng.standard_normal((100, 50, 4)))
    assert len(pickle.dumps(ragged[:2])) < ragged.nbytes / 20


def test_joblib_maps_the_buffer(ragged, tmp_path):
    joblib.dump(ragged, tmp_path / "ragged.joblib")
    mapped = joblib.load(tmp_path / "ragged.joblib", mmap_mode="r")
    assert isinstance(mapped.values, np.memmap)
    assert_same(mapped[[0, -1]], [ragged[0], ragged[-1]])
    assert not mapped.values.flags.writeable
    assert joblib.hash(mapped, coerce_mmap=True) == joblib.hash(ragged)


def test_astype_and_padding(ragged, sequences):
    assert ragged.astype(np.float64) is ragged
    half = ragged.astype("float32")
    assert half.values.dtype == np.float32
    np.testing.assert_array_equal(half[2], sequences[2].astype(np.float32))
    padded, mask = ragged.to_padded(return_mask=True)
    assert padded.shape == (12, 9, 3)
    np.testing.assert_array_equal(mask.sum(axis=1), ragged.lengths)
    assert np.isnan(padded[~mask]).all()
    np.testing.assert_array_equal(padded[mask], ragged.values)
    short = ragged.to_padded(2, fill_value=0.0)
    np.testing.assert_array_equal(short[2], sequences[2][:2])
    np.testing.assert_array_equal(short[1], [sequences[1][0], np.zeros(3)])
    assert ragged.astype(int).to_padded().dtype == np.float64
    assert ragged.astype(int).to_padded(fill_value=0).dtype == int
    for wrong in (0, -1, 1.5, True, "3", [3], np.nan):
        with pytest.raises(ValueError, match="max_length must be a positive integer"):
            ragged.to_padded(wrong)


def test_padding_of_no_sequences_and_of_empty_ones():
    assert RaggedArray(np.zeros((0, 2)), [0]).to_padded().shape == (0, 0, 2)
    padded, mask = RaggedArray(np.zeros((0, 2)), [0, 0]).to_padded(3, return_mask=True)
    assert np.isnan(padded).all()
    assert not mask.any()
    assert (padded.shape, mask.shape) == ((1, 3, 2), (1, 3))


def test_holds_buffers_of_other_namespaces(ragged):
    strict = RaggedArray(array_api_strict.asarray(ragged.values.copy()), ragged.offsets)
    assert strict.__array_namespace__() == array_api_strict
    assert strict.device == strict.values.device
    assert "float64" in repr(strict)
    picked = strict[[3, -1]]
    np.testing.assert_array_equal(np.asarray(picked.values), ragged[[3, -1]].values)
    assert picked.__array_namespace__() == array_api_strict
    assert strict[2].shape == (9, 3)
    assert strict.nbytes == ragged.nbytes
    assert strict[...] is strict
    for selection, expected in (
        (strict[2:5], ragged[2:5]),
        (strict[::-2], ragged[::-2]),
        (strict[array_api_strict.arange(12) > 8], ragged[9:]),
        (np.take(strict, [1, 0]), ragged[[1, 0]]),
        (strict[[]], ragged[[]]),
    ):
        assert selection.__array_namespace__() == array_api_strict
        assert_same([np.asarray(x) for x in selection], list(expected))
    assert_same([np.asarray(x) for x in strict.to_list()], ragged.to_list())
    assert np.asarray(strict).shape == (12,)
    assert strict.to_column().shape == (12, 1)
    np.testing.assert_array_equal(strict.to_padded(), ragged.to_padded())
    assert strict.astype(array_api_strict.float32).values.dtype == array_api_strict.float32


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 2], "end at n_tokens = 4, got 2"),
        ([0, 5], "end at n_tokens = 4, got 5"),
        ([1, 4], "start at 0, got 1"),
        ([-1, 4], "start at 0, got -1"),
        ([0, 3, 2, 4], r"must not decrease, got offsets\[1\] = 3 and offsets\[2\] = 2"),
        ([[0, 4]], "shape"),
        ([], r"shape \(n \+ 1,\), got \(0,\)"),
        (4, r"shape \(n \+ 1,\), got \(\)"),
        (np.array([0, 2**63], dtype=np.uint64), "int64"),
    ],
)
def test_offsets_that_lie_are_refused(offsets, message):
    with pytest.raises(ValueError, match=message):
        RaggedArray(np.zeros((4, 2)), offsets)


def test_wrong_constructor_arguments():
    with pytest.raises(TypeError, match="integers"):
        RaggedArray(np.zeros((4, 2)), [0.0, 4.0])
    with pytest.raises(TypeError, match="from_list"):
        RaggedArray([np.zeros((4, 2))], [0, 4])
    with pytest.raises(TypeError, match=r"masked array; pass values.data\[keep\]"):
        RaggedArray(np.ma.masked_less(np.zeros((4, 2)), 1), [0, 4])
    with pytest.raises(ValueError, match="from_padded"):
        RaggedArray(np.zeros((4, 2, 2)), [0, 4])

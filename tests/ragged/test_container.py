"""RaggedArray: an immutable packed buffer that scikit-learn takes for a 1-D object array."""

import copy
import pickle

import array_api_strict
import joblib
import numpy as np
import pytest
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing

from sklearn_attn import RaggedArray


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
        np.zeros(12, bool), list(np.arange(12) % 2 == 0),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("spell", [lambda k: k, lambda k: (k, ...), lambda k: (k, slice(None))])
def test_other_keys_select_as_from_an_object_array(ragged, sequences, key, spell):
    objects = np.asarray(ragged)
    expected = objects[np.array(key, dtype=int) if isinstance(key, list) and not key else key]
    selected = ragged[spell(key)]
    assert isinstance(selected, RaggedArray)
    assert selected.n_features == 3
    assert_same(selected, expected)


def test_a_slice_shares_the_buffer_and_a_selection_does_not(ragged):
    assert np.shares_memory(ragged[3:9].values, ragged.values)
    assert not np.shares_memory(ragged[[3, 4]].values, ragged.values)


@pytest.mark.parametrize("key", [12, -13, [0, 12], [-13]])
def test_an_index_outside_is_refused(ragged, key):
    with pytest.raises(IndexError, match="out of range for 12 sequences"):
        ragged[key]


@pytest.mark.parametrize("key", [1.0, "a", [0.5], np.zeros((2, 2), int), True, (0, 1), (0, 0, 0), None])
def test_a_key_that_selects_no_sequences_is_refused(ragged, key):
    with pytest.raises(IndexError):
        ragged[key]


def test_a_mask_of_another_length_is_refused(ragged):
    with pytest.raises(IndexError, match="length 3 does not match 12"):
        ragged[np.array([True, False, True])]


def test_take(ragged, sequences):
    assert_same(np.take(ragged, [2, -1], axis=0), [sequences[2], sequences[-1]])
    for wrong in ({"axis": 1}, {"mode": "clip"}, {"out": []}):
        with pytest.raises(ValueError, match="axis=0"):
            ragged.take([0], **wrong)


def test_scikit_learn_indexes_it(ragged, sequences, array_api_dispatch):
    assert_same(_safe_indexing(ragged, np.array([3, 1])), [sequences[3], sequences[1]])
    first, second, *_ = train_test_split(ragged, np.arange(12), random_state=0, test_size=0.25)
    assert isinstance(first, RaggedArray)
    assert (len(first), len(second)) == (9, 3)
    folds = [len(test) for _, test in KFold(4).split(ragged)]
    assert folds == [3, 3, 3, 3]


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
    with pytest.raises(ValueError, match="without a copy"):
        np.array(ragged, copy=False)


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
    RaggedArray(values, [0, 1, 4])
    values[0] = 1.0
    assert values.flags.writeable


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal_and_immutable(ragged, duplicate):
    other = duplicate(ragged)
    assert_same(other, list(ragged))
    assert joblib.hash(other) == joblib.hash(ragged)
    assert not other.values.flags.writeable


def test_joblib_maps_the_buffer(ragged, tmp_path):
    joblib.dump(ragged, tmp_path / "ragged.joblib")
    mapped = joblib.load(tmp_path / "ragged.joblib", mmap_mode="r")
    assert isinstance(mapped.values, np.memmap)
    assert_same(mapped[[0, -1]], [ragged[0], ragged[-1]])


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
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="max_length must be a positive integer"):
            ragged.to_padded(wrong)


def test_holds_buffers_of_other_namespaces(ragged):
    strict = RaggedArray(array_api_strict.asarray(ragged.values.copy()), ragged.offsets)
    assert strict.__array_namespace__() is array_api_strict
    assert strict.device == strict.values.device
    assert "float64" in repr(strict)
    picked = strict[[3, -1]]
    np.testing.assert_array_equal(np.asarray(picked.values), ragged[[3, -1]].values)
    assert picked.__array_namespace__() is array_api_strict
    assert strict[2].shape == (9, 3)
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
        ([], "shape"),
        (np.array([0, 2**63], dtype=np.uint64), "int64"),
    ],
)
def test_offsets_that_lie_are_refused(offsets, message):
    with pytest.raises((ValueError, TypeError), match=message if len(offsets) else "integers|shape"):
        RaggedArray(np.zeros((4, 2)), offsets)


def test_wrong_constructor_arguments():
    with pytest.raises(TypeError, match="integers"):
        RaggedArray(np.zeros((4, 2)), [0.0, 4.0])
    with pytest.raises(TypeError, match="from_list"):
        RaggedArray([np.zeros((4, 2))], [0, 4])
    with pytest.raises(ValueError, match="from_padded"):
        RaggedArray(np.zeros((4, 2, 2)), [0, 4])

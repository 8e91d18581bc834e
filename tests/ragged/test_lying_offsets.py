"""Offsets that lie are refused at every door, before compiled code reads where they say."""

import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer
from sklearn_attn.ragged import check_ragged

VALUES = np.arange(12.0).reshape(6, 2)
LIES = {
    "negative": [-5, 3, 6],
    "decreasing": [0, 4, 2, 6],
    "past the end": [0, 3, 100],
    "past the end in between": [0, 100, 6],
    "far past the end": [0, 3, 2**62],
    "short of the end": [0, 3, 5],
    "not from 0": [1, 3, 6],
    "nothing": [],
    "float": [0.0, 3.0, 6.0],
    "NaN": [0.0, np.nan, 6.0],
    "bool": [False, True],
    "text": ["0", "6"],
    "complex": [0j, 6],
    "objects": np.array([0, 3, 6], dtype=object),
    "beyond int64": [0, 2**70, 6],
    "uint64": np.array([0, 2**64 - 3, 6], dtype=np.uint64),
    "uint64 that is -1": np.array([0, 2**64 - 1, 6], dtype=np.uint64),
    "a second axis": [[0, 3, 6]],
    "a number": 6,
    "None": None,
}
# As lengths: what is no lie there is left out.
LENGTHS = {
    "negative": [-1, 7],
    "too many": [3, 4],
    "too few": [3, 2],
    "a sum that wraps to 6": [2**62, 2**62, 2**62, 2**62, 6],
    "uint64 that wraps": np.array([2**64 - 1, 7], dtype=np.uint64),
    "float": [3.0, 3.0],
    "NaN": [3.0, np.nan],
    "a second axis": [[3, 3]],
    "None": [None, 6],
}
refused = pytest.raises((TypeError, ValueError))


def forged(offsets, values=VALUES):
    """A RaggedArray that went past its own door."""
    X = object.__new__(RaggedArray)
    vars(X).update(values=values, offsets=offsets)
    return X


@pytest.mark.parametrize("lie", LIES)
def test_constructors(lie):
    for door in (RaggedArray, lambda values, offsets: RaggedArray.from_flat(values, offsets=offsets)):
        with refused:
            door(VALUES, LIES[lie])
    np.testing.assert_array_equal(RaggedArray(VALUES, [0, 3, 6]).lengths, 3)


@pytest.mark.parametrize("lie", LENGTHS)
def test_lengths(lie):
    with refused:
        RaggedArray.from_flat(VALUES, lengths=LENGTHS[lie])


@pytest.mark.parametrize("lie", LIES)
def test_pickles(lie):
    data = pickle.dumps(forged(np.array(LIES[lie])))
    with refused:
        pickle.loads(data)
    file = io.BytesIO()
    joblib.dump(forged(np.array(LIES[lie])), file)
    file.seek(0)
    with refused:
        joblib.load(file)
    skops = pytest.importorskip("skops.io")
    if np.array(LIES[lie]).dtype.kind != "O":
        with refused:
            skops.loads(
                skops.dumps(forged(np.array(LIES[lie]))),
                trusted=["sklearn_attn.ragged._container.RaggedArray"],
            )


@pytest.mark.parametrize(
    "state",
    [{}, {"values": VALUES}, {"values": VALUES, "offsets": [0, 6], "take": None}, None, (VALUES, [0, 6]),
     {"values": VALUES[0], "offsets": [0, 2]}, {"values": VALUES.tolist(), "offsets": [0, 6]}],
)  # fmt: skip
def test_states_of_another_form(state):
    with refused:
        object.__new__(RaggedArray).__setstate__(state)


@pytest.mark.parametrize("use", ["fit", "predict", "transform", "pool", "scale"])
@pytest.mark.parametrize("lie", LIES)
def test_estimators(lie, use):
    X, y = RaggedArray(VALUES, [0, 3, 6]), [0.0, 1.0]
    model = SoftmaxAttentionRegressor().fit(X, y)
    liar = forged(np.array(LIES[lie]))
    with refused:
        {
            "fit": lambda: model.fit(liar, y),
            "predict": lambda: model.predict(liar),
            "transform": lambda: model.transform(liar),
            "pool": lambda: SequencePooler().fit_transform(liar),
            "scale": lambda: TokenTransformer(StandardScaler()).fit(liar),
        }[use]()


def test_what_is_changed_afterwards():
    given, values = np.array([0, 3, 6]), VALUES.copy()
    X = RaggedArray(values, given)
    given[:] = 10**6
    assert X.offsets.tolist() == [0, 3, 6]
    model = SoftmaxAttentionRegressor().fit(X, [0.0, 1.0])
    X.offsets.flags.writeable = True  # by force
    X.offsets[1] = 10**6
    for use in (model.predict, model.attention_weights, check_ragged, SequencePooler().fit):
        with pytest.raises(ValueError, match="must not decrease"):
            use(X)


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_the_shape_of_a_shared_buffer_is_its_own(writeable):
    values = VALUES.copy()
    values.flags.writeable = writeable
    X = RaggedArray(values, [0, 3, 6])
    assert np.shares_memory(X.values, values)
    values.shape = (2, 6)
    assert X.values.shape == (6, 2)
    X.values.shape = (3, 4)  # by force
    with pytest.raises(ValueError, match="end at n_tokens = 3"):
        check_ragged(X)


@pytest.mark.parametrize("axis", ["sequences", "tokens"])
@pytest.mark.parametrize("kind", ["list_", "large_list"])
@pytest.mark.parametrize(
    "lie",
    [
        [0, 3, 100],
        [-5, 3, 6],
        [-4, -2, -1],
        [10**6, 10**6, 10**6],
        [0, 4, 2],
        [13, 13, 13],
        [0, 2**31 - 1, 6],
    ],
)
def test_arrow(lie, kind, axis):
    pa = pytest.importorskip("pyarrow")
    integer = np.int32 if kind == "list_" else np.int64
    make = getattr(pa, kind)

    def column():
        offsets = np.array([0, 3, 6] if axis == "sequences" else [0, 6, 12], dtype=integer)
        if axis == "sequences":
            tokens = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12.0)), 2)
            outer = offsets
        else:
            numbers = pa.array(np.arange(12.0))
            tokens = pa.Array.from_buffers(
                make(pa.float64()), 2, [None, pa.py_buffer(offsets)], children=[numbers]
            )
            outer = np.array([0, 1, 2], dtype=integer)
        array = pa.Array.from_buffers(make(tokens.type), 2, [None, pa.py_buffer(outer)], children=[tokens])
        assert len(RaggedArray.from_arrow(array)) == 2
        offsets[:] = lie  # behind Arrow's back, which checks when an array is made, but not one from a file
        return array

    for door in (RaggedArray.from_arrow, check_ragged, lambda array: check_ragged(pa.chunked_array([array]))):
        with refused:
            door(column())


@pytest.mark.parametrize("make", ["ListOffsetArray", "ListArray"])
@pytest.mark.parametrize("lie", [[0, 3, 100], [-5, 3, 6], [0, 4, 2, 6], [0, 10**9, 2 * 10**9], [0, 2**40, 6]])
def test_awkward(lie, make):
    ak = pytest.importorskip("awkward")

    def column(axis, offsets):
        index, content = ak.index.Index64(np.array(offsets)), ak.contents.NumpyArray(VALUES)
        bounds = (index,) if make == "ListOffsetArray" else (index[:-1], index[1:])
        if axis == "sequences":
            return ak.Array(getattr(ak.contents, make)(*bounds, content))
        tokens = getattr(ak.contents, make)(*bounds, ak.contents.NumpyArray(np.arange(6.0)))
        outer = ak.index.Index64(np.arange(len(offsets)))
        return ak.Array(ak.contents.ListOffsetArray(outer, tokens))

    for axis in ("sequences", "tokens"):
        assert len(RaggedArray.from_awkward(column(axis, [0, 3, 6]))) == 2
        for door in (RaggedArray.from_awkward, check_ragged):
            with refused:
                door(column(axis, lie))

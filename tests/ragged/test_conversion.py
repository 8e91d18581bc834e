"""Every form that users hold, in and out again."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest

from sklearn_attn import RaggedArray


def assert_holds(ragged, sequences):
    assert len(ragged) == len(sequences)
    for a, b in zip(ragged, sequences, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("container", [list, tuple])
def test_from_list(sequences, container):
    assert_holds(RaggedArray.from_list(container(sequences)), sequences)


def test_from_list_takes_array_likes(sequences):
    assert_holds(RaggedArray.from_list([s.tolist() for s in sequences]), sequences)
    assert_holds(RaggedArray.from_list([pd.DataFrame(s) for s in sequences]), sequences)
    assert_holds(RaggedArray.from_list([array_api_strict.asarray(s) for s in sequences]), sequences)


def test_from_list_of_one_shares_it(sequences):
    assert np.shares_memory(RaggedArray.from_list(sequences[:1]).values, sequences[0])


def test_from_list_channel_first(sequences):
    ragged = RaggedArray.from_list([s.T for s in sequences], channel_first=True)
    assert_holds(ragged, sequences)


def test_from_list_refuses_what_is_no_list():
    for wrong in ("text", 3, iter([])):
        with pytest.raises(TypeError, match=r"list of \(L, D\) arrays"):
            RaggedArray.from_list(wrong)
    with pytest.raises(ValueError, match="no sequences"):
        RaggedArray.from_list([])


def test_from_flat_shares(ragged, sequences):
    values = np.concatenate(sequences)
    for given in (
        {"lengths": ragged.lengths},
        {"offsets": ragged.offsets},
        {"lengths": list(ragged.lengths)},
    ):
        flat = RaggedArray.from_flat(values, **given)
        assert_holds(flat, sequences)
        assert np.shares_memory(flat.values, values)
    assert len(RaggedArray.from_flat(np.zeros((0, 3)), lengths=[])) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either lengths or offsets"),
        ({"lengths": [4], "offsets": [0, 4]}, "either lengths or offsets"),
        ({"lengths": [2, 1]}, "sum to 3, but values has 4"),
        ({"lengths": [5, -1]}, r"lengths\[1\] is negative"),
        ({"lengths": [2.0, 2.0]}, "integers"),
        ({"lengths": [[4]]}, "shape"),
        ({"offsets": [0, 3]}, "end at n_tokens"),
    ],
)
def test_from_flat_refuses(given, message):
    with pytest.raises(ValueError, match=message):
        RaggedArray.from_flat(np.zeros((4, 2)), **given)


def test_from_padded_by_mask_and_by_nan_tail(ragged, sequences):
    padded, mask = ragged.to_padded(return_mask=True)
    assert_holds(RaggedArray.from_padded(padded), sequences)
    assert_holds(RaggedArray.from_padded(np.nan_to_num(padded), mask), sequences)
    strict = array_api_strict.asarray(padded)
    assert_holds(RaggedArray.from_padded(strict, array_api_strict.asarray(mask)), sequences)


def test_from_padded_without_padding_shares():
    X = np.arange(24.0).reshape(4, 2, 3)
    for ragged in (RaggedArray.from_padded(X), RaggedArray.from_padded(X, np.ones((4, 2), bool))):
        assert np.shares_memory(ragged.values, X)
        assert_holds(ragged, list(X))
    assert_holds(RaggedArray.from_padded(X.astype(int)), list(X))


def test_only_a_tail_that_is_nan_in_every_feature_is_padding():
    X = np.array([[[np.nan, np.nan], [1.0, 2.0], [np.nan, 3.0], [np.nan, np.nan]]])
    np.testing.assert_array_equal(RaggedArray.from_padded(X)[0], X[0, :3])


def test_a_mask_may_have_holes():
    X = np.arange(8.0).reshape(2, 2, 2)
    ragged = RaggedArray.from_padded(X, np.array([[False, True], [True, False]]))
    assert_holds(ragged, [X[0, 1:], X[1, :1]])


def test_from_padded_refuses():
    X = np.zeros((2, 3, 4))
    with pytest.raises(ValueError, match=r"\(n, L, D\), got \(2, 3\)"):
        RaggedArray.from_padded(X[:, :, 0])
    with pytest.raises(TypeError, match="boolean"):
        RaggedArray.from_padded(X, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"mask must have shape \(2, 3\)"):
        RaggedArray.from_padded(X, np.ones((2, 4), bool))


@pytest.mark.parametrize("kind", ["strings", "ints", "series"])
def test_from_groups_orders_by_first_appearance(rng, kind):
    labels = np.array([7, 2, 7, 9, 2, 2, 7])
    groups = {"strings": labels.astype(str), "ints": labels, "series": pd.Series(labels, dtype=object)}[kind]
    values = rng.standard_normal((7, 2))
    ragged = RaggedArray.from_groups(values, groups)
    assert_holds(ragged, [values[labels == label] for label in pd.unique(labels)])
    frame = RaggedArray.from_groups(pd.DataFrame(values), groups)
    assert_holds(frame, ragged.to_list())


def test_from_groups_shares_where_rows_stand_together():
    values = np.arange(8.0).reshape(4, 2)
    ragged = RaggedArray.from_groups(values, ["b", "b", "a", "c"])
    assert np.shares_memory(ragged.values, values)
    np.testing.assert_array_equal(ragged.lengths, [2, 1, 1])


@pytest.mark.parametrize("missing", [np.array([1.0, np.nan, 1.0]), np.array(["a", None, "a"], dtype=object)])
def test_from_groups_refuses_a_missing_label(missing):
    with pytest.raises(ValueError, match=r"groups\[1\] is missing"):
        RaggedArray.from_groups(np.zeros((3, 1)), missing)
    with pytest.raises(ValueError, match="one label per token"):
        RaggedArray.from_groups(np.zeros((4, 1)), [1, 2, 3])


def column_of(*values):
    """An object column (n, 1)."""
    column = np.empty((len(values), 1), dtype=object)
    column[:, 0] = values
    return column


def test_from_list_takes_a_column_and_no_other_table(sequences):
    assert_holds(RaggedArray.from_list(column_of(*sequences)), sequences)
    with pytest.raises(ValueError, match=r"got one array of shape \(2, 3\); for a single"):
        RaggedArray.from_list(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], r"X\[1\] is empty and has no feature axis"),
        (5.0, r"X\[1\] is of type float"),
        ([1.0, 2.0, 3.0], r"X\[1\] has shape \(3,\); tokens of one feature need a second axis"),
        ([[1.0, 2.0, 3.0], [1.0]], r"X\[1\] is not an \(L, D\) array: its rows differ in length"),
    ],
)
def test_from_list_names_the_sequence_at_fault(sequences, bad, message):
    with pytest.raises(ValueError, match=message):
        RaggedArray.from_list([sequences[0], bad])


def test_frames_must_name_the_same_columns():
    frames = [pd.DataFrame(np.ones((2, 2)), columns=list(names)) for names in ("ab", "ab", "ac")]
    assert len(RaggedArray.from_list(frames[:2])) == 2
    with pytest.raises(ValueError, match=r"Column 1 of X\[2\] is 'c', but that of X\[0\] is 'b'"):
        RaggedArray.from_list(frames)


def test_from_flat_names_rows_of_unequal_length():
    with pytest.raises(ValueError, match="its rows differ in length"):
        RaggedArray.from_flat([[1.0, 2.0], [3.0]], lengths=[2])


def test_from_groups_refuses_labels_that_cannot_be_sorted():
    with pytest.raises(TypeError, match="groups mixes labels of different types"):
        RaggedArray.from_groups(np.ones((2, 1)), np.array([1, "a"], dtype=object))
    with pytest.raises(ValueError, match=r"groups\[1\] is missing"):
        RaggedArray.from_groups(np.ones((2, 1)), np.array(["a", pd.NA], dtype=object))

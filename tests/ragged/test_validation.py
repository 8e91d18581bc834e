"""The one door: what it lets through unchanged, what it converts, and what it says on bad input."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from sklearn_attn import RaggedArray
from sklearn_attn.preprocessing import SequencePooler
from sklearn_attn.ragged import check_ragged, is_table


def forms(sequences):
    """The same equal-length sequences in every accepted form."""
    ragged = RaggedArray.from_list(sequences)
    objects = np.asarray(ragged)
    return {
        "list": list(sequences),
        "tuple": tuple(sequences),
        "object": objects,
        "series": pd.Series(objects),
        "column": objects.reshape(-1, 1),
        "frame": pd.DataFrame({"X": objects}),
        "ragged": ragged,
        "nested": [s.tolist() for s in sequences],
    }


@pytest.mark.parametrize("form", forms([np.zeros((1, 1))]))
def test_every_form_gives_the_same_buffer(sequences, form):
    checked = check_ragged(forms(sequences)[form])
    np.testing.assert_array_equal(checked.values, np.concatenate(sequences))
    np.testing.assert_array_equal(checked.lengths, [len(s) for s in sequences])


def test_a_3d_array_and_a_table(rng):
    X = rng.standard_normal((5, 4, 3))
    checked = check_ragged(X)
    assert np.shares_memory(checked.values, X)
    np.testing.assert_array_equal(checked[2], X[2])
    table = X[:, 0]
    for form in (table, pd.DataFrame(table), table.tolist()):
        checked = check_ragged(form)
        np.testing.assert_array_equal(checked.lengths, np.ones(5))
        np.testing.assert_array_equal(checked.values, table)
        assert is_table(form, checked)
    for form in (X[:, :1], list(X[:, :1]), RaggedArray.from_padded(X[:, :1])):
        assert not is_table(form, check_ragged(form))


def test_a_column_of_one_token_sequences_is_not_a_table():
    column = RaggedArray.from_padded(np.zeros((3, 1, 1))).to_column()
    assert not is_table(column, check_ragged(column))
    assert is_table(np.zeros((3, 1)), check_ragged(np.zeros((3, 1))))


def test_a_valid_ragged_array_passes_unchanged(ragged):
    assert check_ragged(ragged) is ragged
    half = ragged.astype(np.float32)
    assert check_ragged(half) is half


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("f8", "f8"), ("f4", "f4"), ("i4", "f8"), ("u1", "f8"), ("?", "f8"), ("f2", "f8"), (">f8", "f8"), (">f4", "f4"),
     (">i4", "f8"), ("g", "f8"), ("O", "f8")],
)  # fmt: skip
def test_dtypes(dtype, expected):
    X = np.array([[[0, 1], [1, 1]], [[1, 0], [0, 0]]]).astype(dtype)
    for form in (X, list(X)):
        checked = check_ragged(form)
        assert checked.values.dtype == np.dtype(expected)
        assert checked.values.dtype.isnative
        np.testing.assert_array_equal(checked.values, X.reshape(-1, 2).astype(float))


def test_layouts(rng):
    X = rng.standard_normal((6, 4, 3))
    raw = np.zeros(X.nbytes + 1, dtype=np.uint8)
    unaligned = raw[1:].view(np.float64).reshape(X.shape)
    unaligned[:] = X
    readonly = X.copy()
    readonly.flags.writeable = False
    for form in (
        np.asfortranarray(X),
        X[::-1][::-1],
        np.repeat(X, 2, axis=2)[:, :, ::2],
        unaligned,
        readonly,
    ):
        checked = check_ragged(form)
        assert checked.values.flags.c_contiguous
        assert checked.values.flags.aligned
        np.testing.assert_array_equal(checked.values, X.reshape(-1, 3))
    assert np.shares_memory(check_ragged(readonly).values, readonly)


def test_a_memory_map_is_shared(tmp_path, rng):
    np.save(tmp_path / "X.npy", rng.standard_normal((8, 3, 2)))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(check_ragged(mapped).values, mapped)


def bad_inputs():
    good = np.ones((3, 2))
    nan, infinite = good.copy(), good.copy()
    nan[1, 0], infinite[2, 1] = np.nan, -np.inf
    wide, empty = np.ones((4, 5)), np.ones((0, 2))
    return {
        "nan": ([good, nan], ValueError, r"contains NaN: X\[1\] \(shape \(3, 2\)\) at token 1, feature 0.*impute"),
        "inf": ([good, good, infinite], ValueError, r"infinity: X\[2\] \(shape \(3, 2\)\) at token 2, feature 1"),
        "nan tail": (np.stack([good, nan * np.nan]), ValueError, r"X\[1\].*RaggedArray.from_padded\(X\)"),
        "empty sequence": ([good, empty, good, empty], ValueError, r"X\[1\], X\[3\] are empty.*\(0, 2\).*drop"),
        "one empty": ([empty, good], ValueError, r"X\[0\] is an empty sequence of shape \(0, 2\)"),
        "empty list": ([], ValueError, r"empty list; pass at least one \(L, D\) array"),
        "empty array": (np.ones((0, 2)), ValueError, r"no sequences; pass at least one \(L, D\) array"),
        "empty 3-D": (np.ones((0, 3, 2)), ValueError, "no sequences"),
        "no features": ([np.ones((3, 0))], ValueError, r"0 feature\(s\)"),
        "one wrong D": ([good, good, wide], ValueError, r"same number of features.*Most have 2, but X\[2\] has shape \(4, 5\)"),
        "transposed": ([np.ones((2, 3)), np.ones((2, 4))], ValueError, "All have 2 rows.*channel_first=True"),
        "strings": ([good, good.astype(str)], ValueError, r"X\[1\] has dtype <U.*embed or encode"),
        "complex": ([good, good * 1j], ValueError, r"Complex data not supported: X\[1\].*\(3, 2\).*separate features"),
        "complex 3-D": (np.ones((2, 3, 2)) * 1j, ValueError, "Complex data not supported"),
        "objects": ([good, np.array([["a", 1.0]], dtype=object)], ValueError, r"X\[1\] \(shape \(1, 2\)\) is not numeric"),
        "sparse": (scipy.sparse.eye_array(4).tocsr(), TypeError, "toarray"),
        "sparse inside": ([good, scipy.sparse.eye_array(2).tocsr()], TypeError, r"X\[1\] is sparse.*toarray\(\)"),
        "generator": ((x for x in [good]), TypeError, r"got generator.*list\(X\)"),
        "dict": ({0: good}, TypeError, "got dict"),
        "None": (None, TypeError, "got NoneType"),
        "number": (3.0, TypeError, "got float"),
        "text": ("text", TypeError, "got str"),
        "list of texts": (["some", "texts"], ValueError, "1-D array of shape"),
        "1-D": (np.ones(4), ValueError, r"Reshape your data.*\[X.reshape\(-1, 1\)\]"),
        "list of numbers": ([1.0, 2.0], ValueError, "Reshape your data"),
        "4-D": (np.ones((2, 2, 2, 2)), ValueError, "4 axes"),
        "1-D and 2-D": ([good, np.ones(2)], ValueError, r"X\[1\] has shape \(2,\).*X\[1\].reshape\(-1, 1\)"),
        "1-D first": ([np.ones(2), good], ValueError, r"X\[0\] has shape \(2,\)"),
        "3-D inside": ([np.ones((2, 2, 2))], ValueError, r"X\[0\] has shape \(2, 2, 2\)"),
        "ragged rows": ([[1.0, 2.0], [3.0]], ValueError, r"X\[0\] has shape \(2,\) and X\[1\] has shape \(1,\)"),
        "ragged inside": ([[[1.0, 2.0], [3.0]]], ValueError, r"X\[0\] is not an \(L, D\) array: its rows differ"),
        "object numbers and dicts": (np.array([[1.0, {}]], dtype=object), TypeError, "float"),
    }  # fmt: skip


@pytest.mark.parametrize("kind", bad_inputs())
def test_bad_input_is_refused_with_advice(kind):
    X, error, message = bad_inputs()[kind]
    with pytest.raises(error, match=message):
        check_ragged(X)


def test_nonfinite_tokens_pass_on_request():
    X = np.full((2, 1, 1), np.inf)
    assert np.isinf(check_ragged(X, ensure_finite=False).values).all()


def test_huge_finite_tokens_are_finite():
    X = np.full((50, 2, 3), 1.7e308)  # their sum overflows
    assert len(check_ragged(X)) == 50


def test_missing_values_of_pandas_are_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1, 2]})
    for X in ([frame], frame):
        assert np.isnan(check_ragged(X, ensure_finite="allow-nan").values[1, 0])
        with pytest.raises(ValueError, match="contains NaN"):
            check_ragged(X)


def test_text_in_a_frame_is_found():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    with pytest.raises(ValueError, match=r"X\[0\] .*is not numeric in column 1"):
        check_ragged([frame])
    with pytest.raises(ValueError, match=r"not numeric in column 1.*drop the column of the groups"):
        RaggedArray.from_groups(frame, frame["b"])


@pytest.mark.parametrize(
    "wrap", [list, lambda frames: pd.Series(frames), lambda frames: pd.DataFrame({"X": frames})]
)
def test_frames_keep_their_columns_from_fit_to_predict(wrap):
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.standard_normal((3, 2)), columns=["a", "b"]) for _ in range(20)]
    pooler = SequencePooler().fit(wrap(frames))
    assert pooler.get_feature_names_out().tolist() == ["mean_a", "mean_b"]
    with pytest.raises(ValueError, match="feature names should match"):
        pooler.transform(wrap([frame[["b", "a"]] for frame in frames]))

"""Columns of other libraries, against the libraries themselves."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.preprocessing import SequencePooler
from sklearn_attn.ragged import check_ragged

LENGTHS = [2, 1, 4, 3]
D = 3


def tokens(dtype=np.float64):
    return np.random.default_rng(0).standard_normal((10, D)).astype(dtype)


def nested(dtype=np.float64):
    return [x.tolist() for x in np.split(tokens(dtype), np.cumsum(LENGTHS)[:-1])]


def assert_is(X, dtype=np.float64, lengths=LENGTHS):
    np.testing.assert_array_equal(X.values, tokens(dtype))
    np.testing.assert_array_equal(X.lengths, lengths)
    assert X.values.dtype == dtype


def shares(X, buffer):
    return np.shares_memory(X.values, buffer)


class TestAwkward:
    @pytest.fixture(autouse=True)
    def ak(self):
        return pytest.importorskip("awkward")

    def test_lists_of_lists(self, ak):
        assert_is(RaggedArray.from_awkward(ak.Array(nested())))

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
    def test_there_and_back_share_the_buffer(self, ak, dtype):
        X = RaggedArray.from_flat(tokens(dtype), lengths=LENGTHS)
        array = X.to_awkward()
        assert str(array.type) == f"4 * var * 3 * {np.dtype(dtype)}"
        assert ak.to_list(array) == nested(dtype)
        back = RaggedArray.from_awkward(array)
        assert_is(back, dtype)
        assert shares(back, X.values)

    def test_a_selection(self, ak):
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        for key in ([3, 0], slice(1, 3), np.array([True, False, True, False])):
            chosen = RaggedArray.from_awkward(X.to_awkward()[key])
            expected = X[key]
            np.testing.assert_array_equal(chosen.values, expected.values)
            np.testing.assert_array_equal(chosen.offsets, expected.offsets)

    def test_equal_lengths(self, ak):
        values = np.arange(24.0).reshape(4, 2, 3)
        X = RaggedArray.from_awkward(ak.Array(values))
        assert X.lengths.tolist() == [2, 2, 2, 2]
        np.testing.assert_array_equal(X.to_padded(), values)
        assert shares(X, values)

    @pytest.mark.parametrize(
        ("content", "error", "message"),
        [
            ([[1.0, 2.0]], ValueError, r"three axes, got type 1 \* var \* float64; .*numpy\.newaxis"),
            ([1.0], ValueError, "three axes"),
            ([[[1.0]], None], ValueError, r"X\[1\] is missing; drop"),
            ([[[1.0]], [[1.0], None]], ValueError, r"a token is missing in X\[1\], at token 1"),
            (
                [[[1.0, 2.0]], [[1.0, None]]],
                ValueError,
                r"a number is missing in X\[1\], at token 0, feature 1; .*impute",
            ),
            ([[[1.0, 2.0]], [[1.0, 3.0], [1.0]]], ValueError, r"token 1 of X\[1\] has 1"),
            ([[[True]], [["a"]]], TypeError, "got an Awkward array of type 2"),
            ([[["a"]]], (TypeError, ValueError), "Expected n sequences"),
            ([[], []], ValueError, "three axes"),
        ],
    )
    def test_what_is_no_set_of_sequences(self, ak, content, error, message):
        with pytest.raises(error, match=message):
            RaggedArray.from_awkward(ak.Array(content))


class TestArrow:
    @pytest.fixture(autouse=True)
    def pa(self):
        return pytest.importorskip("pyarrow")

    @pytest.fixture(
        params=[
            "list<list>",
            "list<fixed>",
            "large_list<fixed>",
            "large_list<large_list>",
            "list<list> of float32",
        ]
    )
    def column(self, pa, request):
        number = pa.float32() if "float32" in request.param else pa.float64()
        inner = {"list": pa.list_(number), "fixed": pa.list_(number, D), "large_list": pa.large_list(number)}
        inner = inner[request.param.partition("<")[2].partition(">")[0]]
        outer = pa.large_list if request.param.startswith("large") else pa.list_
        dtype = np.float32 if "float32" in request.param else np.float64
        return pa.array(nested(dtype), type=outer(inner)), dtype

    def test_every_kind_of_list(self, column):
        array, dtype = column
        assert_is(RaggedArray.from_arrow(array), dtype)

    def test_slices_and_chunks(self, pa, column):
        array, dtype = column
        X = RaggedArray.from_arrow(array[1:3])
        np.testing.assert_array_equal(X.values, tokens(dtype)[2:7])
        assert X.lengths.tolist() == [1, 4]
        assert_is(RaggedArray.from_arrow(pa.chunked_array([array[:1], array[1:3], array[3:]])), dtype)
        assert_is(RaggedArray.from_arrow(pa.table({"x": array})["x"]), dtype)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
    def test_there_and_back_share_the_buffer(self, pa, dtype):
        X = RaggedArray.from_flat(tokens(dtype), lengths=LENGTHS)
        array = X.to_arrow()
        array.validate(full=True)
        assert array.to_pylist() == nested(dtype)
        back = RaggedArray.from_arrow(array)
        assert_is(back, dtype)
        assert shares(back, X.values)
        assert shares(RaggedArray.from_arrow(pa.chunked_array([array])), X.values)

    def test_fixed_numbers_of_tokens(self, pa):
        array = pa.array(nested()[:1] * 2, type=pa.list_(pa.list_(pa.float64()), 2))
        assert RaggedArray.from_arrow(array).lengths.tolist() == [2, 2]

    def test_through_a_parquet_file(self, pa, tmp_path):
        parquet = pytest.importorskip("pyarrow.parquet")
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        parquet.write_table(pa.table({"x": X.to_arrow(), "y": [1, 2, 3, 4]}), tmp_path / "data.parquet")
        assert_is(RaggedArray.from_arrow(parquet.read_table(tmp_path / "data.parquet")["x"]))

    @pytest.mark.parametrize(
        ("content", "error", "message"),
        [
            ([[1.0, 2.0]], TypeError, "list of lists of numbers, but a token is double"),
            ([1.0], TypeError, "but X is double"),
            ([[[1.0]], None], ValueError, r"X\[1\] is missing"),
            ([[[1.0]], [[1.0], None]], ValueError, r"a token is missing in X\[1\], at token 1"),
            (
                [[[1.0, 2.0]], [[1.0, None]]],
                ValueError,
                r"a number is missing in X\[1\], at token 0, feature 1; .*impute",
            ),
            ([[[1.0, 2.0]], [[1.0, 3.0], [1.0]]], ValueError, r"token 1 of X\[1\] has 1"),
            ([[["a"]]], TypeError, "of type object"),
            ([[], []], TypeError, "a token is null"),
        ],
    )
    def test_what_is_no_set_of_sequences(self, pa, content, error, message):
        with pytest.raises(error, match=message):
            RaggedArray.from_arrow(pa.array(content))

    def test_missing_in_lists_of_fixed_size(self, pa):
        array = pa.array([[[1.0, 2.0], None], [[3.0, 4.0]]], type=pa.list_(pa.list_(pa.float64(), 2)))
        with pytest.raises(ValueError, match=r"a token is missing in X\[0\], at token 1"):
            RaggedArray.from_arrow(array)

    def test_tensors_of_fixed_shape(self, pa):
        values = np.arange(12.0).reshape(2, 2, 3)
        X = RaggedArray.from_arrow(pa.FixedShapeTensorArray.from_numpy_ndarray(values))
        np.testing.assert_array_equal(X.to_padded(), values)
        tokens_of_lists = pa.FixedShapeTensorArray.from_numpy_ndarray(tokens())
        assert_is(RaggedArray.from_arrow(pa.ListArray.from_arrays([0, 2, 3, 7, 10], tokens_of_lists)))

    def test_another_byte_order(self):
        X = RaggedArray.from_flat(tokens(">f8"), lengths=LENGTHS)
        assert_is(RaggedArray.from_arrow(X.to_arrow()))

    def test_a_table_says_to_pass_a_column(self, pa):
        with pytest.raises(TypeError, match="pass one of its columns"):
            RaggedArray.from_arrow(pa.table({"x": [[[1.0]]]}))


class TestArrowSelections:
    """What scikit-learn before 1.8 selects of an Arrow array: a list of its entries."""

    @pytest.fixture(autouse=True)
    def pa(self):
        return pytest.importorskip("pyarrow")

    def test_a_list_of_entries(self, pa):
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        for column in (X.to_arrow(), pa.array(nested())):
            selected = check_ragged([column[3], column[0]])
            for sequence, i in zip(selected, (3, 0), strict=True):
                np.testing.assert_array_equal(sequence, X[i])

    def test_what_is_missing_or_no_sequence(self, pa):
        column = pa.array([[[1.0, 2.0]], None])
        with pytest.raises(ValueError, match=r"X\[1\] is missing"):
            check_ragged([column[0], column[1]])
        with pytest.raises(TypeError, match="a token is double"):
            check_ragged([pa.array([[1.0, 2.0]])[0]])


class TestArrowExtensions:
    @pytest.fixture(autouse=True)
    def pa(self):
        return pytest.importorskip("pyarrow")

    def test_a_type_of_the_users_is_what_it_stores(self, pa):
        class Embeddings(pa.ExtensionType):
            def __init__(self, storage):
                super().__init__(storage, "tests.embeddings")

            def __arrow_ext_serialize__(self):
                return b""

        stored = pa.array(nested())
        assert_is(RaggedArray.from_arrow(pa.ExtensionArray.from_storage(Embeddings(stored.type), stored)))

    @pytest.mark.parametrize(
        ("lists", "message"), [([[], []], "Found no tokens"), ([[[], []]], "hold no numbers")]
    )
    def test_nothing_in_the_lists(self, pa, lists, message):
        with pytest.raises(ValueError, match=message):
            RaggedArray.from_arrow(pa.array(lists, pa.list_(pa.list_(pa.float64()))))


class TestPolars:
    @pytest.fixture(autouse=True)
    def pl(self):
        return pytest.importorskip("polars")

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
    def test_both_kinds_of_lists(self, pl, dtype):
        number = {"f8": pl.Float64, "f4": pl.Float32, "i4": pl.Int32}[np.dtype(dtype).str[1:]]
        assert_is(RaggedArray.from_polars(pl.Series(nested(dtype), dtype=pl.List(pl.List(number)))), dtype)
        assert_is(
            RaggedArray.from_polars(pl.Series(nested(dtype), dtype=pl.List(pl.Array(number, D)))), dtype
        )

    def test_slices_chunks_and_filters(self, pl):
        series = pl.Series("x", nested(), dtype=pl.List(pl.Array(pl.Float64, D)))
        assert_is(RaggedArray.from_polars(pl.concat([series[:1], series[1:]], rechunk=False)))
        X = RaggedArray.from_polars(series.filter(pl.Series([False, True, True, False])))
        np.testing.assert_array_equal(X.values, tokens()[2:7])
        assert X.lengths.tolist() == [1, 4]

    def test_the_buffer_is_shared(self, pl):
        pytest.importorskip("pyarrow")
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        series = pl.from_arrow(X.to_arrow())
        assert series.dtype == pl.List(pl.Array(pl.Float64, D))
        back = RaggedArray.from_polars(series)
        assert_is(back)
        assert shares(back, X.values)

    def test_arrays_of_fixed_size_and_frames_of_one_column(self, pl):
        values = np.arange(12.0).reshape(2, 2, 3)
        for kind in (pl.Array(pl.Float64, (2, 3)), pl.Array(pl.List(pl.Float64), 2)):
            X = RaggedArray.from_polars(pl.Series(values.tolist(), dtype=kind))
            np.testing.assert_array_equal(X.to_padded(), values)
        assert_is(RaggedArray.from_polars(pl.DataFrame({"x": nested()})))
        assert_is(check_ragged(pl.DataFrame({"x": nested()})))
        with pytest.raises(TypeError, match="got DataFrame; pass one of its columns"):
            RaggedArray.from_polars(pl.DataFrame({"x": nested(), "y": [1, 2, 3, 4]}))

    def test_sequences_without_tokens(self, pl):
        series = pl.Series([[], *nested(), []], dtype=pl.List(pl.List(pl.Float64)))
        assert_is(RaggedArray.from_polars(series), lengths=[0, *LENGTHS, 0])

    @pytest.mark.parametrize(
        ("content", "error", "message"),
        [
            ([[1.0, 2.0]], TypeError, "list of lists of numbers, but a token is Float64"),
            ([1.0], TypeError, "but X is Float64"),
            ([[[1.0]], None], ValueError, r"X\[1\] is missing"),
            ([[[1.0]], [[1.0], None]], ValueError, r"a token is missing in X\[1\], at token 1"),
            (
                [[[1.0, 2.0]], [[1.0, None]]],
                ValueError,
                r"a number is missing in X\[1\], at token 0, feature 1; .*impute",
            ),
            ([[[1.0, 2.0]], [[1.0, 3.0], [1.0]]], ValueError, r"token 1 of X\[1\] has 1"),
            ([[["a"]]], TypeError, "of type"),
        ],
    )
    def test_what_is_no_set_of_sequences(self, pl, content, error, message):
        with pytest.raises(error, match=message):
            RaggedArray.from_polars(pl.Series(content))

    def test_a_long_frame_with_a_column_of_groups(self, pl):
        frame = pl.DataFrame(tokens(), schema=["a", "b", "c"]).with_columns(
            bag=np.repeat([7, 5, 6, 9], LENGTHS)
        )
        assert_is(RaggedArray.from_groups(frame.drop("bag"), frame["bag"]))


@pytest.mark.parametrize("method", ["from_awkward", "from_arrow", "from_polars"])
@pytest.mark.parametrize("given", [None, [[[1.0]]], np.zeros((2, 3, 4))], ids=["None", "list", "array"])
def test_what_is_of_no_such_library_is_refused(method, given):
    pytest.importorskip({"arrow": "pyarrow"}.get(method[5:], method[5:]))
    with pytest.raises(TypeError, match=f"got {type(given).__name__}"):
        getattr(RaggedArray, method)(given)


class TestPandas:
    @pytest.fixture(autouse=True)
    def pd(self):
        return pytest.importorskip("pandas")

    def test_object_columns_and_back(self, pd):
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        series = pd.Series(X.to_list(), index=[3, 1, 0, 2])
        assert_is(RaggedArray.from_list(series))
        assert_is(check_ragged(pd.DataFrame({"x": series})))

    def test_a_long_frame_with_a_column_of_groups_and_back(self, pd):
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        frame = pd.DataFrame(X.values, columns=["a", "b", "c"]).assign(bag=np.repeat([7, 5, 6, 9], X.lengths))
        assert_is(RaggedArray.from_groups(frame.drop(columns="bag"), frame["bag"]))

    def test_columns_of_arrow_lists(self, pd):
        pytest.importorskip("pyarrow")
        X = RaggedArray.from_flat(tokens(), lengths=LENGTHS)
        series = pd.Series(X.to_arrow(), dtype=pd.ArrowDtype(X.to_arrow().type))
        assert_is(check_ragged(series))


@pytest.mark.parametrize("library", ["awkward", "pyarrow", "polars"])
def test_estimators_take_them_as_they_are(library):
    module = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = RaggedArray.from_flat(rng.standard_normal((60, 4)), lengths=[1, 5, 2, 4, 3] * 4)
    y = X.values[X.offsets[:-1], 0]
    if library == "polars":
        pytest.importorskip("pyarrow")
        foreign = module.from_arrow(X.to_arrow())
    else:
        foreign = {"awkward": X.to_awkward, "pyarrow": X.to_arrow}[library]()
    expected = SoftmaxAttentionRegressor().fit(X, y)
    model = SoftmaxAttentionRegressor().fit(foreign, y)
    np.testing.assert_array_equal(model.predict(foreign), expected.predict(X))
    assert model.n_features_in_ == 4
    baseline = make_pipeline(SequencePooler(), Ridge())
    np.testing.assert_array_equal(baseline.fit(foreign, y).predict(foreign), baseline.fit(X, y).predict(X))
    np.testing.assert_array_equal(
        cross_val_predict(model, foreign, y, cv=3), cross_val_predict(model, X, y, cv=3)
    )

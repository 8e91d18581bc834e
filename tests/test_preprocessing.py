"""TokenTransformer, SequencePooler and SequencePadder, alone and in scikit-learn's tools."""

import pickle
import warnings

import array_api_strict
import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_attn import RaggedArray
from sklearn_attn.preprocessing import SequencePadder, SequencePooler, TokenTransformer

TRANSFORMERS = [
    TokenTransformer(StandardScaler()),
    TokenTransformer(make_pipeline(StandardScaler(), PCA(n_components=1))),
    TokenTransformer(SelectKBest(k=1)),
    SequencePooler(),
    SequencePooler(["std", "first", "max"]),
    SequencePadder(),
    SequencePadder(max_length=2),
]

# Every check that is expected to fail, by class name, with its reason.
EXPECTED_FAILED_CHECKS = {}


def name(transformer):
    """Short name of a transformer as a test's id."""
    inner = getattr(transformer, "transformer", None)
    return type(transformer).__name__ if inner is None else f"tokens of {type(inner).__name__}"


FORMS = {
    "list": list,
    "object": lambda sequences: np.asarray(RaggedArray.from_list(sequences)),
    "ragged": RaggedArray.from_list,
    "column": lambda sequences: RaggedArray.from_list(sequences).to_column(),
    "frame": lambda sequences: pd.DataFrame({"bag": list(sequences)}),
    "strict": lambda sequences: RaggedArray(
        array_api_strict.asarray(np.concatenate(sequences)), np.cumsum([0, *map(len, sequences)])
    ),
}

POOLINGS = {
    "mean": lambda x: x.mean(axis=0),
    "max": lambda x: x.max(axis=0),
    "sum": lambda x: x.sum(axis=0),
    "std": lambda x: x.std(axis=0),
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
}


def assert_holds(ragged, sequences, **tolerance):
    assert isinstance(ragged, RaggedArray)
    assert len(ragged) == len(sequences)
    for a, b in zip(ragged, sequences, strict=True):
        np.testing.assert_allclose(a, b, **{"rtol": 1e-12, "atol": 1e-13, **tolerance})


@pytest.fixture
def y(sequences):
    return np.array([s[:, 0].sum() for s in sequences])


@pytest.fixture
def heavy_tailed(rng):
    """Eight hundred sequences, a few of them longer than a block of the reductions at D = 70."""
    lengths = np.minimum(np.ceil(rng.pareto(1.0, 800)), 900).astype(int)
    lengths[[3, 400]] = 5000
    lengths = np.maximum(lengths, 1)
    values = rng.standard_normal((lengths.sum(), 70)) + 3.0
    return RaggedArray.from_flat(values, lengths=lengths)


# -- scikit-learn's checks --------------------------------------------------------------------


@parametrize_with_checks(
    TRANSFORMERS,
    expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=name)
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_dataframe_column_names_consistency,
        estimator_checks.check_get_feature_names_out_error,
        estimator_checks.check_global_output_transform_pandas,
        estimator_checks.check_set_output_transform,
        estimator_checks.check_set_output_transform_pandas,
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_transformer_get_feature_names_out_pandas,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learn_checks_of_names_and_frames(transformer, check):
    check(type(transformer).__name__, transformer)


def test_tags_follow_the_inner_transformer():
    assert get_tags(TokenTransformer(StandardScaler())).input_tags.allow_nan
    assert not get_tags(TokenTransformer(PCA())).input_tags.allow_nan
    assert get_tags(TokenTransformer(NeighborhoodComponentsAnalysis())).target_tags.required
    assert get_tags(TokenTransformer(SelectKBest())).transformer_tags.preserves_dtype == ["float64"]
    for transformer in [*TRANSFORMERS, TokenTransformer(None), TokenTransformer(StandardScaler)]:
        assert get_tags(transformer).input_tags.two_d_array
        assert get_tags(transformer).input_tags.three_d_array
    assert get_tags(SequencePooler()).transformer_tags.preserves_dtype == ["float64", "float32"]


# -- TokenTransformer -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner",
    [
        StandardScaler(),
        PCA(n_components=2),
        Nystroem(n_components=5, random_state=0),
        KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
        make_pipeline(StandardScaler(), PCA(n_components=1)),
        Normalizer(),
        FunctionTransformer(np.exp),
    ],
    ids=lambda inner: type(inner).__name__,
)
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_inner_transformer_token_by_token(sequences, inner, form, array_api_dispatch):
    X = FORMS[form](sequences)
    by_hand = clone(inner).fit(np.concatenate(sequences))
    expected = [by_hand.transform(s) for s in sequences]
    transformer = TokenTransformer(inner)
    assert_holds(transformer.fit(X).transform(X), expected)
    assert_holds(clone(transformer).fit_transform(X), expected)
    assert_holds(transformer.transform(X[:3]), expected[:3])
    assert transformer.n_features_in_ == 3
    assert not hasattr(transformer, "feature_names_in_")
    assert not hasattr(inner, "n_features_in_")  # it was cloned


def test_a_3d_array_gives_sequences_and_a_table_a_table(rng):
    X = rng.standard_normal((7, 4, 3))
    transformer = TokenTransformer(StandardScaler())
    expected = StandardScaler().fit_transform(X.reshape(-1, 3)).reshape(X.shape)
    assert_holds(transformer.fit_transform(X), expected)
    table = X[:, 0]
    expected = StandardScaler().fit_transform(table)
    for form in (table, table.tolist()):
        actual = transformer.fit_transform(form)
        assert isinstance(actual, np.ndarray)
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
    # Sequences that happen to hold one token each remain sequences.
    assert_holds(transformer.fit_transform(X[:, :1]), expected[:, None])
    assert_holds(transformer.fit_transform(list(X[:, :1])), expected[:, None])


def test_inner_parameters_are_reached_from_outside(sequences):
    transformer = TokenTransformer(PCA(n_components=2))
    assert transformer.get_params()["transformer__n_components"] == 2
    transformer.set_params(transformer__n_components=1).fit(sequences)
    assert transformer.transform(sequences).n_features == 1
    assert transformer.transformer_.n_components_ == 1
    assert clone(transformer).transformer.n_components == 1


class StepsApart(TransformerMixin, BaseEstimator):
    """Tells which of its methods were called."""

    def fit(self, X, y=None):
        self.target_ = y
        return self

    def transform(self, X):
        return X + 1.0

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X) + 1.0


def test_calls_the_inner_fit_transform(sequences):
    transformer = TokenTransformer(StepsApart())
    assert_holds(transformer.fit_transform(sequences), [s + 2.0 for s in sequences])
    assert_holds(transformer.transform(sequences), [s + 1.0 for s in sequences])


def test_repeats_y_for_every_token(sequences, y, array_api_dispatch):
    lengths = [len(s) for s in sequences]
    forms = (y, y.tolist(), pd.Series(y, index=np.arange(12)[::-1]), array_api_strict.asarray(y))
    for target in forms:
        inner = TokenTransformer(StepsApart()).fit(sequences, target).transformer_
        np.testing.assert_array_equal(inner.target_, np.repeat(y, lengths))
    two = np.column_stack([y, -y])
    inner = TokenTransformer(StepsApart()).fit(sequences, two).transformer_
    np.testing.assert_array_equal(inner.target_, np.repeat(two, lengths, axis=0))
    assert TokenTransformer(StepsApart()).fit(sequences).transformer_.target_ is None
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[12, 11\]"):
        TokenTransformer(StandardScaler()).fit(sequences, y[1:])


def test_supervised_inner_transformers(sequences, y):
    selected = TokenTransformer(SelectKBest(f_regression, k=1)).fit_transform(sequences, y)
    tokens = np.concatenate(sequences)
    by_hand = SelectKBest(f_regression, k=1).fit(tokens, np.repeat(y, [len(s) for s in sequences]))
    assert_holds(selected, [by_hand.transform(s) for s in sequences])
    encoder = TokenTransformer(TargetEncoder(target_type="continuous"))
    rounded = [s.round() for s in sequences]
    apart = encoder.fit(rounded, y).transform(rounded).values
    assert not np.allclose(encoder.fit_transform(rounded, y).values, apart)  # cross-fitted


def test_inverse_transform(sequences):
    transformer = TokenTransformer(StandardScaler()).fit(sequences)
    assert_holds(transformer.inverse_transform(transformer.transform(sequences)), sequences)
    table = np.concatenate(sequences)
    np.testing.assert_allclose(transformer.inverse_transform(transformer.transform(table)), table, rtol=1e-12)
    assert hasattr(TokenTransformer(StandardScaler()), "inverse_transform")
    assert not hasattr(TokenTransformer(Normalizer()), "inverse_transform")
    with pytest.raises(NotFittedError):
        TokenTransformer(StandardScaler()).inverse_transform(sequences)


def test_feature_names_of_tokens(sequences):
    transformer = TokenTransformer(PCA(n_components=2)).fit(sequences)
    assert list(transformer.get_feature_names_out()) == ["pca0", "pca1"]
    transformer = TokenTransformer(StandardScaler()).fit(sequences)
    assert list(transformer.get_feature_names_out()) == ["x0", "x1", "x2"]
    assert list(transformer.get_feature_names_out(["a", "b", "c"])) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="should have length equal"):
        transformer.get_feature_names_out(["a", "b"])
    assert not hasattr(TokenTransformer(FunctionTransformer(np.exp)), "get_feature_names_out")


@pytest.mark.parametrize(
    "inner",
    [
        StandardScaler(copy=False),
        MaxAbsScaler(copy=False),
        RobustScaler(copy=False),
        Normalizer(copy=False),
        PCA(copy=False),
        PowerTransformer(copy=False),
        SimpleImputer(copy=False, add_indicator=True),
        QuantileTransformer(copy=False, n_quantiles=5),
    ],
    ids=lambda inner: type(inner).__name__,
)
# scikit-learn before 1.9, of numbers that come back to two of these
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_never_writes_into_its_input(rng, inner):
    tokens = rng.standard_normal((20, 3)) + 2.0
    one, cube, table = tokens.copy(), tokens.reshape(5, 4, 3).copy(), tokens.copy()
    frame = pd.DataFrame(tokens, columns=list("abc"))
    packed = RaggedArray.from_flat(tokens.copy(), lengths=[3, 17])
    for X in ([one], cube, table, frame, packed):  # all share their memory with the packed buffer
        transformer = TokenTransformer(inner)
        transformer.fit(X).transform(X)
        moved = transformer.fit_transform(X)
        if hasattr(transformer, "inverse_transform"):
            transformer.inverse_transform(moved)
    for X in (one, cube.reshape(-1, 3), table, frame.to_numpy(), packed.values):
        np.testing.assert_array_equal(X, tokens)
    for X in (one, cube, table):
        assert X.flags.writeable


def test_a_careless_inner_transformer_cannot_write(sequences):
    def shift(X):
        X += 1.0
        return X

    ragged = RaggedArray.from_list(sequences)
    with pytest.raises(ValueError, match="read-only"):
        TokenTransformer(FunctionTransformer(shift)).fit_transform(ragged)
    assert_holds(ragged, sequences, rtol=0, atol=0)


def test_missing_values_reach_an_inner_transformer_that_allows_them(sequences):
    sequences[2][1, 0] = np.nan
    imputed = TokenTransformer(SimpleImputer()).fit_transform(sequences)
    expected = SimpleImputer().fit_transform(np.concatenate(sequences))
    np.testing.assert_allclose(imputed.values, expected)
    scaled = TokenTransformer(StandardScaler()).fit(sequences).transform(sequences)
    assert np.flatnonzero(np.isnan(scaled[2][:, 0])) == [1]
    with pytest.raises(ValueError, match=r"contains NaN: X\[2\] \(shape \(9, 3\)\) at token 1, feature 0"):
        make_pipeline(TokenTransformer(StandardScaler()), SequencePooler()).fit(sequences)
    with pytest.raises(ValueError, match=r"contains NaN: X\[2\]"):
        TokenTransformer(PCA()).fit(sequences)
    sequences[4][0, 1] = np.inf
    with pytest.raises(
        ValueError, match=r"contains infinity: X\[4\] \(shape \(2, 3\)\) at token 0, feature 1"
    ):
        TokenTransformer(SimpleImputer()).fit(sequences)


def test_padding_is_not_imputed(ragged):
    padded = ragged.to_padded()
    for transformer in (TokenTransformer(SimpleImputer()), TokenTransformer(StandardScaler())):
        with pytest.raises(ValueError, match=r"RaggedArray.from_padded\(X\) drops"):
            transformer.fit(padded)
        assert len(transformer.fit_transform(RaggedArray.from_padded(padded))) == len(ragged)


class Returns(TransformerMixin, BaseEstimator):
    def __init__(self, result):
        self.result = result

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.result(X)


@pytest.mark.parametrize("method", ["fit_transform", "transform"])
@pytest.mark.parametrize(
    ("inner", "error", "message"),
    [
        (Returns(sparse.csr_array), TypeError, "Returns returned a sparse matrix.*sparse_output=False"),
        (Returns(lambda X: X[1:]), ValueError, r"one row per token, shape \(45, n_features_out\).*\(44, 3\)"),
        (Returns(lambda X: X[:, 0]), ValueError, r"one row per token.*returned shape \(45,\)"),
    ],
)
def test_refuses_what_is_not_one_row_per_token(sequences, inner, error, message, method):
    transformer = TokenTransformer(inner)
    if method == "transform":
        transformer.fit(sequences)
    with pytest.raises(error, match=message):
        getattr(transformer, method)(sequences)
    assert hasattr(transformer, "transformer_") == (method == "transform")


def test_sparse_output_can_be_turned_off(sequences):
    signs = [np.sign(s) for s in sequences]
    with pytest.raises(TypeError, match="sparse_output=False"):
        TokenTransformer(OneHotEncoder()).fit_transform(signs)
    encoded = TokenTransformer(OneHotEncoder(sparse_output=False)).fit_transform(signs)
    assert_holds(encoded[:1], [np.column_stack([signs[0] < 0, signs[0] > 0])[:, [0, 3, 1, 4, 2, 5]]])


@pytest.mark.parametrize("wrong", [None, "passthrough", StandardScaler, Ridge(), 3])
def test_refuses_what_is_no_transformer(sequences, wrong):
    with pytest.raises(TypeError, match=r"instance with fit and transform, such as StandardScaler\(\), got"):
        TokenTransformer(wrong).fit(sequences)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, bool, ">f4", ">f8"])
def test_token_dtypes(sequences, dtype):
    cast = [s.astype(dtype) for s in sequences]
    expected = np.float32 if np.dtype(dtype).itemsize == 4 and np.dtype(dtype).kind == "f" else np.float64
    transformed = TokenTransformer(StandardScaler()).fit_transform(cast)
    assert transformed.values.dtype == expected
    assert transformed.values.flags.c_contiguous
    assert TokenTransformer(Returns(lambda X: X > 0)).fit_transform(cast).values.dtype == np.float64
    for pooling in POOLINGS:
        assert SequencePooler(pooling).fit_transform(cast).dtype == expected
    assert SequencePadder().fit_transform(cast).dtype == expected


# -- SequencePooler ---------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("form", FORMS)
def test_pools_every_form(sequences, pooling, form, array_api_dispatch):
    pooled = SequencePooler(pooling).fit_transform(FORMS[form](sequences))
    expected = [POOLINGS[pooling](s) for s in sequences]
    np.testing.assert_allclose(pooled, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [70, 1])
def test_pools_as_a_loop_does(heavy_tailed, dtype, n_features):
    X = RaggedArray(heavy_tailed.values[:, :n_features].astype(dtype), heavy_tailed.offsets)
    pooled = SequencePooler(list(POOLINGS)).fit_transform(X)
    exact = [x.astype(np.float64) for x in X]
    expected = [np.concatenate([pool(x) for pool in POOLINGS.values()]) for x in exact]
    # Sums in float64, rounded once: to half a unit in the last place of float32.
    tolerance = {"rtol": 6e-8, "atol": 0} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(pooled, expected, **tolerance)
    assert pooled.dtype == dtype


def test_a_list_of_poolings_stands_side_by_side(sequences):
    for names in (["max", "mean"], ("std", "last", "sum")):
        pooled = SequencePooler(names).fit_transform(sequences)
        apart = [SequencePooler(name).fit_transform(sequences) for name in names]
        np.testing.assert_array_equal(pooled, np.hstack(apart))


def test_std_is_sound_far_from_zero(rng):
    sequences = [rng.standard_normal((n, 2)) * 1e-3 + [1e6, -1e6] for n in (2, 50, 3000)]
    pooled = SequencePooler("std").fit_transform(sequences)
    shifted = np.array([(s - s[0]).std(axis=0) for s in sequences])
    assert (shifted > 1e-4).all()  # it is not lost in the data themselves
    np.testing.assert_allclose(pooled, shifted, rtol=1e-6)


def test_std_of_one_token_is_zero(rng):
    one = rng.standard_normal((5, 1, 3)) * 1e8
    np.testing.assert_array_equal(SequencePooler("std").fit_transform(one), np.zeros((5, 3)))


def test_sums_of_float32_do_not_lose_tokens():
    X = np.ones((1, 2**25, 1), dtype=np.float32)  # a float32 sum would stop at 2^24
    pooled = SequencePooler(["sum", "mean"]).fit_transform(X)
    np.testing.assert_array_equal(pooled, [[2**25, 1.0]])


@pytest.mark.parametrize(("size", "dtype"), [(1e200, np.float64), (3e38, np.float32)])
def test_poolings_that_overflow(size, dtype):
    X = [size * np.array([[1.0], [1.0], [-1.0], [1.0]], dtype=dtype)]
    assert np.isfinite(SequencePooler(["first", "max"]).fit_transform(X)).all()
    with pytest.raises(ValueError, match=rf'"(std|sum)" overflows {np.dtype(dtype)}: divide X'):
        SequencePooler(["max", "std", "sum"]).fit_transform(X)


def test_maxima_of_negative_tokens():
    X = [np.array([[-3.0], [-1.0]]), np.array([[-np.finfo(float).max]])]
    np.testing.assert_array_equal(SequencePooler("max").fit_transform(X), [[-1.0], [-np.finfo(float).max]])


def test_pooling_names(sequences):
    pooler = SequencePooler(["mean", "max"]).fit(sequences)
    assert list(pooler.get_feature_names_out()) == [
        "mean_x0",
        "mean_x1",
        "mean_x2",
        "max_x0",
        "max_x1",
        "max_x2",
    ]
    assert list(pooler.get_feature_names_out(list("abc")))[::3] == ["mean_a", "max_a"]


@pytest.mark.parametrize("wrong", ["median", ["mean", "median"], [], None, 3, [["mean"]], {"mean"}])
def test_refuses_unknown_poolings(sequences, wrong):
    with pytest.raises(ValueError, match=r"pooling must be one of \['mean', 'max', 'sum', .* or a list"):
        SequencePooler(wrong).fit(sequences)


def test_refuses_the_same_pooling_twice(sequences):
    with pytest.raises(ValueError, match="each kind once"):
        SequencePooler(["mean", "max", "mean"]).fit(sequences)


# -- SequencePadder ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_pads_every_form(sequences, form, array_api_dispatch):
    padder = SequencePadder()
    padded = padder.fit_transform(FORMS[form](sequences))
    assert padder.max_length_ == 9
    assert padded.shape == (12, 27)
    for row, sequence in zip(padded, sequences, strict=True):
        np.testing.assert_array_equal(row[: sequence.size], sequence.ravel())
        assert not row[sequence.size :].any()


def test_warns_only_where_the_length_was_learned(sequences):
    padder = SequencePadder().fit(sequences[:2])  # 3 tokens and 1
    with pytest.warns(
        UserWarning, match=r"5 of 12 sequences.*the first 3; set max_length.*up to 9"
    ) as record:
        padded = padder.transform(sequences)
    assert record[0].filename == __file__
    assert padded.shape == (12, 9)
    np.testing.assert_array_equal(padded[2], sequences[2][:3].ravel())
    chosen = SequencePadder(max_length=3).fit(sequences)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(chosen.transform(sequences), padded)
    longer = SequencePadder(max_length=np.int64(20)).fit_transform(sequences)
    assert longer.shape == (12, 60)
    assert not longer[:, 27:].any()


def test_position_names(sequences):
    padder = SequencePadder(max_length=2).fit(sequences)
    expected = ["token0_x0", "token0_x1", "token0_x2", "token1_x0", "token1_x1", "token1_x2"]
    assert list(padder.get_feature_names_out()) == expected
    frame = padder.set_output(transform="pandas").transform(sequences)
    np.testing.assert_array_equal(frame["token1_x2"], [s[1, 2] if len(s) > 1 else 0.0 for s in sequences])


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "3", True, [2]])
def test_refuses_a_wrong_length(sequences, wrong):
    with pytest.raises(ValueError, match="max_length must be a positive integer or None, got"):
        SequencePadder(max_length=wrong).fit(sequences)


# -- all of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=name)
class TestAll:
    @pytest.fixture
    def y(self, y):
        return y > 0

    def test_clone_and_pickle(self, transformer, sequences, y, tmp_path):
        fitted = clone(transformer).fit(sequences, y)
        joblib.dump(fitted, tmp_path / "fitted.joblib")
        mapped = joblib.load(tmp_path / "fitted.joblib", mmap_mode="r")
        expected = fitted.transform(sequences[:5])
        for other in (pickle.loads(pickle.dumps(fitted)), mapped, clone(fitted).fit(sequences, y)):
            for a, b in zip(other.transform(sequences[:5]), expected, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_a_failed_fit_changes_nothing(self, transformer, sequences, y):
        fitted = clone(transformer).fit(sequences, y)
        before = dict(vars(fitted))
        for X in ([s[:, :2] for s in sequences[:3]] + sequences[3:], [*sequences[:-1], np.zeros((0, 3))]):
            with pytest.raises(ValueError, match=r"X\["):
                fitted.fit(X, y)
        with pytest.raises(
            TypeError, match="Feature names are only supported if all input features have string names"
        ):
            fitted.fit(pd.DataFrame(np.ones((12, 2)), columns=["a", 1]), y)
        assert vars(fitted) == before
        assert list(vars(clone(transformer))) == list(transformer.get_params(deep=False))

    def test_other_features_are_refused(self, transformer, sequences, y):
        fitted = clone(transformer).fit(sequences, y)
        with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
            fitted.transform([s[:, :2] for s in sequences])
        with pytest.raises(ValueError, match="look transposed"):
            fitted.transform([np.ones((3, 5)), np.ones((3, 5))])

    def test_unfitted(self, transformer, sequences):
        for method in (transformer.transform, lambda _: transformer.get_feature_names_out()):
            with pytest.raises(NotFittedError):
                method(sequences)

    def test_read_only_memory_maps(self, transformer, ragged, y, tmp_path):
        joblib.dump(ragged, tmp_path / "ragged.joblib")
        mapped = joblib.load(tmp_path / "ragged.joblib", mmap_mode="r")
        expected = clone(transformer).fit(ragged, y).transform(ragged)
        for a, b in zip(clone(transformer).fit_transform(mapped, y), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)

    def test_refit_on_sequences_forgets_the_names(self, transformer, sequences, y):
        frame = pd.DataFrame(np.concatenate(sequences)[:12], columns=list("abc"))
        fitted = clone(transformer).fit(frame, y)
        assert list(fitted.feature_names_in_) == ["a", "b", "c"]
        fitted.fit(sequences, y)
        assert not hasattr(fitted, "feature_names_in_")


# -- in scikit-learn's tools ------------------------------------------------------------------

TOOL_FORMS = [form for form in FORMS if form != "strict"]


@pytest.mark.parametrize("form", TOOL_FORMS)
@pytest.mark.parametrize(
    "inner", [StandardScaler(), PCA(2), Nystroem(n_components=4, random_state=0)], ids=str
)
def test_pipeline(sequences, y, form, inner, array_api_dispatch):
    X = FORMS[form](sequences)
    model = make_pipeline(TokenTransformer(inner), SequencePooler(["mean", "max"]), Ridge())
    predicted = model.fit(X, y).predict(X)
    by_hand = clone(inner).fit(np.concatenate(sequences))
    tokens = [by_hand.transform(s) for s in sequences]
    rows = np.array([np.r_[t.mean(axis=0), t.max(axis=0)] for t in tokens])
    np.testing.assert_allclose(predicted, Ridge().fit(rows, y).predict(rows), rtol=1e-9)
    assert np.isfinite(cross_val_score(model, X, y, cv=3, error_score="raise")).all()


@pytest.mark.parametrize("form", TOOL_FORMS)
def test_grid_search_over_inner_parameters(sequences, y, form, array_api_dispatch):
    model = make_pipeline(TokenTransformer(PCA()), SequencePadder(max_length=4), Ridge())
    grid = {"tokentransformer__transformer__n_components": [1, 3]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise", scoring="neg_mean_squared_error")
    search.fit(FORMS[form](sequences), y)
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0
    best = clone(model).set_params(**search.best_params_).fit(sequences, y)
    np.testing.assert_allclose(search.predict(sequences), best.predict(sequences), rtol=1e-8)
    assert search.best_params_["tokentransformer__transformer__n_components"] == 3  # y is in one feature


def test_feature_union(sequences, array_api_dispatch):
    union = FeatureUnion([("m", SequencePooler("mean")), ("s", SequencePooler(["std", "last"]))])
    rows = union.fit_transform(sequences)
    np.testing.assert_allclose(
        rows, SequencePooler(["mean", "std", "last"]).fit_transform(sequences), rtol=1e-12
    )
    assert list(union.get_feature_names_out())[2:4] == ["m__mean_x2", "s__std_x0"]
    frame = union.set_output(transform="pandas").fit_transform(RaggedArray.from_list(sequences))
    assert list(frame.columns) == list(union.get_feature_names_out())


def test_column_transformer(sequences):
    frame = pd.DataFrame({"bag": sequences, "size": np.arange(12.0)})
    columns = ColumnTransformer([("bag", SequencePooler("max"), ["bag"]), ("rest", "passthrough", ["size"])])
    rows = columns.fit_transform(frame)
    np.testing.assert_array_equal(rows[:, :3], [s.max(axis=0) for s in sequences])
    np.testing.assert_array_equal(rows[:, 3], np.arange(12.0))


def test_pandas_output_of_a_pipeline(sequences):
    model = make_pipeline(TokenTransformer(StandardScaler()), SequencePooler(["mean", "max"]))
    expected = model.fit_transform(sequences)
    frame = model.set_output(transform="pandas").fit_transform(sequences)
    assert list(frame.columns) == ["mean_x0", "mean_x1", "mean_x2", "max_x0", "max_x1", "max_x2"]
    np.testing.assert_array_equal(frame, expected)
    assert isinstance(model[:1].transform(sequences), RaggedArray)
    index = pd.Index([f"bag {i}" for i in range(12)])
    column = pd.DataFrame({"bag": sequences}, index=index)
    assert model[-1].fit_transform(column).index.equals(index)


def test_pandas_output_of_the_inner_transformer_is_packed_again(sequences):
    expected = TokenTransformer(StandardScaler()).fit_transform(sequences)
    inside = TokenTransformer(StandardScaler().set_output(transform="pandas"))
    outside = TokenTransformer(StandardScaler()).set_output(transform="pandas")
    for transformer in (inside, outside):
        assert_holds(transformer.fit_transform(sequences), expected.to_list())
        half = transformer.fit([s.astype("f4") for s in sequences]).transform([sequences[0].astype("f4")])
        assert half.values.dtype == np.float32
    fitted = TokenTransformer(StandardScaler()).fit(sequences).set_output(transform="pandas")
    assert isinstance(fitted.transform(sequences), RaggedArray)
    assert list(fitted.transform(sequences[0]).columns) == ["x0", "x1", "x2"]
    assert (
        TokenTransformer(Returns(np.exp)).set_output(transform="pandas").fit_transform(sequences).n_features
        == 3
    )


def test_a_frame_of_tokens_reaches_the_inner_transformer_by_name(rng):
    frame = pd.DataFrame(rng.standard_normal((10, 3)), columns=list("abc"), index=np.arange(10)[::-1])
    chosen = ColumnTransformer([("scaled", StandardScaler(), ["c", "a"])])
    transformer = TokenTransformer(chosen).set_output(transform="pandas")
    scaled = transformer.fit_transform(frame)
    assert list(scaled.columns) == ["scaled__c", "scaled__a"]
    assert list(transformer.get_feature_names_out()) == list(scaled.columns)
    assert scaled.index.equals(frame.index)

"""What reaches fit through scikit-learn's tools, for every form of X, with array-API dispatch off and on."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from sklearn_attn import LinearAttentionRegressor, RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer
from sklearn_attn.ragged import check_ragged

N = 60
GRID = {"alpha": [0.1, 1.0, 10.0]}
EQUAL = ["list", "object", "3-D", "packed", "column", "frame"]
FORMS = EQUAL + [f"unequal {form}" for form in EQUAL if form != "3-D"]
COLUMNS = [form for form in FORMS if form.endswith(("column", "frame"))]

pytestmark = pytest.mark.usefixtures("array_api_dispatch")


def make_X(form):
    """Sixty sequences in one form: of four tokens, so that a 3-D array can hold them, or of one to six."""
    rng = np.random.default_rng(0)
    padded = rng.standard_normal((N, 4, 3))
    ragged = RaggedArray.from_padded(padded)
    if form.startswith("unequal"):
        lengths = rng.integers(1, 7, N)
        ragged = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 3)), lengths=lengths)
    return {
        "list": list(ragged),
        "object": np.asarray(ragged),
        "3-D": padded,
        "packed": ragged,
        "column": ragged.to_column(),
        "frame": pd.DataFrame({"X": np.asarray(ragged)}),
    }[form.removeprefix("unequal ")]


@pytest.fixture(params=FORMS)
def X(request):
    return make_X(request.param)


@pytest.fixture(params=COLUMNS)
def column(request):
    return make_X(request.param)


@pytest.fixture
def y(request):
    """Sums of the first feature over the tokens of X, or of the column."""
    X = check_ragged(request.getfixturevalue("X" if "X" in request.fixturenames else "column"))
    return np.add.reduceat(X.values[:, 0], X.offsets[:-1]) + 0.1 * np.random.default_rng(1).standard_normal(N)


@pytest.fixture
def model():
    return SoftmaxAttentionRegressor(alpha=0.5)


def assert_as_packed(run, X, rtol=1e-6):
    """Run on X and on a RaggedArray: the results agree, and are finite."""
    actual, expected = run(X), run(check_ragged(X))
    assert np.isfinite(actual).all()
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-8)


def test_fit_predict_score_clone_pickle(X, y, model):
    def run(X):
        fitted = clone(model).fit(X, y)
        again = pickle.loads(pickle.dumps(fitted))
        return np.append(again.predict(X), fitted.score(X, y))

    assert_as_packed(run, X)


def test_cross_validation(X, y, model):
    assert_as_packed(lambda X: cross_val_score(model, X, y, cv=3, error_score="raise"), X)
    assert_as_packed(lambda X: cross_val_predict(model, X, y, cv=3), X)
    assert_as_packed(
        lambda X: cross_validate(model, X, y, cv=3, error_score="raise", return_train_score=True)[
            "train_score"
        ],
        X,
    )


def test_train_test_split(X, y, model):
    def run(X):
        X_train, X_test, y_train, _ = train_test_split(X, y, random_state=0)
        return clone(model).fit(X_train, y_train).predict(X_test)

    assert_as_packed(run, X)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV])
def test_searches(X, y, model, search):
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    if search is not GridSearchCV:
        options["random_state"] = 0

    def run(X):
        fitted = search(model, GRID, cv=3, error_score="raise", **options).fit(X, y)
        return np.append(fitted.cv_results_["mean_test_score"], fitted.predict(X))

    assert_as_packed(run, X)


def test_curves(X, y, model):
    assert_as_packed(
        lambda X: learning_curve(model, X, y, cv=3, train_sizes=[0.5, 1.0], error_score="raise")[2], X
    )
    assert_as_packed(
        lambda X: validation_curve(
            model, X, y, param_name="alpha", param_range=[0.1, 1.0], cv=3, error_score="raise"
        )[1],
        X,
    )


def test_pipelines(X, y, model):
    scaled = make_pipeline(TokenTransformer(StandardScaler()), model)
    assert_as_packed(lambda X: clone(scaled).fit(X, y).predict(X), X)
    pooled = make_pipeline(SequencePooler(["mean", "max"]), StandardScaler(), Ridge())
    assert_as_packed(lambda X: clone(pooled).fit(X, y).predict(X), X)
    union = make_pipeline(make_union(SequencePooler("mean"), SequencePooler("std")), Ridge())
    assert_as_packed(lambda X: clone(union).fit(X, y).predict(X), X)


def test_meta_regressors(X, y, model):
    target = TransformedTargetRegressor(model, transformer=StandardScaler())
    assert_as_packed(lambda X: clone(target).fit(X, y).predict(X), X)
    voting = VotingRegressor([("softmax", model), ("linear", LinearAttentionRegressor())])
    assert_as_packed(lambda X: clone(voting).fit(X, y).predict(X), X)
    several = MultiOutputRegressor(model)
    assert_as_packed(lambda X: clone(several).fit(X, np.stack([y, -y], axis=1)).predict(X), X)


def test_stacking(X, y, model):
    pooled = make_pipeline(SequencePooler(), Ridge())
    stack = StackingRegressor([("attention", model), ("pooled", pooled)], final_estimator=Ridge(), cv=3)
    assert_as_packed(lambda X: clone(stack).fit(X, y).predict(X), X)


def test_bagging_takes_a_column(column, y, model):
    bagged = BaggingRegressor(model, n_estimators=3, random_state=0).fit(column, y)
    assert bagged.score(column, y) > 0.3


def test_permutation_importance_takes_a_column(column, y, model):
    fitted = model.fit(column, y)
    importance = permutation_importance(fitted, column, y, n_repeats=3, random_state=0)
    assert importance.importances_mean.shape == (1,)
    assert importance.importances_mean[0] > 0.1


def test_column_transformer_takes_a_column(column, y):
    names = ["X"] if isinstance(column, pd.DataFrame) else [0]
    pooled = ColumnTransformer([("pool", SequencePooler(), names)])
    fitted = make_pipeline(pooled, Ridge()).fit(column, y)
    assert fitted.score(column, y) > 0.3


@pytest.mark.parametrize(
    "tool",
    [
        lambda X, y, model: make_pipeline(StandardScaler(), model).fit(X, y),
        lambda X, y, model: RFE(model).fit(X, y),
        lambda X, y, model: RegressorChain(model).fit(X, np.stack([y, y], axis=1)),
        lambda X, y, model: partial_dependence(model.fit(X, y), X, [0]),
        lambda X, y, model: StackingRegressor([("a", model)], passthrough=True, cv=3).fit(X, y),
    ],
    ids=["StandardScaler in front", "RFE", "RegressorChain", "partial_dependence", "passthrough"],
)
def test_tools_that_cannot_take_sequences_fail_loudly(X, y, model, tool):
    with pytest.raises((ValueError, TypeError, AttributeError, IndexError)):
        tool(X, y, model)


def test_workers_get_a_read_only_memory_map(array_api_dispatch):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 60, 400)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 20)), lengths=lengths)
    assert X.nbytes > 2**20  # joblib maps larger buffers
    y = rng.standard_normal(400)
    scores = [
        GridSearchCV(SoftmaxAttentionRegressor(), GRID, cv=2, n_jobs=n_jobs, error_score="raise")
        .fit(X, y)
        .cv_results_
        for n_jobs in (1, 2)
    ]
    np.testing.assert_allclose(scores[0]["mean_test_score"], scores[1]["mean_test_score"], rtol=1e-9)

"""Permutation importance of the parts of tokens."""

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.inspection import token_permutation_importance
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer


@pytest.fixture(scope="module")
def data():
    """The first token of a sequence alone, and there feature 2, decides."""
    rng = np.random.default_rng(0)
    lengths = np.append(rng.integers(1, 5, 200), 6)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 4)), lengths=lengths)
    return X, X.values[X.offsets[:-1], 2]


class First:
    """Knows the function."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X.values[X.offsets[:-1], 2]

    def score(self, X, y, sample_weight=None):
        return -mean_squared_error(y, self.predict(X), sample_weight=sample_weight)


def test_only_what_is_used_matters(data):
    result = token_permutation_importance(First(), *data, random_state=0)
    assert result.importances.shape == (4, 5)
    assert np.all(result.importances[[0, 1, 3]] == 0.0)
    assert np.all(result.importances[2] > 1.0)  # twice the variance
    np.testing.assert_array_equal(result.importances_mean, result.importances.mean(axis=1))
    np.testing.assert_array_equal(result.importances_std, result.importances.std(axis=1))
    positions = token_permutation_importance(First(), *data, by="position", n_repeats=3, random_state=0)
    assert positions.importances.shape == (6, 3)
    assert np.all(positions.importances[1:] == 0.0)
    assert np.all(positions.importances[0] > 1.0)


def test_is_scikit_learns_where_sequences_have_one_token():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = X @ [3.0, 1.0, 0.0]
    model = SoftmaxAttentionRegressor(1e-3).fit(X, y)
    ours = token_permutation_importance(model, X, y, n_repeats=20, random_state=0)
    theirs = permutation_importance(model, X, y, n_repeats=20, random_state=0)
    np.testing.assert_allclose(ours.importances_mean, theirs.importances_mean, atol=0.05)


def test_pipelines_searches_scorers_weights_and_jobs(data):
    X, y = data
    weight = np.random.default_rng(1).random(len(y))
    model = GridSearchCV(make_pipeline(SequencePooler(), Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=2).fit(
        X, y
    )
    options = {"scoring": "neg_mean_squared_error", "sample_weight": weight, "random_state": 0}
    result = token_permutation_importance(model, X, y, **options)
    assert result.importances_mean.argmax() == 2
    unweighted = token_permutation_importance(model, X, y, **options | {"sample_weight": None})
    assert not np.allclose(result.importances, unweighted.importances)
    jobs = token_permutation_importance(model, list(X), y, n_jobs=2, **options)
    np.testing.assert_allclose(jobs.importances, result.importances, rtol=1e-12)


def test_x_is_left_as_it_was(data):
    X, y = data
    before = X.values.copy()
    token_permutation_importance(First(), X, y, by="position", random_state=0)
    np.testing.assert_array_equal(X.values, before)


@pytest.mark.parametrize(
    ("options", "message"), [({"by": "token"}, "'feature' or 'position'"), ({"n_repeats": 0}, "n_repeats")]
)
def test_bad_options_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        token_permutation_importance(First(), *data, **options)


def test_what_is_missing_is_left_to_a_pipeline_that_imputes(data):
    X, y = data
    values = X.values.copy()
    values[::7, 1] = np.nan
    X = RaggedArray.from_flat(values, lengths=X.lengths)
    model = make_pipeline(TokenTransformer(SimpleImputer()), SoftmaxAttentionRegressor()).fit(X, y)
    assert token_permutation_importance(model, X, y, random_state=0).importances_mean.argmax() == 2
    with pytest.raises(ValueError, match="one name or callable"):
        token_permutation_importance(model, X, y, scoring=["r2"])

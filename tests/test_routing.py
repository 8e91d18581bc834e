"""Metadata routing: weights reach what asks for them, through searches, Pipelines and TokenTransformer."""

import numpy as np
import pytest
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 40)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 3)), lengths=lengths)
    return X, X.values[X.offsets[:-1], 0], rng.random(40)


def test_weights_reach_the_inner_transformer_once_per_token(data):
    X, _, weight = data
    per_token = np.repeat(weight, X.lengths)
    expected = StandardScaler().fit(X.values, sample_weight=per_token)
    transformer = TokenTransformer(StandardScaler().set_fit_request(sample_weight=True))
    fitted = transformer.fit(X, sample_weight=weight)
    np.testing.assert_allclose(fitted.transformer_.mean_, expected.mean_)
    transformed = transformer.fit_transform(X, sample_weight=weight)
    np.testing.assert_allclose(transformed.values, expected.transform(X.values))
    with pytest.raises(ValueError, match="sample_weight has 39 entries for 40 sequences"):
        transformer.fit(X, sample_weight=weight[1:])


def test_weights_that_nobody_requested_are_refused(data):
    X, _, weight = data
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
        TokenTransformer(StandardScaler()).fit(X, sample_weight=weight)
    with pytest.raises(TypeError, match="sample_weight"):
        TokenTransformer(PCA()).fit(X, sample_weight=weight)


def test_without_routing_the_message_says_how(data):
    X, _, weight = data
    with (
        sklearn.config_context(enable_metadata_routing=False),
        pytest.raises(ValueError, match="enable_metadata_routing=True"),
    ):
        TokenTransformer(StandardScaler()).fit(X, sample_weight=weight)


def test_through_a_pipeline_and_a_search(data):
    X, y, weight = data
    weight = np.where(np.arange(40) < 10, 0.0, weight)
    weighted = make_pipeline(
        TokenTransformer(StandardScaler().set_fit_request(sample_weight=True)),
        SoftmaxAttentionRegressor().set_fit_request(sample_weight=True),
    )
    assert weighted.fit(X, y, sample_weight=weight)
    alone = make_pipeline(TokenTransformer(StandardScaler()), SoftmaxAttentionRegressor()).fit(X[10:], y[10:])
    assert not np.allclose(weighted.predict(X), alone.predict(X))  # ours is weighted
    ones = np.where(np.arange(40) < 10, 0.0, 1.0)
    np.testing.assert_allclose(weighted.fit(X, y, sample_weight=ones).predict(X), alone.predict(X), atol=1e-4)
    scorer = get_scorer("neg_mean_squared_error").set_score_request(sample_weight=True)
    search = GridSearchCV(weighted, {"softmaxattentionregressor__alpha": [0.1, 1.0]}, scoring=scorer, cv=2)
    search.fit(X, y, sample_weight=weight + 0.1)
    assert np.isfinite(search.best_score_)


def test_groups_reach_the_splitter(data):
    X, y, _ = data
    scores = cross_val_score(
        SoftmaxAttentionRegressor(), X, y, cv=GroupKFold(4), params={"groups": np.arange(40) // 5}
    )
    assert scores.shape == (4,)


def test_what_the_inner_transformer_does_not_want_it_is_not_given(data):
    X, y, weight = data
    inner = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(
        TokenTransformer(inner), SoftmaxAttentionRegressor().set_fit_request(sample_weight=True)
    )
    pipeline.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(pipeline[0].transformer_.mean_, X.values.mean(axis=0))


def test_cv_estimators_and_pooled_baselines(data):
    X, y, weight = data
    for model in (SoftmaxAttentionRegressorCV([0.1, 1.0], cv=2), Ridge()):
        model.set_fit_request(sample_weight=True)
        steps = (model,) if isinstance(model, SoftmaxAttentionRegressorCV) else (SequencePooler(), model)
        pipeline = make_pipeline(*steps)
        assert not np.allclose(
            pipeline.fit(X, y, sample_weight=weight).predict(X), pipeline.fit(X, y).predict(X)
        )

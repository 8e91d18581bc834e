"""The classifiers against logistic regression, an independent minimisation, and scikit-learn's habits."""

import math
import pickle

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_attn import ErfAttentionClassifier, RaggedArray, SoftmaxAttentionClassifier
from sklearn_attn.activations import get_activation
from sklearn_attn.objective import _blocks, _cpu
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer


@pytest.fixture(params=[2, 3, 5], ids="K = {}".format)
def rows(request):
    rng, K = np.random.default_rng(7), request.param
    X = rng.normal([3.0, 0.0, 0.0, 0.0], 1.0, (200, 4))
    scores = X @ rng.standard_normal((4, K)) + rng.gumbel(size=(200, K))
    return X, np.array([f"class {c}" for c in "qwert"])[scores.argmax(axis=1)]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_single_tokens_are_logistic_regression(Normalised, rows, fit_intercept):
    X, y = rows
    weight = np.random.default_rng(0).random(200)
    alpha = 0.3
    options = {"fit_intercept": fit_intercept}
    model = Normalised(alpha, tol=1e-9, **options).fit(X, y, sample_weight=weight)
    expected = LogisticRegression(C=1 / (4 * alpha), tol=1e-10, max_iter=5000, **options)
    expected.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_allclose(model.value_ / 2.0, np.squeeze(expected.coef_), atol=1e-5)
    assert not model.key_.any()  # sequences of one token tell nothing of it


def slow_objective(theta, X, y, activation, K, alpha, alpha_key):
    """The function of the docstring, one sequence at a time, for f_0 = 0 where there are two classes."""
    D, n = X.n_features, 1 if K == 2 else K
    key, values, intercepts = theta[:D], theta[D : D + n * D].reshape(n, D), theta[D + n * D :]
    total = alpha_key * key @ key + alpha * (values**2).sum()
    for tokens, label in zip(X, y, strict=True):
        sigma = activation.weights(tokens @ key / math.sqrt(D))
        f = intercepts + values @ (sigma @ tokens) / math.sqrt(D)
        total -= 2.0 * log_softmax([0.0, f[0]] if K == 2 else f)[label]
    return total


def test_the_fit_is_a_minimum_of_the_definition(Classifier, bags):
    X, y = bags[0][:40], bags[1][:40]
    K = np.unique(y).size
    model = Classifier(0.5, alpha_key=0.2, tol=1e-8).fit(X, y)
    activation = get_activation(Classifier._activation_name)
    theta = np.concatenate([model.key_, model.value_.ravel(), np.atleast_1d(model.intercept_)])
    arguments = X, y, activation, K, 0.5, 0.2
    assert model.objective_ == pytest.approx(slow_objective(theta, *arguments), rel=1e-10)
    independent = minimize(slow_objective, theta, arguments, method="BFGS")
    assert independent.fun == pytest.approx(model.objective_, rel=1e-6)
    assert model.stop_crit_ <= 1e-8
    assert model.loss_curve_[-1] == pytest.approx(model.objective_)


def test_probabilities_belong_together(Classifier, bags):
    X, y = bags
    names = np.array(["b", "a", "c"])[y]
    model = Classifier(0.1).fit(X, names)
    K = np.unique(y).size
    assert model.classes_.tolist() == ["a", "b", "c"][:K]
    scores, probabilities = model.decision_function(X), model.predict_proba(X)
    assert scores.shape == ((150,) if K == 2 else (150, 3))
    assert probabilities.shape == (150, K)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(probabilities), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probabilities.argmax(axis=1)])
    if K == 2:
        np.testing.assert_allclose(scores, np.log(probabilities[:, 1] / probabilities[:, 0]), rtol=1e-8)
        np.testing.assert_array_equal(model.predict(X) == "b", scores > 0)
    else:
        assert model.intercept_.mean() == pytest.approx(0.0, abs=1e-12)
    assert model.score(X, names) == (model.predict(X) == names).mean()


def test_what_the_model_says_of_tokens(Classifier, bags):
    X, y = bags
    model = Classifier(0.1).fit(X, y)
    K = np.unique(y).size
    contributions = model.token_contributions(X)
    assert contributions[2].shape == (X[2].shape[0], 1 if K == 2 else 3)
    sums = np.array([part.sum(axis=0) for part in contributions])
    scores = model.decision_function(X).reshape(150, -1)
    np.testing.assert_allclose(sums + model.intercept_, scores, rtol=1e-9, atol=1e-10)
    attended = model.transform(X)
    again = model.intercept_ + attended @ model.value_.T / math.sqrt(5)
    np.testing.assert_allclose(again, model.decision_function(X), rtol=1e-9, atol=1e-10)


def test_softmax_attention_finds_what_pooling_drowns(draw_bags):
    X, y = draw_bags(1200, 2, seed=0)
    X_test, y_test = draw_bags(1000, 2, seed=1)
    attention = SoftmaxAttentionClassifier(0.1).fit(X, y)
    pooled = make_pipeline(SequencePooler("mean"), LogisticRegression()).fit(X, y)
    truth = [x[:, 0].argmax() for x in X_test]
    found = [w.argmax() == place for w, place in zip(attention.attention_weights(X_test), truth, strict=True)]
    assert np.mean(found) > 0.9
    auc = [roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]) for model in (attention, pooled)]
    assert auc[0] > auc[1] + 0.05


def test_weights_are_copies_and_classes_are_weighed(Classifier, bags):
    X, y = bags
    twice = np.concatenate([np.arange(150), np.flatnonzero(y == 1)])
    expected = Classifier(0.3, tol=1e-8).fit(X[twice], y[twice])
    weighted = Classifier(0.3, tol=1e-8).fit(X, y, sample_weight=1.0 + (y == 1))
    by_class = Classifier(0.3, tol=1e-8, class_weight={1: 2.0}).fit(X, y)
    for model in (weighted, by_class):
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)


def test_balanced_classes(bags):
    X, y = bags
    weight = np.random.default_rng(0).random(150)
    total = np.bincount(y, weights=weight)
    balanced = SoftmaxAttentionClassifier(class_weight="balanced", tol=1e-8).fit(X, y, sample_weight=weight)
    explicit = weight * (weight.sum() / (total.size * total))[y]
    expected = SoftmaxAttentionClassifier(tol=1e-8).fit(X, y, sample_weight=explicit)
    np.testing.assert_allclose(balanced.predict_proba(X), expected.predict_proba(X), atol=1e-6)


def test_a_class_without_weight_is_improbable_and_the_rest_unchanged(draw_bags):
    X, y = draw_bags(150, 3, seed=2)
    model = SoftmaxAttentionClassifier().fit(X, y, sample_weight=1.0 * (y != 2))
    assert model.predict_proba(X)[:, 2].max() < 1e-3
    # With f_0 = -v / 2 and f_1 = v / 2 the penalty of both values is half of that of one.
    two = SoftmaxAttentionClassifier(0.5, alpha_key=1.0).fit(X[y != 2], y[y != 2])
    np.testing.assert_allclose(model.predict_proba(X)[:, :2], two.predict_proba(X), atol=1e-3)
    balanced = SoftmaxAttentionClassifier(class_weight="balanced").fit(X, y, sample_weight=1.0 * (y != 2))
    assert balanced.predict_proba(X)[:, 2].max() < 1e-3


def test_starts(Classifier, bags):
    X, y = bags
    model = Classifier(0.3, tol=1e-7).fit(X, y)
    from_there = Classifier(0.3, init=(model.key_, model.value_), tol=1e-5).fit(X, y)
    assert from_there.loss_curve_[0] < model.loss_curve_[0]
    assert from_there.objective_ == pytest.approx(model.objective_, rel=1e-4)
    several = Classifier(0.3, n_init=3, random_state=0, tol=1e-7).fit(X, y)
    assert several.objective_ <= model.objective_ * (1 + 1e-9)
    warm = clone(model).set_params(warm_start=True).fit(X, y).fit(X, y)
    assert warm.n_iter_ == 0
    with pytest.raises(ValueError, match="continues a fit on the classes"):
        warm.fit(X, np.array(["x", "y", "z"])[y])


def test_a_learned_offset(bags):
    X, y = bags
    fixed = ErfAttentionClassifier(0.1, tol=1e-7).fit(X, y)
    learned = ErfAttentionClassifier(0.1, offset="learn", init=(fixed.key_, fixed.value_), tol=1e-7).fit(X, y)
    assert fixed.offset_ == 0.0
    assert learned.offset_ != 0.0
    assert learned.objective_ < fixed.objective_


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_units_do_not_show(Normalised, bags, scale):
    X, y = bags
    model = Normalised(0.3, tol=1e-8).fit(X, y)
    scaled = RaggedArray(X.values * scale, X.offsets)
    other = Normalised(0.3 * scale**2, tol=1e-8).fit(scaled, y)
    np.testing.assert_allclose(other.predict_proba(scaled), model.predict_proba(X), atol=1e-6)


def test_float32_stays_float32(Classifier, bags):
    X, y = bags
    single = Classifier(0.3).fit(X.astype(np.float32), y)
    double = Classifier(0.3).fit(X, y)
    assert single.key_.dtype == single.value_.dtype == np.float32
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict_proba(X.astype(np.float32)), double.predict_proba(X), atol=2e-4)


def test_other_namespaces(Classifier, bags):
    X, y = bags
    strict = RaggedArray(array_api_strict.asarray(X.values), X.offsets)
    model, expected = Classifier(0.3).fit(strict, array_api_strict.asarray(y)), Classifier(0.3).fit(X, y)
    for method in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
        np.testing.assert_array_equal(getattr(model, method)(strict), getattr(expected, method)(X))


def test_searches_pipelines_and_copies(bags):
    X, y = bags
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), SoftmaxAttentionClassifier())
    grid = {"softmaxattentionclassifier__alpha": [0.1, 1.0, 1e4]}
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=3).fit(X, y)
    assert search.best_params_["softmaxattentionclassifier__alpha"] < 1e4
    held_out = cross_val_predict(search.best_estimator_, X, y, cv=3, method="predict_proba")
    assert log_loss(y, held_out) < log_loss(y, np.tile(np.bincount(y) / 150, (150, 1)))
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.best_estimator_.predict_proba(X))
    one_for_each = OneVsRestClassifier(SoftmaxAttentionClassifier()).fit(list(X), y)
    assert one_for_each.score(list(X), y) > 0.5


@pytest.mark.parametrize(
    "labels",
    [
        np.array([True, False, True]),
        pd.Series(["u", "v", "w"]),
        pd.Categorical(["u", "v", "w"]),
        pd.array(["u", "v", "w"], dtype="string"),
        np.array([3, -1, 7], dtype=np.int8),
        np.array([0.0, 1.0, 2.0]),
        np.array(["u", "v", "w"], dtype=object),
        np.array([2, 0, 1], dtype=object),
    ],
    ids=lambda labels: f"{type(labels).__name__} of {labels.dtype}",
)
def test_kinds_of_classes(bags, labels):
    X, y = bags
    model = SoftmaxAttentionClassifier().fit(X, labels[y])
    expected = SoftmaxAttentionClassifier().fit(X, np.asarray(labels)[y].tolist())
    assert model.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_separable_classes_without_a_penalty(bags):
    X, _ = bags
    y = (X.values[X.offsets[:-1], 0] > 0).astype(int)  # of sequences of one token all is known
    alone = X.lengths == 1
    model = SoftmaxAttentionClassifier(0.0).fit(X[alone], y[alone])
    assert model.score(X[alone], y[alone]) == 1.0
    assert np.isfinite(model.decision_function(X)).all()


def test_a_fit_that_has_not_converged_says_so(bags):
    X, y = bags
    with pytest.warns(ConvergenceWarning, match=r"SoftmaxAttentionClassifier did not converge.*max_iter=1"):
        SoftmaxAttentionClassifier(max_iter=1).fit(X, y)


BAD_TARGETS = {
    "missing": (None, "requires y to be passed"),
    "one class": (np.ones(12), r"at least two classes, but y has only one class: 1\.0"),
    "numbers": (np.linspace(0.0, 1.0, 12), "Unknown label type: continuous"),
    "NaN": (np.array([0.0, np.nan] * 6), r"Input y contains NaN: y\[1\]"),
    "infinity": (np.array([0.0, np.inf] * 6), r"Input y contains infinity: y\[1\]"),
    "None": (np.array(["a", None] * 6, dtype=object), r"y\[1\] is missing"),
    "NaT": (np.array(["2020-01-01", "NaT"] * 6, dtype="M8[D]"), r"y\[1\] is missing"),
    "nested": ([[1, 2], [1]] * 6, "y must hold one class per sequence"),
    "pandas.NA": (pd.array(["a", pd.NA] * 6, dtype="string"), r"y\[1\] is missing"),
    "several columns": (np.ones((12, 2)), "MultiOutputClassifier"),
    "another length": (np.array([0, 1]), "X has 12 sequences, y has 2 values"),
}


@pytest.mark.parametrize(("y", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_bad_targets(ragged, y, message):
    model = SoftmaxAttentionClassifier()
    with pytest.raises(ValueError, match=message):
        model.fit(ragged, y)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.masked_array([0, 1] * 6, [1] + [0] * 11), "masked array"),
        ({0, 1}, "list or an array .* got set"),
    ],
)
def test_what_is_no_list_of_classes(ragged, y, message):
    with pytest.raises(TypeError, match=message):
        SoftmaxAttentionClassifier().fit(ragged, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1e308}, "overflows at every start"),
        ({"class_weight": {0: 1e308}}, "sum of the weights overflows"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_numbers_that_overflow(ragged, options, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxAttentionClassifier(**options).fit(ragged, [0, 1] * 6)


def test_classes_of_several_kinds(ragged):
    with pytest.raises(TypeError, match="of one kind that can be sorted, got int and str"):
        SoftmaxAttentionClassifier().fit(ragged, np.array([1, "a"] * 6, dtype=object))


BAD_PARAMETERS = {
    "alpha": ({"alpha": -1.0}, "alpha == -1.0, must be >= 0"),
    "name of class_weight": ({"class_weight": "equal"}, "None, 'balanced' or a dict .* got 'equal'"),
    "list of class_weight": ({"class_weight": [1, 2]}, "None, 'balanced' or a dict"),
    "negative class_weight": ({"class_weight": {0: -1.0}}, r"class_weight\[0\] == -1.0, must be >= 0"),
    "no class_weight": ({"class_weight": {0: 0.0, 1: 0.0}}, "leaves no sequence with a positive weight"),
    "other classes": ({"class_weight": {5: 1.0}}, "not in class_weight"),
    "init": ({"init": (np.ones(3), np.ones((3, 3)))}, r"value must have shape \(D,\) = \(3,\)"),
}


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS.values(), ids=BAD_PARAMETERS)
def test_bad_parameters(ragged, parameters, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxAttentionClassifier(**parameters).fit(ragged, [0, 1] * 6)


def test_an_init_for_several_classes_has_a_value_for_each(ragged):
    with pytest.raises(ValueError, match=r"value must have shape \(n_classes, D\) = \(3, 3\)"):
        SoftmaxAttentionClassifier(init=(np.ones(3), np.ones(3))).fit(ragged, [0, 1, 2] * 4)


@pytest.mark.parametrize("K", [2, 3])
def test_long_sequences_and_threads_change_nothing(monkeypatch, draw_bags, K):
    X, y = draw_bags(60, K, seed=4)
    long = RaggedArray.from_list([*X, np.random.default_rng(0).standard_normal((3000, 5))])
    labels = np.append(y, 1)
    assert _cpu.n_threads_for(long) == 1
    expected = SoftmaxAttentionClassifier(0.1, tol=1e-8).fit(long, labels)
    counts = []
    monkeypatch.setattr(_cpu, "available_threads", lambda: counts.append(3) or 3)
    monkeypatch.setattr(_cpu, "_MIN_SHARE", 1)
    for module in (_cpu, _blocks):
        monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
    assert _cpu.n_threads_for(long) == 3
    model = SoftmaxAttentionClassifier(0.1, tol=1e-8).fit(long, labels)
    assert counts
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)


def centred_bags(n, share, seed):
    """Sequences centred one by one, so that pooled tokens tell nothing, of which a share is of class 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 8))
    X -= X.mean(axis=1, keepdims=True)
    deciding = X[np.arange(n), X[:, :, 0].argmax(axis=1), 1]
    return X, (deciding > np.quantile(deciding, 1.0 - share)).astype(int)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("share", [0.5, 0.05])
def test_a_saddle_is_no_end(Classifier, share, alpha):
    X, y = centred_bags(2000, share, seed=1)
    model = Classifier(alpha).fit(X, y)
    assert model.n_iter_ > 0
    null = -2.0 * (y.sum() * np.log(y.mean()) + (len(y) - y.sum()) * np.log1p(-y.mean()))
    assert model.objective_ < 0.98 * null


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_starts_are_of_the_size_of_what_is_sought(Classifier, share):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4, 10))
    y = (X[:, 0, 1] > np.quantile(X[:, 0, 1], 1.0 - share)).astype(int)
    null = -2.0 * 3000 * (share * np.log(share) + (1 - share) * np.log1p(-share))
    for seed in range(3):
        drawn = Classifier(0.1, init="random", random_state=seed, max_iter=1000).fit(X, y)
        assert drawn.loss_curve_[0] < 6.0 * null
    auto = Classifier(0.1, tol=1e-6).fit(X, y)
    again = Classifier(0.1, init=(auto.key_, auto.value_)).fit(X, y)
    assert again.loss_curve_[0] <= 1.001 * auto.objective_


def test_weightless_sequences_are_absent(bags):
    X, y = bags
    weight = np.concatenate([np.ones(150), np.zeros(150)])
    twice = RaggedArray.from_list([*X, *X])
    with_them = SoftmaxAttentionClassifier().fit(twice, np.concatenate([y, 1 - y.clip(0, 1)]), weight)
    without = SoftmaxAttentionClassifier().fit(X, y)
    assert with_them.n_iter_ == without.n_iter_
    np.testing.assert_allclose(with_them.predict_proba(X), without.predict_proba(X), atol=1e-9)


def test_correlated_tokens_of_several_classes_converge():
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((60, 60)))[0] * np.logspace(0, -2.5, 60)[:, None]
    tokens = rng.standard_normal((2400, 60))
    scores = tokens[::3, :3] * 3.0 + rng.gumbel(size=(800, 3))
    X = RaggedArray.from_flat(tokens @ mixing, lengths=np.full(800, 3))
    model = SoftmaxAttentionClassifier(1e-4, max_iter=300).fit(X, scores.argmax(axis=1))
    assert model.stop_crit_ <= model.tol


def test_docstrings_are_of_classifiers(Classifier):
    name = Classifier._activation_name
    first = Classifier.__doc__.splitlines()[0].lower()
    assert first.startswith({"erf": "error-function"}.get(name, name) + " attention classification on")
    assert "over the key, the values" in Classifier.__doc__
    assert "the intercept b" not in Classifier.__doc__.split("Parameters")[0].split("minimises")[1]

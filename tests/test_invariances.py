"""What must not change a fit, for every activation: of regressors, CV estimators and classifiers."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import sklearn_attn
from sklearn_attn import RaggedArray

ACTIVATIONS = ["Softmax", "Linear", "Erf", "Softplus"]
KINDS = ["regressor", "search", "two classes", "three classes"]
TIGHT = {"tol": 1e-8, "max_iter": 5000}


@dataclass(frozen=True)
class Problem:
    """Data, with the fold that every sequence is held out in, and the settings of a fit."""

    X: object
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray
    alpha: float = 0.5
    alpha_key: float = 0.5


def draw(kind, seed=3, n=90):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, n)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 4)), lengths=lengths)
    hidden = np.array([x[x[:, 0].argmax(), 1:] for x in X])
    if kind in ("regressor", "search"):
        y = hidden[:, 0] + 0.2 * rng.standard_normal(n) + 1.5
    else:
        scores = 3.0 * hidden if kind == "three classes" else 3.0 * hidden[:, :1] * [-0.5, 0.5]
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return Problem(X, y, rng.uniform(0.5, 2.0, n), np.arange(n) % 3)


@dataclass(frozen=True)
class Kind:
    activation: str
    name: str

    def fit(self, problem):
        settings = {"random_state": 0, **TIGHT}
        if self.name == "search":
            cv = [(np.flatnonzero(problem.fold != i), np.flatnonzero(problem.fold == i)) for i in range(3)]
            ratio = problem.alpha_key / problem.alpha
            alphas = [problem.alpha, 30.0 * problem.alpha]
            estimator = getattr(sklearn_attn, f"{self.activation}AttentionRegressorCV")
            model = estimator(alphas, alpha_key_ratio=ratio, cv=cv, **settings)
        else:
            kind = "Regressor" if self.name == "regressor" else "Classifier"
            estimator = getattr(sklearn_attn, f"{self.activation}Attention{kind}")
            model = estimator(problem.alpha, alpha_key=problem.alpha_key, **settings)
        return model.fit(problem.X, problem.y, sample_weight=problem.weight)

    def outputs(self, model, X):
        return model.predict_log_proba(X) if self.is_classifier else model.predict(X)

    @property
    def is_classifier(self):
        return self.name.endswith("classes")


@pytest.fixture(params=ACTIVATIONS)
def activation(request):
    return request.param


@pytest.fixture(params=KINDS)
def kind(request, activation):
    return Kind(activation, request.param)


@pytest.fixture(params=["regressor", "search"])
def regression(request, activation):
    return Kind(activation, request.param)


@pytest.fixture(params=["two classes", "three classes"])
def classification(request, activation):
    return Kind(activation, request.param)


def assert_same(kind, a, b, X, X_of_b=None, atol=1e-6, rtol=1e-8):
    expected = kind.outputs(a, X)
    assert np.std(expected, axis=0).min() > 0.2  # what is compared depends on X
    assert np.abs(a.key_).max() > 0.1
    np.testing.assert_allclose(
        kind.outputs(b, X if X_of_b is None else X_of_b), expected, rtol=0.0, atol=atol
    )
    assert b.objective_ == pytest.approx(a.objective_, rel=rtol)
    if kind.name == "search":
        assert b.alpha_ == pytest.approx(a.alpha_)
        np.testing.assert_allclose(b.cv_scores_, a.cv_scores_, atol=atol)


def test_the_order_of_sequences_and_of_tokens(kind):
    problem, rng = draw(kind.name), np.random.default_rng(0)
    order = rng.permutation(len(problem.X))
    shuffled = replace(
        problem, X=[rng.permutation(problem.X[i]) for i in order], y=problem.y[order],
        weight=problem.weight[order], fold=problem.fold[order],
    )  # fmt: skip
    assert_same(kind, kind.fit(problem), kind.fit(shuffled), problem.X)


def test_a_weight_split_over_copies(kind):
    problem = draw(kind.name)
    copies = np.concatenate([np.arange(90), np.arange(0, 90, 2), np.arange(0, 90, 3)])
    share = np.random.default_rng(0).uniform(0.1, 1.0, copies.size)
    share /= np.bincount(copies, weights=share)[copies]
    split = replace(
        problem, X=problem.X[copies], y=problem.y[copies], weight=problem.weight[copies] * share,
        fold=problem.fold[copies],
    )  # fmt: skip
    assert_same(kind, kind.fit(problem), kind.fit(split), problem.X)


def test_integer_weights_are_repetitions(kind):
    problem = draw(kind.name)
    times = np.random.default_rng(0).integers(0, 4, 90)
    copies = np.repeat(np.arange(90), times)
    repeated = replace(
        problem, X=problem.X[copies], y=problem.y[copies], weight=None, fold=problem.fold[copies]
    )
    assert_same(kind, kind.fit(replace(problem, weight=times)), kind.fit(repeated), problem.X)


@pytest.mark.parametrize("size", [1.0, 1e160, 1e308])
def test_sequences_of_weight_zero_are_absent(kind, size):
    problem = draw(kind.name)
    absurd = [np.full((3, 4), size), np.array([[size, -size, 0.0, 1.0]])]
    y = [0, 1] if kind.is_classifier else [size, -size]
    enlarged = Problem(
        [absurd[0], *problem.X, absurd[1]],
        np.concatenate([y[:1], problem.y, y[1:]]),
        np.concatenate([[0.0], problem.weight, [0.0]]),
        np.concatenate([[0], problem.fold, [1]]),
    )
    a, b = kind.fit(problem), kind.fit(enlarged)
    assert_same(kind, a, b, problem.X, atol=0.0, rtol=0.0)
    np.testing.assert_array_equal(b.key_, a.key_)
    np.testing.assert_array_equal(b.value_, a.value_)


@pytest.mark.parametrize("scale", [1e-3, 1e5])
def test_the_unit_of_y(regression, scale):
    problem = draw(regression.name)
    a = regression.fit(problem)
    b = regression.fit(replace(problem, y=scale * problem.y, alpha_key=problem.alpha_key * scale**2))
    np.testing.assert_allclose(b.predict(problem.X) / scale, a.predict(problem.X), atol=1e-5)
    np.testing.assert_allclose(b.key_, a.key_, atol=1e-4)
    assert b.objective_ == pytest.approx(scale**2 * a.objective_, rel=1e-7)


@pytest.mark.parametrize("scale", [1e-4, 1e3])
def test_the_unit_of_the_tokens(kind, scale):
    problem = draw(kind.name)
    scaled = replace(
        problem, X=RaggedArray(problem.X.values * scale, problem.X.offsets), alpha=problem.alpha * scale**2,
        alpha_key=problem.alpha_key * scale**2,
    )  # fmt: skip
    a, b = kind.fit(problem), kind.fit(scaled)
    if kind.name == "search":
        b.alpha_ /= scale**2
    assert_same(kind, a, b, problem.X, scaled.X)


@pytest.mark.parametrize("name", KINDS)
def test_an_offset_of_the_tokens_is_taken_out_by_softmax(name):
    kind, problem = Kind("Softmax", name), draw(name)
    shifted = replace(
        problem, X=RaggedArray(problem.X.values + np.array([100.0, -7.0, 0.0, 3.0]), problem.X.offsets)
    )
    assert_same(kind, kind.fit(problem), kind.fit(shifted), problem.X, shifted.X)


def test_rotations_of_the_token_space(kind):
    problem = draw(kind.name)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    rotated = replace(problem, X=RaggedArray(problem.X.values @ rotation, problem.X.offsets))
    a, b = kind.fit(problem), kind.fit(rotated)
    assert_same(kind, a, b, problem.X, rotated.X)
    np.testing.assert_allclose(a.key_ @ rotation, b.key_, atol=1e-4)
    np.testing.assert_allclose(a.value_ @ rotation, b.value_, atol=1e-4)


def test_the_names_of_the_classes(classification):
    problem = draw(classification.name)
    names = np.array(["z", "y", "x"])[: np.unique(problem.y).size]  # in the opposite order
    a, b = classification.fit(problem), classification.fit(replace(problem, y=names[problem.y]))
    np.testing.assert_allclose(b.predict_proba(problem.X)[:, ::-1], a.predict_proba(problem.X), atol=1e-6)
    np.testing.assert_array_equal(b.predict(problem.X), names[a.predict(problem.X)])
    sign = -1.0 if a.value_.ndim == 1 else 1.0
    np.testing.assert_allclose(sign * (b.value_ if sign < 0 else b.value_[::-1]), a.value_, atol=1e-4)


def test_every_form_of_the_same_sequences(kind):
    problem = draw(kind.name)
    padded, mask = problem.X.to_padded(fill_value=77.0, return_mask=True)
    forms = [
        problem.X.to_list(), tuple(problem.X), problem.X.to_column(), RaggedArray.from_padded(padded, mask),
        RaggedArray.from_padded(problem.X.to_padded()),
        RaggedArray.from_groups(problem.X.values, np.repeat(np.arange(90), problem.X.lengths)),
        [x.astype(">f8") for x in problem.X], [np.asfortranarray(x) for x in problem.X],
    ]  # fmt: skip
    a = kind.fit(problem)
    for form in forms:
        assert_same(kind, a, kind.fit(replace(problem, X=form)), problem.X, form, atol=0.0, rtol=0.0)


def test_equal_lengths_as_a_cube(kind):
    problem = draw(kind.name)
    cube = np.random.default_rng(5).standard_normal((90, 3, 4))
    cube[:, 0] += np.stack([x[x[:, 0].argmax()] for x in problem.X])
    cube[:, 0, 0] += 2.0
    a, b = (kind.fit(replace(problem, X=X)) for X in (cube, list(cube)))
    np.testing.assert_array_equal(kind.outputs(a, cube), kind.outputs(b, cube))
    assert np.std(kind.outputs(a, cube)) > 0.2


def test_float32_twins(kind):
    problem = draw(kind.name)
    values = problem.X.values.astype(np.float32)
    single = replace(problem, X=RaggedArray(values, problem.X.offsets))
    double = replace(problem, X=RaggedArray(values.astype(float), problem.X.offsets))
    a, b = kind.fit(double), kind.fit(single)
    assert b.key_.dtype == b.value_.dtype == kind.outputs(b, single.X).dtype == np.float32
    assert_same(kind, a, b, double.X, single.X, atol=3e-5)

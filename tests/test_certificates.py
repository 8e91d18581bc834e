"""`stop_crit_`, `objective_` and `loss_curve_` of fits to many kinds of data, against the generic form."""

import warnings

import numpy as np
import pytest
from certificates import assert_certified, assert_never_rises
from sklearn.exceptions import ConvergenceWarning

import sklearn_attn
from sklearn_attn import RaggedArray

ACTIVATIONS = ["Softmax", "Linear", "Erf", "Softplus"]
DATA = [
    "plain",
    "correlated",
    "units",
    "heavy tails",
    "one long sequence",
    "single tokens",
    "duplicates",
    "ties",
]
PENALTIES = [(1e-3, None), (0.3, None), (0.3, 30.0), (1e4, 0.1)]


def draw(kind, n=60, D=4):
    rng = np.random.default_rng(DATA.index(kind))
    lengths = rng.integers(1, 6, n)
    if kind == "one long sequence":
        lengths[7] = 5000
    if kind == "single tokens":
        lengths[:] = 1
    values = rng.standard_normal((lengths.sum(), D))
    if kind == "heavy tails":
        values = rng.standard_t(1.0, values.shape)
    if kind == "ties":
        values = np.round(values)
    X = RaggedArray.from_flat(values, lengths=lengths)
    y = np.array([x[x[:, 0].argmax(), 1] for x in X]) + 0.3 * rng.standard_normal(n)
    if kind == "correlated":
        values = values @ (np.linalg.qr(rng.standard_normal((D, D)))[0] * [[1.0], [0.3], [0.1], [0.03]])
    if kind == "units":
        values = values * [1e-6, 1.0, 1e3, 1e6]
    if kind == "duplicates":
        values = np.hstack([values, values[:, :2], np.ones((len(values), 1))])
    return RaggedArray(values, X.offsets), y, rng.uniform(0.1, 3.0, n) * (rng.random(n) < 0.9)


def fit(model, X, y, weight):
    """Fit, and say whether it was said to have not converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y, sample_weight=weight)
    return bool(caught)


@pytest.fixture(params=DATA)
def data(request):
    return draw(request.param)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_certificates(data, activation, fit_intercept, n_classes):
    X, y, weight = data
    kind = "Regressor" if n_classes is None else "Classifier"
    if n_classes is not None:
        y = np.digitize(y, [0.0] if n_classes == 2 else [-0.5, 0.5])
    n_converged = 0
    for i, (alpha, alpha_key) in enumerate(PENALTIES):
        options = {"init": "random", "random_state": 0} if i % 2 else {}
        if activation == "Erf" and i % 2:
            options["offset"] = "learn"
        model = getattr(sklearn_attn, f"{activation}Attention{kind}")(
            alpha, alpha_key=alpha_key, fit_intercept=fit_intercept, max_iter=200, **options
        )
        warned = fit(model, X, y, weight)
        assert warned == (model.stop_crit_ > model.tol)
        n_converged += not warned
        assert_certified(model, X, y, weight)
        assert_never_rises(model)
    assert n_converged >= 3


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_certificates_of_searches(data, activation):
    X, y, weight = data
    estimator = getattr(sklearn_attn, f"{activation}AttentionRegressorCV")
    options = {"offset": "learn"} if activation == "Erf" else {}
    model = estimator([100.0, 1.0, 0.1], cv=3, max_iter=300, **options)
    assert fit(model, X, y, weight) or model.stop_crit_ <= model.tol
    assert_certified(model, X, y, weight)
    assert_never_rises(model)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("average", [False, True])
def test_certificates_of_descents(activation, average):
    X, y, weight = draw("plain")
    estimator = getattr(sklearn_attn, f"{activation}AttentionRegressor")
    for tol in (1e-1, 1e-6):
        model = estimator(
            1.0, solver="sgd", learning_rate=0.02, average=average, max_iter=30, tol=tol, random_state=0
        )
        assert fit(model, X, y, weight) == (model.stop_crit_ > tol)
        assert_certified(model, X, y, weight)

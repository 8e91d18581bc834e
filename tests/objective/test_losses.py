"""Losses against their definitions, and the objective of each in all its forms."""

import math

import array_api_strict
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from sklearn_attn import RaggedArray
from sklearn_attn._backend import to_numpy
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.objective import (
    AttentionObjective,
    AttentionParameters,
    LogLoss,
    MultinomialLogLoss,
    _blocks,
    _cpu,
    _projection,
    pool,
    project,
)
from sklearn_attn.objective._losses import SQUARED_ERROR

LOSSES = {"squared": SQUARED_ERROR, "logistic": LogLoss(), "multinomial": MultinomialLogLoss(3)}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
log_losses = pytest.mark.parametrize("loss", list(LOSSES.values())[1:], ids=list(LOSSES)[1:])
every_activation = pytest.mark.parametrize("name", ACTIVATIONS)
LENGTHS = {
    "ones": np.ones(60, int),
    "mixed": np.random.default_rng(1).integers(1, 12, 40),
    "heavy tail": np.array([1, 2, 150, 1, 3, 40, 1, 1, 8, 2]),
    "one giant": np.array([300]),
}


def targets(loss, n, rng):
    if loss is SQUARED_ERROR:
        return rng.standard_normal(n) + 2.0
    return rng.integers(0, loss.n_outputs or 2, n).astype(float)


def definition(loss, y, f):
    """Deviance of one sequence, from logarithms of probabilities."""
    if loss is SQUARED_ERROR:
        return (y - f[0]) ** 2
    scores = [0.0, f[0]] if loss.n_outputs is None else f
    return -2.0 * log_softmax(scores)[int(y)]


def draw(loss, lengths, rng, D=5, dtype=np.float64):
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), D)).astype(dtype), lengths=lengths)
    weight = rng.random(lengths.size)
    weight[: lengths.size // 4] = 0.0
    shape = () if loss.n_outputs is None else (loss.n_outputs,)
    intercept = rng.standard_normal(shape) if shape else 0.3
    parameters = AttentionParameters(rng.standard_normal(D), rng.standard_normal((*shape, D)), intercept, 0.2)
    return (X, targets(loss, lengths.size, rng), weight), parameters


def build(problem, name, loss, **options):
    X, y, weight = problem
    options = {"alpha_key": 0.7, "alpha_value": 0.4, "sample_weight": weight, "loss": loss} | options
    return AttentionObjective(X, y, ACTIVATIONS[name](), **options)


@every_loss
def test_deviance_and_its_derivatives(loss, rng):
    K = loss.n_outputs or 1
    f, y = 3.0 * rng.standard_normal((40, K)), targets(loss, 40, rng)
    expected = [definition(loss, *pair) for pair in zip(y, f, strict=True)]
    np.testing.assert_allclose(loss.deviance(y, f), expected, rtol=1e-12, atol=1e-14)
    for c in range(K):
        step = 1e-6 * np.eye(K)[c]
        slope = (loss.deviance(y, f + step) - loss.deviance(y, f - step)) / 2e-6
        np.testing.assert_allclose(loss.residual(y, f)[:, c], -0.5 * slope, rtol=1e-7, atol=1e-8)
    jacobian = rng.standard_normal((40, K, 4))
    rows = loss.root_curvature(jacobian.copy(), f)
    hessian = np.stack(
        [(loss.residual(y, f - e) - loss.residual(y, f + e)) / 2e-6 for e in 1e-6 * np.eye(K)], axis=1
    )
    expected = np.einsum("ncp,ncd,ndq->npq", jacobian, hessian, jacobian)
    np.testing.assert_allclose(np.einsum("ncp,ncq->npq", rows, rows), expected, rtol=1e-6, atol=1e-7)


@log_losses
def test_sure_predictions_lose_nothing_and_overflow_nowhere(loss):
    K = loss.n_outputs or 1
    with np.errstate(all="raise", under="ignore"):
        for size in (50.0, 1e4, 1e300):
            f = np.full((2, K), -size)
            f[1, -1] = size
            y = np.array([0.0, K - 1.0 if K > 1 else 1.0])
            right, wrong = loss.deviance(y, f)[1], loss.deviance(np.zeros(1), f[1:])
            assert right == pytest.approx(0.0, abs=1e-20)
            assert wrong[0] == pytest.approx(2.0 * size * (2.0 if K > 1 else 1.0))
            assert np.isfinite(loss.residual(y, f)).all()


@every_loss
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_null_model_is_the_best_without_tokens(loss, fit_intercept, rng):
    K = loss.n_outputs or 1
    y, weight = targets(loss, 200, rng), rng.random(200)
    weight[y == 1.0] *= 0.2

    def deviance(b):
        return weight @ loss.deviance(y, np.broadcast_to(b, (200, K)))

    null = loss.null_model(y, weight, fit_intercept)
    if not fit_intercept:
        assert not np.any(null.intercept)
        return
    best = minimize(deviance, np.zeros(K), options={"gtol": 1e-9}).x
    np.testing.assert_allclose(null.intercept, best - (best.mean() if K > 1 else 0.0), atol=1e-5)
    step = 1e-4 * np.eye(K)
    b = np.asarray(null.intercept)
    second = [(deviance(b + e) + deviance(b - e) - 2 * deviance(b)) / 1e-8 for e in step]
    np.testing.assert_allclose(np.atleast_1d(null.curvature), np.array(second) / 2 / weight.sum(), rtol=1e-5)


@log_losses
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_are_the_formula(loss, fit_intercept, rng):
    (X, y, weight), _ = draw(loss, LENGTHS["mixed"], rng)
    K = loss.n_outputs or 1
    share = np.repeat(weight / weight.sum() / X.lengths, X.lengths)
    mean, square = share @ X.values, share @ X.values**2
    variance = square - mean**2
    p = np.array([weight @ (y == c) / weight.sum() for c in (range(K) if K > 1 else [1])])
    if not fit_intercept:
        p = np.full(K, 1.0 / max(K, 2))
    h = p * (1.0 - p)
    key = math.sqrt(5) / np.sqrt(variance + 5 * 0.7 / weight.sum())
    spread = variance if fit_intercept else square
    value = math.sqrt(5) / np.sqrt(np.multiply.outer(h, spread) + 5 * 0.4 / weight.sum())
    expected = [*key, *value.ravel(), *(1.0 / np.sqrt(h)) * fit_intercept][: 5 + 5 * K + K * fit_intercept]
    with build((X, y, weight), "softmax", loss, fit_intercept=fit_intercept) as objective:
        np.testing.assert_allclose(objective.coordinates.unit, expected, rtol=1e-11)
        null = objective.coordinates.null_parameters(0.5)
    assert null.offset == 0.5
    logarithms = np.log(p) - (np.log(p).mean() if K > 1 else np.log1p(-p))
    np.testing.assert_allclose(np.ravel(null.intercept), logarithms * fit_intercept, rtol=1e-12, atol=1e-15)
    assert not null.key.any()
    assert null.key.shape == (5,)
    assert not null.value.any()
    assert null.value.shape == ((5,) if K == 1 else (K, 5))
    assert np.shape(null.intercept) == (() if K == 1 else (K,))


@log_losses
@pytest.mark.parametrize("missing", [0.0, 1.0])
def test_a_class_without_weight_has_a_finite_null_model(loss, missing, rng):
    y, weight = targets(loss, 50, rng), np.ones(50)
    weight[y == missing] = 0.0
    null = loss.null_model(y, weight, True)
    assert np.isfinite(np.concatenate([np.ravel(part) for part in null])).all()
    assert np.min(null.curvature) == pytest.approx(1e-8, rel=1e-6)


@log_losses
@every_activation
@pytest.mark.parametrize("backend", ["cpu", "generic"])
def test_value_is_the_definition(loss, name, backend, rng):
    problem, parameters = draw(loss, LENGTHS["mixed"], rng)
    X, y, weight = problem
    activation = ACTIVATIONS[name]()
    if activation.has_offset:
        activation = activation.with_offset(parameters.offset)
    values = np.atleast_2d(parameters.value)
    expected = 0.7 * parameters.key @ parameters.key + 0.4 * (values**2).sum()
    for tokens, target, w in zip(X, y, weight, strict=True):
        sigma = activation.weights(tokens @ parameters.key / math.sqrt(5))
        f = np.atleast_1d(parameters.intercept) + values @ (sigma @ tokens) / math.sqrt(5)
        expected += w * definition(loss, target, f)
    with build(problem, name, loss, backend=backend) as objective:
        assert objective.evaluate(parameters)[0] == pytest.approx(expected, rel=1e-12)


@log_losses
@pytest.mark.parametrize(("name", "fit_offset"), [*((name, False) for name in ACTIVATIONS), ("erf", True)])
@pytest.mark.parametrize("backend", ["cpu", "generic"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gradient_is_the_derivative(loss, name, fit_offset, backend, fit_intercept, rng):
    problem, _ = draw(loss, LENGTHS["mixed"], rng)
    options = {"fit_intercept": fit_intercept, "fit_offset": fit_offset, "backend": backend}
    with build(problem, name, loss, **options) as objective:
        K = loss.n_outputs or 1
        assert objective.n_parameters == 5 + 5 * K + K * fit_intercept + fit_offset
        theta = 0.5 * rng.standard_normal(objective.n_parameters)
        np.testing.assert_allclose(objective.pack(objective.unpack(theta)), theta, rtol=1e-12)
        value, gradient = objective.value_and_gradient(theta)
        for direction in rng.standard_normal((3, theta.size)):
            ahead, behind = (objective.value_and_gradient(theta + t * direction)[0] for t in (1e-5, -1e-5))
            assert gradient @ direction == pytest.approx((ahead - behind) / 2e-5, rel=1e-6, abs=1e-8)
        assert value == pytest.approx(objective.evaluate(objective.unpack(theta))[0] / (2 * problem[2].sum()))


@log_losses
@every_activation
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["moderate", "extreme"])
def test_the_kernels_agree_with_the_oracle(monkeypatch, rng, loss, name, lengths, n_threads, dtype, scale):
    monkeypatch.setattr(_cpu, "_MIN_SHARE", 1)
    for module in (_cpu, _blocks):
        monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
        monkeypatch.setattr(module, "_MIN_BLOCK_TOKENS", 8)
    problem, parameters = draw(loss, lengths, rng, dtype=dtype)
    parameters = parameters._replace(key=scale * parameters.key, value=scale * parameters.value)
    with build(problem, name, loss, backend="cpu", n_threads=n_threads) as objective:
        actual = objective.deviance(parameters)
    X, y, weight = problem
    with build((X.astype(np.float64), y, weight), name, loss, backend="generic") as objective:
        expected = objective.deviance(parameters)
    for part, reference in zip(actual, expected, strict=True):
        assert np.shape(part) == np.shape(reference)
        size = np.max(np.abs(reference))
        np.testing.assert_allclose(part, reference, rtol=1e-9, atol=1e-9 * size + 1e-12)


@log_losses
@every_activation
def test_other_namespaces(loss, name, rng):
    (X, y, weight), parameters = draw(loss, LENGTHS["mixed"], rng)
    elsewhere = array_api_strict.Device("device1")
    strict = RaggedArray(array_api_strict.asarray(X.values, device=elsewhere), X.offsets)
    with build((X, y, weight), name, loss) as objective:
        expected, expected_gradient = objective.value_and_gradient(objective.pack(parameters))
    with build((strict, y, weight), name, loss) as objective:
        assert objective.backend == "generic"
        theta = objective.pack(parameters)
        value, gradient = objective.value_and_gradient(theta)
    assert theta.device == gradient.device == elsewhere
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(to_numpy(gradient), expected_gradient, rtol=1e-9, atol=1e-12)


@log_losses
@every_activation
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gauss_newton_is_the_curvature_where_residuals_cancel(loss, name, fit_intercept, rng):
    """Every sequence stands there once for each class, weighted by the probability of the class."""
    (X, _, weight), parameters = draw(loss, LENGTHS["mixed"], rng)
    activation = ACTIVATIONS[name]()
    if activation.has_offset:
        activation = activation.with_offset(parameters.offset)
    K = loss.n_outputs or 2
    if not fit_intercept:
        parameters = parameters._replace(intercept=0.0 * parameters.intercept)
    scores, token_values = project(X, parameters.key, np.atleast_2d(parameters.value))
    f = [
        parameters.intercept + activation.weights(scores[a:b]) @ token_values[a:b]
        for a, b in zip(X.offsets[:-1], X.offsets[1:], strict=True)
    ]
    f = np.array([[0.0, one[0]] for one in f] if loss.n_outputs is None else f)
    sequences, classes = np.repeat(np.arange(len(X)), K), np.tile(np.arange(K), len(X))
    shares = weight[sequences] * np.exp(log_softmax(f, axis=1))[sequences, classes]
    options = {"fit_offset": activation.has_offset, "fit_intercept": fit_intercept}
    problem = X[sequences], classes.astype(float), shares
    with build(problem, name, loss, **options) as objective:
        theta = objective.pack(parameters)
        inverse = objective.gauss_newton(theta).inverse(objective)
        for _ in range(5):
            direction = parameters._replace(
                key=rng.standard_normal(5),
                value=rng.standard_normal(parameters.value.shape),
                intercept=rng.standard_normal(np.shape(parameters.intercept)) * fit_intercept,
                offset=rng.standard_normal(),
            )
            if loss.n_outputs is not None:  # along which all f_c rise alike there is no curvature
                direction = direction._replace(
                    value=direction.value - direction.value.mean(axis=0),
                    intercept=direction.intercept - direction.intercept.mean(),
                )
            step = objective.pack(direction)
            ahead, behind = (objective.value_and_gradient(theta + t * step)[1] for t in (1e-6, -1e-6))
            np.testing.assert_allclose(inverse((ahead - behind) / 2e-6), step, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_attended_vectors(monkeypatch, ragged, dtype):
    monkeypatch.setattr(_projection, "TOKEN_NUMBERS", 12)  # four tokens
    X, weights = ragged.astype(dtype), np.random.default_rng(0).standard_normal(ragged.n_tokens)
    expected = [w @ x for w, x in zip(np.split(weights, X.offsets[1:-1]), X.astype(np.float64), strict=True)]
    pooled = pool(X, weights)
    assert pooled.dtype == np.float64
    np.testing.assert_allclose(pooled, expected, rtol=1e-12, atol=1e-14)
    strict = pool(
        RaggedArray(array_api_strict.asarray(X.values), X.offsets),
        array_api_strict.asarray(weights.astype(dtype)),
    )
    np.testing.assert_allclose(np.asarray(strict), expected, rtol=1e-4, atol=1e-5)


def test_all_values_are_projected(ragged, rng):
    key = rng.standard_normal(3)
    for K in (1, 2, 3, 4):
        values = rng.standard_normal((K, 3))
        scores, token_values = project(ragged, key, values)
        np.testing.assert_allclose(scores, ragged.values @ key / math.sqrt(3), rtol=1e-13)
        np.testing.assert_allclose(token_values, ragged.values @ values.T / math.sqrt(3), rtol=1e-12)


def test_units_of_the_squared_error_do_not_depend_on_the_size_of_weights(rng):
    y, weight = 1e9 * rng.standard_normal(20), rng.random(20)
    expected = SQUARED_ERROR.null_model(y, weight, True)
    for size in (1e-290, 1e290):  # products with y overflow, or vanish
        np.testing.assert_allclose(SQUARED_ERROR.null_model(y, size * weight, True), expected, rtol=1e-12)


@pytest.mark.parametrize("K", [3, 4, 7])
def test_without_an_intercept_all_classes_have_the_curvature_of_equal_shares(K):
    loss = MultinomialLogLoss(K)
    null = loss.null_model(np.arange(K).astype(float), np.arange(1.0, K + 1), False)
    np.testing.assert_allclose(null[2], (K - 1) / K**2, rtol=1e-14)
    np.testing.assert_array_equal(null[0], 0.0)


def test_the_curvature_along_a_rise_of_all_classes(rng):
    loss = MultinomialLogLoss(3)
    (X, y, weight), parameters = draw(loss, LENGTHS["mixed"], rng)
    with build((X, y, weight), "softmax", loss) as objective:
        matrix = objective.gauss_newton_matrix(parameters)
    together = np.zeros(len(matrix))
    together[-3:] = 1.0
    assert together @ matrix @ together == pytest.approx(2.0 * weight.sum(), rel=1e-10)


@pytest.mark.parametrize("K", [3, 5])
def test_without_an_intercept_all_classes_are_as_likely(K, rng):
    null = MultinomialLogLoss(K).null_model(rng.integers(0, K, 9).astype(float), rng.random(9), False)
    np.testing.assert_array_equal(null.intercept, np.zeros(K))
    np.testing.assert_allclose(null.curvature, (1.0 - 1.0 / K) / K, rtol=1e-14)

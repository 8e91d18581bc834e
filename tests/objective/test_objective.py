"""The objective against its definition, its gradient against finite differences, its units."""

import itertools
import math

import array_api_strict
import numpy as np
import pytest

from sklearn_attn import RaggedArray
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.objective import AttentionObjective, AttentionParameters, _generic, _losses, project

activations = pytest.mark.parametrize("name", ACTIVATIONS)
backends = pytest.mark.parametrize("backend", ["cpu", "generic"])


@pytest.fixture
def problem(ragged, rng):
    n = len(ragged)
    weight = rng.random(n)
    weight[4] = 0.0
    return ragged, rng.standard_normal(n) + 2.0, weight


@pytest.fixture
def parameters(rng):
    key, value = rng.standard_normal((2, 3))
    return AttentionParameters(key, value, 0.3, 0.2)


def slow_objective(X, y, weight, name, parameters, alpha_key, alpha_value):
    """The function of the docstring, one sequence and one token at a time."""
    key, value, intercept, offset = parameters
    total = alpha_key * float(key @ key) + alpha_value * float(value @ value)
    for tokens, target, w in zip(X, y, weight, strict=True):
        scores = [float(x @ key) / math.sqrt(len(key)) for x in tokens]
        if name == "linear":
            sigma = [1 + s for s in scores]
        elif name == "erf":
            sigma = [1 + math.erf(offset + s) for s in scores]
        else:
            function = math.exp if name == "softmax" else lambda s: math.log(1 + math.exp(s))
            sigma = [function(s) / math.fsum(map(function, scores)) for s in scores]
        prediction = sum(
            a * float(x @ value) / math.sqrt(len(key)) for a, x in zip(sigma, tokens, strict=True)
        )
        total += w * (target - intercept - prediction) ** 2
    return total


def build(problem, name, **options):
    X, y, weight = problem
    options = {"alpha_key": 0.7, "alpha_value": 0.4, "sample_weight": weight} | options
    return AttentionObjective(X, y, ACTIVATIONS[name](), **options)


@activations
@backends
def test_value_is_the_definition(problem, parameters, name, backend):
    with build(problem, name, backend=backend) as objective:
        value, _ = objective.evaluate(parameters)
    assert value == pytest.approx(slow_objective(*problem, name, parameters, 0.7, 0.4), rel=1e-12)


@pytest.mark.parametrize("numbers", [2, 12, 14], ids=["one token", "four tokens", "four tokens and some"])
def test_float32_tokens_are_copied_in_blocks(monkeypatch, problem, parameters, numbers):
    X, y, weight = problem
    single = X.astype(np.float32)
    with build((single.astype(np.float64), y, weight), "softmax", backend="generic") as objective:
        expected = objective.evaluate(parameters)
    monkeypatch.setattr(_generic, "_BLOCK_NUMBERS", numbers)
    sizes = [block.shape[0] for block in _generic._blocks(single.values)]
    assert sizes == [max(1, numbers // 3)] * (len(sizes) - 1) + sizes[-1:]
    assert all(block.dtype == np.float64 for block in _generic._blocks(single.values))
    assert next(_generic._blocks(X.values)) is X.values  # float64 ones are not copied
    with build((single, y, weight), "softmax", backend="generic") as objective:
        value, gradient = objective.evaluate(parameters)
    assert value == pytest.approx(expected[0], rel=1e-13)
    for part, reference in zip(gradient, expected[1], strict=True):
        np.testing.assert_allclose(part, reference, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("name", "fit_offset"), [*((name, False) for name in ACTIVATIONS), ("erf", True)])
@backends
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gradient_is_the_derivative(problem, rng, name, backend, fit_intercept, fit_offset):
    options = {"fit_intercept": fit_intercept, "fit_offset": fit_offset, "backend": backend}
    with build(problem, name, **options) as objective:
        theta = 0.5 * rng.standard_normal(objective.n_parameters)
        assert objective.n_parameters == 6 + fit_intercept + fit_offset
        _, gradient = objective.value_and_gradient(theta)
        step = 1e-6
        for i, unit in enumerate(np.eye(theta.size)):
            up, _ = objective.value_and_gradient(theta + step * unit)
            down, _ = objective.value_and_gradient(theta - step * unit)
            assert gradient[i] == pytest.approx((up - down) / (2 * step), abs=2e-8)
        assert objective.stop_criterion(theta) == pytest.approx(np.linalg.norm(gradient), rel=1e-14)


@activations
def test_pack_and_unpack_are_inverse(problem, parameters, name):
    with build(problem, name, fit_offset=name == "erf") as objective:
        again = objective.unpack(objective.pack(parameters))
    np.testing.assert_allclose(again.key, parameters.key, rtol=1e-15)
    np.testing.assert_allclose(again.value, parameters.value, rtol=1e-15)
    assert again.intercept == pytest.approx(parameters.intercept)
    assert again.offset == (pytest.approx(0.2) if name == "erf" else 0.0)


def test_scaled_value_is_the_objective_over_its_unit(problem, parameters):
    _, y, weight = problem
    with build(problem, "softmax") as objective:
        scaled, _ = objective.value_and_gradient(objective.pack(parameters))
        value, _ = objective.evaluate(parameters)
        mean = weight @ y / weight.sum()
        unit = 2 * weight.sum() * (weight @ (y - mean) ** 2 / weight.sum())
        assert scaled == pytest.approx(value / unit)
        assert objective.original_units(scaled) == pytest.approx(value)


@activations
@pytest.mark.parametrize("t", [1e-2, np.array([1e-3, 1.0, 1e4])], ids=["one unit", "a unit per feature"])
def test_units_of_the_data_do_not_show(problem, rng, name, t):
    X, y, weight = problem
    s = 1e3
    alpha_key, alpha_value = (0.7, 0.4) if np.ndim(t) == 0 else (0.0, 0.0)
    theta = 0.5 * rng.standard_normal(7)
    with build(problem, name, alpha_key=alpha_key, alpha_value=alpha_value) as objective:
        expected, expected_gradient = objective.value_and_gradient(theta)
    # y -> s y and X -> t X scale v by s / t, k by 1 / t, and J by s^2
    scaled = RaggedArray(X.values * t, X.offsets), s * y + 5.0, weight
    penalties = {"alpha_key": alpha_key * (s * np.mean(t)) ** 2, "alpha_value": alpha_value * np.mean(t) ** 2}
    with build(scaled, name, **penalties) as objective:
        theta[6] += 5.0 / objective.coordinates.target_scale
        value, gradient = objective.value_and_gradient(theta)
    assert value == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-11)


def test_softmax_does_not_see_a_shift_of_the_tokens(problem, rng):
    X, y, weight = problem
    theta = 0.5 * rng.standard_normal(7)
    with build(problem, "softmax") as objective:
        expected, expected_gradient = objective.value_and_gradient(theta)
    shifted = RaggedArray(X.values + np.array([100.0, -3.0, 7.0]), X.offsets), y, weight
    with build(shifted, "softmax") as objective:
        value, gradient = objective.value_and_gradient(theta)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-10)


@activations
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_coordinates_have_unit_curvature_at_uniform_attention(problem, name, fit_intercept):
    """At k = 0, for sequences of one token, the second derivative in v is the correlation matrix at most."""
    X, y, weight = problem
    single = RaggedArray(X.values * [1e-4, 1.0, 1e3] + [0.0, 50.0, 0.0], np.arange(X.n_tokens + 1))
    y, weight = np.resize(y, X.n_tokens), np.resize(weight, X.n_tokens)
    options = {"alpha_key": 1e-5, "alpha_value": 1e-5, "fit_intercept": fit_intercept}
    with build((single, y, weight), name, **options) as objective:
        n = objective.n_parameters
        base = objective.value_and_gradient(np.zeros(n))[1]
        curvature = [objective.value_and_gradient(row)[1] - base for row in np.eye(n)]
        np.testing.assert_allclose(np.diag(curvature)[3:], 1.0, rtol=1e-6)


@activations
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_are_the_formula(problem, rng, name, fit_intercept):
    X, y, weight = problem
    values = X.values * [0.3, 2.0, 1.0] + [1.0, -5.0, 0.0]
    values[:, 2] = 4.0  # constant
    share = np.repeat(weight / weight.sum() / X.lengths, X.lengths)
    mean, square = share @ values, share @ values**2
    variance = np.maximum(share @ (values - mean) ** 2, (1e-7 * mean) ** 2)
    centred = fit_intercept and name in ("softmax", "softplus")
    average = weight @ y / weight.sum() if fit_intercept else 0.0
    s_y = math.sqrt(weight @ (y - average) ** 2 / weight.sum())
    key_spread = variance if name == "softmax" else square
    value_spread = variance if centred else square
    options = {"fit_intercept": fit_intercept, "fit_offset": name == "erf"}
    for alpha_key, alpha in ((0.7, 0.4), (0.0, 0.0)):
        key = math.sqrt(3) / np.sqrt(key_spread + 3 * alpha_key / (weight.sum() * s_y**2))
        value = math.sqrt(3) * s_y / np.sqrt(value_spread + 3 * alpha / weight.sum())
        expected = [*key, *value, *[s_y] * fit_intercept, *[1.0] * (name == "erf")]
        data = RaggedArray(values, X.offsets), y, weight
        with build(data, name, alpha_key=alpha_key, alpha_value=alpha, **options) as objective:
            coordinates = objective.coordinates
        # the variance of what is constant is rounding, or its bound
        np.testing.assert_allclose(
            np.delete(coordinates.unit, [2, 5]), np.delete(expected, [2, 5]), rtol=1e-11
        )
        for place in (2, 5):
            assert 0.99 * expected[place] < coordinates.unit[place] <= 1.01 * expected[place]
        assert coordinates.size == len(expected)
        np.testing.assert_allclose(coordinates.centre, centred * mean / math.sqrt(3), rtol=1e-12)


@activations
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_far_features_vary_by_less_than_a_thousandth_of_their_mean(problem, rng, name, fit_intercept):
    X, y, weight = problem
    spread = rng.standard_normal(X.n_tokens)
    share = np.repeat(weight / weight.sum() / X.lengths, X.lengths)
    spread -= share @ spread
    spread /= math.sqrt(share @ spread**2)
    for mean, far in (
        (990.0, False),
        (1010.0, True),
        (-1010.0, True),
        (9.5e6, True),
        (1.05e7, False),
        (0.0, False),
    ):
        values = np.stack([spread, mean + spread, 1e-3 * (mean + spread)], axis=1)
        with build(
            (RaggedArray(values, X.offsets), y, weight), name, fit_intercept=fit_intercept
        ) as objective:
            found = objective.coordinates.far_features.tolist()
        can_be_centred = name == "softmax" and fit_intercept
        assert found == ([1, 2] if far and not can_be_centred else [])


@activations
def test_other_namespaces_agree(problem, parameters, name):
    X, y, weight = problem
    strict = RaggedArray(array_api_strict.asarray(X.values.copy()), X.offsets)
    with build((strict, y, weight), name) as objective:
        assert objective.backend == "generic"
        theta = objective.pack(parameters)
        value, gradient = objective.evaluate(objective.unpack(theta)._replace(offset=parameters.offset))
    with build(problem, name) as objective:
        expected, expected_gradient = objective.evaluate(parameters)
        np.testing.assert_allclose(theta, objective.pack(parameters), rtol=1e-12)
    assert value == pytest.approx(expected, rel=1e-12)
    for a, b in zip(gradient, expected_gradient, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_project(ragged, rng):
    key, value = rng.standard_normal((2, 3))
    strict = RaggedArray(array_api_strict.asarray(ragged.values.copy()), ragged.offsets)
    for X, (vector, i) in itertools.product((ragged, strict), ((key, 0), (value, 1))):
        result = np.asarray(project(X, key, value)[i])
        np.testing.assert_allclose(result, ragged.values @ vector / math.sqrt(3), rtol=1e-13)


def test_a_small_variation_of_large_targets_is_their_scale(ragged, rng):
    noise = rng.standard_normal(12)
    with build((ragged, 1e6 + 1e-5 * noise, np.ones(12)), "softmax") as objective:
        assert objective.coordinates.target_scale == pytest.approx(1e-5 * noise.std(), rel=1e-3)


@pytest.mark.parametrize("constant", [0.0, 3.0, 0.1, 1e6 + 0.1, 1e-5, 1e59])
def test_scales_of_degenerate_data(ragged, constant):
    y, weight = np.full(len(ragged), constant), np.ones(len(ragged))
    zeros = RaggedArray(np.zeros_like(ragged.values), ragged.offsets)
    for X in (ragged, zeros):
        with build((X, y, weight), "softmax", alpha_key=0.0, alpha_value=0.0) as objective:
            assert objective.coordinates.target_scale == pytest.approx(constant or 1.0)
            assert np.isfinite(objective.pack(objective.unpack(np.ones(7)))).all()


def test_a_constant_feature_keeps_a_finite_unit(ragged, rng):
    values = ragged.values.copy()
    values[:, 1] = 1e5 + 0.1
    X, y = RaggedArray(values, ragged.offsets), rng.standard_normal(12)
    with build((X, y, np.ones(12)), "softmax", alpha_key=0.0, alpha_value=0.0) as objective:
        theta = rng.standard_normal(7)
        theta[[1, 4]] = 0.0  # where every start has them
        value, gradient = objective.value_and_gradient(theta)
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient[[1, 4]], 0.0, atol=1e-6)


def test_zero_weight_sequences_do_not_set_the_scale(ragged):
    weight = np.ones(len(ragged))
    weight[3] = 0.0
    values = ragged.values.copy()
    values[ragged.offsets[3] : ragged.offsets[4]] *= 1e6
    y = np.arange(12.0)
    with (
        build((ragged, y, weight), "softmax") as a,
        build((RaggedArray(values, ragged.offsets), y, weight), "softmax") as b,
    ):
        np.testing.assert_allclose(a.unpack(np.ones(7)).key, b.unpack(np.ones(7)).key, rtol=1e-14)


def test_passes_are_counted(problem, parameters):
    X, _, weight = problem
    with build(problem, "softmax") as objective:
        assert objective.n_passes == 1  # for the moments
        objective.evaluate(parameters)
        assert objective.n_passes == 2
        objective.gauss_newton(np.full(7, 0.1))
        assert objective.n_passes == 4
    share = np.repeat(weight / weight.sum() / X.lengths, X.lengths)
    known = share @ X.values, share @ X.values**2
    with build(problem, "softmax", token_moments=known) as objective:
        assert objective.n_passes == 0


def test_weights_are_ones_by_default(problem, parameters):
    X, y, _ = problem
    with build((X, y, None), "softmax") as default, build((X, y, np.ones(12)), "softmax") as ones:
        assert default.evaluate(parameters)[0] == ones.evaluate(parameters)[0] > 1.0


@activations
def test_the_gradient_of_a_batch_is_that_of_its_sequences(problem, parameters, name):
    X, y, weight = problem
    batch = np.array([3, 0, 7])
    with build(problem, name) as objective:
        actual = objective.batch_gradient(batch, parameters)
    with build((X[batch], y[batch], weight[batch]), name, alpha_key=0.0, alpha_value=0.0) as objective:
        expected = objective.evaluate(parameters)[1]
    for part, reference in zip(actual, expected, strict=True):
        np.testing.assert_allclose(part, reference, rtol=1e-10, atol=1e-13)


@activations
def test_what_has_a_kernel_runs_by_it(problem, name):
    with build(problem, name) as objective:
        assert objective.backend == "cpu"


def test_what_has_no_kernel_runs_by_array_operations(problem, parameters):
    class Other(type(ACTIVATIONS["softmax"]())):
        name = "other"

    class OtherLoss(type(_losses.SQUARED_ERROR)):
        name = "other"

    X, y, weight = problem
    options = {"alpha_key": 0.7, "alpha_value": 0.4, "sample_weight": weight}
    with build(problem, "softmax") as objective:
        expected = objective.evaluate(parameters)[0]
    for activation, loss in ((Other(), _losses.SQUARED_ERROR), (ACTIVATIONS["softmax"](), OtherLoss())):
        with AttentionObjective(X, y, activation, loss=loss, **options) as objective:
            assert objective.backend == "generic"
            assert objective.evaluate(parameters)[0] == pytest.approx(expected, rel=1e-12)

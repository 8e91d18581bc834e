"""Many problems in one pass against one problem at a time."""

from itertools import pairwise

import array_api_strict
import numpy as np
import pytest

from sklearn_attn import RaggedArray
from sklearn_attn._backend import to_numpy
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.objective import (
    AttentionObjective,
    AttentionParameters,
    _batch,
    _blocks,
    _cpu,
    _curvature,
    _generic,
)
from sklearn_attn.objective._coordinates import activation_at
from sklearn_attn.objective._generic_batch import GenericBatch
from sklearn_attn.objective._losses import SQUARED_ERROR, MultinomialLogLoss
from sklearn_attn.objective._objective import GenericForm
from sklearn_attn.ragged import Segments

every = pytest.mark.parametrize("activation", [cls() for cls in ACTIVATIONS.values()], ids=lambda a: a.name)
LENGTHS = {
    "ones": np.ones(60, int),
    "mixed": np.random.default_rng(1).integers(1, 12, 40),
    "heavy tail": np.array([1, 2, 150, 1, 3, 40, 1, 1, 8, 2]),
    "one giant": np.array([300]),
}


def problem(lengths, D=7, dtype=np.float64, B=5, seed=0):
    """Data, three weightings with held-out sequences, and B parameters with the weighting of each."""
    rng = np.random.default_rng(seed)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), D)).astype(dtype), lengths=lengths)
    y = rng.standard_normal(lengths.size)
    weights = rng.random((3, lengths.size))
    weights[:2] *= rng.random((2, lengths.size)) > 0.3
    parameters = [
        AttentionParameters(*rng.standard_normal((2, D)), rng.standard_normal(), 0.3 * b) for b in range(B)
    ]
    return X, y, weights, parameters, [b % 3 for b in range(B)]


def assert_agree(kernel, X, y, weights, parameters, rows, activation):
    terms, predictions = kernel.deviances(activation, parameters, rows)
    assert predictions.shape == (len(parameters), len(X))
    double = X.astype(np.float64)
    segments = Segments(X.offsets, double.values)
    for b, (problem, row) in enumerate(zip(parameters, rows, strict=True)):
        expected = GenericForm(double, y, weights[row]).deviance(activation, problem)
        for actual, reference in zip(terms[b], expected, strict=True):
            scale = np.max(np.abs(reference))
            np.testing.assert_allclose(to_numpy(actual), reference, rtol=1e-10, atol=1e-10 * scale + 1e-12)
        scores, token_values = _generic.project(double.values, problem.key, problem.value)
        weight = segments.map(activation_at(activation, problem).weights, scores)
        expected = segments.sum(weight * token_values) + problem.intercept
        np.testing.assert_allclose(to_numpy(predictions[b, :]), expected, rtol=1e-10, atol=1e-10)


@every
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_agrees_with_the_oracle(monkeypatch, activation, lengths, n_threads, dtype):
    monkeypatch.setattr(_cpu, "_MIN_SHARE", 1)
    monkeypatch.setattr(_blocks, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(_blocks, "_MIN_BLOCK_TOKENS", 8)
    data = problem(lengths, dtype=dtype)
    with _batch.BatchKernel(*data[:3], n_threads=n_threads) as kernel:
        assert kernel.block == max(8, lengths.max())
        assert_agree(kernel, *data, activation)


@every
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("block", [None, 200])
def test_array_operations_agree_with_the_oracle(monkeypatch, activation, lengths, dtype, block):
    if block is not None:
        monkeypatch.setattr(_generic, "_BLOCK_NUMBERS", block)
    X, *rest = problem(lengths, dtype=dtype)
    values = array_api_strict.asarray(X.values, device=array_api_strict.Device("device1"))
    kernel = GenericBatch(RaggedArray(values, X.offsets), *rest[:2])
    assert (len(kernel._blocks) > 1) == (block is not None and len(X) > 1)
    assert_agree(kernel, X, *rest, activation)


@every
@pytest.mark.parametrize(("D", "B"), [(1, 1), (64, 1), (500, 7)])
def test_agrees_at_every_size(activation, D, B):
    data = problem(LENGTHS["heavy tail"], D, B=B)
    with _batch.BatchKernel(*data[:3]) as kernel:
        assert_agree(kernel, *data, activation)


def test_takes_read_only_memory_maps_and_extreme_scores(tmp_path):
    X, y, weights, parameters, rows = problem(LENGTHS["mixed"])
    np.save(tmp_path / "values.npy", X.values)
    mapped = RaggedArray(np.load(tmp_path / "values.npy", mmap_mode="r"), X.offsets)
    parameters = [problem._replace(key=3e3 * problem.key) for problem in parameters]
    with _batch.BatchKernel(mapped, y, weights) as kernel:
        assert_agree(kernel, X, y, weights, parameters, rows, ACTIVATIONS["softmax"]())


def test_the_same_bits_on_every_call():
    X, y, weights, parameters, rows = problem(np.full(3000, 4), 64)
    with _batch.BatchKernel(X, y, weights) as kernel:
        first, second = (kernel.deviances(ACTIVATIONS["softmax"](), parameters, rows) for _ in range(2))
    np.testing.assert_array_equal(first[1], second[1])
    np.testing.assert_array_equal(first[0][0][1], second[0][0][1])


@every
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gauss_newton_is_the_curvature_where_residuals_vanish(activation, fit_intercept):
    X, y, weights, parameters, _ = problem(LENGTHS["mixed"])
    options = {
        "alpha_key": 0.3, "alpha_value": 0.2, "sample_weight": weights[0], "fit_intercept": fit_intercept,
        "fit_offset": activation.has_offset,
    }  # fmt: skip
    chosen = parameters[1]._replace(intercept=parameters[1].intercept * fit_intercept)
    _, predictions = GenericBatch(X, y, weights).deviances(activation, [chosen], [0])
    # so that residuals vanish; the penalty's own second derivative is exact
    objective = AttentionObjective(X, predictions[0], activation, **options)
    theta = objective.pack(chosen)
    inverse = objective.gauss_newton(theta).inverse(objective)
    steps = 1e-6 * np.eye(theta.size)
    hessian = [
        (objective.value_and_gradient(theta + step)[1] - objective.value_and_gradient(theta - step)[1]) / 2e-6
        for step in steps
    ]
    np.testing.assert_allclose([inverse(row) for row in hessian], np.eye(theta.size), atol=1e-5)


@every
def test_the_matrix_is_the_same_whatever_the_blocks(activation, monkeypatch):
    X, y, weights, parameters, _ = problem(LENGTHS["mixed"])
    objective = AttentionObjective(X, y, activation, alpha_key=0.3, alpha_value=0.2, sample_weight=weights[0])
    theta = objective.pack(parameters[1])
    whole = objective.gauss_newton(theta).matrix
    monkeypatch.setattr(_curvature, "TOKEN_NUMBERS", 7 * X.n_features)
    blocks = _curvature.cut_blocks(X.offsets, 3, 7)
    sizes = [(last - first, X.offsets[last] - X.offsets[first]) for first, last in blocks]
    assert (blocks[0][0], blocks[-1][1]) == (0, len(X))
    assert len(blocks) > 3
    assert all(a[1] == b[0] for a, b in pairwise(blocks))
    assert all(n == 1 or (n <= 3 and tokens <= 7) for n, tokens in sizes)
    np.testing.assert_allclose(objective.gauss_newton(theta).matrix, whole, rtol=1e-12, atol=1e-12)


def test_the_matrix_keeps_to_its_threads(monkeypatch):
    asked = []
    for module in (_curvature, _cpu):
        team = module.ThreadTeam
        monkeypatch.setattr(module, "ThreadTeam", lambda n, team=team: asked.append(n) or team(n))
    rng = np.random.default_rng(0)
    X = RaggedArray.from_flat(rng.standard_normal((30_000, 10)), lengths=[3] * 10_000)
    objective = AttentionObjective(
        X, rng.standard_normal(len(X)), ACTIVATIONS["softmax"](), alpha_key=1.0, alpha_value=1.0, n_threads=1
    )
    objective.gauss_newton(np.zeros(objective.n_parameters))
    assert asked == [1, 1]


def test_the_pass_is_shared_where_there_is_a_kernel():
    X, y, weights, *_ = problem(LENGTHS["mixed"])
    softmax = ACTIVATIONS["softmax"]()
    with _batch.shared_pass(X, y, weights, softmax) as kernel:
        assert isinstance(kernel, _batch.BatchKernel)
    strict = RaggedArray(array_api_strict.asarray(X.values), X.offsets)
    with _batch.shared_pass(strict, y, weights, softmax) as kernel:
        assert isinstance(kernel, GenericBatch)


@pytest.mark.parametrize("K", [None, 3])
def test_the_cost_of_a_matrix_is_its_multiplications_over_those_of_a_pass(K):
    X, *_ = problem(LENGTHS["mixed"], D=7)
    loss = SQUARED_ERROR if K is None else MultinomialLogLoss(K)
    size = 7 * (2 if K is None else K + 1)
    rows = len(X) * (1 if K is None else K + 1)
    products, factors = rows * size**2, size**3 / 3
    expected = (products + factors) / (2 * X.n_tokens * size)
    assert _curvature.curvature_cost(X, loss) == pytest.approx(expected, rel=1e-12)
    for D, has_one in ((2800 // (2 if K is None else 4), True), (2801, False)):
        wide = RaggedArray(np.zeros((1, D)), [0, 1])
        assert np.isfinite(_curvature.curvature_cost(wide, loss)) == has_one
    strict = RaggedArray(array_api_strict.asarray(X.values), X.offsets)
    assert _curvature.curvature_cost(strict, loss) == np.inf

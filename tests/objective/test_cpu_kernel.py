"""The fused kernel against the generic path, on every way to cut the tokens."""

import itertools
import multiprocessing
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_attn import RaggedArray
from sklearn_attn.activations import ACTIVATIONS, Erf
from sklearn_attn.objective import _cpu, _generic
from sklearn_attn.ragged import Segments

ALL = [Erf(0.4) if name == "erf" else cls() for name, cls in ACTIVATIONS.items()]
every = pytest.mark.parametrize("activation", ALL, ids=lambda a: a.name)

LENGTHS = {
    "ones": np.ones(60, int),
    "equal": np.full(40, 3),
    "mixed": np.random.default_rng(1).integers(1, 12, 40),
    "heavy tail": np.array([1, 2, 150, 1, 3, 40, 1, 1, 8, 2]),
    "one giant": np.array([300]),
    "giant first": np.array([250, 1, 2]),
    "giant last": np.array([2, 1, 250]),
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Blocks of eight tokens and no smallest share, so that small data is cut in every way."""
    monkeypatch.setattr(_cpu, "_MIN_SHARE", 1)
    monkeypatch.setattr(_cpu, "_BLOCK_BYTES", 1)


def data(lengths, D, dtype=np.float64, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = RaggedArray.from_flat(
        (scale * rng.standard_normal((lengths.sum(), D))).astype(dtype), lengths=lengths
    )
    y, weight = rng.standard_normal(lengths.size), rng.random(lengths.size)
    weight[::5] = 0.0
    if lengths.size == 1:
        weight[:] = 0.5
    return X, y, weight, *rng.standard_normal((2, D))


def oracle(X, y, weight, activation, key, value):
    values = X.values.astype(np.float64)
    return _generic.deviance(values, Segments(X.offsets, values), y, weight, activation, key, value, 0.2)


def assert_agree(actual, expected, rtol=1e-10, atol=1e-12):
    for a, b in zip(actual, expected, strict=True):
        scale = np.max(np.abs(b))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale + atol)


@every
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_agrees_with_the_oracle_however_it_is_cut(small_pieces, activation, lengths, n_threads, dtype):
    X, y, weight, key, value = data(lengths, 7, dtype)
    with _cpu.FusedKernel(X, y, weight, n_threads=n_threads) as kernel:
        assert kernel.block == 8
        actual = kernel.deviance(activation, key, value, 0.2)
    expected = oracle(X, y, weight, activation, key, value)
    assert_agree(actual, expected)


@every
@pytest.mark.parametrize("D", [1, 2, 3, 64, 500])
def test_agrees_at_every_number_of_features(activation, D):
    X, y, weight, key, value = data(LENGTHS["heavy tail"], D)
    with _cpu.FusedKernel(X, y, weight) as kernel:
        actual = kernel.deviance(activation, key, value, 0.2)
    expected = oracle(X, y, weight, activation, key, value)
    assert_agree(actual, expected)


@every
@pytest.mark.parametrize("order", [1, -1])
def test_scores_of_ten_thousand_in_a_cut_sequence(small_pieces, activation, order):
    # rising scores make the running maximum rise in every piece, falling ones in the first only
    X, y, _, key, value = data(np.array([1, 100, 2]), 4)
    values = X.values.copy()
    values[1:101, 0] = np.linspace(-1e4, 1e4, 100)[::order]
    key = np.array([2.0, 0.0, 0.0, 0.0])
    X = RaggedArray(values, X.offsets)
    for n_threads in (1, 2, 4):
        with _cpu.FusedKernel(X, y, np.ones(3), n_threads=n_threads) as kernel:
            actual = kernel.deviance(activation, key, value, 0.2)
        assert all(np.isfinite(part).all() for part in actual)
        expected = oracle(X, y, np.ones(3), activation, key, value)
        assert_agree(actual, expected)


@every
def test_the_same_bits_on_every_call_and_at_any_thread_count(small_pieces, activation):
    X, y, weight, key, value = data(LENGTHS["heavy tail"], 5)
    with _cpu.FusedKernel(X, y, weight, n_threads=1) as kernel:
        serial = kernel.deviance(activation, key, value, 0.2)
    for n_threads in (2, 3, 4):
        with _cpu.FusedKernel(X, y, weight, n_threads=n_threads) as kernel:
            first, second = (kernel.deviance(activation, key, value, 0.2) for _ in range(2))
        for a, b, c in zip(first, second, serial, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_takes_read_only_memory_maps(tmp_path):
    X, y, weight, key, value = data(LENGTHS["mixed"], 6)
    np.save(tmp_path / "values.npy", X.values)
    mapped = RaggedArray(np.load(tmp_path / "values.npy", mmap_mode="r"), X.offsets)
    softmax = ALL[0]
    with _cpu.FusedKernel(mapped, y, weight) as kernel:
        actual = kernel.deviance(softmax, key, value, 0.2)
    assert_agree(actual, oracle(X, y, weight, softmax, key, value))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_evaluation_does_not_copy_X(dtype):
    X, y, weight, key, value = data(np.full(8000, 5), 50, dtype)
    with _cpu.FusedKernel(X, y, weight) as kernel:
        kernel.deviance(ALL[0], key, value, 0.2)
        tracemalloc.start()
        kernel.deviance(ALL[0], key, value, 0.2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 0.05 * X.nbytes


def test_project(small_pieces):
    X, _, _, key, value = data(LENGTHS["mixed"], 6)
    with _cpu.FusedKernel(X, n_threads=3) as kernel:
        scores, token_values = kernel.project(key, value)
    np.testing.assert_allclose(scores, X.values @ key / np.sqrt(6), rtol=1e-12)
    np.testing.assert_allclose(token_values, X.values @ value / np.sqrt(6), rtol=1e-12)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("n_threads", [1, 2, 3, 8, 500])
def test_shares_cover_the_tokens_and_cut_long_sequences_only(lengths, n_threads):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shares = _cpu.split_tokens(offsets, n_threads, 8)
    assert len(shares) == n_threads
    assert shares[0][0] == 0
    assert shares[-1][1] == offsets[-1]
    for (_, stop, _), (start, _, sequence) in itertools.pairwise(shares):
        assert start == stop
        assert offsets[sequence] <= start <= offsets[sequence + 1]
        if start not in offsets:
            assert lengths[sequence] > 8


def test_shares_are_equal_but_for_a_sequence_that_is_not_cut():
    for lengths, uneven in ((np.array([301]), 1), (np.array([2, 1, 250]), 1), (np.full(90, 8), 8)):
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        for n_threads in (2, 3, 7):
            shares = _cpu.split_tokens(offsets, n_threads, 8)
            sizes = [stop - start for start, stop, _ in shares]
            assert max(sizes) - min(sizes) <= 2 * uneven
            if uneven == 8:  # as long as a block: still whole
                assert all(start in offsets for start, _, _ in shares)


def test_a_block_and_its_scratch_fill_half_of_a_cache():
    for D, dtype in ((64, np.float64), (64, np.float32), (1000, np.float32), (10**5, np.float64)):
        X = RaggedArray(np.zeros((2, D), dtype), [0, 2])
        token_bytes = D * X.values.itemsize + 8 * 8  # and 7 rows of scratch, and a place
        block = _cpu.block_tokens(X)
        assert block == max(8, 2**18 // token_bytes)


def test_threads_are_at_most_those_asked_for_and_have_enough_to_do(monkeypatch):
    monkeypatch.setattr(_cpu, "available_threads", lambda: 5)

    def sized(shares, n_tokens=10**9):
        return SimpleNamespace(values=SimpleNamespace(size=int(shares * 2**17)), n_tokens=n_tokens)

    sizes = [sized(shares) for shares in (1e-5, 1, 1.99, 2, 5, 6, 11, 13, 40, 48, 1000)]
    assert [_cpu.n_shares_for(X) for X in sizes] == [1, 1, 1, 2, 4, 6, 6, 12, 24, 48, 48]
    assert [_cpu.n_shares_for(sized(1000, n), 100) for n in (99, 200, 1300)] == [1, 2, 12]
    assert [_cpu.n_threads_for(X, 3) for X in sizes[:5]] == [1, 1, 1, 2, 3]
    assert [_cpu.n_threads_for(X) for X in (sized(1), sized(9))] == [1, 5]
    assert _cpu.n_threads_for(sized(9, 250), 4, least_tokens=100) == 2


def test_no_thread_is_left_behind():
    X, y, weight, key, value = data(np.full(3000, 5), 50)
    before = threading.active_count()
    with _cpu.FusedKernel(X, y, weight, n_threads=3) as kernel:
        kernel.deviance(ALL[0], key, value, 0.2)
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_eight_threads_at_once_give_the_serial_result(small_pieces):
    X, y, weight, key, value = data(LENGTHS["heavy tail"], 5)

    def evaluate(_):
        with _cpu.FusedKernel(X, y, weight, n_threads=2) as kernel:
            return np.concatenate([np.ravel(part) for part in kernel.deviance(ALL[0], key, value, 0.2)])

    serial = evaluate(0)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(evaluate, range(64)):
            np.testing.assert_array_equal(result, serial)


def _evaluate_in_child(queue, arguments):
    X, y, weight, key, value = arguments
    with _cpu.FusedKernel(X, y, weight, n_threads=2) as kernel:
        queue.put(kernel.deviance(ALL[0], key, value, 0.2)[0])


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_runs_in_child_processes_after_a_first_evaluation(method):
    arguments = data(np.full(3000, 5), 50)
    X, y, weight, key, value = arguments
    with _cpu.FusedKernel(X, y, weight, n_threads=2) as kernel:
        expected = kernel.deviance(ALL[0], key, value, 0.2)[0]
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_evaluate_in_child, args=(queue, arguments))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside pytest's own threads
        child.start()
    assert queue.get(timeout=60) == expected
    child.join(timeout=60)
    assert child.exitcode == 0

"""The generators against the law that they claim to draw from."""

import itertools
import sys
import tracemalloc

import numpy as np
import pytest
from scipy.special import log_softmax

from sklearn_attn import RaggedArray
from sklearn_attn._backend import to_numpy
from sklearn_attn.datasets import SLRDataset, make_max_slr, make_spiked_slr
from sklearn_attn.datasets._elsewhere import draw

TASKS = {
    "spiked": {"task": "spiked", "signal": 3.0},
    "max": {"task": "max", "signal": 1.5},
    "argmax": {"task": "max", "signal": float("inf")},
}


@pytest.fixture(params=TASKS)
def dataset(request):
    return SLRDataset(n_features=40, length=(2, 3, 6), random_state=0, **TASKS[request.param])


def test_directions_have_norm_sqrt_D(dataset):
    assert np.linalg.norm(dataset.key_) == pytest.approx(np.sqrt(40))
    assert np.linalg.norm(dataset.value_) == pytest.approx(np.sqrt(40))
    again = SLRDataset("spiked", 40, random_state=0)
    np.testing.assert_array_equal(again.key_, dataset.key_)


def test_target_is_the_hidden_tokens_value(dataset):
    X, y, location = dataset.sample(500, return_location=True)
    assert isinstance(X, RaggedArray)
    hidden = np.stack([x[place] for x, place in zip(X, location, strict=True)])
    np.testing.assert_allclose(y, hidden @ dataset.value_ / np.sqrt(40), rtol=1e-12)


def test_noise_is_a_standard_deviation():
    dataset = SLRDataset(n_features=40, noise=0.5, random_state=0)
    X, y, location = dataset.sample(4000, return_location=True)
    clean = X.values[X.offsets[:-1] + location] @ dataset.value_ / np.sqrt(40)
    assert np.std(y - clean) == pytest.approx(0.5, rel=0.05)
    assert np.mean(y**2) == pytest.approx(1.25 + (dataset.key_ @ dataset.value_ / 40) ** 2, rel=0.1)


def scores(dataset, X, location):
    """chi* at the hidden token and at all others."""
    chi = X.values @ dataset.key_ / np.sqrt(dataset.n_features)
    hidden = X.offsets[:-1] + location
    return chi[hidden], np.delete(chi, hidden), [chi[a:b] for a, b in itertools.pairwise(X.offsets)]


def test_spiked_shifts_the_hidden_token_along_the_key():
    dataset = SLRDataset("spiked", 40, signal=3.0, length=4, random_state=0)
    X, _, location = dataset.sample(6000, return_location=True)
    hidden, others, _ = scores(dataset, X, location)
    assert hidden.mean() == pytest.approx(np.sqrt(3), abs=0.06)
    assert hidden.std() == pytest.approx(1, abs=0.04)
    assert others.mean() == pytest.approx(0, abs=0.03)
    assert X.values.var() == pytest.approx(1 + 3 / 40 / 4, rel=0.01)
    np.testing.assert_allclose(np.bincount(location) / 6000, 0.25, atol=0.02)


def test_max_draws_the_location_from_the_softmax():
    dataset = SLRDataset("max", 40, signal=1.5, length=4, random_state=0)
    X, _, location = dataset.sample(20_000, return_location=True)
    chi = (X.values @ dataset.key_ / np.sqrt(40)).reshape(-1, 4)
    probability = np.exp(log_softmax(1.5 * chi, axis=1))
    drawn = np.eye(4)[location]
    # the drawn locations have the mean, and the covariance with chi, of the softmax
    np.testing.assert_allclose(drawn.mean(axis=0), probability.mean(axis=0), atol=0.015)
    assert np.sum(drawn * chi) / 20_000 == pytest.approx(np.sum(probability * chi) / 20_000, abs=0.02)
    assert np.sum(drawn * probability) / 20_000 == pytest.approx(np.sum(probability**2) / 20_000, abs=0.01)
    assert chi.std() == pytest.approx(1, abs=0.01)


def test_max_at_infinite_signal_is_the_argmax():
    dataset = SLRDataset("max", 40, signal=float("inf"), length=(1, 5), random_state=0)
    X, _, location = dataset.sample(500, return_location=True)
    _, _, chi = scores(dataset, X, location)
    assert [c.argmax() for c in chi] == location.tolist()


@pytest.mark.parametrize(
    ("length", "frequencies"),
    [(5, {5: 1.0}), ((2, 4), {2: 0.5, 4: 0.5}), ({1: 0.2, 7: 0.8}, {1: 0.2, 7: 0.8})],
)
def test_law_of_the_length(length, frequencies):
    X, _ = make_spiked_slr(4000, 3, length=length, random_state=0)
    values, counts = np.unique(X.lengths, return_counts=True)
    assert values.tolist() == sorted(frequencies)
    np.testing.assert_allclose(counts / 4000, [frequencies[v] for v in values], atol=0.03)


def test_the_stream_goes_on_and_a_state_of_its_own_repeats(dataset):
    (_X, y), (X2, y2) = dataset.sample(50), dataset.sample(50)
    assert not np.allclose(y, y2)
    a, b = (dataset.sample(50, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(a[0].values, b[0].values)
    np.testing.assert_array_equal(a[1], b[1])
    twin = SLRDataset(
        dataset.problem.task, 40, signal=dataset.problem.signal, length=(2, 3, 6), random_state=0
    )
    twin.sample(50, random_state=3)  # does not touch the stream
    np.testing.assert_array_equal(twin.sample(50)[1], y)
    np.testing.assert_array_equal(twin.sample(50)[0].values, X2.values)


def test_batches_are_fresh(dataset):
    batches = list(itertools.islice(dataset.batches(8), 3))
    assert [len(X) for X, _ in batches] == [8, 8, 8]
    assert len({y.tobytes() for _, y in batches}) == 3


def test_makers_return_the_truth():
    for make, task in ((make_spiked_slr, "spiked"), (make_max_slr, "max")):
        X, y, truth = make(30, 10, signal=2.0, length=4, noise=0.1, return_truth=True, random_state=1)
        X2, y2 = make(30, 10, signal=2.0, length=4, noise=0.1, random_state=1)
        np.testing.assert_array_equal(y, y2)
        np.testing.assert_array_equal(X.values, X2.values)
        assert truth.problem.task == task
        assert truth.location.shape == (30,)
        clean = X.values[X.offsets[:-1] + truth.location] @ truth.value / np.sqrt(10)
        assert np.std(y - clean) == pytest.approx(0.1, rel=0.5)


def test_two_random_states_of_one_seed_give_equal_data():
    a, b = (make_spiked_slr(10, 5, random_state=np.random.RandomState(0)) for _ in range(2))
    np.testing.assert_array_equal(a[1], b[1])


def test_memory_of_a_sample():
    dataset = SLRDataset(n_features=300, length=(1, 4), random_state=0)
    tracemalloc.start()
    X, _ = dataset.sample(16_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * X.nbytes


def test_bad_parameters():
    with pytest.raises(ValueError, match="n_features == 0"):
        SLRDataset(n_features=0)
    with pytest.raises(TypeError, match="n_samples"):
        SLRDataset().sample(2.5)
    with pytest.raises(ValueError, match="batch_size"):
        next(SLRDataset().batches(0))
    with pytest.raises(ValueError, match="infinite signal needs task='max'"):
        make_spiked_slr(signal=float("inf"))


class StreamElsewhere:
    """The numbers of a stream of the host, as tensors of another namespace."""

    def __init__(self, seed, move):
        self.stream, self.move = np.random.RandomState(seed), move

    def __getattr__(self, name):
        return lambda size: self.move(np.atleast_1d(getattr(self.stream, name)(size=tuple(size))))


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_draw_elsewhere_is_that_of_the_host(dataset, name):
    move = np.asarray if name == "numpy" else pytest.importorskip("torch").tensor
    expected = dataset.sample(300, return_location=True, random_state=5)
    stream = StreamElsewhere(5, move)
    problem = dataset.problem
    lengths = stream.stream.choice(problem.lengths, size=300, p=problem.length_probabilities)
    X, y, location = draw(problem, dataset.key_, dataset.value_, lengths, stream)
    assert {type(X.values), type(y), type(location)} == {type(move(np.zeros(1)))}
    np.testing.assert_array_equal(X.offsets, expected[0].offsets)
    np.testing.assert_allclose(to_numpy(X.values), expected[0].values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(to_numpy(y), expected[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(to_numpy(location), expected[2])


def test_noise_elsewhere():
    dataset = SLRDataset(n_features=5, noise=0.5, random_state=0)
    stream = StreamElsewhere(0, np.asarray)
    X, y, location = draw(dataset.problem, dataset.key_, dataset.value_, np.full(4000, 2), stream)
    clean = X.values[X.offsets[:-1] + location] @ dataset.value_ / np.sqrt(5)
    assert np.std(y - clean) == pytest.approx(0.5, rel=0.05)


def test_devices(monkeypatch):
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda', got 'gpu'"):
        SLRDataset(device="gpu")
    dataset = SLRDataset(device="cuda", random_state=0)
    np.testing.assert_array_equal(dataset.key_, SLRDataset(random_state=0).key_)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn_attn\[gpu\]'"):
        dataset.sample(3)

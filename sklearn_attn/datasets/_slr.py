"""Generators of the single-location regression task."""

from numbers import Integral

import numpy as np
from sklearn.utils import Bunch, check_random_state, check_scalar

from .._backend import CudaStream, check_device
from ..problems import TASKS, SLRProblem
from ..ragged import RaggedArray
from ._elsewhere import draw

# Rows handled at a time where a temporary as large as X would be needed.
_CHUNK_TOKENS = 1024


class SLRDataset:
    """Single-location regression in D dimensions, with hidden directions that stay the same.

    A sample is a sequence of L tokens, standard normal but for the trace that the hidden location eps
    leaves along k*, and::

        y = X_eps . v* / sqrt(D) + noise xi

    spiked: eps is uniform and X_eps is shifted by sqrt(nu / D) k*. max: eps is drawn from
    softmax(nu chi*), chi* = X k* / sqrt(D), and is the argmax of chi* at nu = inf.

    Parameters
    ----------
    task : {"spiked", "max"}, default="spiked"
    n_features : int, default=100
        D.
    signal : float, default=1.0
        nu >= 0, up to inf for "max".
    length : int, sequence of int or {int: probability}, default=3
        The law of L; see `SLRProblem`.
    noise : float, default=0.0
        Standard deviation of the noise on y.
    random_state : int, RandomState instance or None, default=None
        Fixes the hidden directions, and the stream that `sample` draws from.
    device : {"cpu", "cuda"}, default="cpu"
        Where samples are drawn, in NumPy or in CuPy on the current GPU. For one `random_state` the hidden
        directions and the lengths of sequences are the same on both, tokens and locations are not.

    Attributes
    ----------
    key_, value_ : ndarray of float64 of shape (D,)
        k* and v*, on the host, drawn N(0, I) and scaled to norm sqrt(D): they compare directly with a fitted
        regressor's `key_` and `value_`.
    problem : SLRProblem

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid; the message says what to pass.
    ImportError
        By `sample`, if a GPU is asked for and CuPy is not installed.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936, section 2.

    Examples
    --------
    >>> from sklearn_attn.datasets import SLRDataset
    >>> dataset = SLRDataset("max", n_features=50, signal=float("inf"), length=(2, 5), random_state=0)
    >>> X, y, location = dataset.sample(200, return_location=True)
    >>> bool((X[0] @ dataset.key_).argmax() == location[0])
    True
    """

    def __init__(
        self, task="spiked", n_features=100, *, signal=1.0, length=3, noise=0.0, random_state=None,
        device="cpu",
    ):  # fmt: skip
        check_device(device)
        self.device = device
        self.problem = SLRProblem(task, signal=signal, length=length, noise=noise)
        check_scalar(n_features, "n_features", Integral, min_val=1)
        self.n_features = int(n_features)
        self._stream = check_random_state(random_state)
        directions = self._stream.standard_normal((2, self.n_features))
        directions *= np.sqrt(self.n_features) / np.linalg.norm(directions, axis=1, keepdims=True)
        self.key_, self.value_ = directions

    def __repr__(self):
        return f"SLRDataset(problem={self.problem!r}, n_features={self.n_features})"

    def sample(self, n_samples, return_location=False, random_state=None):
        """Draw sequences, their targets and, on request, the hidden locations.

        Parameters
        ----------
        n_samples : int
        return_location : bool, default=False
        random_state : int, RandomState instance or None, default=None
            By default the dataset's own stream goes on, and two calls differ. With a state of its
            own a call can be repeated and leaves the stream alone.

        Returns
        -------
        X : RaggedArray of n_samples sequences, float64
        y : array of float64 of shape (n_samples,)
            On the device, as the tokens of X.
        location : array of int64 of shape (n_samples,)
            Index of the hidden token in its sequence; only with `return_location`.
        """
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        stream = self._stream if random_state is None else check_random_state(random_state)
        problem, task = self.problem, TASKS[self.problem.task]
        lengths = stream.choice(problem.lengths, size=n_samples, p=problem.length_probabilities)
        if self.device == "cuda":
            random = CudaStream(int(stream.randint(np.iinfo(np.int32).max)))
            X, y, location = draw(problem, self.key_, self.value_, lengths, random)
            return (X, y, location) if return_location else (X, y)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = np.empty((offsets[-1], self.n_features))
        for start in range(0, offsets[-1], _CHUNK_TOKENS):
            rows = values[start : start + _CHUNK_TOKENS]
            rows[:] = stream.standard_normal(rows.shape)
        scale = 1.0 / np.sqrt(self.n_features)
        scores = task.location_scores((values @ self.key_) * scale, problem.signal, stream)
        hidden = _argmax_of_segments(scores, offsets, lengths)  # (n,) rows of values
        shift = task.shift(problem.signal)
        for start in range(0, n_samples if shift else 0, _CHUNK_TOKENS):
            values[hidden[start : start + _CHUNK_TOKENS]] += shift * scale * self.key_
        y = (values @ self.value_)[hidden] * scale
        y += problem.noise * stream.standard_normal(n_samples)
        X = RaggedArray(values, offsets)
        return (X, y, hidden - offsets[:-1]) if return_location else (X, y)

    def batches(self, batch_size):
        """Draw fresh batches without end, for one-pass training.

        Parameters
        ----------
        batch_size : int

        Yields
        ------
        X : RaggedArray of batch_size sequences
        y : array of float64 of shape (batch_size,)
        """
        check_scalar(batch_size, "batch_size", Integral, min_val=1)
        while True:
            yield self.sample(batch_size)


def _argmax_of_segments(scores, offsets, lengths):
    """Row of the largest score of every sequence, none of which is empty."""
    largest = np.maximum.reduceat(scores, offsets[:-1])
    rows = np.flatnonzero(scores == np.repeat(largest, lengths))
    first = np.searchsorted(rows, offsets[:-1])  # the first of equal scores
    return rows[first]


def make_spiked_slr(
    n_samples=100,
    n_features=100,
    *,
    signal=1.0,
    length=3,
    noise=0.0,
    return_truth=False,
    random_state=None,
):
    """Draw one data set of the spiked single-location regression task.

    Tokens are standard normal; the one at a uniform hidden location eps is shifted by sqrt(nu / D) k*, and
    y = X_eps . v* / sqrt(D) + noise xi.

    Parameters
    ----------
    n_samples : int, default=100
    n_features : int, default=100
        D.
    signal : float, default=1.0
        nu >= 0, finite.
    length : int, sequence of int or {int: probability}, default=3
        The law of the number of tokens; see `SLRProblem`.
    noise : float, default=0.0
        Standard deviation of the noise on y.
    return_truth : bool, default=False
        Whether to return what is hidden.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : RaggedArray of n_samples sequences, float64
    y : ndarray of float64 of shape (n_samples,)
    truth : Bunch with key, value, location, problem
        Only with `return_truth`.

    See Also
    --------
    SLRDataset : Several draws with the same hidden directions, such as a training and a test set.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936, section 2.
    """
    dataset = SLRDataset(
        "spiked", n_features, signal=signal, length=length, noise=noise, random_state=random_state
    )
    return _make(dataset, n_samples, return_truth)


def make_max_slr(
    n_samples=100,
    n_features=100,
    *,
    signal=1.0,
    length=3,
    noise=0.0,
    return_truth=False,
    random_state=None,
):
    """Draw one data set of the max single-location regression task.

    Tokens are standard normal; the hidden location eps is drawn from softmax(nu chi*), chi* = X k* / sqrt(D),
    and is the argmax of chi* at nu = inf; y = X_eps . v* / sqrt(D) + noise xi.

    Parameters
    ----------
    n_samples : int, default=100
    n_features : int, default=100
        D.
    signal : float, default=1.0
        nu >= 0, up to inf.
    length : int, sequence of int or {int: probability}, default=3
        The law of the number of tokens; see `SLRProblem`.
    noise : float, default=0.0
        Standard deviation of the noise on y.
    return_truth : bool, default=False
        Whether to return what is hidden.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : RaggedArray of n_samples sequences, float64
    y : ndarray of float64 of shape (n_samples,)
    truth : Bunch with key, value, location, problem
        Only with `return_truth`.

    See Also
    --------
    SLRDataset : Several draws with the same hidden directions, such as a training and a test set.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936, section 2.
    """
    dataset = SLRDataset(
        "max", n_features, signal=signal, length=length, noise=noise, random_state=random_state
    )
    return _make(dataset, n_samples, return_truth)


def _make(dataset, n_samples, return_truth):
    X, y, location = dataset.sample(n_samples, return_location=True)
    if not return_truth:
        return X, y
    truth = Bunch(key=dataset.key_, value=dataset.value_, location=location, problem=dataset.problem)
    return X, y, truth

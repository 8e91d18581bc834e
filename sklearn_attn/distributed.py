"""Fits to sequences that Dask workers hold: parameters travel to the data, gradients travel back.

Needs ``dask[distributed]``, the extra ``distributed``.
"""

from dataclasses import dataclass

import numpy as np

from .objective import AttentionObjective, gauss_newton_matrix, moments, on_host
from .ragged import check_ragged
from .regressors._base import BaseAttentionRegressor
from .regressors._callbacks import FitTask
from .regressors._model import quiet_overflow
from .regressors._validation import check_parameters, check_sample_weight, check_target, leave_out_weightless
from .solvers import single_threaded_blas


def fit_partitions(estimator, partitions, *, client=None):
    """Fit an attention regressor to partitions of the data that live on Dask workers.

    Every worker keeps its sequences. In each evaluation the parameters, 2 D + 2 numbers, go to the workers,
    and the squared error of each partition comes back with its gradient; the objective is a sum over
    sequences, so that the sum over partitions is that of the whole. The solver runs where this is called.
    After many iterations it asks, as in `fit`, for the curvature as well, (2 D)^2 numbers of every partition.
    The result is that of ``estimator.fit`` on all sequences together, up to the order of summation.

    Parameters
    ----------
    estimator : SoftmaxAttentionRegressor or a sibling, with ``solver="lbfgs"``
        Fitted in place.
    partitions : sequence
        Each is a pair (X, y) or a triple (X, y, sample_weight) as `fit` takes them, or a Dask future or
        delayed object of one, which a worker loads: ``dask.delayed(load)(path)`` keeps the data off this
        process. A partition whose weights are all zero is refused; leave it out.
    client : distributed.Client, optional
        By default the current one.

    Returns
    -------
    estimator

    Raises
    ------
    ValueError
        If there is no partition, partitions differ in their number of features or float type, or the solver
        is not "lbfgs"; and for data that `fit` refuses.
    TypeError
        If a partition is neither a pair nor a triple, or the estimator is another one: a classifier, a
        search, a Pipeline.
    ImportError
        If Dask's distributed scheduler is not installed.

    Warns
    -----
    ConvergenceWarning
        As `fit`.

    Notes
    -----
    A worker that is lost takes its partitions along: the fit then ends with Dask's error, and leaves the
    estimator as it was. A worker uses as many threads per partition as Dask gives it.

    Examples
    --------
    >>> from sklearn_attn import SoftmaxAttentionRegressor
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> from sklearn_attn.distributed import fit_partitions
    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client(n_workers=2, threads_per_worker=1)  # doctest: +SKIP
    >>> X, y = make_spiked_slr(400, 20, signal=9.0, random_state=0)
    >>> parts = [(X[:200], y[:200]), (X[200:], y[200:])]
    >>> fit_partitions(SoftmaxAttentionRegressor(), parts, client=client)  # doctest: +SKIP
    SoftmaxAttentionRegressor()
    """
    client = _current_client(client)
    if not isinstance(estimator, BaseAttentionRegressor):
        raise TypeError(
            "fit_partitions fits SoftmaxAttentionRegressor and its siblings, not a "
            f"{type(estimator).__name__}."
        )
    check_parameters(estimator)
    if estimator.solver != "lbfgs":
        raise ValueError(f"fit_partitions needs solver='lbfgs', got {estimator.solver!r}.")
    futures = [_on_a_worker(client, partition) for partition in partitions]
    if not futures:
        raise ValueError("partitions is empty; pass at least one (X, y).")
    name = type(estimator).__name__
    actors = [client.submit(_Partition, future, name, actor=True, pure=False) for future in futures]
    actors = [actor.result() for actor in actors]
    summaries = _ask(actors, "summary")
    for field in ("n_features", "dtype"):
        found = sorted({str(summary[field]) for summary in summaries})
        if len(found) > 1:
            raise ValueError(f"All partitions must have the same {field}, got {' and '.join(found)}.")

    def build(X, y, activation, **options):
        return _RemoteObjective(actors, X, y, activation, token_moments=_combine(summaries), **options)

    X = _RemoteSequences(
        sum(summary["y"].size for summary in summaries),
        sum(summary["n_tokens"] for summary in summaries),
        summaries[0]["n_features"],
        np.empty((0, summaries[0]["n_features"]), dtype=summaries[0]["dtype"]),
    )
    y, sample_weight = (np.concatenate([summary[name] for summary in summaries]) for name in ("y", "weight"))
    with (
        single_threaded_blas(),
        quiet_overflow(),
        estimator._build_objective(X, y, sample_weight, build) as objective,
    ):
        estimator._minimise(X, X, objective, FitTask(estimator, None, {}), stacklevel=3)
    return estimator


@dataclass(frozen=True)
class _RemoteSequences:
    """What a fit asks of sequences that are elsewhere."""

    n_sequences: int
    n_tokens: int
    n_features: int
    values: np.ndarray

    def __len__(self):
        return self.n_sequences


class _RemoteObjective(AttentionObjective):
    """The objective whose squared error is a sum over partitions."""

    def __init__(self, actors, X, y, activation, **options):
        super().__init__(X, y, activation, backend="remote", **options)
        self._actors = actors

    def deviance(self, parameters):
        """Evaluate every partition at the same time, and add up; see `AttentionObjective.deviance`."""
        terms = _ask(self._actors, "deviance", self.activation, parameters)
        return tuple(sum(column) for column in zip(*terms, strict=True))

    def gauss_newton_matrix(self, parameters):
        """Add up the matrices of the partitions; see `AttentionObjective.gauss_newton_matrix`."""
        point = self.activation, parameters, self.coordinates.centre, self.fit_intercept, self.fit_offset
        return sum(_ask(self._actors, "gauss_newton_matrix", *point))


class _Partition:
    """Sequences in the memory of a worker."""

    def __init__(self, partition, name):
        if not isinstance(partition, tuple | list) or len(partition) not in (2, 3):
            raise TypeError(
                f"A partition must be (X, y) or (X, y, sample_weight), got {type(partition).__name__}."
            )
        X, y, *rest = partition
        X = check_ragged(X)
        y = check_target(y, len(X), name)
        weight = check_sample_weight(rest[0] if rest else None, len(X))
        self.sample_weight, self.X, self.y = leave_out_weightless(weight, X, y)
        self.objective = None

    def summary(self):
        """Say what the coordinates of the solver are made of."""
        return {
            "n_tokens": self.X.n_tokens,
            "n_features": self.X.n_features,
            "dtype": self.X.values.dtype,
            "y": self.y,
            "weight": self.sample_weight,
            "moments": [moment[0] for moment in moments(self.X, self.sample_weight[None, :])],
        }

    def deviance(self, activation, parameters):
        if self.objective is None:
            self.objective = AttentionObjective(
                self.X, self.y, activation, alpha_key=0.0, alpha_value=0.0, sample_weight=self.sample_weight,
                token_moments=np.ones((2, self.X.n_features)), n_threads=_threads_of_worker(),
            )  # fmt: skip
        return on_host(self.objective.deviance(parameters))

    def gauss_newton_matrix(self, *point):
        with single_threaded_blas():
            return gauss_newton_matrix(self.X, self.sample_weight, *point, n_threads=_threads_of_worker())


def _threads_of_worker():
    from distributed import get_worker

    return get_worker().state.nthreads


def _combine(summaries):
    """Means over all sequences from the means of each partition."""
    total = np.array([summary["weight"].sum() for summary in summaries])
    return [
        np.average([summary["moments"][i] for summary in summaries], axis=0, weights=total) for i in range(2)
    ]


def _ask(actors, method, *arguments):
    """Call a method of all actors at the same time."""
    answers = [getattr(actor, method)(*arguments) for actor in actors]
    return [answer.result() for answer in answers]


def _on_a_worker(client, partition):
    """Future of a partition: what is already one, computed there, or sent there."""
    from dask import is_dask_collection
    from distributed import Future

    if isinstance(partition, Future):
        return partition
    if is_dask_collection(partition):
        return client.compute(partition)
    return client.scatter([partition], hash=False)[0]


def _current_client(client):
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError('fit_partitions needs Dask: pip install "dask[distributed]".') from error
    return get_client() if client is None else client

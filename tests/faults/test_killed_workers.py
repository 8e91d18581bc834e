"""A worker process that is killed is an error that says so; what is left is as it was and goes on."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.model_selection import GridSearchCV

from sklearn_attn import SoftmaxAttentionRegressor, distributed
from sklearn_attn.datasets import make_spiked_slr

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on this system")


class KillingScorer:
    """Scores a model; where alpha is 1, ends the process that it is in."""

    def __init__(self, how):
        self.how, self.parent = how, os.getpid()

    def __call__(self, model, X, y):
        if model.alpha == 1.0:
            assert os.getpid() != self.parent, "this is no worker"
            if self.how == "SIGKILL":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(1)
        return model.score(X, y)


def left_over():
    """Number of threads and of open files, once the pool of workers has been closed."""
    get_reusable_executor().shutdown(wait=True)
    files = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    return threading.active_count(), files


def search_with_a_killed_worker(how):
    """Search with workers that are killed, then with some that are not; return what is left over."""
    X, y = make_spiked_slr(200, 4, random_state=0)
    grid, model = {"alpha": [0.1, 1.0]}, SoftmaxAttentionRegressor()
    before = pickle.dumps(model)
    search = GridSearchCV(model, grid, cv=2, n_jobs=2, scoring=KillingScorer(how))
    with pytest.raises(
        TerminatedWorkerError, match="worker process managed by the executor was unexpectedly"
    ):
        search.fit(X, y)
    assert not hasattr(search, "best_estimator_")
    assert pickle.dumps(model) == before
    search.set_params(scoring=None).fit(X, y)
    expected = GridSearchCV(model, grid, cv=2).fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], expected.cv_results_[name], rtol=1e-8)
    return left_over()


def test_a_killed_worker_of_a_search():
    search_with_a_killed_worker("SIGKILL")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "_exit"])
def test_killed_workers_leave_nothing_behind(how):
    assert len({search_with_a_killed_worker(how) for _ in range(4)}) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")  # Dask closes late
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_worker_of_a_fit_over_partitions(monkeypatch):
    dask = pytest.importorskip("distributed", reason="needs dask[distributed]")
    X, y = make_spiked_slr(200, 4, random_state=0)
    parts = [(X[:100], y[:100]), (X[100:], y[100:])]
    ask, calls = distributed._ask, []

    def killing(actors, method, *arguments):
        calls.append(method)
        if len(calls) == 5:
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        return ask(actors, method, *arguments)

    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        dask.Client(cluster) as client,
    ):
        model = distributed.fit_partitions(SoftmaxAttentionRegressor(1e-3, tol=1e-9), parts, client=client)
        before = pickle.dumps(model)
        with monkeypatch.context() as patch:
            patch.setattr(distributed, "_ask", killing)
            with pytest.raises(Exception, match=r"(?i)worker|actor|closed|lost"):
                distributed.fit_partitions(model, [(X, -y) for X, y in parts], client=client)
        assert len(calls) >= 5
        assert pickle.dumps(model) == before
        client.wait_for_workers(2, timeout=60)
        distributed.fit_partitions(model, parts, client=client)
    assert pickle.dumps(model) == before

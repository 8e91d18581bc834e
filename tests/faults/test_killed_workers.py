"""A worker process that is killed is an error that says so; what is left is as it was and goes on."""

import multiprocessing
import os
import pickle
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.model_selection import GridSearchCV

from sklearn_attn import SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV, distributed
from sklearn_attn.datasets import make_spiked_slr

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on this system")


def kill_this_worker(how):
    assert multiprocessing.parent_process() is not None or "LOKY" in "".join(os.environ), "not in a worker"
    if how == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)


class KillingScorer:
    """Scores a model, or ends the process it is in where alpha is the one given."""

    def __init__(self, alpha, how, parent):
        self.alpha, self.how, self.parent = alpha, how, parent

    def __call__(self, model, X, y):
        if model.alpha == self.alpha:
            assert os.getpid() != self.parent, "this is no worker"
            if self.how == "SIGKILL":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(1)
        return model.score(X, y)


def open_files():
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


@pytest.fixture
def data():
    return make_spiked_slr(200, 4, random_state=0)


@pytest.mark.parametrize("how", ["SIGKILL", "_exit"])
@pytest.mark.parametrize("model", [SoftmaxAttentionRegressor(), SoftmaxAttentionRegressorCV([1.0], cv=2)])
def test_a_killed_worker_of_a_search(data, how, model):
    if isinstance(model, SoftmaxAttentionRegressorCV):
        pytest.skip("has no alpha")
    grid = {"alpha": [0.1, 1.0, 10.0]}
    expected = GridSearchCV(model, grid, cv=2).fit(*data)
    before = pickle.dumps(model)
    search = GridSearchCV(model, grid, cv=2, n_jobs=2, scoring=KillingScorer(1.0, how, os.getpid()))
    left = set()
    for _ in range(3):
        with pytest.raises(TerminatedWorkerError, match="A worker process managed by the executor was unexpectedly"):
            search.fit(*data)
        assert not hasattr(search, "best_estimator_")
        assert pickle.dumps(model) == before
        again = GridSearchCV(model, grid, cv=2, n_jobs=2).fit(*data)
        np.testing.assert_allclose(
            again.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-10
        )
        assert again.best_params_ == expected.best_params_
        get_reusable_executor().shutdown(wait=True)
        left.add((threading.active_count(), open_files()))
    assert len(left) == 1, left

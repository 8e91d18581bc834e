"""
A search on a Ray cluster
=========================

`GridSearchCV` through joblib's Ray backend: every worker fits whole models, here two workers on this machine.
A worker has one core and computes with one thread, as Ray tells it by OMP_NUM_THREADS. Ray sends usage
statistics unless it is told otherwise, as here. Run it with::

    pip install ".[ray]" && python examples/ray_search.py

It prints the penalty that the search chose, and how far its scores are from those of the same search without
Ray, which are the same but for the order of summation.
"""

import os

import joblib
import numpy as np
from sklearn.model_selection import GridSearchCV

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before Ray is imported
import ray
from ray.util.joblib import register_ray

N_WORKERS = 2


def main():
    dataset = SLRDataset("spiked", n_features=100, signal=9.0, length=(2, 5, 9), noise=0.1, random_state=0)
    X, y = dataset.sample(4000)
    X_test, y_test = dataset.sample(2000)
    search = GridSearchCV(SoftmaxAttentionRegressor(), {"alpha": np.logspace(-2, 2, 5)}, n_jobs=N_WORKERS)
    register_ray()
    ray.init(num_cpus=N_WORKERS, include_dashboard=False, log_to_driver=False)
    try:
        with joblib.parallel_config("ray"):
            search.fit(X, y)
    finally:
        ray.shutdown()
    alpha, score = search.best_params_["alpha"], search.score(X_test, y_test)
    print(f"GridSearchCV on {N_WORKERS} Ray workers: alpha {alpha:g}, test R2 {score:.3f}")

    ray_scores = search.cv_results_["mean_test_score"]
    search.set_params(n_jobs=None).fit(X, y)
    distance = np.abs(search.cv_results_["mean_test_score"] - ray_scores).max()
    print(f"Without Ray: alpha {search.best_params_['alpha']:g}, scores within {distance:.0e}")


if __name__ == "__main__":
    main()

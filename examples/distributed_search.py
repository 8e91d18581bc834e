"""
A search and a fit on a Dask cluster
====================================

Two ways to use a cluster, here a local one of two worker processes:

1. `GridSearchCV` through joblib's Dask backend: every worker fits whole models, for data that fit into the
   memory of each of them.
2. `fit_partitions`: every worker holds a part of the sequences, and one model is fitted to all of them, for
   data that fit into the memory of none. Only parameters and gradients travel, and in a long fit a few
   matrices of curvature.

Dask tells its workers by OMP_NUM_THREADS how many threads to use, so that threads times workers are no more
than the cores. Run it with::

    pip install ".[distributed]" && python examples/distributed_search.py

It prints the penalty that the search chose, and how far the two fits at that penalty are apart.
"""

from itertools import pairwise

import joblib
import numpy as np
from distributed import Client, LocalCluster
from sklearn.model_selection import GridSearchCV

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.distributed import fit_partitions

N_WORKERS = 2


def main():
    dataset = SLRDataset("spiked", n_features=100, signal=9.0, length=(2, 5, 9), noise=0.1, random_state=0)
    X, y = dataset.sample(4000)
    X_test, y_test = dataset.sample(2000)
    with (
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        search = GridSearchCV(SoftmaxAttentionRegressor(), {"alpha": np.logspace(-2, 2, 5)})
        with joblib.parallel_config("dask", scatter=[X]):
            search.fit(X, y)
        alpha = search.best_params_["alpha"]
        score = search.score(X_test, y_test)
        print(f"GridSearchCV on {N_WORKERS} workers: alpha {alpha:g}, test R2 {score:.3f}")

        cuts = np.linspace(0, len(y), N_WORKERS + 1).astype(int)
        partitions = [(X[a:b], y[a:b]) for a, b in pairwise(cuts)]
        model = fit_partitions(SoftmaxAttentionRegressor(alpha), partitions, client=client)
    distance = np.abs(model.predict(X_test) - search.predict(X_test)).max()
    score = model.score(X_test, y_test)
    print(f"Fit to {N_WORKERS} partitions: test R2 {score:.3f}, predictions within {distance:.0e}")


if __name__ == "__main__":
    main()

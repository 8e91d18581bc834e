"""Threads that run at once in a search, for every number of jobs and backend of joblib.

    python benchmarks/jobs.py

GridSearchCV over 8 penalties and 5 folds. Another process looks every 10 ms at how many threads of this one
and its workers are running or ready to run; more than there are cores or jobs would be oversubscription.
"""

import multiprocessing
import os
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset

INTERVAL = 0.01


def descendants(pid):
    """Return a process and all that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return []
    return [pid, *(process for child in children for process in descendants(int(child)))]


def n_running(pid, excluded):
    """Count the threads in state R of a process and its descendants."""
    count = 0
    for process in descendants(pid):
        if process == excluded:
            continue
        for stat in Path(f"/proc/{process}/task").glob("*/stat"):
            try:
                count += stat.read_text().rpartition(")")[2].split()[0] == "R"
            except OSError:
                continue
    return count


def watch(connection, pid):
    """Count running threads until told to stop."""
    while connection.recv():
        counts = []
        while not connection.poll(INTERVAL):
            counts.append(n_running(pid, os.getpid()))
        connection.recv()
        connection.send(counts)


def main():
    X, y = SLRDataset("spiked", n_features=200, signal=2.0, length=(1, 3, 8), random_state=0).sample(4000)
    SoftmaxAttentionRegressor().fit(X[:50], y[:50]).predict(X[:50])
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    watcher = context.Process(target=watch, args=(theirs, os.getpid()), daemon=True)
    watcher.start()
    print(f"{os.cpu_count()} cores\n")
    print("| backend | n_jobs | seconds | running threads: mean | 95 % of the time at most |")
    print("|---|---|---|---|---|")
    for backend in ("loky", "threading", "multiprocessing"):
        for n_jobs in (1, 2, 4):
            search = GridSearchCV(
                SoftmaxAttentionRegressor(), {"alpha": np.logspace(-1, 3, 8)}, n_jobs=n_jobs
            )
            with joblib.parallel_config(backend), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                joblib.Parallel(n_jobs)(joblib.delayed(time.sleep)(0.5) for _ in range(n_jobs))  # start them
                ours.send(True)
                start = time.perf_counter()
                search.fit(X, y)
                seconds = time.perf_counter() - start
            ours.send(False)
            counts = ours.recv()
            print(
                f"| {backend} | {n_jobs} | {seconds:.1f} | {np.mean(counts):.1f} | "
                f"{np.quantile(counts, 0.95):.0f} |"
            )
    ours.send(False)


if __name__ == "__main__":
    main()

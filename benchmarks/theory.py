"""Replica theory: how fast and how accurate, and against simulated fits.

    python benchmarks/theory.py             # D up to 1000, 8 repetitions: about half an hour on two cores
    python benchmarks/theory.py --fast      # D up to 200, 4 repetitions: about three minutes
    python benchmarks/theory.py --only speed curve

Seconds are medians of warm calls, and mean what the load of the machine, printed first, lets them. A
simulation fits data of the task and takes the test error from the fit's order parameters (`risk_at`), so
that no test set adds noise; its error is the standard error over repetitions. Every repetition is fitted
from the hidden directions (informed) and from init="auto"; "same" counts how often both ended in one
minimum.
"""

import argparse
import math
import os
import statistics
import time
import warnings
from dataclasses import dataclass

import numba
import numpy as np
import scipy
import sklearn
from sklearn.exceptions import ConvergenceWarning

import sklearn_attn
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.problems import SLRProblem
from sklearn_attn.regressors import REGRESSORS
from sklearn_attn.theory import (
    ReplicaSymmetryWarning,
    ReplicaTheory,
    order_parameters,
    replica_erm,
    risk_at,
)

# Objectives nearer than this, relatively, are those of the same minimum.
SAME_MINIMUM = 1e-4


@dataclass(frozen=True)
class Setting:
    """One experiment."""

    activation: str
    problem: SLRProblem
    sample_ratio: float
    alpha: float

    def __str__(self):
        p = self.problem
        return (
            f"{self.activation}, {p.task} nu={p.signal:g}, L={_length(p)}, "
            f"noise={p.noise:.2f}, n={self.sample_ratio:g}, alpha={self.alpha:g}"
        )


def _length(problem):
    return "/".join(str(L) for L in problem.lengths.tolist())


SPIKED = SLRProblem("spiked", signal=2.0, length=3)
MAX = SLRProblem("max", signal=math.inf, length=(1, 2, 3), noise=math.sqrt(0.1))
WEAK = SLRProblem("spiked", signal=1.0, length=3)
# The settings of the reference values (replica theory by an independent implementation) ...
REFERENCE = [
    *(Setting(activation, SPIKED, 4.0, 1.0) for activation in REGRESSORS),
    *(Setting(activation, MAX, 8.0, 0.5) for activation in REGRESSORS),
    Setting("softmax", WEAK, 20.0, 1.0),
]
# ... and a walk to low signal and low penalty, across the line of stability.
WALK = [Setting("softmax", WEAK, 4.0, alpha) for alpha in (1.0, 0.3, 0.2, 0.1, 0.05, 0.03)]


def predict(setting, **options):
    """Solve the theory where it may be unstable, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicaSymmetryWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return replica_erm(
            setting.problem, setting.activation, setting.sample_ratio, setting.alpha, **options
        )


def fit(setting, D, seed, starts=("informed", "auto")):
    """Fit one data set from several starts.

    Returns
    -------
    ndarray of shape (n_starts, 3)
        Test error, training error and objective over 2 D.
    """
    p = setting.problem
    dataset = SLRDataset(p.task, D, signal=p.signal, length=p.length, noise=p.noise, random_state=seed)
    # The theory takes k* and v* as orthogonal.
    dataset.value_ -= (dataset.value_ @ dataset.key_) / D * dataset.key_
    dataset.value_ *= math.sqrt(D) / np.linalg.norm(dataset.value_)
    X, y = dataset.sample(round(setting.sample_ratio * D))
    rows = []
    for start in starts:
        init = (dataset.key_, dataset.value_) if start == "informed" else start
        model = REGRESSORS[setting.activation](
            setting.alpha, fit_intercept=False, init=init, random_state=seed, max_iter=5000
        ).fit(X, y)
        test = risk_at(p, setting.activation, order_parameters(model, dataset))
        norms = model.key_ @ model.key_ + model.value_ @ model.value_
        train = (model.objective_ - setting.alpha * norms) / len(y)
        rows.append([test, train, model.objective_ / (2 * D)])
    return np.array(rows)


def simulate(setting, D, n_repetitions):
    """Fit several data sets from both starts: (n_repetitions, 2 starts, 3)."""
    return np.array([fit(setting, D, seed) for seed in range(n_repetitions)])


def seconds_of(task, repeats=5):
    task()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), min(seconds)


def bench_speed(fast):
    print("\n## Seconds of `replica_erm` and its error, L = 3, n = 4, alpha = 1\n")
    print("`error` is the distance to the value with 16 times as many draws.\n")
    print("| activation | task | median s | best s | test error | error_estimate | error | stability |")
    print("|---|---|---|---|---|---|---|---|")
    for problem in (
        SPIKED,
        SLRProblem("max", signal=math.inf, length=3),
        SLRProblem("max", signal=3.0, length=3),
    ):
        for activation in REGRESSORS:
            setting = Setting(activation, problem, 4.0, 1.0)
            median, best = seconds_of(lambda setting=setting: predict(setting), 3 if fast else 7)
            result = predict(setting)
            exact = predict(setting, n_points=2**18)
            print(
                f"| {activation} | {problem.task}, nu={problem.signal:g} | {median:.2f} | {best:.2f} "
                f"| {result.test_error:.4f} | {result.error_estimate:.1e} "
                f"| {abs(result.test_error - exact.test_error):.1e} | {result.stability:.2f} |",
                flush=True,
            )


def bench_curve(fast):
    print(
        "\n## Seconds of a curve of 20 points, `ReplicaTheory.predict`, n from 1.5 to 50, alpha = 1, L = 3\n"
    )
    print("| activation | spiked, nu=2 | max, nu=inf |")
    print("|---|---|---|")
    X = np.column_stack([np.geomspace(1.5, 50.0, 20), np.ones(20)])
    for activation in REGRESSORS:
        cells = []
        for task, signal in (("spiked", 2.0), ("max", math.inf)):
            theory = ReplicaTheory(activation, task=task, signal=signal).fit(X, np.ones(20))
            cells.append(seconds_of(lambda theory=theory: theory.predict(X), 1 if fast else 3)[0])
        print(f"| {activation} | {cells[0]:.1f} | {cells[1]:.1f} |", flush=True)


def bench_simulation(settings, title, dimensions, n_repetitions):
    print(f"\n## {title}: {n_repetitions} repetitions\n")
    print("Gap: simulation less theory, in % of theory, and in standard errors of both.\n")
    print(
        "| setting | D | theory | stability | informed | gap | auto | gap | train, theory | informed | same |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for setting in settings:
        theory = predict(setting, n_points=2**17)
        for D in dimensions:
            runs = simulate(setting, D, n_repetitions)  # (n_repetitions, starts, 3)
            mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / math.sqrt(n_repetitions)
            cells = []
            for i in range(2):
                gap = mean[i, 0] - theory.test_error
                total = math.hypot(error[i, 0], theory.error_estimate)
                cells.append(f"{mean[i, 0]:.4f} +- {error[i, 0]:.4f}")
                cells.append(f"{100 * gap / theory.test_error:+.2f} % ({gap / total:+.1f})")
            objectives = runs[:, :, 2]
            same = np.mean(np.abs(objectives[:, 1] / objectives[:, 0] - 1.0) < SAME_MINIMUM)
            print(
                f"| {setting} | {D} | {theory.test_error:.4f} +- {theory.error_estimate:.4f} "
                f"| {theory.stability:.2f} | {' | '.join(cells)} | {theory.train_error:.4f} "
                f"| {mean[0, 1]:.4f} +- {error[0, 1]:.4f} | {round(same * n_repetitions)}/{n_repetitions} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="small dimensions and few repetitions")
    parser.add_argument(
        "--only", nargs="+", choices=("speed", "curve", "reference", "walk"), help="some of the tables only"
    )
    arguments = parser.parse_args()
    wanted = arguments.only or ("speed", "curve", "reference", "walk")
    dimensions, n_repetitions = ((100, 200), 4) if arguments.fast else ((250, 500, 1000), 8)
    print(
        f"sklearn_attn {sklearn_attn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, numba {numba.__version__}, {numba.get_num_threads()} threads, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    if "speed" in wanted:
        bench_speed(arguments.fast)
    if "curve" in wanted:
        bench_curve(arguments.fast)
    if "reference" in wanted:
        bench_simulation(REFERENCE, "Theory against simulation", dimensions, n_repetitions)
    if "walk" in wanted:
        bench_simulation(WALK, "Across the line of stability", dimensions, n_repetitions)


if __name__ == "__main__":
    main()

"""
The hard phase: what samples allow and what algorithms reach
============================================================

In the max task the token with the largest score along a hidden key decides the answer. With the law of the
data known, two errors matter: what the samples allow in principle (the Bayes-optimal error, from an informed
start of its equations), and what the best known algorithm of polynomial time reaches (from an uninformed
start). Over a range of sample ratios N / D, which is shaded, the second is far above the first: the answer is
in the data, but no fast method is known to find it. Without any noise the range begins at N = D; noise closes
it, at a standard deviation of about 0.05.

Points are that algorithm, `BayesGAMPRegressor`, on data, with the standard error over repetitions. Near the
upper end of the range it follows its equations only in high dimension and after many iterations: at the size
of the paper and N / D = 1.4, 120 of them end at an error of 0.42 where the equations say 0.34. Run it with::

    pip install ".[plot]" && python examples/theory/plot_hard_phase.py

It saves one figure, `plot_hard_phase.png`, in the current folder. ``--full`` takes the size of the paper
(arXiv:2509.21936), sqrt(N D) = 10^4, which needs about 8 GB of memory and a quarter of an hour.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_squared_error

from sklearn_attn.datasets import SLRDataset
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import BayesGAMPRegressor, bayes_optimal, hard_phase

PROBLEM = SLRProblem("max", signal=float("inf"), length=3, noise=0.02)
N_TEST = 4000
MAX_ITER = 120
N_POINTS = 2**12  # random draws of the equations: an error of 0.001


def simulate(sample_ratio, size, seed):
    """Run the algorithm on fresh data with sqrt(N D) = size; return its error on new data."""
    n_features = round(size / np.sqrt(sample_ratio))
    dataset = SLRDataset(
        PROBLEM.task,
        n_features,
        signal=PROBLEM.signal,
        length=PROBLEM.length,
        noise=PROBLEM.noise,
        random_state=seed,
    )
    X, y = dataset.sample(round(sample_ratio * n_features))
    model = BayesGAMPRegressor(
        PROBLEM.task, signal=PROBLEM.signal, noise=PROBLEM.noise, max_iter=MAX_ITER, random_state=seed
    )
    model.fit(X, y)
    X_test, y_test = dataset.sample(N_TEST)
    return mean_squared_error(y_test, model.predict(X_test))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the size of the paper, sqrt(N D) = 10^4")
    parser.add_argument("--output", default="plot_hard_phase.png", help="where to save the figure")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # the last iterate is a prediction as well
    size, n_repetitions, n_ratios = (10_000, 2, 61) if arguments.full else (600, 4, 31)
    fig, ax = plt.subplots(figsize=(7.5, 5.0), layout="constrained")

    ratios = np.geomspace(0.5, 3.0, n_ratios)
    for init, color, label in (
        ("uninformed", "tab:blue", "best known algorithm, equations"),
        ("informed", "tab:green", "Bayes-optimal"),
    ):
        errors = [bayes_optimal(PROBLEM, ratio, init, n_points=N_POINTS).test_error for ratio in ratios]
        ax.plot(ratios, errors, color=color, label=label, zorder=3 if init == "informed" else 2)
    low, high = hard_phase(PROBLEM, sample_ratios=(0.8, 2.0))
    print(f"Hard phase: N / D from {low:.2f} to {high:.2f}", flush=True)
    ax.axvspan(low, high, color="0.9", label="hard phase")

    simulated = [0.5, 0.8, 1.0, 1.2, 1.4, 1.7, 2.2, 3.0]
    jobs = [(ratio, seed) for ratio in simulated for seed in range(n_repetitions)]
    errors = Parallel(n_jobs=2, prefer="threads")(
        delayed(simulate)(ratio, size, seed) for ratio, seed in jobs
    )
    errors = np.reshape(errors, (len(simulated), n_repetitions))
    mean, standard_error = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(n_repetitions)
    ax.errorbar(simulated, mean, standard_error, fmt="o", capsize=3, color="tab:blue",
                label="BayesGAMPRegressor on data")  # fmt: skip
    for ratio, error, bar in zip(simulated, mean, standard_error, strict=True):
        equations = bayes_optimal(PROBLEM, ratio, n_points=N_POINTS).test_error
        print(f"  N/D = {ratio:4.2f}: equations {equations:.3f}, algorithm {error:.3f} +- {bar:.3f}")
    ax.set(xscale="log", xlabel="sample ratio N / D", ylabel="test error (mean squared)", ylim=(0.0, None))
    ax.set(title=f"max task, three tokens, infinite signal, noise {PROBLEM.noise}")
    ax.set_xticks([0.5, 1.0, 1.5, 2.0, 3.0], ["0.5", "1", "1.5", "2", "3"])
    ax.minorticks_off()
    ax.legend(fontsize="small")
    fig.savefig(arguments.output, dpi=90)
    print(f"The hard phase: {arguments.output}")


if __name__ == "__main__":
    main()

"""
Softmax against linear attention with finitely many samples
===========================================================

Single-location regression with N samples in D dimensions: one token of three decides the answer. In the
spiked task it is shifted along a hidden direction, in the max task it is the one with the largest score.
Both attentions are fitted at the best of a few penalties. Lines are replica theory, points the regressors
themselves with their standard error, grey lines the best that any method can do.

Softmax attention is ahead of linear attention at every sample ratio. It is not optimal as long as N / D is
finite, but comes closer as N / D grows; linear attention levels off far above. Run it with::

    pip install ".[plot]" && python examples/theory/plot_sample_ratio.py

It saves one figure, `plot_sample_ratio.png`, in the current folder. ``--full`` takes the size of the paper
(arXiv:2509.21936), sqrt(N D) = 10^4, which needs about 8 GB of memory and 40 minutes.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_squared_error

from sklearn_attn import LinearAttentionRegressor, SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import (
    ReplicaSymmetryWarning,
    bayes_optimal,
    bayes_risk,
    population_risk,
    replica_erm,
)

PROBLEMS = {
    "spiked task, three tokens, signal 2, noise 0.3": SLRProblem("spiked", signal=2.0, length=3, noise=0.3),
    "max task, three tokens, infinite signal, noise 0.3": SLRProblem(
        "max", signal=float("inf"), length=3, noise=0.3
    ),
}
# The regressor, and the penalties of which the best is taken by theory.
MODELS = {
    "softmax": (SoftmaxAttentionRegressor, [0.3, 1.0], "tab:blue"),
    "linear": (LinearAttentionRegressor, [3.0, 10.0], "tab:orange"),
}
N_TEST = 5000
N_POINTS = 2**12  # random draws of the theory: an error of 0.002


def best_prediction(problem, activation, sample_ratio, alphas):
    """Predict the test error at the penalty of least predicted error, and return both.

    Penalties at which the theory is unstable are no choice: they come with a warning, and no number.
    """
    candidates = []
    for alpha in alphas:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplicaSymmetryWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = replica_erm(problem, activation, sample_ratio, alpha, n_points=N_POINTS)
        if result.converged and result.stability < 1.0:
            candidates.append((result.test_error, alpha))
    return min(candidates)


def simulate(problem, regressor, alpha, sample_ratio, size, n_repetitions):
    """Fit on fresh data of sqrt(N D) = size; return the mean test error and its standard error."""
    n_features = round(size / np.sqrt(sample_ratio))
    errors = []
    for seed in range(n_repetitions):
        dataset = SLRDataset(
            problem.task,
            n_features,
            signal=problem.signal,
            length=problem.length,
            noise=problem.noise,
            random_state=seed,
        )
        X, y = dataset.sample(round(sample_ratio * n_features))
        model = regressor(alpha, fit_intercept=False, tol=1e-5).fit(X, y)
        X_test, y_test = dataset.sample(N_TEST)
        errors.append(mean_squared_error(y_test, model.predict(X_test)))
    return np.mean(errors), np.std(errors, ddof=1) / np.sqrt(n_repetitions)


def draw(ax, problem, size, n_repetitions, ratios):
    for activation, (regressor, alphas, color) in MODELS.items():
        predictions = [best_prediction(problem, activation, ratio, alphas) for ratio in ratios]
        ax.plot(ratios, [error for error, _ in predictions], color=color, label=f"{activation}, theory")
        simulated, points = ratios[::2], []
        for ratio, (error, alpha) in zip(simulated, predictions[::2], strict=True):
            mean, standard_error = simulate(problem, regressor, alpha, ratio, size, n_repetitions)
            points.append((mean, standard_error))
            print(
                f"  {activation:8s} N/D = {ratio:4.1f}, alpha = {alpha:4.1f}: theory {error:.3f}, "
                f"regressor {mean:.3f} +- {standard_error:.3f}",
                flush=True,
            )
        mean, standard_error = np.transpose(points)
        ax.errorbar(
            simulated, mean, standard_error, fmt="o", capsize=3, color=color, label=f"{activation}, fitted"
        )
        ax.axhline(population_risk(problem, activation).risk, color=color, ls=":", lw=1)
    for init, style, label in (
        ("uninformed", {"color": "0.75", "lw": 4}, "best known algorithm, with the law known"),
        ("informed", {"color": "0.25", "ls": "--"}, "Bayes-optimal, with the law known"),
    ):
        optimal = [bayes_optimal(problem, ratio, init, n_points=N_POINTS).test_error for ratio in ratios]
        ax.plot(ratios, optimal, **style, label=label)
    ax.axhline(bayes_risk(problem), color="0.25", ls=":", lw=1, label="same colours: infinitely many samples")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the size of the paper, sqrt(N D) = 10^4")
    parser.add_argument("--output", default="plot_sample_ratio.png", help="where to save the figure")
    arguments = parser.parse_args()
    if arguments.full:
        size, n_repetitions, ratios = 10_000, 2, np.geomspace(1.0, 32.0, 21)
    else:
        size, n_repetitions, ratios = 500, 4, np.geomspace(1.0, 16.0, 9)
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
    for ax, (title, problem) in zip(axes, PROBLEMS.items(), strict=True):
        print(f"{title}:", flush=True)
        draw(ax, problem, size, n_repetitions, ratios)
        ax.set(xscale="log", title=title, xlabel="sample ratio N / D")
        ticks = [1, 2, 4, 8, 16, 32][: 6 if arguments.full else 5]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
    axes[0].set_ylabel("test error (mean squared)")
    axes[0].legend(fontsize="small")
    fig.savefig(arguments.output, dpi=90)
    print(f"Test error against sample ratio: {arguments.output}")


if __name__ == "__main__":
    main()

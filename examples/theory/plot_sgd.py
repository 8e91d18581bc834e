"""
One-pass stochastic gradient descent against its differential equation
======================================================================

A softmax attention regressor sees every sample of the spiked single-location regression task once. Its key k
and value v start in random directions, and their overlaps with the hidden directions k* and v*,
m_key = k.k*/D and m_value = v.v*/D, grow as time = samples / D goes on. In high dimension they follow
a differential equation: lines are `sgd_dynamics`, points the regressor with ``solver="sgd"`` and
``partial_fit``, with the standard error over repetitions.

The value is learned first, from pooled tokens; the key follows once there is a value. The risk falls towards
the Bayes risk and levels off above it, as steps of one size keep adding noise. Run it with::

    pip install ".[plot]" && python examples/theory/plot_sgd.py

It saves one figure, `plot_sgd.png`, in the current folder. ``--full`` runs in 10,000 dimensions, for
about ten minutes.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import bayes_risk, order_parameters, risk_at, sgd_dynamics

PROBLEM = SLRProblem("spiked", signal=2.0, length=3)
LEARNING_RATE = 0.4
OVERLAPS = {"m_key": "tab:blue", "q_key": "tab:cyan", "m_value": "tab:red", "q_value": "tab:orange"}
BATCH = 2500  # samples in memory at a time
ALPHA = 1e-9  # the equation is that of descent without a penalty


def orthogonal_start(dataset, rng):
    """Draw k and v of norm sqrt(D) / 2, orthogonal to each other and to the hidden directions."""
    D = dataset.n_features
    directions = np.column_stack([dataset.key_, dataset.value_, *rng.standard_normal((2, D))])
    start = np.linalg.qr(directions)[0][:, 2:]
    return tuple(0.5 * np.sqrt(D) * start.T)


def simulate(n_features, times, seed):
    """Run one pass; return the overlaps (n_times, 4) and the risks (n_times,) on the way."""
    dataset = SLRDataset(
        PROBLEM.task, n_features, signal=PROBLEM.signal, length=PROBLEM.length, random_state=seed
    )
    start = orthogonal_start(dataset, np.random.default_rng(seed))
    model = SoftmaxAttentionRegressor(
        ALPHA, solver="sgd", learning_rate=LEARNING_RATE, init=start, fit_intercept=False
    )
    measured, risks = [], []
    for n_samples in np.diff(np.round(times * n_features).astype(int)):
        for start in range(0, n_samples, BATCH):
            model.partial_fit(*dataset.sample(min(BATCH, n_samples - start)))
        overlaps = order_parameters(model, dataset)
        measured.append([getattr(overlaps, name) for name in OVERLAPS])
        risks.append(risk_at(PROBLEM, "softmax", overlaps))
    return np.array(measured), np.array(risks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="10,000 dimensions")
    parser.add_argument("--output", default="plot_sgd.png", help="where to save the figure")
    arguments = parser.parse_args()
    n_features, n_repetitions = (10_000, 2) if arguments.full else (1000, 6)
    times = np.linspace(0.0, 30.0, 13)
    runs = [simulate(n_features, times, seed) for seed in range(n_repetitions)]
    fine = np.linspace(0.0, times[-1], 121)
    theory = sgd_dynamics(PROBLEM, "softmax", LEARNING_RATE, fine)

    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    overlaps = np.array([run[0] for run in runs])
    for i, (name, color) in enumerate(OVERLAPS.items()):
        mean = overlaps[:, :, i].mean(axis=0)
        standard_error = overlaps[:, :, i].std(axis=0, ddof=1) / np.sqrt(n_repetitions)
        left.plot(fine, getattr(theory, name), color=color, label=name)
        left.errorbar(times[1:], mean, standard_error, fmt="o", ms=4, capsize=3, color=color)
        for j in (4, 8, 12):
            print(
                f"{name:8s} at time {times[j]:4.1f}: equation {getattr(theory, name)[10 * j]:.3f}, descent "
                f"{mean[j - 1]:.3f} +- {standard_error[j - 1]:.3f}"
            )
    risks = np.array([run[1] for run in runs])
    right.plot(fine, theory.risk, color="tab:blue", label="equation")
    right.errorbar(
        times[1:],
        risks.mean(axis=0),
        risks.std(axis=0, ddof=1) / np.sqrt(n_repetitions),
        fmt="o",
        ms=4,
        capsize=3,
        color="tab:blue",
        label=f"descent in {n_features} dimensions",
    )
    right.axhline(bayes_risk(PROBLEM), color="0.4", ls=":", label="Bayes risk")
    left.set(xlabel="time (samples / D)", ylabel="overlap")
    right.set(xlabel="time (samples / D)", ylabel="population risk", ylim=(0.0, None))
    left.legend(title="lines: equation, points: descent", fontsize="small")
    right.legend(fontsize="small")
    fig.savefig(arguments.output, dpi=90)
    print(f"One-pass descent: {arguments.output}")


if __name__ == "__main__":
    main()

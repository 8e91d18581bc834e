"""
Population risk of four kinds of attention
==========================================

What attention with a softmax, linear, erf or softplus activation can achieve on single-location regression
when samples are plenty: the risk at the best key and value, against the signal and against the number of
tokens L. Solid lines are sequences of one length, dashed lines of two lengths that are equally likely, 1
and 2 L - 1, with the same mean. Broad grey lines are the Bayes risk.

Softmax attains the Bayes risk everywhere. In the spiked task its risk falls exponentially with the signal,
that of linear attention only like one over it. In the max task with an infinite signal softmax makes no
error, while linear attention comes to know nothing as sequences grow. A variable length costs linear and erf
attention in the max task. In the spiked task these two, whose weights are not normalised, stay where they
are (erf's dashed line is left out), while softmax gains. Run it with::

    pip install ".[plot]" && python examples/theory/plot_population_risk.py

It saves one figure, `plot_population_risk.png`, in the current folder. ``--full`` takes finer grids and
longer sequences, for about six minutes on two cores.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from matplotlib.lines import Line2D

from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import bayes_risk, population_risk

COLORS = {"softmax": "tab:blue", "linear": "tab:orange", "erf": "tab:green", "softplus": "tab:red"}
MEAN_LENGTH = 2  # against the signal
SIGNALS = {"spiked": 2.0, "max": float("inf")}  # against L


def length_law(mean, is_variable):
    """Return a constant length, or one of two that are equally likely."""
    return (1, 2 * mean - 1) if is_variable else mean


def curves(full):
    """Return the grids of the four panels: (task, "signal" or "length", is_variable, x values)."""
    signals = np.geomspace(0.5, 16.0, 11 if full else 4)
    lengths = [2, 3, 4, 6, 8, 12, 16, 24, 32] if full else [2, 4, 6]
    variable_lengths = [2, 3, 4, 6, 8, 12, 16] if full else [2, 3]
    return [
        (task, horizontal, is_variable, values)
        for task in SIGNALS
        for horizontal, is_variable, values in (
            ("signal", False, signals),
            ("signal", True, signals),
            ("length", False, lengths),
            ("length", True, variable_lengths),
        )
    ]


def make_problem(task, horizontal, is_variable, x):
    if horizontal == "signal":
        return SLRProblem(task, signal=float(x), length=length_law(MEAN_LENGTH, is_variable))
    return SLRProblem(task, signal=SIGNALS[task], length=length_law(int(x), is_variable))


def activations_of(task, is_variable):
    """Without erf where its risk depends on the mean length alone: it takes many times as long as others."""
    return [name for name in COLORS if not (name == "erf" and task == "spiked" and is_variable)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="finer grids and longer sequences")
    parser.add_argument("--output", default="plot_population_risk.png", help="where to save the figure")
    arguments = parser.parse_args()
    panels = curves(arguments.full)
    jobs = [
        (panel, activation, x)
        for panel in panels
        for activation in activations_of(panel[0], panel[2])
        for x in panel[3]
    ]
    # The longest computations first, so that none is left to one process at the end.
    jobs.sort(
        key=lambda job: -(5 if job[1] == "erf" else 1) * make_problem(*job[0][:3], job[2]).lengths.sum()
    )
    results = Parallel(n_jobs=2, prefer="threads")(
        delayed(population_risk)(make_problem(*panel[:3], x), activation) for panel, activation, x in jobs
    )
    risks = {
        (*panel[:3], activation, float(x)): result.risk
        for (panel, activation, x), result in zip(jobs, results, strict=True)
    }

    fig, axes = plt.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
    for task, horizontal, is_variable, values in panels:
        ax = axes[list(SIGNALS).index(task), ["signal", "length"].index(horizontal)]
        style = "--" if is_variable else "-"
        bayes = [bayes_risk(make_problem(task, horizontal, is_variable, x)) for x in values]
        ax.plot(values, bayes, color="0.8", lw=7)
        for activation in activations_of(task, is_variable):
            ys = [risks[task, horizontal, is_variable, activation, float(x)] for x in values]
            ax.plot(values, ys, style, marker="o", ms=4, color=COLORS[activation])
            kind = "variable" if is_variable else "constant"
            print(f"{task:6s} {kind} length, {activation:8s}: " + ", ".join(
                f"{horizontal} {x:.3g}: {y:.3f}" for x, y in zip(values, ys, strict=True)))  # fmt: skip
        if horizontal == "signal":
            ax.set(xscale="log", xlabel="signal", title=f"{task} task, {MEAN_LENGTH} tokens on average")
            ax.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
        else:
            ax.set(xscale="log", xlabel="tokens L (mean)", title=f"{task} task, signal {SIGNALS[task]:g}")
            ticks = [2, 4, 8, 16, 32] if arguments.full else [2, 3, 4, 6]
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.set_xlim(1.8, 1.1 * panels[2][3][-1])
        ax.minorticks_off()
        ax.set(ylabel="population risk", ylim=(-0.03, 1.0))
    handles = [Line2D([], [], color=color, marker="o", ms=4, label=name) for name, color in COLORS.items()]
    handles += [
        Line2D([], [], color="0.8", lw=7, label="Bayes risk"),
        Line2D([], [], color="black", label="constant length"),
        Line2D([], [], color="black", ls="--", label="variable length, same mean"),
    ]
    axes[0, 0].legend(handles=handles, fontsize="small")
    fig.savefig(arguments.output, dpi=90)
    print(f"Population risk: {arguments.output}")


if __name__ == "__main__":
    main()

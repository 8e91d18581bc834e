"""Whole fits of softmax attention: this package against PyTorch, JAX and scikit-learn.

    pip install ".[bench]"
    python benchmarks/run.py            # ten minutes; writes benchmarks/results/
    python benchmarks/run.py --fast     # an eighth of the data, two repeats: two minutes
    python benchmarks/run.py --device cuda    # on a GPU, needs CuPy: evaluations and fits of gigabytes

Peers that are not installed are named as absent.

All contenders minimise the same function from the same start until they are within 1e-6 of its minimum, which
is checked. Each has a process of its own; fits are interleaved, each after one that does not count, and
figures are medians. The limit is the time in which BLAS (gemv) reads X as often as the fit did. Growth:
seconds per pass of this package against the number of sequences, features and tokens of a sequence.
"""

import argparse
import importlib.util
import os
import time
from pathlib import Path

import _device
import _problems
import numpy as np
from _contenders import CONTENDERS, NEEDS, OTHER_MODELS
from _worker import Worker

import sklearn_attn
from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import AttentionObjective, AttentionParameters
from sklearn_attn.regressors._starts import starting_points
from sklearn_attn.solvers import single_threaded_blas

AGREEMENT = 1e-6
OURS = "sklearn_attn"
REPEATS_OF_OTHER_MODELS = 2
PAUSE = 0.2  # threads of BLAS, PyTorch and JAX spin after their last call


def objective(X, y, alpha):
    return AttentionObjective(
        X, y, ACTIVATIONS["softmax"](), alpha_key=alpha, alpha_value=alpha, backend="generic"
    )


def goals(X, y, alpha):
    """Return the start of this package as one vector (k, v, b), the minimum, and where fits may stop.

    That is the objective for peers, and for this package the loosest of some `tol` with which it gets there.
    """
    with objective(X, y, alpha) as J:
        start = J.unpack(next(starting_points(J, "auto", 1, np.random.RandomState(0), 0.0)))
    minimum = SoftmaxAttentionRegressor(alpha, tol=1e-8, max_iter=10_000).fit(X, y).objective_
    target = minimum * (1.0 + 0.5 * AGREEMENT)
    tol = 1e-3
    while SoftmaxAttentionRegressor(alpha, tol=tol, max_iter=10_000).fit(X, y).objective_ > target:
        tol /= 2.0
    return np.concatenate([start.key, start.value, [start.intercept]]), minimum, target, tol


def excess(X, y, alpha, theta, minimum):
    """Return (J(theta) - minimum) / minimum, evaluated by plain array operations."""
    D = X.n_features
    with objective(X, y, alpha) as J:
        value, _ = J.evaluate(AttentionParameters(theta[:D], theta[D : 2 * D], theta[2 * D], 0.0))
    return value / minimum - 1.0


def compare(name, share, repeats):
    """Measure all contenders on one problem; return a dict of dicts."""
    X, y, alpha = _problems.load(name, share)
    start, minimum, target, tol = goals(X, y, alpha)
    workers, rows = {}, {}
    for contender in [*CONTENDERS, *OTHER_MODELS, "gemv"]:
        if contender in NEEDS and importlib.util.find_spec(NEEDS[contender]) is None:
            rows[contender] = None
            continue
        # This package finds its start itself, which is part of its time.
        goal = {"tol": tol} if contender == OURS else {"start": start, "target": target}
        workers[contender] = Worker(contender, name, share, goal)
    measured = {contender: [] for contender in workers}
    for repeat in range(repeats):
        for contender, worker in workers.items():
            if contender in OTHER_MODELS and repeat >= REPEATS_OF_OTHER_MODELS:
                continue
            time.sleep(PAUSE)
            worker.fit()  # wakes the cores
            measured[contender].append(worker.fit())
    for contender, worker in workers.items():
        seconds = np.array([fit[0] for fit in measured[contender]])
        _, theta, passes = measured[contender][-1]
        rows[contender] = {"all": seconds, "seconds": np.median(seconds), "passes": passes}
        rows[contender]["memory"] = worker.memory / X.nbytes
        if theta is not None:
            rows[contender]["excess"] = excess(X, y, alpha, theta, minimum)
        worker.close()
    return rows


def report(name, rows):
    """Write the rows of the table of one problem."""
    gemv, ours = rows["gemv"], rows[OURS]
    per_pass = gemv["all"] / gemv["passes"]
    lines = []
    for contender in [*CONTENDERS, *OTHER_MODELS]:
        row = rows[contender]
        if row is None:
            lines.append(f"| {name} | {contender} | absent | | | | | |")
            continue
        ratio = np.median(row["all"] / ours["all"][: row["all"].size])
        limit = np.median(per_pass * row["passes"] / row["all"]) if row["passes"] else None
        lines.append(
            f"| {name} | {contender} | {row['seconds']:.3f} | {ratio:.1f} | {row['passes'] or ''} | "
            + (f"{limit:.2f}" if limit else "")
            + f" | {row['memory']:.2f} | "
            + (f"{row['excess']:.0e}" if "excess" in row else "another model")
            + " |"
        )
        if "excess" in row and not row["excess"] <= AGREEMENT:
            lines[-1] += " missed"
    return lines


def growth(fast, repeats):
    """Return seconds per pass at growing N, D and L, and the slope of their logarithms."""
    size = {"N": 64_000, "D": 200, "L": 3} if not fast else {"N": 4000, "D": 100, "L": 3}
    curves = {}
    for axis in size:
        grid = [size[axis] * factor for factor in (1, 2, 4, 8)]
        data = []
        for value in grid:
            at = size | {axis: value}
            dataset = SLRDataset("spiked", at["D"], signal=2.0, length=at["L"], noise=0.3, random_state=0)
            data.append(dataset.sample(at["N"]))
        seconds = np.empty((repeats, len(grid)))
        for repeat in range(-1, repeats):  # the first round warms up
            for i, (X, y) in enumerate(data):
                with (
                    single_threaded_blas(),
                    AttentionObjective(X, y, ACTIVATIONS["softmax"](), alpha_key=1.0, alpha_value=1.0) as J,
                ):
                    theta = np.full(J.n_parameters, 0.1)
                    J.value_and_gradient(theta)
                    start = time.perf_counter()
                    for _ in range(10):
                        J.value_and_gradient(theta)
                    if repeat >= 0:
                        seconds[repeat, i] = (time.perf_counter() - start) / 10
        median = np.median(seconds, axis=0)
        curves[axis] = np.array(grid), median, np.polyfit(np.log(grid), np.log(median), 1)[0]
    return curves


def draw(results, curves, path):
    """Draw seconds of all contenders, and the growth of a pass."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    names = [*CONTENDERS, *OTHER_MODELS]
    width = 0.8 / len(names)
    for i, contender in enumerate(names):
        rows = [rows[contender] for rows in results.values()]
        seconds = [np.nan if row is None else row["seconds"] for row in rows]
        left.bar(np.arange(len(rows)) + (i - (len(names) - 1) / 2) * width, seconds, width, label=contender)
    left.set_yscale("log")
    left.set_xticks(range(len(results)), list(results))
    left.set_ylabel("seconds of a fit")
    left.legend(fontsize=8)
    for axis, (grid, seconds, slope) in curves.items():
        right.loglog(grid / grid[0], 1e3 * seconds, "o-", label=f"{axis} from {grid[0]:,}: slope {slope:.2f}")
    right.set_xlabel("growth")
    right.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    right.minorticks_off()
    right.set_ylabel("milliseconds of a pass")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="an eighth of the data, two repeats")
    results_folder = Path(__file__).parent / "results"
    parser.add_argument("--output", type=Path, default=results_folder, help="folder of the table and figure")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    fast = options.fast
    options.output.mkdir(exist_ok=True)
    if options.device == "cuda":
        lines = _device.main(fast)
        print("\n".join(lines))
        (options.output / "device.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    share, repeats = (8, 2) if fast else (1, 7)
    lines = [
        f"sklearn_attn {sklearn_attn.__version__}, numpy {np.__version__}, {os.cpu_count()} cores",
        "",
        "| data | contender | seconds | / sklearn_attn | passes | share of limit | memory / X | excess |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    results = {}
    for name in _problems.PROBLEMS:
        results[name] = compare(name, share, repeats)
        rows = report(name, results[name])
        print("\n".join(rows), flush=True)
        lines += rows
    curves = growth(fast, repeats)
    lines.append("")
    for axis, (grid, seconds, slope) in curves.items():
        times = ", ".join(f"{1e3 * s:.2f}" for s in seconds)
        sizes = ", ".join(map(str, grid))
        lines.append(f"Growth with {axis} = {sizes}: {times} ms a pass, slope {slope:.2f}")
        print(lines[-1], flush=True)
    (options.output / "fits.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if importlib.util.find_spec("matplotlib") is not None:
        draw(results, curves, options.output / "fits.png")


if __name__ == "__main__":
    main()

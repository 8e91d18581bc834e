"""Passes over X until a fit has converged: SciPy's L-BFGS-B at its defaults against `fit`.

    python benchmarks/passes.py            # the table of docs/performance.md
    python benchmarks/passes.py --fast     # softmax at a quarter of the size

Both minimise the same function in the same coordinates, from the same start, until the scaled gradient norm
is at most 1e-5; counted is every read of X, those for the moments of its features and for the start included.
Passes do not depend on the machine but for rounding.
"""

import argparse
import warnings

import numpy as np
import scipy
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import sklearn_attn
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.datasets import SLRDataset, load_review_needles
from sklearn_attn.objective import AttentionObjective
from sklearn_attn.regressors import REGRESSORS
from sklearn_attn.regressors._starts import starting_points

TOL, MAX_ITER = 1e-5, 5000


def problems(fast):
    """Yield a name, sequences and targets, an activation and the penalties of every row."""
    share = 4 if fast else 1
    for task, signal in (("spiked", 2.0), ("max", np.inf)):
        dataset = SLRDataset(task, 500 // share, signal=signal, length=3, noise=0.3, random_state=0)
        X, y = dataset.sample(4000 // share)
        for activation in REGRESSORS if task == "spiked" and not fast else ["softmax"]:
            yield f"{task}, {activation}", X, y, activation, (0.1, 1.0, 10.0)
    for n_documents in (1000 // share, 2000 // share):
        X, y = load_review_needles(n_documents, return_X_y=True)
        for activation in ("softmax",) if n_documents < 2000 else ("softmax", "linear"):
            yield f"{n_documents:,} review needles, {activation}", X, y, activation, (1e-3, 1e-2, 1e-1)


def scipy_fit(X, y, activation, alpha):
    """Return the passes and the scaled objective of SciPy's L-BFGS-B at its defaults."""
    build = ACTIVATIONS[activation]
    with AttentionObjective(X, y, build(), alpha_key=alpha, alpha_value=alpha) as objective:
        start = next(starting_points(objective, "auto", 1, np.random.RandomState(0), 0.0))
        last = None

        def evaluate(theta):
            nonlocal last
            last = objective.value_and_gradient(theta)
            return last

        def stop(_):  # SciPy's own criterion is another norm
            if np.linalg.norm(last[1]) <= TOL:
                raise StopIteration

        minimize(
            evaluate, start, jac=True, method="L-BFGS-B", callback=stop,
            options={"maxiter": MAX_ITER, "maxfun": 10 * MAX_ITER, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        return objective.n_passes, last[0]


def our_fit(X, y, activation, alpha):
    """Return the passes and the scaled objective of `fit`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = REGRESSORS[activation](alpha, max_iter=MAX_ITER, tol=TOL).fit(X, y)
    return model.n_passes_, model.loss_curve_[-1] / (2.0 * len(y) * np.var(y))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="softmax at a quarter of the size")
    fast = parser.parse_args().fast
    print(f"sklearn_attn {sklearn_attn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}\n")
    print("| data | alpha | SciPy | fit | objectives |")
    print("|---|---|---|---|---|")
    for name, X, y, activation, alphas in problems(fast):
        for alpha in alphas:
            (scipy_passes, theirs), (our_passes, ours) = (
                fit(X, y, activation, alpha) for fit in (scipy_fit, our_fit)
            )
            same = "equal" if abs(ours - theirs) < 1e-6 else f"{theirs:.5f}, {ours:.5f}"
            print(f"| {name} | {alpha:g} | {scipy_passes} | {our_passes} | {same} |", flush=True)


if __name__ == "__main__":
    main()

"""A path of penalties times folds: GridSearchCV against the CV estimator, in time and agreement.

    python benchmarks/path.py            # 20 penalties, 5 folds
    python benchmarks/path.py --fast     # 5 penalties, a quarter of the data, one repeat

Both run in turn in one process, with the same folds, tolerance and threads; figures are medians, and only
their ratios mean anything on a shared machine.
"""

import argparse
import time
import warnings

import numba
import numpy as np
import scipy
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

import sklearn_attn
from sklearn_attn import SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.datasets import SLRDataset, load_review_needles

REPEATS = 3
N_FOLDS = 5


def problems(fast):
    """Yield a name, sequences and targets, and the penalties of each problem."""
    share, n_alphas = (4, 5) if fast else (1, 20)
    dataset = SLRDataset("spiked", n_features=500 // share, signal=2.0, length=3, random_state=0)
    X, y = dataset.sample(4000 // share)
    yield "SLR, alpha 0.1 to 1000", X, y, np.logspace(-1, 3, n_alphas)
    # Penalties a hundred times too small: the objective has several minima there.
    yield "SLR, alpha 0.01 to 100", X, y, np.logspace(-2, 2, n_alphas)
    needles = load_review_needles(return_X_y=True)
    n = len(needles[0]) // share
    X, y = needles[0][:n], needles[1][:n]
    yield "review needles, alpha 0.01 to 100", X, y, np.logspace(-2, 2, n_alphas)


def timed(search, X, y):
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X, y)
    return time.perf_counter() - start


def compare(name, X, y, alphas, repeats):
    """Print a row of the table."""
    for model in (SoftmaxAttentionRegressor(), SoftmaxAttentionRegressorCV([1e3])):
        model.fit(X[:50], y[:50]).predict(X[:50])  # compile first
    cv = KFold(N_FOLDS, shuffle=True, random_state=0)
    grid = GridSearchCV(SoftmaxAttentionRegressor(), {"alpha": alphas}, cv=cv)
    path = SoftmaxAttentionRegressorCV(alphas, cv=cv)
    seconds = np.array([[timed(search, X, y) for search in (grid, path)] for _ in range(repeats)])
    grid_seconds, path_seconds = np.median(seconds, axis=0)
    scores = np.stack([grid.cv_results_[f"split{i}_test_score"] for i in range(N_FOLDS)], axis=1)
    difference = np.abs(scores - path.cv_scores_)
    size = f"{len(X):,} x {X.n_tokens / len(X):.1f} x {X.n_features}"
    print(
        f"| {name} | {size} | {grid_seconds:.2f} | {path_seconds:.2f} | "
        f"{np.median(seconds[:, 0] / seconds[:, 1]):.1f} | {path.n_passes_} | {difference.max():.0e} | "
        f"{grid.best_params_['alpha']:.3g}, {path.alpha_:.3g} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="5 penalties, a quarter of the data")
    fast = parser.parse_args().fast
    print(
        f"sklearn_attn {sklearn_attn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, numba {numba.__version__}, {numba.get_num_threads()} threads\n"
    )
    print("| data | n x L x D | GridSearchCV s | CV s | ratio | passes | largest score gap | best alphas |")
    print("|---|---|---|---|---|---|---|---|")
    for problem in problems(fast):
        compare(*problem, 1 if fast else REPEATS)


if __name__ == "__main__":
    main()

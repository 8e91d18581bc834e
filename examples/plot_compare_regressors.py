"""
Attention against the regressors of scikit-learn
================================================

Eleven regressors in one cross-validated table, on three kinds of data where one unknown element of a sequence
decides:

- the single-location regression task (SLR), of which this package has the theory;
- documents of sentences with one film-review sentence at a random place (review needles);
- MUSK, molecules in several conformations of which one may smell of musk, with a target of +-1. The file is
  not part of the package: pass it with `--musk musk1.csv.gz`, a row per conformation (label, molecule,
  features).

What scikit-learn offers sees a sequence through its pooled tokens, or padded to one long row. Every model
standardises its inputs, and chooses its penalty, where it has one, inside each training fold. Attention is
linear in what it looks at; with RBF features of every token (Nystroem) it is not. Run it with::

    pip install ".[plot]" && python examples/plot_compare_regressors.py

It takes five minutes, prints the table, R2 on held-out folds and seconds of a fit with its search, and saves
`compare_regressors.png`.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_attn import (
    ErfAttentionRegressorCV,
    LinearAttentionRegressorCV,
    RaggedArray,
    SoftmaxAttentionRegressorCV,
    SoftplusAttentionRegressorCV,
)
from sklearn_attn.datasets import SLRDataset, load_review_needles
from sklearn_attn.preprocessing import SequencePadder, SequencePooler, TokenTransformer

ALPHAS = np.logspace(-0.5, 3.5, 9)
FOLDS = KFold(5, shuffle=True, random_state=0)


def attention(regressor, *features):
    """Standardise every token, attend, and choose the penalty in passes that folds share."""
    return make_pipeline(TokenTransformer(make_pipeline(StandardScaler(), *features)), regressor(ALPHAS))


def table(transformer, regressor, **grid):
    """Turn sequences into rows of a table, standardise, and search the regressor's grid, if there is one."""
    if grid:
        regressor = GridSearchCV(regressor, grid, cv=3)
    return make_pipeline(transformer, StandardScaler(), regressor)


POOLED = SequencePooler(["mean", "max"])
MODELS = {
    "Ridge, mean": table(SequencePooler("mean"), RidgeCV(np.logspace(-1, 5, 13))),
    "Ridge, mean and max": table(POOLED, RidgeCV(np.logspace(-1, 5, 13))),
    "kernel ridge": table(POOLED, KernelRidge(kernel="rbf"), alpha=[0.1, 1.0], gamma=[1e-4, 1e-3, 1e-2]),
    "random forest": table(POOLED, RandomForestRegressor(100, max_features=0.3, n_jobs=2, random_state=0)),
    "gradient boosting": table(POOLED, HistGradientBoostingRegressor(random_state=0)),
    "MLP, padded": table(
        SequencePadder(), MLPRegressor(early_stopping=True, random_state=0), alpha=[1e-4, 1.0]
    ),
    "linear attention": attention(LinearAttentionRegressorCV),
    "erf attention": attention(ErfAttentionRegressorCV),
    "softplus attention": attention(SoftplusAttentionRegressorCV),
    "softmax attention": attention(SoftmaxAttentionRegressorCV),
    "softmax attention, RBF": attention(
        SoftmaxAttentionRegressorCV, Nystroem(n_components=200, random_state=0), StandardScaler()
    ),
}


def load_musk(path):
    """Read molecules as sequences of conformations, and targets of +-1."""
    rows = np.loadtxt(path, delimiter=",")
    X = RaggedArray.from_groups(rows[:, 2:], rows[:, 1].astype(int))
    first_rows = np.unique(rows[:, 1], return_index=True)[1]
    return X, 2.0 * rows[np.sort(first_rows), 0] - 1.0


def datasets(musk):
    """Yield the name, sequences and targets of each data set."""
    slr = SLRDataset("spiked", n_features=50, signal=9.0, length=(2, 4, 8), noise=0.3, random_state=0)
    yield "SLR", *slr.sample(1500)
    X, y = load_review_needles(n_documents=1000, return_X_y=True)
    yield "review needles", X, y
    if musk is not None:
        yield "MUSK", *load_musk(musk)


def compare(X, y):
    """Return R2 of every fold, and the mean seconds of a fit, of every model."""
    results = {}
    for name, model in MODELS.items():
        with warnings.catch_warnings():
            # Small penalties of the grid take long, and are not chosen; padded test sequences may be cut.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", message=".*longer than")
            scores = cross_validate(model, X, y, cv=FOLDS, error_score="raise")
        results[name] = scores["test_score"], scores["fit_time"].mean()
        r2 = results[name][0]
        print(f"  {name:<22} R2 {r2.mean():5.2f} +- {r2.std():.2f}   {results[name][1]:6.2f} s", flush=True)
    return results


def draw(results):
    """Draw the scores of all models, a panel per data set."""
    figure, axes = plt.subplots(
        1, len(results), figsize=(4 * len(results) + 1.5, 4), sharey=True, squeeze=False, layout="constrained"
    )
    axes = axes[0]
    for ax, (dataset, rows) in zip(axes, results.items(), strict=True):
        scores = np.array([r2 for r2, _ in rows.values()])
        mean, deviation = scores.mean(axis=1), scores.std(axis=1)
        shown = mean > 0.0  # R2 has no lower bound: what is below 0 is written
        colors = np.array(["tab:orange" if "attention" in name else "tab:blue" for name in rows])
        places = np.arange(len(rows))
        ax.barh(places[shown], mean[shown], xerr=deviation[shown], color=colors[shown])
        for place in places[~shown]:
            ax.text(0.02, place, f"{mean[place]:.2f}", va="center", fontsize="small", color="0.4")
        ax.set(title=dataset, xlabel="R2 on held-out folds", xlim=(0.0, 1.0))
        ax.set_yticks(places, rows)
    axes[0].invert_yaxis()
    figure.savefig("compare_regressors.png", dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--musk", help="file of MUSK, musk1.csv.gz")
    results = {}
    for name, X, y in datasets(parser.parse_args().musk):
        longest = X.lengths.max()
        print(f"{name}: {len(X)} sequences of {X.lengths.min()} to {longest} tokens, D = {X.n_features}")
        results[name] = compare(X, y)
    draw(results)


if __name__ == "__main__":
    main()

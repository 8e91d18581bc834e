"""
The optimal penalty, by theory and by cross-validation
======================================================

`GridSearchCV` chooses the penalty of a softmax and of a linear attention regressor on data of the spiked
single-location regression task. `ReplicaTheory` predicts the whole curve of its cross-validation errors from
the sample ratio N / D of the training folds, without data, and says where the optimum lies. Where the theory
is unstable, which is shaded, it makes no prediction: there the fit itself has many minima.

Error bars are standard deviations over folds. All points share one data set, so they lie above or below the
curve together: at this size, by up to 0.1 at small penalties. Run it with::

    pip install ".[plot]" && python examples/theory/plot_optimal_alpha.py

It saves one figure, `plot_optimal_alpha.png`, in the current folder. ``--full`` takes the size of the paper
(arXiv:2509.21936), sqrt(N D) = 10^4, which needs about 16 GB of memory and 35 minutes.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from sklearn_attn import LinearAttentionRegressor, SoftmaxAttentionRegressor
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.inspection import TheoryDisplay
from sklearn_attn.theory import ReplicaTheory

SIGNAL, LENGTH, NOISE = 2.0, 3, 0.3
N_FOLDS = 5
TRAINING_RATIO = 4.0  # N / D of the training folds
MODELS = {
    "softmax": (SoftmaxAttentionRegressor, np.geomspace(0.1, 10.0, 7)),
    "linear": (LinearAttentionRegressor, np.geomspace(0.3, 30.0, 7)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the size of the paper, sqrt(N D) = 10^4")
    parser.add_argument("--output", default="plot_optimal_alpha.png", help="where to save the figure")
    arguments = parser.parse_args()
    n_features = 5000 if arguments.full else 300
    n_samples = round(TRAINING_RATIO * n_features * N_FOLDS / (N_FOLDS - 1))
    dataset = SLRDataset("spiked", n_features, signal=SIGNAL, length=LENGTH, noise=NOISE, random_state=0)
    X, y = dataset.sample(n_samples)

    fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
    for ax, (activation, (regressor, alphas)) in zip(axes, MODELS.items(), strict=True):
        search = GridSearchCV(
            regressor(fit_intercept=False, tol=1e-5),
            {"alpha": alphas},
            scoring="neg_mean_squared_error",
            cv=N_FOLDS,
            n_jobs=2,
        ).fit(X, y)
        theory = ReplicaTheory(activation, task="spiked", signal=SIGNAL, length=LENGTH, noise=NOISE)
        # Nothing is calibrated: what is fitted are settings and errors that were measured, as a record.
        theory.fit([[TRAINING_RATIO, alpha] for alpha in alphas], -search.cv_results_["mean_test_score"])
        display = TheoryDisplay.from_search(search, theory, TRAINING_RATIO, n_points=18, ax=ax)
        optimum = theory.optimal_alpha(TRAINING_RATIO)
        ax.axvline(optimum, color="0.4", ls="--", lw=1, label=f"theory.optimal_alpha: {optimum:.2f}")
        ax.set(title=f"{activation} attention", ylim=(0.5, 1.5))
        ax.legend(fontsize="small")
        print(
            f"{activation}: optimal alpha {optimum:.2f} by theory, {search.best_params_['alpha']:.2f} on the "
            f"grid of the search; test error {display.predicted_minimum[1]:.3f} by theory, "
            f"{-search.best_score_:.3f} in cross-validation"
        )
    fig.savefig(arguments.output, dpi=90)
    print(f"Test error against the penalty: {arguments.output}")


if __name__ == "__main__":
    main()

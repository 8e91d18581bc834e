"""The path of penalties that a CV estimator has searched."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer_names

from ._axes import axes_or_new
from ._layers import layers
from ._search import full_name


class PenaltyPathDisplay:
    """Cross-validated score, or error, against the penalty, with the spread over folds.

    Build it with `from_estimator` or `from_scores`; all arguments are kept as attributes.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,)
    scores : array-like of shape (n_alphas, n_folds)
        Higher is better.
    alpha : float, optional
        The penalty that was chosen.
    score_name : str, default="score"
        What was measured. A name of scikit-learn that begins with ``"neg_"`` is drawn as the error that it
        negates.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The mean over folds.

    Raises
    ------
    ValueError
        If a penalty is not positive and finite, or the shapes do not match.

    Examples
    --------
    >>> from sklearn_attn import SoftmaxAttentionRegressorCV
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> from sklearn_attn.inspection import PenaltyPathDisplay
    >>> X, y = make_spiked_slr(n_samples=200, n_features=20, signal=9.0, length=4, random_state=0)
    >>> model = SoftmaxAttentionRegressorCV([0.1, 1.0, 10.0]).fit(X, y)
    >>> PenaltyPathDisplay.from_estimator(model).plot()  # doctest: +SKIP
    """

    def __init__(self, alphas, scores, *, alpha=None, score_name="score"):
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.scores = np.asarray(scores, dtype=np.float64)
        if (
            self.alphas.ndim != 1
            or not self.alphas.size
            or not np.all((self.alphas > 0) & (self.alphas < np.inf))
        ):
            raise ValueError("alphas must be a list of positive, finite penalties.")
        if self.scores.ndim != 2 or self.scores.shape[0] != self.alphas.size:
            raise ValueError(
                f"scores must have shape (n_alphas, n_folds) with n_alphas = {self.alphas.size}, got "
                f"{self.scores.shape}."
            )
        self.alpha = alpha
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator):
        """Show what a fitted CV estimator, or a search over alpha, has measured.

        Parameters
        ----------
        estimator : SoftmaxAttentionRegressorCV or a sibling, or a search such as GridSearchCV
            Or a Pipeline, search or TransformedTargetRegressor that holds one. Where a CV estimator searched
            a grid of `alpha_keys` as well, the best of them stands for every alpha. A search must vary the
            alpha of an attention estimator alone.

        Returns
        -------
        PenaltyPathDisplay

        Raises
        ------
        TypeError
            If there is neither inside.
        ValueError
            If a search varied something else, or fits of it failed.
        """
        inside = list(layers(estimator))
        for layer in inside:
            if hasattr(layer, "cv_scores_"):
                scores = layer.cv_scores_
                if scores.ndim == 3:  # (n_alphas, n_alpha_keys, n_folds)
                    best = scores.mean(axis=2).argmax(axis=1)
                    scores = scores[np.arange(len(best)), best]
                return cls.from_scores(
                    layer.alphas_, scores, alpha=layer.alpha_, score_name=_name(layer.scoring, layer)
                )
        for layer in inside:
            if hasattr(layer, "cv_results_"):
                return cls(**_searched_path(layer))
        raise TypeError(
            f"{type(inside[-1]).__name__} has no cv_scores_; pass a fitted SoftmaxAttentionRegressorCV or "
            "one of its siblings, or a search over alpha."
        )

    @classmethod
    def from_scores(cls, alphas, scores, *, alpha=None, score_name="score"):
        """Show scores that are already known.

        Parameters
        ----------
        alphas, scores, alpha, score_name
            As in the class.

        Returns
        -------
        PenaltyPathDisplay
        """
        return cls(alphas, scores, alpha=alpha, score_name=score_name)

    def plot(self, ax=None, *, folds=True):
        """Draw the mean with its standard deviation over folds as a band.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default a new figure's.
        folds : bool, default=True
            Whether to draw every fold as a thin line as well.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_or_new(ax, self)
        order = np.argsort(self.alphas)
        alphas, scores, name = self.alphas[order], self.scores[order], self.score_name
        if name.startswith("neg_"):
            scores, name = -scores, name.removeprefix("neg_")
        mean, std = scores.mean(axis=1), scores.std(axis=1)
        if folds:
            ax.plot(alphas, scores, color="0.75", lw=0.8, zorder=1)
        ax.fill_between(
            alphas, mean - std, mean + std, alpha=0.2, lw=0, label="standard deviation over folds"
        )
        (self.line_,) = ax.plot(alphas, mean, "o-", ms=4, label="mean over folds")
        if self.alpha is not None:
            ax.axvline(self.alpha, color="tab:red", ls="--", lw=1, label=f"chosen, alpha = {self.alpha:.3g}")
        ax.set(xscale="log", xlabel="alpha", ylabel=name.replace("_", " "))
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _searched_path(search):
    """Read the scores of a search over one alpha."""
    param = full_name(search, "alpha")
    # Of several scores that one is drawn which chose.
    name = search.refit if search.multimetric_ else "score"
    scoring = name if search.multimetric_ else search.scoring
    if not isinstance(name, str):
        raise ValueError(f"The search has several scores; pass refit='...' to it, not refit={name!r}.")
    results = search.cv_results_
    scores = np.stack([results[f"split{i}_test_{name}"] for i in range(search.n_splits_)], axis=1)
    if not np.isfinite(scores).all():
        raise ValueError("The search has scores that are not finite: fits of some candidates failed.")
    best = getattr(search, "best_params_", {})
    return {
        "alphas": [candidate[param] for candidate in results["params"]],
        "scores": scores,
        "alpha": best.get(param),
        "score_name": _name(scoring, search),
    }


def _name(scoring, estimator):
    if scoring is None:
        return "accuracy" if is_classifier(estimator) else "R2"
    return scoring if isinstance(scoring, str) and scoring in get_scorer_names() else "score"

"""The path of penalties that a CV estimator has searched."""

import numpy as np
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import Pipeline

from ._axes import axes_or_new


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
        """Show what a fitted CV estimator, or a Pipeline that ends in one, has measured.

        Parameters
        ----------
        estimator : SoftmaxAttentionRegressorCV or a sibling, or a Pipeline of one
            Where it searched a grid of `alpha_keys` as well, the best of them stands for every alpha.

        Returns
        -------
        PenaltyPathDisplay

        Raises
        ------
        TypeError
            If the estimator has no `cv_scores_`.
        """
        if isinstance(estimator, Pipeline):
            estimator = estimator[-1]
        if not hasattr(estimator, "cv_scores_"):
            raise TypeError(
                f"{type(estimator).__name__} has no cv_scores_; pass a fitted SoftmaxAttentionRegressorCV or "
                "one of its siblings."
            )
        scores = estimator.cv_scores_
        if scores.ndim == 3:  # (n_alphas, n_alpha_keys, n_folds)
            best = scores.mean(axis=2).argmax(axis=1)
            scores = scores[np.arange(len(best)), best]
        return cls.from_scores(
            estimator.alphas_, scores, alpha=estimator.alpha_, score_name=_name(estimator.scoring)
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


def _name(scoring):
    if scoring is None:
        return "R2"
    return scoring if isinstance(scoring, str) and scoring in get_scorer_names() else "score"

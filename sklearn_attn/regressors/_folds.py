"""Folds of a cross-validation and their scores."""

from inspect import signature
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, make_scorer, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from .._backend import to_numpy

# What `make_scorer` returns: scorers that see a model through its predictions.
_PredictionScorer = type(make_scorer(r2_score))


def split(cv, X, y, groups):
    """Split the sequences as a search of scikit-learn does.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
    X : RaggedArray
    y : ndarray of shape (n,)
    groups : array-like of shape (n,) or None

    Returns
    -------
    list of (ndarray of int, ndarray of int)

    Raises
    ------
    ValueError
        If there is no fold, or the training or test part of one is empty.
    """
    everything = np.arange(len(X))
    folds = [
        (everything[train], everything[test])
        for train, test in check_cv(cv, y, classifier=False).split(X, y, groups)
    ]
    if not folds:
        raise ValueError("cv yields no folds.")
    for i, fold in enumerate(folds):
        for name, part in zip(("training", "test"), fold, strict=True):
            if part.size == 0:
                raise ValueError(f"The {name} part of fold {i} of cv is empty.")
    return folds


def training_weights(folds, sample_weight):
    """Compute the weights of all sequences in every fold, and of the fit on all data in the last row.

    A held-out sequence has the weight 0; one that a training part names twice counts twice.

    Returns
    -------
    ndarray of float64 of shape (n_folds + 1, n)

    Raises
    ------
    ValueError
        If all weights of a training part are zero.
    """
    n = sample_weight.shape[0]
    weights = np.stack([*(np.bincount(train, minlength=n) for train, _ in folds), np.ones(n)]) * sample_weight
    empty = np.flatnonzero(~weights.any(axis=1))
    if empty.size:
        raise ValueError(f"All of sample_weight is zero in the training part of fold {empty[0]} of cv.")
    return weights


class FoldScorer:
    """Scores of fitted models on the test parts of the folds.

    Parameters
    ----------
    scoring : None, str or callable
        None is R2. Scorers by name, or from ``make_scorer``, use predictions that are there; any other
        callable is called with a fitted model and the test part of X and y.
    X : sequences as `fit` got them
    y : ndarray of float64 of shape (n,)
    folds : list of (ndarray of int, ndarray of int)
    sample_weight : ndarray of float64 of shape (n,), optional
        Passed on to a scorer that takes it, as GridSearchCV does from scikit-learn 1.9 on.

    Attributes
    ----------
    weightless : ndarray of int
        Sequences of weight 0, which are not in the fits and have no prediction there.

    Raises
    ------
    TypeError, ValueError
        If `scoring` is something else, or an unknown name, or all weights of a test part are zero.
    """

    def __init__(self, scoring, X, y, folds, sample_weight=None):
        if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
            raise TypeError(f"scoring must be None, the name of a scorer or a callable, got {scoring!r}.")
        self._scorer = scoring if callable(scoring) else get_scorer(scoring or "r2")
        self._X, self._y, self._folds = X, y, folds
        self._sample_weight = None
        self.weightless = np.flatnonzero([] if sample_weight is None else sample_weight == 0.0)
        if sample_weight is not None and _takes_weights(self._scorer):
            for i, (_, test) in enumerate(folds):
                if not sample_weight[test].any():
                    raise ValueError(f"All of sample_weight is zero in the test part of fold {i} of cv.")
            self._sample_weight = sample_weight
            self._folds = [(train, test[sample_weight[test] > 0.0]) for train, test in folds]

    def __call__(self, i, predictions, make_model):
        """Score a model on fold i.

        Parameters
        ----------
        i : int
        predictions : ndarray
            Those of the model for all sequences but the weightless.
        make_model : callable
            Returns the fitted model; called only if predictions do not do.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the score is NaN or no number.
        """
        test = self._folds[i][1]
        weights = {} if self._sample_weight is None else {"sample_weight": self._sample_weight[test]}
        if isinstance(self._scorer, _PredictionScorer):
            if self.weightless.size:
                predictions = self._complete(predictions, make_model)
            score = self._scorer(_Predictions(predictions[test]), None, self._y[test], **weights)
        else:
            score = self._scorer(make_model(), _safe_indexing(self._X, test), self._y[test], **weights)
        if not isinstance(score, Real):
            raise ValueError(f"scoring must return a number, got {score!r}.")
        if np.isnan(score):
            raise ValueError(
                f"The score of fold {i} is NaN. R2 needs two test sequences at least: with smaller folds "
                "pass scoring='neg_mean_squared_error'."
            )
        return float(score)

    def _complete(self, predictions, make_model):
        """Add those of the weightless sequences, which count where the scorer takes no weights."""
        completed = np.zeros(self._y.size)
        completed[np.delete(np.arange(self._y.size), self.weightless)] = predictions
        if self._sample_weight is None:
            weightless = _safe_indexing(self._X, self.weightless)
            completed[self.weightless] = to_numpy(make_model().predict(weightless))
        return completed


def _takes_weights(scorer):
    if hasattr(scorer, "_accept_sample_weight"):
        return scorer._accept_sample_weight()
    return "sample_weight" in signature(scorer).parameters


class _Predictions(RegressorMixin, BaseEstimator):
    """A model that has predicted already."""

    def __init__(self, predictions):
        self.predictions = predictions

    def predict(self, X):
        """Return the predictions, whatever X."""
        return self.predictions

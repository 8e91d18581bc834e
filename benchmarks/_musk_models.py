"""Contenders on MUSK: classifiers of bags that choose what they have to choose in the data they are given.

A contender is a function without arguments that returns an unfitted estimator with `fit(X, y)`, `predict` and
`decision_function` or `predict_proba`, for bags in a RaggedArray and labels 0 and 1. All folds of the inner
searches are stratified, as the bags of the files are sorted by label.
"""

import importlib.util

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import sklearn_attn
from sklearn_attn import SoftmaxAttentionRegressorCV
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer

INNER = StratifiedKFold(5, shuffle=True, random_state=0)
N_COMPONENTS = 200
N_FEATURES = 166
GAMMAS = tuple(factor / N_FEATURES for factor in (1.0, 2.0, 4.0))
ALPHAS = np.logspace(-1.5, 0.5, 5)
CLASSIFIER_ALPHAS = np.logspace(-2.0, 0.0, 5)


class BestBySign(ClassifierMixin, BaseEstimator):
    """Fit pipelines that end in an attention regressor with CV to -1 and 1, and keep the best one.

    Every regressor chooses its penalty by inner folds and has the score of that choice, `best_score_`; the
    pipeline with the highest is kept. Scaling and RBF features see the tokens of all inner folds, without
    labels; of the test fold nothing is seen.

    Parameters
    ----------
    candidates : list of Pipeline

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    best_ : Pipeline
    best_index_ : int
    """

    def __init__(self, candidates):
        self.candidates = candidates

    def fit(self, X, y):
        """Fit all candidates; X : RaggedArray of n bags, y : (n,) labels of two classes."""
        self.classes_, index = np.unique(y, return_inverse=True)
        fitted = [clone(candidate).fit(X, 2.0 * index - 1.0) for candidate in self.candidates]
        self.best_index_ = int(np.argmax([candidate[-1].best_score_ for candidate in fitted]))
        self.best_ = fitted[self.best_index_]
        return self

    def decision_function(self, X):
        """Return the prediction between -1 and 1, (n,)."""
        return self.best_.predict(X)

    def predict(self, X):
        """Return the class on the side of 0 where the prediction is, (n,)."""
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]


def rbf_features(gamma):
    """Return RBF features of standardised tokens."""
    nystroem = Nystroem(n_components=N_COMPONENTS, gamma=gamma, random_state=0)
    return TokenTransformer(make_pipeline(StandardScaler(), nystroem, StandardScaler()))


def _attention(*features):
    return BestBySign([make_pipeline(f, SoftmaxAttentionRegressorCV(ALPHAS, cv=INNER)) for f in features])


def _classifier(features, **grid):
    pipeline = make_pipeline(features, sklearn_attn.SoftmaxAttentionClassifier())
    grid["softmaxattentionclassifier__alpha"] = CLASSIFIER_ALPHAS
    return GridSearchCV(pipeline, grid, cv=INNER, scoring="neg_log_loss")


def _pooler():
    lowest = make_pipeline(TokenTransformer(FunctionTransformer(np.negative)), SequencePooler("max"))
    return make_union(SequencePooler(["mean", "max", "std"]), lowest)


def _pooled(pooler, model, scoring=None, **grid):
    pipeline = make_pipeline(pooler, StandardScaler(), model)
    prefix = type(model).__name__.lower()
    grid = {f"{prefix}__{name}": values for name, values in grid.items()}
    return GridSearchCV(pipeline, grid, cv=INNER, scoring=scoring)


def _logistic(pooler):
    model = LogisticRegression(max_iter=5000)
    return _pooled(pooler, model, scoring="neg_log_loss", C=np.logspace(-4.0, 1.0, 6))


def _svc(pooler):
    return _pooled(pooler, SVC(), C=[1.0, 10.0, 100.0], gamma=[1e-4, 1e-3, 1e-2])


def _forest(pooler):
    return make_pipeline(pooler, RandomForestClassifier(300, random_state=0))


def _abmil(gated):
    from _musk_abmil import ABMILClassifier

    return make_pipeline(TokenTransformer(StandardScaler()), ABMILClassifier(gated))


CONTENDERS = {
    "mean, logistic": lambda: _logistic(SequencePooler("mean")),
    "mean, SVC": lambda: _svc(SequencePooler("mean")),
    "mean, forest": lambda: _forest(SequencePooler("mean")),
    "mean max min std, logistic": lambda: _logistic(_pooler()),
    "mean max min std, SVC": lambda: _svc(_pooler()),
    "mean max min std, forest": lambda: _forest(_pooler()),
    "attention": lambda: _attention(TokenTransformer(StandardScaler())),
    "attention, RBF": lambda: _attention(*map(rbf_features, GAMMAS)),
    "attention, log loss": lambda: _classifier(TokenTransformer(StandardScaler())),
    "attention, RBF, log loss": lambda: _classifier(
        rbf_features(GAMMAS[0]), tokentransformer__transformer__nystroem__gamma=GAMMAS
    ),
    "ABMIL": lambda: _abmil(gated=False),
    "ABMIL, gated": lambda: _abmil(gated=True),
}


def missing(contender):
    """Return why a contender cannot run here, or None."""
    if "ABMIL" in contender and importlib.util.find_spec("torchmil") is None:
        return "torchmil is not installed"
    if "log loss" in contender and not hasattr(sklearn_attn, "SoftmaxAttentionClassifier"):
        return "sklearn_attn has no SoftmaxAttentionClassifier"
    return None

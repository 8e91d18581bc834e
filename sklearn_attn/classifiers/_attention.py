"""The four classifiers: what differs is the activation."""

from ..regressors import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)
from ..regressors._model import OffsetModel
from ._base import BaseAttentionClassifier
from ._docstring import document


@document(SoftmaxAttentionRegressor, remark="At L = 1 it is logistic regression.")
class SoftmaxAttentionClassifier(BaseAttentionClassifier):
    _activation_name = "softmax"


@document(
    LinearAttentionRegressor, remark="The weights do not sum to one, and the log odds grow with the length."
)
class LinearAttentionClassifier(BaseAttentionClassifier):
    _activation_name = "linear"


@document(
    ErfAttentionRegressor,
    remark="Weights lie between 0 and 2 and do not compete within a sequence [1]_.",
    offset_scaled=" and c",
)
class ErfAttentionClassifier(OffsetModel, BaseAttentionClassifier):
    _activation_name = "erf"

    def __init__(
        self,
        alpha=1.0,
        *,
        alpha_key=None,
        offset=0.0,
        fit_intercept=True,
        class_weight=None,
        init="auto",
        n_init=1,
        max_iter=1000,
        tol=1e-5,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            alpha,
            alpha_key=alpha_key,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            init=init,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.offset = offset


@document(
    SoftplusAttentionRegressor,
    remark="Weights sum to one but grow only linearly with the score [1]_; "
    "at L = 1 it is logistic regression.",
)
class SoftplusAttentionClassifier(BaseAttentionClassifier):
    _activation_name = "softplus"


CLASSIFIERS = {
    classifier._activation_name: classifier
    for classifier in (
        SoftmaxAttentionClassifier,
        LinearAttentionClassifier,
        ErfAttentionClassifier,
        SoftplusAttentionClassifier,
    )
}

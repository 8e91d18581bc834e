"""Single-head attention regressors and classifiers on sequences of unequal length, with data and theory."""

from .classifiers import (
    ErfAttentionClassifier,
    LinearAttentionClassifier,
    SoftmaxAttentionClassifier,
    SoftplusAttentionClassifier,
)
from .ragged import RaggedArray
from .regressors import (
    ErfAttentionRegressor,
    ErfAttentionRegressorCV,
    LinearAttentionRegressor,
    LinearAttentionRegressorCV,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
    SoftplusAttentionRegressor,
    SoftplusAttentionRegressorCV,
)

__version__ = "0.1.0"

__all__ = [
    "ErfAttentionClassifier",
    "ErfAttentionRegressor",
    "ErfAttentionRegressorCV",
    "LinearAttentionClassifier",
    "LinearAttentionRegressor",
    "LinearAttentionRegressorCV",
    "RaggedArray",
    "SoftmaxAttentionClassifier",
    "SoftmaxAttentionRegressor",
    "SoftmaxAttentionRegressorCV",
    "SoftplusAttentionClassifier",
    "SoftplusAttentionRegressor",
    "SoftplusAttentionRegressorCV",
]

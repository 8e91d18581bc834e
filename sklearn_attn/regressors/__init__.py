"""The scikit-learn face: single-head attention regressors."""

from ._attention import (
    REGRESSORS,
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)
from ._cv import (
    ErfAttentionRegressorCV,
    LinearAttentionRegressorCV,
    SoftmaxAttentionRegressorCV,
    SoftplusAttentionRegressorCV,
)

__all__ = [
    "REGRESSORS",
    "ErfAttentionRegressor",
    "ErfAttentionRegressorCV",
    "LinearAttentionRegressor",
    "LinearAttentionRegressorCV",
    "SoftmaxAttentionRegressor",
    "SoftmaxAttentionRegressorCV",
    "SoftplusAttentionRegressor",
    "SoftplusAttentionRegressorCV",
]

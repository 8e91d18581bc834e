"""Single-head attention regressors on sequences of unequal length, with data and theory."""

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
    "ErfAttentionRegressor",
    "ErfAttentionRegressorCV",
    "LinearAttentionRegressor",
    "LinearAttentionRegressorCV",
    "RaggedArray",
    "SoftmaxAttentionRegressor",
    "SoftmaxAttentionRegressorCV",
    "SoftplusAttentionRegressor",
    "SoftplusAttentionRegressorCV",
]

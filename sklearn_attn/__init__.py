"""Single-head attention regressors on sequences of unequal length, with data and theory."""

from .ragged import RaggedArray
from .regressors import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)

__version__ = "0.1.0"

__all__ = [
    "ErfAttentionRegressor",
    "LinearAttentionRegressor",
    "RaggedArray",
    "SoftmaxAttentionRegressor",
    "SoftplusAttentionRegressor",
]

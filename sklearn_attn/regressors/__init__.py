"""The scikit-learn face: single-head attention regressors."""

from ._attention import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)

__all__ = [
    "ErfAttentionRegressor",
    "LinearAttentionRegressor",
    "SoftmaxAttentionRegressor",
    "SoftplusAttentionRegressor",
]

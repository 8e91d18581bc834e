"""The scikit-learn face of the log loss: attention classifiers on sequences of unequal length."""

from ._attention import (
    CLASSIFIERS,
    ErfAttentionClassifier,
    LinearAttentionClassifier,
    SoftmaxAttentionClassifier,
    SoftplusAttentionClassifier,
)

__all__ = [
    "CLASSIFIERS",
    "ErfAttentionClassifier",
    "LinearAttentionClassifier",
    "SoftmaxAttentionClassifier",
    "SoftplusAttentionClassifier",
]

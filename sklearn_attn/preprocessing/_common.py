"""What transformers of sequences have in common."""

from sklearn.base import OneToOneFeatureMixin


class RaggedTagsMixin:
    """Tags of an estimator that takes sequences, and tables of one-token sequences."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def token_feature_names(estimator, input_features):
    """Check the names of the D features of a token; by default those seen in fit, or x0, x1, ..."""
    return OneToOneFeatureMixin.get_feature_names_out(estimator, input_features)

"""What is inside fitted searches, Pipelines and TransformedTargetRegressors."""

from sklearn.pipeline import Pipeline


def layers(estimator):
    """Yield an estimator, the fitted one that it wraps, and so on inwards."""
    while estimator is not None:
        yield estimator
        if isinstance(estimator, Pipeline):
            estimator = estimator[-1]
        else:
            estimator = getattr(estimator, "best_estimator_", getattr(estimator, "regressor_", None))

"""The callbacks of scikit-learn 1.9 and later, such as its ProgressBar; before that there are none."""

from numbers import Real

import numpy as np

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    EXTRA_FRAMES = 1  # that `with_callbacks` puts between a caller and the method
except ImportError:  # pragma: no cover - for scikit-learn before 1.9, which `.ci/versions oldest` tests
    EXTRA_FRAMES = 0

    class CallbackSupportMixin:
        """Nothing, as this scikit-learn has no callbacks."""

    def with_callbacks(method):
        """Return the method as it is."""
        return method


class FitTask:
    """A task of a fit for the callbacks of an estimator: the fit itself, or a part of it.

    Without callbacks it does nothing. Tasks form a tree: a fit has one task per start, and that one per
    iteration; a search has one per penalty.

    Parameters
    ----------
    estimator : estimator
    context : CallbackContext or None
    data : dict
        What hooks may ask for: X, y and metadata.
    """

    def __init__(self, estimator, context, data):
        self._estimator, self._context, self._data = estimator, context, data
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator, **data)

    @classmethod
    def of_fit(cls, estimator, X, y, sample_weight, max_subtasks):
        """Begin the task of a whole fit, inside a method that is decorated `with_callbacks`."""
        if isinstance(sample_weight, Real):  # which scorers do not take
            sample_weight = np.full(len(y), float(sample_weight))
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        context = None
        if getattr(estimator, "_skl_callbacks", None):
            context = estimator._init_callback_context(max_subtasks=max_subtasks)
        return cls(estimator, context, data)

    def subtask(self, name, max_subtasks=0):
        """Begin a part of this task, of at most so many parts itself."""
        context = self._context
        if context is not None:
            context = context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return FitTask(self._estimator, context, self._data)

    def end(self, attributes=None):
        """End this task.

        Parameters
        ----------
        attributes : callable, optional
            Returns the attributes that would make the estimator one that is fitted so far; called if a
            callback wants to see that.

        Returns
        -------
        bool
            Whether a callback asks to stop.
        """
        if self._context is None:
            return False
        return self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=attributes, **self._data
        )

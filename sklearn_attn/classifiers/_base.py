"""The template of all attention classifiers."""

import numpy as np
from sklearn.base import ClassifierMixin

from .._backend import array_namespace, device, is_numpy_array, to_numpy
from ..activations import Softmax
from ..objective import AttentionObjective, LogLoss, MultinomialLogLoss
from ..regressors._callbacks import with_callbacks
from ..regressors._fit import BaseAttentionEstimator
from ..regressors._validation import check_fit_parameters, check_sample_weight, leave_out_weightless
from ._validation import check_class_weight, check_classes, weigh_classes


class _ClassObjective(AttentionObjective):
    """The objective of a classifier, which knows the classes.

    Parameters
    ----------
    X, codes, activation, **options
        As in `AttentionObjective`, with places in `classes` as the target.
    classes : ndarray of shape (K,)
    """

    def __init__(self, X, codes, activation, *, classes, **options):
        loss = LogLoss() if classes.size == 2 else MultinomialLogLoss(classes.size)
        super().__init__(X, codes, activation, loss=loss, **options)
        self.classes = classes


class BaseAttentionClassifier(ClassifierMixin, BaseAttentionEstimator):
    """Single-head attention classifier; subclasses name the activation."""

    def __init__(
        self,
        alpha=1.0,
        *,
        alpha_key=None,
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
        self.alpha = alpha
        self.alpha_key = alpha_key
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the key, a value and an intercept (K of each for K > 2 classes).

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens: a list of (L_i, D) arrays, a RaggedArray, an (n, L, D) array, an
            (n, D) array of sequences of one token, or an (n, 1) object column of (L_i, D) arrays.
        y : array-like of shape (n,)
            One class per sequence: numbers, strings or booleans, of at least two classes.
        sample_weight : float or array-like of shape (n,), optional
            Weights of the sequences, at least 0. They are not normalised: a weight of 2 is the same as
            the sequence twice, and one of 0 as none at all. They are multiplied with those of `class_weight`.

        Returns
        -------
        self
            Unchanged if an error is raised or the fit is interrupted.

        Raises
        ------
        ValueError
            If X, y, the weights or a parameter is not valid, or y has one class only; the message names
            what is at fault.
        TypeError
            If X holds no sequences (a generator, a string, sparse), or a parameter has another type.

        Warns
        -----
        ConvergenceWarning
            If `stop_crit_` is above `tol` when the solver stops.
        """
        return self._fit(X, y, sample_weight)

    def decision_function(self, X):
        """Compute f(X) = b + sigma(chi)^T z of every sequence.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes. A 2-D array is n sequences of one token: for a single
            sequence x pass ``[x]``.

        Returns
        -------
        array of shape (n,) or (n, K)
            In the float dtype of X: for two classes the log odds of ``classes_[1]``, for more one column per
            class, whose softmax are the probabilities.
        """
        return self._outputs(X)

    def predict_proba(self, X):
        """Compute the probability of every class.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        array of shape (n, K)
            In the float dtype of X and the order of `classes_`.
        """
        return Softmax().weights(self._class_scores(X))

    def predict_log_proba(self, X):
        """Compute the logarithm of the probability of every class, which stays finite where that is tiny.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        array of shape (n, K)
            In the float dtype of X and the order of `classes_`.
        """
        scores = self._class_scores(X)
        xp = array_namespace(scores)
        below_top = scores - xp.max(scores, axis=1, keepdims=True)
        return below_top - xp.log(xp.sum(xp.exp(below_top), axis=1, keepdims=True))

    def predict(self, X):
        """Predict the most probable class of every sequence.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        array of shape (n,)
            Entries of `classes_`: numbers in the namespace of X, others in NumPy.
        """
        scores = self._class_scores(X)
        xp = array_namespace(scores)
        codes = xp.argmax(scores, axis=1)
        if self.classes_.dtype.kind not in "biuf" or is_numpy_array(codes):
            return self.classes_[to_numpy(codes)]
        return xp.take(xp.asarray(self.classes_, device=device(codes)), codes, axis=0)

    def _class_scores(self, X):
        """One column per class, whose softmax are the probabilities."""
        outputs = self._outputs(X)
        if outputs.ndim == 2:
            return outputs
        xp = array_namespace(outputs)
        return xp.stack([xp.zeros_like(outputs), outputs], axis=1)

    def _check_parameters(self):
        check_fit_parameters(self)
        check_class_weight(self.class_weight)

    def _build_objective(self, X, y, sample_weight):
        activation, fit_offset = self._initial_activation()
        classes, codes = check_classes(y, len(X), type(self).__name__)
        if self.warm_start and hasattr(self, "classes_") and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start=True continues a fit on the classes {self.classes_}, but y has {classes}; clone "
                "the estimator or set warm_start=False."
            )
        weight = weigh_classes(self.class_weight, classes, codes, check_sample_weight(sample_weight, len(X)))
        weight, X, codes = leave_out_weightless(weight, X, codes)
        return _ClassObjective(
            X,
            codes,
            activation,
            classes=classes,
            alpha_key=self.alpha if self.alpha_key is None else self.alpha_key,
            alpha_value=self.alpha,
            sample_weight=weight,
            fit_intercept=bool(self.fit_intercept),
            fit_offset=fit_offset,
        )

    def _attributes_at(self, objective, theta):
        return super()._attributes_at(objective, theta) | {"classes_": objective.classes}

    def _keep(self, X, checked, objective, result, *, reset=True):
        parameters = super()._keep(X, checked, objective, result, reset=reset)
        self.classes_ = objective.classes
        return parameters

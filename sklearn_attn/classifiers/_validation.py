"""Checks of the classes and their weights, with messages that say what to pass."""

from collections.abc import Mapping
from numbers import Real

import numpy as np
from sklearn import config_context
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._backend import is_array_api, to_numpy
from ..objective import total_weight
from ..regressors._validation import check_length, check_number, refuse_masked, refuse_non_finite


def check_classes(y, n_sequences, name):
    """Validate y as n_sequences classes, at least two of them different.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, 1)
    n_sequences : int
    name : str
        The estimator's name, for messages.

    Returns
    -------
    classes : ndarray of shape (K,)
        Sorted.
    codes : ndarray of int of shape (n,)
        The place of every class there.

    Raises
    ------
    ValueError
        If y is missing, has several columns, another length than X, one class only, an entry that is no
        number, or real numbers that are no classes.
    TypeError
        If y is no array or list, is masked, or holds classes of several kinds.
    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if is_array_api(y):
        y = to_numpy(y)
    refuse_masked(y, "y")
    try:
        shape = np.asarray(y).shape
    except ValueError as error:
        raise ValueError(f"y must hold one class per sequence, all of one shape: {error}") from error
    if not shape:
        raise TypeError(f"y must be a list or an array of classes, got {type(y).__name__}.")
    if len(shape) > 1 and shape[1:] != (1,):
        raise ValueError(
            f"y should be a 1d array, got an array of shape {shape} instead. Of one-hot rows pass "
            "y.argmax(axis=1); for several labels wrap the classifier: "
            f"sklearn.multioutput.MultiOutputClassifier({name}())."
        )
    with config_context(array_api_dispatch=False):  # older scikit-learn refuses lists where it is on
        y = column_or_1d(y, warn=True)
    check_length(y, n_sequences)
    if y.dtype.kind == "O":
        _refuse_missing(y)
        if all(isinstance(label, Real | np.bool_) for label in y):
            y = np.array(y.tolist())
    elif y.dtype.kind in "mM":
        _refuse_missing(y)
    if y.dtype.kind == "f":
        refuse_non_finite(y, "y")
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise TypeError(
            f"The classes in y must be of one kind that can be sorted, got {' and '.join(kinds)}; pass "
            "numbers or strings."
        ) from None
    check_classification_targets(y)
    if classes.size < 2:
        raise ValueError(
            f"{name} needs sequences of at least two classes, but y has only one class: "
            f"{classes.tolist()[0]!r}."
        )
    return classes, codes


def _refuse_missing(y):
    for i, label in enumerate(y):
        try:
            missing = label is None or bool(label != label)
        except TypeError:  # pandas.NA, which is neither
            missing = True
        if missing:
            raise ValueError(
                f"Input y contains NaN: y[{i}] is missing; drop that sequence or name a class for it."
            )


def check_class_weight(class_weight):
    """Validate `class_weight`: None, "balanced" or a dict of numbers of at least 0.

    Raises
    ------
    TypeError, ValueError
        Saying what it must be.
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict from classes to weights, got {class_weight!r}."
        )
    for label, weight in class_weight.items():
        check_number(weight, f"class_weight[{label!r}]", Real, min_val=0)


def weigh_classes(class_weight, classes, codes, sample_weight):
    """Multiply the weights of sequences with those of their classes.

    "balanced" is W / (K W_c), with W_c the total weight of a class; one without weight stays so.

    Returns
    -------
    ndarray of float64 of shape (n,)

    Raises
    ------
    ValueError
        If a dict names none of the classes, or leaves no sequence a weight, or the sum of weights overflows.
    """
    if class_weight is None:
        return sample_weight
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if isinstance(class_weight, str):  # "balanced", of which scikit-learn 1.6 knows no weighted form
            totals = np.bincount(codes, weights=sample_weight, minlength=len(classes))
            weights = totals.sum() / (len(classes) * totals)
        else:
            weights = compute_class_weight(class_weight, classes=classes, y=classes[codes])
        weights = np.where(np.isfinite(weights), weights, 0.0)[codes] * sample_weight
    if not weights.any():
        raise ValueError(
            f"class_weight={class_weight!r} leaves no sequence with a positive weight; give a class one."
        )
    total_weight(weights)
    return weights

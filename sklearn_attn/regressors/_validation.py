"""Checks of the target, the weights and the parameters, with messages that say what to pass."""

from numbers import Integral, Real

import numpy as np
from sklearn import config_context
from sklearn.utils import check_array, check_scalar, column_or_1d

from .._backend import is_array_api, to_numpy
from ..objective import AttentionParameters, total_weight


def check_target(y, n_sequences, name):
    """Validate y as n_sequences finite numbers.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, 1)
    n_sequences : int
    name : str
        The estimator's name, for messages.

    Returns
    -------
    ndarray of float64 of shape (n,)

    Raises
    ------
    ValueError
        If y is missing, has several columns, another length than X, or an entry that is not a finite
        real number.
    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    y = _check_numbers(y, "y")
    if y.ndim > 1 and y.shape[1:] != (1,):
        raise ValueError(
            f"y should be a 1d array, got an array of shape {y.shape} instead. For several targets wrap "
            f"the regressor: sklearn.multioutput.MultiOutputRegressor({name}())."
        )
    y = column_or_1d(y, warn=True)
    check_length(y, n_sequences)
    return y


def check_length(y, n_sequences):
    """Refuse a target that has not one entry per sequence."""
    if y.shape[0] != n_sequences:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {n_sequences} sequences, y has {y.shape[0]} values. y takes one value per sequence; "
            "a 2-D X is read as n sequences of one token, for a single sequence of tokens pass [X]."
        )


def check_sample_weight(sample_weight, n_sequences):
    """Validate one non-negative weight per sequence.

    Parameters
    ----------
    sample_weight : None, float or array-like of shape (n,)
    n_sequences : int

    Returns
    -------
    ndarray of float64 of shape (n,)

    Raises
    ------
    ValueError
        If the shape is another, a weight is negative or not finite, all are zero, or their sum overflows.
    """
    if sample_weight is None:
        return np.ones(n_sequences)
    if isinstance(sample_weight, Real) or getattr(sample_weight, "shape", None) == ():
        sample_weight = np.full(n_sequences, sample_weight)
    sample_weight = _check_numbers(sample_weight, "sample_weight")
    if sample_weight.shape != (n_sequences,):
        raise ValueError(
            f"sample_weight must hold one weight per sequence, shape {(n_sequences,)}, got "
            f"{sample_weight.shape}."
        )
    negative = np.flatnonzero(sample_weight < 0)
    if negative.size:
        raise ValueError(f"sample_weight[{negative[0]}] is negative; weights must be at least 0.")
    if not sample_weight.any():
        raise ValueError("All of sample_weight is zero; at least one sequence needs a positive weight.")
    total_weight(sample_weight)
    return sample_weight


def leave_out_weightless(sample_weight, X, *columns):
    """Drop what belongs to sequences of weight 0, so that nothing in them is ever computed with.

    Multiplying with 0 would not do: products of their tokens may overflow, and 0 times infinity is NaN.

    Parameters
    ----------
    sample_weight : ndarray of float64 of shape (n,)
    X : RaggedArray
    *columns : arrays of shape (n,)

    Returns
    -------
    sample_weight, X, *columns
        As they are where no weight is 0; copies otherwise.
    """
    kept = np.flatnonzero(sample_weight)
    if kept.size == sample_weight.size:
        return sample_weight, X, *columns
    return sample_weight[kept], X[kept], *(column[kept] for column in columns)


def check_parameters(estimator):
    """Validate the constructor's arguments, as fit finds them.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, what it must be, and what it is.
    """
    check_fit_parameters(estimator)
    if estimator.solver not in ("lbfgs", "sgd"):
        raise ValueError(f"solver must be 'lbfgs' or 'sgd', got {estimator.solver!r}.")
    check_number(estimator.learning_rate, "learning_rate", Real, min_val=0, include_boundaries="neither")
    check_number(estimator.power_t, "power_t", Real, min_val=0)
    check_number(estimator.batch_size, "batch_size", Integral, min_val=1)
    if not isinstance(estimator.average, bool | np.bool_):
        check_number(estimator.average, "average", Integral, min_val=1)


def check_fit_parameters(estimator):
    """Validate the constructor's arguments of any fit with one penalty."""
    check_number(estimator.alpha, "alpha", Real, min_val=0)
    if estimator.alpha_key is not None:
        check_number(estimator.alpha_key, "alpha_key", Real, min_val=0)
    check_common_parameters(estimator)
    check_scalar(estimator.warm_start, "warm_start", (bool, np.bool_))


def check_common_parameters(estimator):
    """Validate the constructor's arguments that a regressor shares with its CV sibling."""
    check_number(estimator.tol, "tol", Real, min_val=0)
    for name in ("max_iter", "n_init"):
        check_number(getattr(estimator, name), name, Integral, min_val=1)
    check_scalar(estimator.verbose, "verbose", Integral, min_val=0)
    check_scalar(estimator.fit_intercept, "fit_intercept", (bool, np.bool_))


def check_penalties(values, name):
    """Validate a grid of penalties.

    Parameters
    ----------
    values : array-like of shape (m,)
    name : str
        For messages.

    Returns
    -------
    ndarray of float64 of shape (m,)

    Raises
    ------
    ValueError
        If it is empty, not one-dimensional, or holds what is no finite number of at least 0.
    """
    penalties = _check_numbers(values, name)
    if penalties.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got an array of shape {penalties.shape}.")
    negative = np.flatnonzero(penalties < 0)
    if negative.size:
        raise ValueError(f"{name}[{negative[0]}] is negative; penalties must be at least 0.")
    return penalties


def check_number(value, name, target_type, **bounds):
    """Refuse what is no finite number of the type, booleans included, or lies outside the bounds."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number, got {value}.")
    check_scalar(value, name, target_type, **bounds)
    if not np.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}.")


def _check_numbers(array, name):
    """Convert to float64 and refuse what is not finite, naming the first entry at fault."""
    refuse_masked(array, name)
    if is_array_api(array):
        array = to_numpy(array)
    options = {"ensure_2d": False, "allow_nd": True, "ensure_all_finite": False}
    try:
        with config_context(array_api_dispatch=False):  # older scikit-learn refuses lists where it is on
            checked = check_array(array, dtype=np.float64, input_name=name, **options)
    except (TypeError, ValueError) as error:
        prefix = "" if f"Input {name}" in str(error) else f"{name} must be an array of real numbers: "
        raise type(error)(f"{prefix}{error}") from error
    refuse_non_finite(checked, name)
    return checked


def refuse_masked(array, name):
    """Raise a TypeError where an array is masked: a mask would be lost."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; pass {name}.filled(value), or drop the masked entries.")


def refuse_non_finite(array, name):
    """Raise a ValueError that names the first entry of an array of floats that is not finite."""
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        what = "NaN" if np.isnan(array.flat[bad[0]]) else "infinity"
        raise ValueError(f"Input {name} contains {what}: {name}[{bad[0]}].")


def check_init(init, n_features, offset, n_outputs=None):
    """Validate `init`: a name is kept, a (key, value) pair becomes AttentionParameters.

    The intercept of a pair is NaN: it starts at the best value for that pair.

    Raises
    ------
    ValueError
        If it is neither, the key does not have shape (D,), or the value not shape (D,), or (K, D) for K
        outputs.
    """
    if isinstance(init, str):
        if init not in ("auto", "random"):
            raise ValueError(f"init must be 'auto', 'random' or a (key, value) pair, got {init!r}.")
        return init
    try:
        key, value = init
    except (TypeError, ValueError):
        raise ValueError(f"init must be 'auto', 'random' or a (key, value) pair, got {init!r}.") from None
    vectors = []
    shapes = {"key": ("(D,)", (n_features,)), "value": ("(D,)", (n_features,))}
    if n_outputs is not None:
        shapes["value"] = "(n_classes, D)", (n_outputs, n_features)
    for (name, (symbol, shape)), vector in zip(shapes.items(), (key, value), strict=True):
        vector = _check_numbers(vector, f"init's {name}")
        if vector.shape != shape:
            raise ValueError(
                f"init's {name} must have shape {symbol} = {shape}, D being the number of features of a "
                f"token; got {vector.shape}."
            )
        vectors.append(vector)
    return AttentionParameters(*vectors, np.nan, offset)

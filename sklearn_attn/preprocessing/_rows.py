"""From sequences to rows of a table: pooled, or padded."""

import warnings
from functools import cache
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..ragged import all_at_once, validate_ragged
from ._common import RaggedTagsMixin, token_feature_names


class _RowTransformer(RaggedTagsMixin, TransformerMixin, BaseEstimator):
    """Turns every sequence into one row; subclasses check their parameters and say what the columns are."""

    def fit(self, X, y=None):
        """Check the parameters and record the features of X.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens, in any form that the regressors take.
        y : None
            Ignored.

        Returns
        -------
        self
            Unchanged if an error is raised.

        Raises
        ------
        TypeError
            If X holds no sequences.
        ValueError
            If a parameter or X is not valid.
        """
        self._check_parameters()
        with all_at_once(self) as fitted:
            fitted._learn(validate_ragged(fitted, X, reset=True).to_device("cpu"))
        return self

    def _learn(self, X):
        """Set what else fit learns."""

    def transform(self, X):
        """Turn every sequence into one row.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        ndarray of shape (n, n_columns)
            In the float dtype of X, and on the host wherever X is.
        """
        check_is_fitted(self)
        return self._rows(validate_ragged(self, X, reset=False).to_device("cpu"))

    def get_feature_names_out(self, input_features=None):
        """Name the columns of `transform`, as in the example, by the (D,) names of a token's features."""
        names = token_feature_names(self, input_features)
        return np.array([f"{prefix}_{name}" for prefix in self._prefixes() for name in names], dtype=object)


class SequencePooler(_RowTransformer):
    """Pool the tokens of every sequence into one row, so that any estimator can follow.

    Parameters
    ----------
    pooling : {"mean", "max", "sum", "std", "first", "last"} or list of them, default="mean"
        How the tokens are pooled, feature by feature. Several poolings stand side by side in the given
        order. "std" is the population standard deviation, 0 for one token; "first" and "last" are tokens.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of a token, D.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_attn.preprocessing import SequencePooler
    >>> pooler = SequencePooler(["mean", "max"])
    >>> pooler.fit_transform([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    array([[1., 2.],
           [4., 4.]])
    >>> pooler.get_feature_names_out()
    array(['mean_x0', 'max_x0'], dtype=object)
    """

    def __init__(self, pooling="mean"):
        self.pooling = pooling

    def _rows(self, X):
        total = cache(lambda: _sum(X))
        with np.errstate(over="ignore", invalid="ignore"):
            pooled = [_POOLINGS[name](X, total) for name in self._prefixes()]
            rows = np.concatenate(pooled, axis=1, dtype=X.values.dtype, casting="same_kind")
        for name, part in zip(self._prefixes(), np.split(rows, len(pooled), axis=1), strict=True):
            if not np.isfinite(part).all():
                raise ValueError(f'The pooling "{name}" overflows {rows.dtype}: divide X by a typical size.')
        return rows

    def _prefixes(self):
        return [self.pooling] if isinstance(self.pooling, str) else self.pooling

    def _check_parameters(self):
        names = self._prefixes()
        is_list = isinstance(names, list | tuple) and len(names) > 0
        if not is_list or not all(isinstance(name, str) and name in _POOLINGS for name in names):
            raise ValueError(
                f"pooling must be one of {[*_POOLINGS]} or a list of them, got {self.pooling!r}."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"pooling must name each kind once, got {self.pooling!r}.")


# Functions of X and of the sums of its sequences, which are computed when first called for.
_POOLINGS = {
    "mean": lambda X, total: total() / X.lengths[:, None],
    "max": lambda X, total: _max(X),
    "sum": lambda X, total: total(),
    # Two passes: the difference of mean square and squared mean loses all digits far from zero.
    "std": lambda X, total: np.sqrt(_sum(X, center=total() / X.lengths[:, None]) / X.lengths[:, None]),
    "first": lambda X, total: X.values[X.offsets[:-1]],
    "last": lambda X, total: X.values[X.offsets[1:] - 1],
}


def _blocks(X, n_elements):
    """Cut the tokens into blocks of rows that fit into cache, wherever the sequences end.

    Yields the rows, the slice of the sequences that they belong to, and the borders of those in the block.
    """
    n_rows = max(1, n_elements // X.n_features)
    for first in range(0, X.n_tokens, n_rows):
        last = min(first + n_rows, X.n_tokens)
        start = np.searchsorted(X.offsets, first, side="right") - 1
        stop = np.searchsorted(X.offsets, last, side="left")
        yield X.values[first:last], slice(start, stop), X.offsets[start : stop + 1].clip(first, last) - first


def _sum(X, center=None):
    """Sum the tokens of every sequence, or their squared deviations from its center, in float64."""
    total = np.zeros((len(X), X.n_features))
    for rows, sequences, borders in _blocks(X, 2**18):  # fastest of 2^15 to 2^20, D = 5 to 768
        rows = rows.astype(np.float64, copy=False)
        if center is not None:
            rows = rows - np.repeat(center[sequences], np.diff(borders), axis=0)
            rows *= rows
        n_rows = rows.shape[0]
        ones = csr_array((np.ones(n_rows), np.arange(n_rows), borders), shape=(borders.size - 1, n_rows))
        total[sequences] += ones @ rows  # up to three times faster than np.add.reduceat
    return total


def _max(X):
    """Maximum of every feature over the tokens of every sequence."""
    result = np.full((len(X), X.n_features), -np.inf, dtype=X.values.dtype)
    for rows, sequences, borders in _blocks(X, 2**16):  # reads with strides: fastest in the L2 cache
        largest = np.maximum.reduceat(rows, borders[:-1], axis=0)
        result[sequences] = np.maximum(result[sequences], largest)
    return result


class SequencePadder(_RowTransformer):
    """Lay the tokens of a sequence side by side, zeros after the last, so that any estimator can follow.

    Parameters
    ----------
    max_length : int, optional
        Number of tokens that are kept; longer sequences lose their last ones. By default that of the longest
        sequence in fit; sequences that are longer still are then cut with a warning.

    Attributes
    ----------
    max_length_ : int
        Number of tokens that are kept.
    n_features_in_ : int
        Number of features of a token, D.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_attn.preprocessing import SequencePadder
    >>> padder = SequencePadder()
    >>> padder.fit_transform([np.array([[1.0], [2.0]]), np.array([[4.0]])])
    array([[1., 2.],
           [4., 0.]])
    >>> padder.get_feature_names_out()
    array(['token0_x0', 'token1_x0'], dtype=object)
    """

    def __init__(self, max_length=None):
        self.max_length = max_length

    def _rows(self, X):
        n_cut = np.count_nonzero(X.lengths > self.max_length_)
        if n_cut and self.max_length is None:
            warnings.warn(
                f"{n_cut} of {len(X)} sequences are longer than the longest in fit and lose all tokens after "
                f"the first {self.max_length_}; set max_length to choose how many are kept, up to "
                f"{X.lengths.max()}.",
                UserWarning,
                stacklevel=4,  # the caller of transform, past the wrapper of set_output
            )
        return X.to_padded(self.max_length_, fill_value=0.0).reshape(len(X), -1)

    def _prefixes(self):
        return [f"token{i}" for i in range(self.max_length_)]

    def _check_parameters(self):
        length = self.max_length
        is_length = isinstance(length, Integral) and not isinstance(length, bool) and length > 0
        if length is not None and not is_length:
            raise ValueError(f"max_length must be a positive integer or None, got {length!r}.")

    def _learn(self, X):
        self.max_length_ = int(X.lengths.max() if self.max_length is None else self.max_length)

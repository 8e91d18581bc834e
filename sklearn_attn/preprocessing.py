"""Transformers between ragged sequences and what the rest of scikit-learn takes."""

import warnings
from copy import deepcopy
from functools import cache
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ._backend import to_numpy
from .ragged import RaggedArray, check_ragged, is_table, set_features, validate_ragged

__all__ = ["SequencePadder", "SequencePooler", "TokenTransformer"]


class _RaggedTagsMixin:
    """Tags of an estimator that takes sequences, and tables of one-token sequences."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _token_feature_names(estimator, input_features):
    """Check the names of the D features of a token; by default those seen in fit, or x0, x1, ..."""
    return OneToOneFeatureMixin.get_feature_names_out(estimator, input_features)


def _inner_has(method):
    """Tell whether the inner transformer, fitted or not, has a method."""
    return lambda self: hasattr(getattr(self, "transformer_", self.transformer), method)


class TokenTransformer(_RaggedTagsMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Apply any scikit-learn transformer to every token.

    The inner transformer is fitted on the tokens of all sequences together, an (n_tokens, D) array, and
    transforms each of them: StandardScaler, PCA, Nystroem, SimpleImputer, a Pipeline of those. Sequences
    in, a RaggedArray of sequences of the same lengths out. On a 2-D array or frame, which holds one token
    per row, it is the inner transformer itself: a table in, a table out.

    Parameters
    ----------
    transformer : transformer
        Cloned before it is fitted. Its parameters are reached as ``transformer__...``.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
        Number of features of a token, D.
    feature_names_in_ : ndarray of str of shape (D,)
        Only where X was a frame of one token per row.

    Notes
    -----
    Every token counts once, so a long sequence weighs more than a short one. `y` is repeated for the
    tokens of its sequence: with a supervised inner transformer, such as SelectKBest, each token is
    labelled like its sequence. One that cross-fits, such as TargetEncoder, splits tokens, not sequences.

    NaN is passed on where the inner transformer allows it, except in an (n, L, D) array, where it may
    be padding: `RaggedArray.from_padded` drops that.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_attn.preprocessing import TokenTransformer
    >>> X = [np.array([[0.0], [2.0]]), np.array([[4.0]])]
    >>> TokenTransformer(StandardScaler(with_std=False)).fit_transform(X).to_list()
    [array([[-2.],
           [ 0.]]), array([[2.]])]
    """

    def __init__(self, transformer):
        self.transformer = transformer

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.transformer, "__sklearn_tags__") and not isinstance(self.transformer, type):
            inner = get_tags(self.transformer)
            tags.input_tags.allow_nan = inner.input_tags.allow_nan
            tags.input_tags.positive_only = inner.input_tags.positive_only
            tags.target_tags.required = inner.target_tags.required
            tags.non_deterministic = inner.non_deterministic
            tags.transformer_tags = inner.transformer_tags or tags.transformer_tags
        return tags

    def fit(self, X, y=None):
        """Fit a clone of the inner transformer on all tokens.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens, in any form that the regressors take.
        y : array-like of shape (n,) or (n, n_outputs), optional
            Given to the inner transformer, repeated for every token of a sequence.

        Returns
        -------
        self
            Unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `transformer` is not a transformer, or X holds no sequences.
        ValueError
            If X is not valid, y has another length, or the inner transformer raises it.
        """
        checked, inner, args = self._prepare(X, y)
        inner.fit(*args)
        return self._keep(X, checked, inner)

    def fit_transform(self, X, y=None):
        """Take what `fit` takes, return what `transform` returns.

        It calls the `fit_transform` of the inner transformer, where it has one.
        """
        checked, inner, args = self._prepare(X, y)
        one_step = hasattr(inner, "fit_transform")
        tokens = inner.fit_transform(*args) if one_step else inner.fit(*args).transform(args[0])
        transformed = self._repack(tokens, X, checked)
        self._keep(X, checked, inner)
        return transformed

    def transform(self, X):
        """Transform every token.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        RaggedArray, or array or frame of shape (n, n_features_out)
            Sequences of the same lengths, as floats on the host; what the inner transformer returns where
            X is a 2-D array or frame of one token per row.

        Raises
        ------
        TypeError
            If the inner transformer returns a sparse matrix.
        ValueError
            If X is not valid, or the inner transformer does not return one row per token.
        """
        check_is_fitted(self)
        checked = validate_ragged(self, X, reset=False, ensure_finite=self._ensure_finite(X))
        return self._repack(self.transformer_.transform(_tokens(X, checked)), X, checked)

    @available_if(_inner_has("inverse_transform"))
    def inverse_transform(self, X):
        """Undo `transform`, where the inner transformer can: n_features_out features in, D out."""
        check_is_fitted(self)
        checked = check_ragged(X, ensure_finite=self._ensure_finite(X))
        return self._repack(self.transformer_.inverse_transform(_tokens(X, checked)), X, checked)

    @available_if(_inner_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
        """Name the features of a transformed token as the inner transformer does: (n_features_out,) str."""
        names = _token_feature_names(self, input_features)
        return self.transformer_.get_feature_names_out(names)

    def set_output(self, *, transform=None):
        """Set the output container of the inner transformer.

        A frame has no place for sequences: the output remains a RaggedArray, unless X is a 2-D array or
        frame. In a Pipeline, which sets the output of all its steps, the later ones return frames.
        """
        for inner in (self.transformer, getattr(self, "transformer_", None)):
            if hasattr(inner, "set_output"):
                inner.set_output(transform=transform)
        return self

    def _prepare(self, X, y):
        """Return X checked, an unfitted clone of the inner transformer, and the arguments of its fit."""
        has_methods = hasattr(self.transformer, "fit") and hasattr(self.transformer, "transform")
        if isinstance(self.transformer, type) or not has_methods:
            raise TypeError(
                "transformer must be an instance with fit and transform, such as StandardScaler(), got "
                f"{self.transformer!r}."
            )
        checked = check_ragged(X, ensure_finite=self._ensure_finite(X))
        args = [_tokens(X, checked)]
        if y is not None:
            y = to_numpy(y)
            check_consistent_length(checked, y)
            args.append(np.repeat(y, checked.lengths, axis=0))
        return checked, clone(self.transformer), args

    def _ensure_finite(self, X):
        may_be_padded = getattr(X, "ndim", 0) == 3  # with NaN, which then is not to be imputed or scaled
        return "allow-nan" if get_tags(self).input_tags.allow_nan and not may_be_padded else True

    def _keep(self, X, checked, inner):
        set_features(self, X, checked)
        self.transformer_ = inner
        return self

    def _repack(self, tokens, X, checked):
        """Give the rows that the inner transformer returned the form of X."""
        name, shape = type(self.transformer).__name__, np.shape(tokens)
        if issparse(tokens):
            raise TypeError(
                f"{name} returned a sparse matrix, but tokens are dense: set sparse_output=False where it "
                "has that parameter, or let FunctionTransformer(lambda X: X.toarray(), accept_sparse=True) "
                "follow it in a Pipeline inside TokenTransformer."
            )
        if len(shape) != 2 or shape[0] != checked.n_tokens:
            raise ValueError(
                f"{name} must return one row per token, shape ({checked.n_tokens}, n_features_out), but "
                f"returned shape {shape}."
            )
        if is_table(X, checked):
            return tokens
        return check_ragged(RaggedArray(np.asarray(tokens), checked.offsets), ensure_finite=False)


def _tokens(X, checked):
    """Return what the inner transformer sees: never memory of X that it could write into."""
    if hasattr(X, "columns") and is_table(X, checked):
        return deepcopy(X)  # still a frame: the inner transformer may select or name columns
    return checked.values  # read-only, so that scikit-learn copies where copy=False would write


class _RowTransformer(_RaggedTagsMixin, TransformerMixin, BaseEstimator):
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
        self._learn(validate_ragged(self, X, reset=True))
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
            In the float dtype of X.
        """
        check_is_fitted(self)
        return self._rows(validate_ragged(self, X, reset=False))

    def get_feature_names_out(self, input_features=None):
        """Name the columns of `transform`, as in the example, by the (D,) names of a token's features."""
        names = _token_feature_names(self, input_features)
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
        pooled = [_POOLINGS[name](X, total) for name in self._prefixes()]
        return np.concatenate(pooled, axis=1, dtype=X.values.dtype, casting="same_kind")

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

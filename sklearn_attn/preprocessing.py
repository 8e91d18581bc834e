"""Transformers between ragged sequences and what the rest of scikit-learn takes."""

import warnings
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_scalar
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .ragged import RaggedArray, check_ragged, is_table, set_features, validate_ragged


class _SequenceTransformer(TransformerMixin, BaseEstimator):
    """What the transformers share: their input, and a fit that keeps nothing of X but its features."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _inner_has(attribute):
    """Tell whether the inner transformer, fitted or not, has an attribute."""

    def check(self):
        return hasattr(getattr(self, "transformer_", self.transformer), attribute)

    return check


class TokenTransformer(_SequenceTransformer, auto_wrap_output_keys=None):
    """Apply any scikit-learn transformer token by token.

    The inner transformer is fitted on all tokens of all sequences, an (n_tokens, D) array, and then
    applied to each token: StandardScaler, PCA, Nystroem, and so on. Ragged in, ragged out; an (n, D) array of
    sequences of one token gives an array.

    Parameters
    ----------
    transformer : transformer
        Cloned, not fitted itself. Its parameters are reached as ``transformer__...``.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
        Number of features of a token, D.

    Notes
    -----
    Every token counts the same, so long sequences weigh more than short ones. The inner transformer does not
    see y. Its `set_output` is respected only so far that its output is packed again.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_attn.preprocessing import TokenTransformer
    >>> X = [np.array([[0.0], [2.0]]), np.array([[4.0]])]
    >>> scaled = TokenTransformer(StandardScaler()).fit_transform(X)
    >>> scaled.lengths
    array([2, 1])
    """

    def __init__(self, transformer):
        self.transformer = transformer

    def fit(self, X, y=None):
        """Fit the inner transformer on all tokens.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens, in any form that the regressors take.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If `transformer` has no `fit` or no `transform`.
        ValueError
            If X is not valid.
        """
        if not (hasattr(self.transformer, "fit") and hasattr(self.transformer, "transform")):
            raise TypeError(
                "transformer must be a scikit-learn transformer with fit and transform, such as "
                f"StandardScaler(), got {self.transformer!r}."
            )
        checked = check_ragged(X)
        transformer = clone(self.transformer).fit(checked.values)
        set_features(self, X, checked)
        self.transformer_ = transformer
        return self

    def transform(self, X):
        """Transform every token.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        RaggedArray, or ndarray of shape (n, n_features_out)
            Sequences of the same lengths with the inner transformer's features; an array where X is an
            (n, D) array of sequences of one token.
        """
        check_is_fitted(self)
        checked = validate_ragged(self, X, reset=False)
        tokens = _dense_tokens(self.transformer_.transform(checked.values), checked)
        return tokens if is_table(X, checked) else RaggedArray(tokens, checked.offsets)

    @available_if(_inner_has("inverse_transform"))
    def inverse_transform(self, X):
        """Undo `transform` token by token, where the inner transformer can.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences with the inner transformer's output features.

        Returns
        -------
        RaggedArray or ndarray
            As from `transform`.
        """
        check_is_fitted(self)
        checked = check_ragged(X)
        tokens = _dense_tokens(self.transformer_.inverse_transform(checked.values), checked)
        return tokens if is_table(X, checked) else RaggedArray(tokens, checked.offsets)

    @available_if(_inner_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
        """Name the features of a transformed token, as the inner transformer does.

        Parameters
        ----------
        input_features : array-like of str of shape (D,), optional

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(_check_feature_names_in(self, input_features))


def _dense_tokens(tokens, X):
    """Check what an inner transformer made of the tokens of X."""
    if issparse(tokens):
        raise TypeError(
            "The inner transformer returned a sparse matrix; ask it for dense output, for example with "
            "sparse_output=False."
        )
    tokens = np.asarray(tokens)
    if tokens.ndim != 2 or tokens.shape[0] != X.n_tokens:
        raise ValueError(
            f"The inner transformer must return one row per token, ({X.n_tokens}, n_features); got "
            f"shape {tokens.shape}."
        )
    return tokens


def _pool_std(X):
    """Standard deviation of every feature over the tokens, in two passes."""
    means = _pool_mean(X).astype(np.float64)
    variance = np.empty_like(means)
    # Blocks of sequences: the deviations of one are a copy of its tokens.
    for start, stop in _blocks_of_sequences(X):
        block = X[start:stop]
        deviation = block.values - np.repeat(means[start:stop], block.lengths, axis=0)
        variance[start:stop] = _sum_rows(deviation**2, block.offsets) / block.lengths[:, None]
    return np.sqrt(variance)


def _blocks_of_sequences(X, max_tokens=4096):
    """Cut sequences into runs of about max_tokens tokens, at least one sequence each."""
    start = 0
    while start < len(X):
        stop = int(np.searchsorted(X.offsets, X.offsets[start] + max_tokens, side="right")) - 1
        stop = max(start + 1, stop)
        yield start, stop
        start = stop


def _sum_rows(values, offsets):
    """Sum the rows of every sequence: one read of the values, in float64."""
    n_tokens, n = values.shape[0], offsets.size - 1
    pooling = csr_array((np.ones(n_tokens), np.arange(n_tokens), offsets), shape=(n, n_tokens))
    if values.dtype == np.float64:
        return pooling @ values
    # A product with float64 ones would cast all of a float32 buffer at once.
    return np.concatenate(
        [
            pooling[start:stop][:, offsets[start] : offsets[stop]]
            @ values[offsets[start] : offsets[stop]].astype(np.float64)
            for start, stop in _blocks_of_sequences(RaggedArray(values, offsets))
        ]
    )


def _pool_mean(X):
    return _sum_rows(X.values, X.offsets) / X.lengths[:, None]


_POOLINGS = {
    "mean": _pool_mean,
    "max": lambda X: np.maximum.reduceat(X.values, X.offsets[:-1], axis=0),
    "sum": lambda X: _sum_rows(X.values, X.offsets),
    "std": _pool_std,
    "first": lambda X: X.values[X.offsets[:-1]],
    "last": lambda X: X.values[X.offsets[1:] - 1],
}


class SequencePooler(_SequenceTransformer):
    """Turn every sequence into one vector, so that any other estimator can be the baseline.

    Parameters
    ----------
    pooling : {"mean", "max", "sum", "std", "first", "last"} or list of them, default="mean"
        How the tokens of a sequence are pooled, feature by feature. Several poolings stand side by side,
        in the given order. "std" is the population standard deviation, 0 for one token.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of a token, D.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_attn.preprocessing import SequencePooler
    >>> X = [np.array([[0.0], [2.0]]), np.array([[4.0]])]
    >>> SequencePooler(["mean", "max"]).fit_transform(X)
    array([[1., 2.],
           [4., 4.]])
    """

    def __init__(self, pooling="mean"):
        self.pooling = pooling

    def fit(self, X, y=None):
        """Check the parameter and learn the number of features.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens, in any form that the regressors take.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `pooling` is not known or X is not valid.
        """
        self._names()
        set_features(self, X, check_ragged(X))
        return self

    def transform(self, X):
        """Pool every sequence.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        ndarray of shape (n, D * number of poolings)
            In the float dtype of X; sums are taken in float64.
        """
        check_is_fitted(self)
        X = validate_ragged(self, X, reset=False)
        pooled = [_POOLINGS[name](X) for name in self._names()]
        return np.concatenate(pooled, axis=1).astype(X.values.dtype, copy=False)

    def get_feature_names_out(self, input_features=None):
        """Name the pooled features: ``mean_x0``, ``mean_x1``, ...

        Parameters
        ----------
        input_features : array-like of str of shape (D,), optional

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        features = _check_feature_names_in(self, input_features)
        return np.array([f"{name}_{feature}" for name in self._names() for feature in features], dtype=object)

    def _names(self):
        names = [self.pooling] if isinstance(self.pooling, str) else self.pooling
        known = isinstance(names, list | tuple) and len(names) and all(n in _POOLINGS for n in names)
        if not known:
            raise ValueError(
                f"pooling must be one of {list(_POOLINGS)} or a list of them, got {self.pooling!r}."
            )
        return names

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")


class SequencePadder(_SequenceTransformer):
    """Lay the tokens of every sequence side by side and fill up with zeros.

    Parameters
    ----------
    max_length : int, optional
        Number of tokens that are kept; longer sequences lose their last ones. By default that of the
        longest sequence seen in fit; a longer one in transform then is cut with a warning.

    Attributes
    ----------
    max_length_ : int
        The number of tokens that are kept.
    n_features_in_ : int
        Number of features of a token, D.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_attn.preprocessing import SequencePadder
    >>> X = [np.array([[1.0], [2.0]]), np.array([[4.0]])]
    >>> SequencePadder().fit_transform(X)
    array([[1., 2.],
           [4., 0.]])
    """

    def __init__(self, max_length=None):
        self.max_length = max_length

    def fit(self, X, y=None):
        """Learn the length of the longest sequence, unless it is given.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens, in any form that the regressors take.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If `max_length` is not a positive int or X is not valid.
        """
        if self.max_length is not None:
            check_scalar(self.max_length, "max_length", Integral, min_val=1)
        checked = check_ragged(X)
        set_features(self, X, checked)
        self.max_length_ = int(checked.lengths.max() if self.max_length is None else self.max_length)
        return self

    def transform(self, X):
        """Pad or cut every sequence to `max_length_` tokens.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences in any form that `fit` takes.

        Returns
        -------
        ndarray of shape (n, max_length_ * D)
            Token after token; in the float dtype of X.

        Warns
        -----
        UserWarning
            If a sequence is longer than the longest seen in fit and `max_length` was not given.
        """
        check_is_fitted(self)
        X = validate_ragged(self, X, reset=False)
        n_cut = np.count_nonzero(X.lengths > self.max_length_)
        if n_cut and self.max_length is None:
            warnings.warn(
                f"{n_cut} sequences are longer than the {self.max_length_} tokens of the longest seen in fit "
                "and lose their last tokens; set max_length to say how many to keep.",
                UserWarning,
                stacklevel=2,
            )
        return X.to_padded(self.max_length_, fill_value=0.0).reshape(len(X), -1)

    def get_feature_names_out(self, input_features=None):
        """Name the features of every token: ``0_x0``, ``0_x1``, ..., ``1_x0``, ...

        Parameters
        ----------
        input_features : array-like of str of shape (D,), optional

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self)
        features = _check_feature_names_in(self, input_features)
        return np.array(
            [f"{token}_{feature}" for token in range(self.max_length_) for feature in features], dtype=object
        )

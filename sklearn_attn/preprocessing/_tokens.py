"""Any scikit-learn transformer, applied to every token."""

from copy import deepcopy

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._backend import to_numpy
from ..ragged import RaggedArray, all_at_once, check_ragged, is_table, set_features, validate_ragged
from ._common import RaggedTagsMixin, token_feature_names


def _inner_has(method):
    """Tell whether the inner transformer, fitted or not, has a method."""
    return lambda self: hasattr(getattr(self, "transformer_", self.transformer), method)


class TokenTransformer(RaggedTagsMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
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

    def fit(self, X, y=None, **params):
        """Fit a clone of the inner transformer on all tokens.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens, in any form that the regressors take.
        y : array-like of shape (n,) or (n, n_outputs), optional
            Given to the inner transformer, repeated for every token of a sequence.
        **params : dict
            Metadata such as `sample_weight`, one entry per sequence, with
            ``sklearn.set_config(enable_metadata_routing=True)``: what the inner transformer requests, it
            is given, repeated likewise.

        Returns
        -------
        self
            Unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `transformer` is not a transformer, or X holds no sequences.
        ValueError
            If X is not valid, y has another length, metadata are passed without routing, or the inner
            transformer raises it.
        """
        checked, inner, args = self._prepare(X, y)
        inner.fit(*args, **self._route("fit", "fit", params, checked))
        return self._keep(X, checked, inner)

    def fit_transform(self, X, y=None, **params):
        """Take what `fit` takes, return what `transform` returns.

        It calls the `fit_transform` of the inner transformer, where it has one.
        """
        checked, inner, args = self._prepare(X, y)
        if hasattr(inner, "fit_transform"):
            routed = self._route("fit_transform", "fit_transform", params, checked)
            tokens = inner.fit_transform(*args, **routed)
        else:
            inner.fit(*args, **self._route("fit_transform", "fit", params, checked))
            tokens = inner.transform(args[0])
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
        checked = validate_ragged(self, X, reset=False, ensure_finite=self._ensure_finite(X)).to_device("cpu")
        return self._repack(self.transformer_.transform(_tokens(X, checked)), X, checked)

    @available_if(_inner_has("inverse_transform"))
    def inverse_transform(self, X):
        """Undo `transform`, where the inner transformer can: n_features_out features in, D out."""
        check_is_fitted(self)
        checked = check_ragged(X, ensure_finite=self._ensure_finite(X)).to_device("cpu")
        return self._repack(self.transformer_.inverse_transform(_tokens(X, checked)), X, checked)

    @available_if(_inner_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
        """Name the features of a transformed token as the inner transformer does: (n_features_out,) str."""
        names = token_feature_names(self, input_features)
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
        checked = check_ragged(X, ensure_finite=self._ensure_finite(X)).to_device("cpu")
        args = [_tokens(X, checked)]
        if y is not None:
            y = to_numpy(y)
            check_consistent_length(checked, y)
            args.append(np.repeat(y, checked.lengths, axis=0))
        return checked, clone(self.transformer), args

    def get_metadata_routing(self):
        """Say which metadata the inner transformer requests.

        Returns
        -------
        MetadataRouter
        """
        one_step = "fit_transform" if hasattr(self.transformer, "fit_transform") else "fit"
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping.add(caller="fit_transform", callee=one_step)
        return MetadataRouter(owner=self).add(transformer=self.transformer, method_mapping=mapping)

    def _route(self, caller, callee, params, checked):
        """Return what the inner transformer is given of the metadata, repeated for every token."""
        params = {name: values for name, values in params.items() if values is not None}
        if not params:
            return {}
        if not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"{', '.join(params)} reaches the inner transformer with metadata routing only: "
                "sklearn.set_config(enable_metadata_routing=True), and transformer.set_fit_request(...)."
            )
        routed = process_routing(self, caller, **params).transformer[callee]
        for name, values in routed.items():
            if np.ndim(values) and len(values) != len(checked):
                raise ValueError(f"{name} has {len(values)} entries for {len(checked)} sequences.")
        return {
            name: np.repeat(to_numpy(values), checked.lengths, axis=0) if np.ndim(values) else values
            for name, values in routed.items()
        }

    def _ensure_finite(self, X):
        may_be_padded = getattr(X, "ndim", 0) == 3  # with NaN, which then is not to be imputed or scaled
        return "allow-nan" if get_tags(self).input_tags.allow_nan and not may_be_padded else True

    def _keep(self, X, checked, inner):
        with all_at_once(self) as fitted:
            set_features(fitted, X, checked)
            fitted.transformer_ = inner
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

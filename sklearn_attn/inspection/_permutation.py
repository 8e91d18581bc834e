"""How much a score suffers when a part of the tokens is shuffled."""

from numbers import Integral

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state

from .._backend import to_numpy
from ..ragged import RaggedArray, check_ragged

_BY = ("feature", "position")


def token_permutation_importance(
    estimator, X, y, *, by="feature", n_repeats=5, scoring=None, sample_weight=None, n_jobs=None,
    random_state=None,
):  # fmt: skip
    """Permutation importance of the features of tokens, or of their positions, for ragged X.

    scikit-learn's ``permutation_importance`` shuffles columns of a table; a set of sequences is one column.
    Here the importance of feature j, or of position l, is::

        score(X) - score(X with part j or l of the tokens shuffled)

    Feature j is shuffled over all tokens of all sequences. Position l is shuffled over the sequences that are
    long enough to have it: the whole token at l moves to another of them. Attention itself does not see the
    order of tokens, so that positions matter only where what stands there does, as the title of a document.

    Parameters
    ----------
    estimator : fitted estimator
        An attention regressor or classifier, a Pipeline of transformers of this package, or any that takes
        a RaggedArray.
    X : RaggedArray, list, tuple or array
        n sequences in any form that `fit` takes; held-out ones measure what generalises. Names of features
        are lost.
    y : array-like of shape (n,)
    by : {"feature", "position"}, default="feature"
    n_repeats : int, default=5
        How often each part is shuffled.
    scoring : str or callable, optional
        As in scikit-learn; by default the estimator's own score, R2 or, of a classifier, accuracy.
    sample_weight : array-like of shape (n,), optional
        Weights of the sequences in the score.
    n_jobs : int, optional
        Parts that are scored at the same time, by joblib.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Bunch
        ``importances`` of shape (n_parts, n_repeats), ``importances_mean`` and ``importances_std`` of shape
        (n_parts,), as scikit-learn's. There are D features, or as many positions as the longest sequence has
        tokens; a position that one sequence alone has cannot be shuffled, and its importance is 0.

    Raises
    ------
    ValueError
        If `by` is neither, `n_repeats` is below 1, there are several scores, or X is not valid.

    References
    ----------
    L. Breiman, Random Forests, Machine Learning 45 (2001), section 10.

    Examples
    --------
    >>> from sklearn_attn import SoftmaxAttentionRegressor
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> from sklearn_attn.inspection import token_permutation_importance
    >>> X, y = make_spiked_slr(n_samples=500, n_features=10, signal=9.0, length=4, random_state=0)
    >>> model = SoftmaxAttentionRegressor(alpha=0.1).fit(X[:400], y[:400])
    >>> token_permutation_importance(model, X[400:], y[400:], random_state=0).importances_mean.shape
    (10,)
    """
    if by not in _BY:
        raise ValueError(f"by must be 'feature' or 'position', got {by!r}.")
    if isinstance(n_repeats, bool) or not isinstance(n_repeats, Integral) or n_repeats < 1:
        raise ValueError(f"n_repeats must be a positive integer, got {n_repeats!r}.")
    if isinstance(scoring, list | tuple | set | dict):
        raise ValueError(f"scoring must be one name or callable, got {scoring!r}.")
    X = check_ragged(X, ensure_finite=False)  # the estimator may impute
    X = RaggedArray(to_numpy(X.values), X.offsets)
    scorer = check_scoring(estimator, scoring=scoring)
    weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
    baseline = scorer(estimator, X, y, **weights)
    n_parts = X.n_features if by == "feature" else int(X.lengths.max())
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=n_parts)
    shuffle = _shuffled_feature if by == "feature" else _shuffled_position

    def losses(part):
        stream = np.random.RandomState(seeds[part])
        return [
            baseline - scorer(estimator, shuffle(X, part, stream), y, **weights) for _ in range(n_repeats)
        ]

    importances = np.array(Parallel(n_jobs)(delayed(losses)(part) for part in range(n_parts)))
    return Bunch(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
    )


def _shuffled_feature(X, feature, stream):
    values = X.values.copy()
    values[:, feature] = values[stream.permutation(X.n_tokens), feature]
    return RaggedArray(values, X.offsets)


def _shuffled_position(X, position, stream):
    rows = X.offsets[:-1][X.lengths > position] + position
    values = X.values.copy()
    values[rows] = values[stream.permutation(rows)]
    return RaggedArray(values, X.offsets)

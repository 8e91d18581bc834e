"""A bundled real task: one film-review sentence in a haystack of newspaper sentences."""

from importlib.resources import files
from numbers import Integral

import numpy as np
from sklearn.utils import Bunch, check_random_state, check_scalar

from ..ragged import RaggedArray

_SUBSETS = ("train", "test")


def load_review_needles(
    n_documents=None, length=(4, 12), random_state=0, return_X_y=False, *, subset="train"
):
    """Load documents in which one sentence decides the target.

    A document is `length` sentences, all from newspapers but one film review at a random place; the
    target is that review's mean human sentiment rating, from -4 to 4. Every sentence is a
    384-dimensional embedding. The sentences of the training and of the test half are disjoint: each half owns
    2,000 reviews and 991 newspaper sentences. Of newspaper sentences with the same embedding the first
    alone is used.

    Parameters
    ----------
    n_documents : int, optional
        At most 2,000 per half; every review is used at most once. By default all of them.
    length : int or (int, int), default=(4, 12)
        Number of sentences of a document, or the first and the last of its possible numbers, which
        are equally likely; `SLRProblem` reads a pair as two lengths instead. At most 991:
        within a document no newspaper sentence appears twice.
    random_state : int, RandomState instance or None, default=0
        Draws lengths, newspaper sentences and places.
    return_X_y : bool, default=False
        Whether to return (data, target) alone.
    subset : {"train", "test", "all"}, default="train"
        Which half; "all" is the training documents followed by the test documents, `n_documents` of each.

    Returns
    -------
    Bunch
        data : RaggedArray of float32, the documents;
        target : ndarray of float64 of shape (n,), the ratings;
        location : ndarray of int64 of shape (n,), the index of the review in its document;
        needle : ndarray of int64 of shape (n,), which review it is, from 0 to 3,999;
        sentence : ndarray of int64 of shape (n_tokens,), which sentence each token is: reviews as in
        `needle`, newspaper sentences from 4,000 to 5,999;
        DESCR : str, where the data come from.
    (data, target) : tuple
        With `return_X_y`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is not valid; the message says what to pass.

    References
    ----------
    .. [1] C. J. Hutto, E. Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of
       Social Media Text", ICWSM 2014.

    Examples
    --------
    >>> from sklearn_attn.datasets import load_review_needles
    >>> documents = load_review_needles(100, length=(4, 12))
    >>> documents.data
    RaggedArray(n=100, n_tokens=802, n_features=384, dtype=float32)
    """
    if subset not in (*_SUBSETS, "all"):
        raise ValueError(f"subset must be 'train', 'test' or 'all', got {subset!r}.")
    low, high = _check_length(length)
    folder = files("sklearn_attn.datasets") / "data"
    with (folder / "review_needles.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        needle, rating, hay, scale = (arrays[k] for k in ("needle", "needle_rating", "hay", "scale"))
    hay_rows = np.sort(np.unique(hay, axis=0, return_index=True)[1])
    half_needle, half_hay = len(needle) // 2, len(hay_rows) // 2
    if high > half_hay:
        raise ValueError(f"length must be at most {half_hay}, the newspaper sentences of a half, got {high}.")
    if n_documents is None:
        n_documents = half_needle
    check_scalar(n_documents, "n_documents", Integral, min_val=1)
    if n_documents > half_needle:
        raise ValueError(
            f"n_documents must be at most {half_needle}, the reviews of a half, got {n_documents}."
        )
    # Each half has a stream of its own, so that "train" is the same alone and in "all".
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=len(_SUBSETS))
    parts = [
        _draw(
            np.arange(half * half_needle, half * half_needle + n_documents),
            len(needle) + hay_rows[half * half_hay : (half + 1) * half_hay],
            (low, high),
            np.random.RandomState(seeds[half]),
        )
        for half, name in enumerate(_SUBSETS)
        if subset in (name, "all")
    ]
    sentence, lengths, location, chosen = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    embeddings = np.concatenate([needle, hay])
    data = RaggedArray.from_flat(embeddings[sentence] * scale, lengths=lengths)
    target = rating[chosen].astype(np.float64)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        location=location,
        needle=chosen,
        sentence=sentence,
        DESCR=(folder / "review_needles.rst").read_text(encoding="utf-8"),
    )


def _draw(needles, hay, length, stream):
    """Choose the sentences of one document per needle.

    Returns the sentence of every token, the lengths, the place of the needle in its document, and `needles`.
    """
    lengths = stream.randint(length[0], length[1] + 1, size=needles.size)
    location = stream.randint(lengths)
    documents = []
    for chosen, n, place in zip(needles, lengths, location, strict=True):
        document = stream.choice(hay, size=n, replace=False)
        document[place] = chosen
        documents.append(document)
    return np.concatenate(documents), lengths, location, needles


def _check_length(length):
    """Return the smallest and the largest length."""
    pair = (length, length) if isinstance(length, Integral) else length
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"length must be an int or a pair (first, last) of ints, got {length!r}.")
    for bound in pair:
        check_scalar(bound, "length", Integral, min_val=1)
    if pair[0] > pair[1]:
        raise ValueError(f"length must be a pair (first, last) with first <= last, got {length!r}.")
    return int(pair[0]), int(pair[1])

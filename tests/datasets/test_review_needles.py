"""The bundled real data: what a document is, and what the halves share."""

from importlib.resources import files

import numpy as np
import pytest

from sklearn_attn.datasets import load_review_needles


@pytest.fixture(scope="module")
def raw():
    path = files("sklearn_attn.datasets") / "data" / "review_needles.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def test_a_document_hides_one_review(raw):
    documents = load_review_needles(300, length=(4, 12), random_state=1)
    X = documents.data
    assert (len(X), X.n_features, X.values.dtype) == (300, 384, np.float32)
    assert set(np.unique(X.lengths)) == set(range(4, 13))
    starts = X.offsets[:-1]
    sentence = documents.sentence
    np.testing.assert_array_equal(sentence[starts + documents.location], documents.needle)
    assert np.count_nonzero(sentence < 4000) == 300
    for document in X:
        assert len(np.unique(document, axis=0)) == len(document)
    np.testing.assert_array_equal(documents.target, raw["needle_rating"][documents.needle])
    embeddings = np.concatenate([raw["needle"], raw["hay"]]) * raw["scale"]
    np.testing.assert_array_equal(X.values, embeddings[sentence])
    assert len(set(documents.needle)) == 300


def test_the_place_is_uniform():
    documents = load_review_needles(2000, length=5)
    np.testing.assert_allclose(np.bincount(documents.location) / 2000, 0.2, atol=0.03)


def test_embeddings_are_unit_vectors_and_ratings_span_the_scale():
    documents = load_review_needles()
    assert len(documents.data) == 2000
    np.testing.assert_allclose(np.linalg.norm(documents.data.values, axis=1), 1.0, atol=0.02)
    assert -4 <= documents.target.min() < -2 < 2 < documents.target.max() <= 4


def test_the_halves_share_no_sentence():
    train, test = (load_review_needles(length=(20, 60), subset=subset) for subset in ("train", "test"))
    assert not set(train.sentence) & set(test.sentence)
    embeddings = [{row.tobytes() for row in half.data.values} for half in (train, test)]
    assert not embeddings[0] & embeddings[1]


def test_all_is_train_and_test():
    train, test, both = (load_review_needles(50, subset=subset) for subset in ("train", "test", "all"))
    np.testing.assert_array_equal(both.sentence, np.concatenate([train.sentence, test.sentence]))
    np.testing.assert_array_equal(both.target, np.concatenate([train.target, test.target]))


def test_is_deterministic_in_random_state():
    a, b, c = (load_review_needles(50, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.data.values, b.data.values)
    assert a.sentence.tolist() != c.sentence.tolist()
    X, y = load_review_needles(50, random_state=3, return_X_y=True)
    np.testing.assert_array_equal(X.values, a.data.values)
    np.testing.assert_array_equal(y, a.target)


def test_names_its_sources():
    text = load_review_needles(1).DESCR
    licences = (files("sklearn_attn.datasets") / "data" / "LICENSES.txt").read_text(encoding="utf-8")
    for word in ("Hutto", "MIT", "all-MiniLM-L6-v2", "Apache"):
        assert word in text
        assert word in licences


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_documents": 0}, ValueError, "n_documents == 0"),
        ({"n_documents": 2001}, ValueError, "at most 2000"),
        ({"n_documents": 1.5}, TypeError, "n_documents"),
        ({"length": 992}, ValueError, "at most 991"),
        ({"length": 0}, ValueError, "length == 0"),
        ({"length": (5, 4)}, ValueError, "first <= last"),
        ({"length": (1, 2, 3)}, TypeError, "pair"),
        ({"length": "long"}, TypeError, "pair"),
        ({"subset": "validation"}, ValueError, "'train', 'test' or 'all'"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        load_review_needles(**parameters)

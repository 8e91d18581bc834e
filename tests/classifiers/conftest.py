"""Every classifier, and bags whose class one token decides."""

import numpy as np
import pytest

from sklearn_attn import RaggedArray
from sklearn_attn.classifiers import CLASSIFIERS


@pytest.fixture(params=CLASSIFIERS)
def Classifier(request):
    return CLASSIFIERS[request.param]


@pytest.fixture(params=["softmax", "softplus"])
def Normalised(request):
    return CLASSIFIERS[request.param]


def _draw_bags(n, K, seed):
    """Sequences of 1 to 6 tokens with 5 features: the class is in the token with the largest first feature."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, n)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 5)), lengths=lengths)
    deciding = np.array([x[x[:, 0].argmax(), 1:4] for x in X])
    scores = (
        3.0 * deciding[:, :K] if K > 2 else 3.0 * np.stack([0.0 * deciding[:, 0], deciding[:, 0]], axis=1)
    )
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


@pytest.fixture(params=[2, 3], ids=["two classes", "three classes"])
def bags(request):
    return _draw_bags(150, request.param, seed=2)


@pytest.fixture
def draw_bags():
    return _draw_bags

"""Every regressor, and a spiked problem with an answer built in."""

from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_attn import RaggedArray
from sklearn_attn.regressors import REGRESSORS


@pytest.fixture(params=REGRESSORS)
def Regressor(request):
    return REGRESSORS[request.param]


@pytest.fixture(params=["softmax", "softplus"])
def Normalised(request):
    return REGRESSORS[request.param]


@pytest.fixture
def noisy():
    """Eighty sequences of 1 to 6 tokens with 4 features, whose y depends on their largest first feature."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 7, 80)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), 4)), lengths=lengths)
    y = np.array([x[x[:, 0].argmax(), 1] for x in X]) + 0.1 * rng.standard_normal(80) + 1.5
    return X, y


@pytest.fixture(scope="session")
def spiked():
    """Spiked data with directions key and value, 3000 sequences to fit and 1000 to test."""
    rng = np.random.default_rng(5)
    D, signal = 30, 6.0
    key, value = (v * np.sqrt(D) / np.linalg.norm(v) for v in rng.standard_normal((2, D)))
    lengths = rng.integers(2, 6, 4000)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), D)), lengths=lengths)
    location = rng.integers(lengths)
    values = X.values.copy()
    hidden = X.offsets[:-1] + location
    values[hidden] += np.sqrt(signal / D) * key
    X = RaggedArray(values, X.offsets)
    y = values[hidden] @ value / np.sqrt(D)
    return SimpleNamespace(
        train=(X[:3000], y[:3000]), test=(X[3000:], y[3000:]), location=location[3000:], key=key, value=value, D=D,
        signal=signal,
    )  # fmt: skip

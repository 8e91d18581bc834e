"""Fixtures of the whole suite."""

import os

# scikit-learn's array-API dispatch needs this before SciPy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import matplotlib as mpl
import numpy as np
import pytest
import sklearn

from sklearn_attn import RaggedArray

mpl.use("Agg")


@pytest.fixture(params=[False, True], ids=["dispatch off", "dispatch on"])
def array_api_dispatch(request):
    """Run the test with scikit-learn's array-API dispatch off and on.

    Where it is on, tools of scikit-learn before 1.9 refuse lists, frames and Series.
    """
    if request.param:
        pytest.importorskip(
            "sklearn", minversion="1.9", reason="dispatch takes lists from scikit-learn 1.9 on"
        )
    with sklearn.config_context(array_api_dispatch=request.param):
        yield request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def sequences(rng):
    """Twelve sequences of 1 to 9 tokens with 3 features."""
    lengths = [3, 1, 9, 2, 2, 5, 1, 4, 7, 3, 6, 2]
    return [rng.standard_normal((length, 3)) for length in lengths]


@pytest.fixture
def ragged(sequences):
    return RaggedArray.from_list(sequences)

"""Fixtures of the whole suite."""

import os

# scikit-learn's array-API dispatch needs this before SciPy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import array_api_strict
import matplotlib as mpl
import numpy as np
import pytest
import sklearn

from sklearn_attn import RaggedArray
from sklearn_attn._backend import is_array_api, to_numpy
from sklearn_attn.regressors import _base, _cv, _fit, _model

mpl.use("Agg")

# How the tokens of a NumPy array are moved to another namespace.
MOVES = {
    "strict": lambda values: array_api_strict.asarray(np.array(values)),
    "second device": lambda values: array_api_strict.asarray(
        np.array(values), device=array_api_strict.Device("device1")
    ),
    "torch": lambda values: pytest.importorskip("torch").tensor(np.array(values)),
}


def pytest_addoption(parser):
    parser.addoption(
        "--namespace", choices=MOVES, help="run estimators on arrays of another namespace, as on a GPU"
    )


@pytest.fixture(autouse=True)
def namespace(request, monkeypatch):
    """With ``--namespace``: fit and predict on moved tokens, and hand results to the tests in NumPy."""
    name = request.config.getoption("--namespace")
    if name is None:
        yield
        return
    if name == "torch":
        pytest.importorskip("torch").set_num_threads(1)

    def moved(check):
        def checked(*args, **options):
            X = check(*args, **options)
            return RaggedArray(MOVES[name](X.values), X.offsets)

        return checked

    for module, function in [
        (_base, "check_ragged"), (_base, "validate_ragged"), (_fit, "check_ragged"), (_cv, "check_ragged"),
        (_model, "validate_ragged"),
    ]:  # fmt: skip
        monkeypatch.setattr(module, function, moved(getattr(module, function)))
    cast, keep = _model.AttentionModel._cast, _model.AttentionModel._keep

    def kept(self, *args, **options):
        parameters = keep(self, *args, **options)
        held = {key: to_numpy(value) for key, value in vars(self).items() if is_array_api(value)}
        vars(self).update(held)
        return parameters

    monkeypatch.setattr(_model.AttentionModel, "_cast", staticmethod(lambda *args: to_numpy(cast(*args))))
    monkeypatch.setattr(_model.AttentionModel, "_keep", kept)
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def on_host(request):
    """Skip where --namespace moves the tokens: the Gauss-Newton matrix is for those on the host."""
    if request.config.getoption("--namespace") is not None:
        pytest.skip("the Gauss-Newton matrix is for tokens on the host")


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

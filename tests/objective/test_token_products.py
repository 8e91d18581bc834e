"""The vectorised products of tokens with vectors, for every number of features and tokens that is left over."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sklearn_attn.objective._lanes import LANES
from sklearn_attn.objective._token_products import add_rows, dot_rows

every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])
every_size = pytest.mark.parametrize("D", [1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 2, 64])


def problem(dtype, D, n_tokens=9):
    rng = np.random.default_rng(D)
    # The array goes on after the tokens, with numbers that spoil whatever reads them.
    X = np.full((n_tokens + 2, D), np.nan, dtype=dtype)
    X[1:-1] = rng.standard_normal((n_tokens, D))
    return X, rng.standard_normal((2, D)), rng.standard_normal((2, n_tokens))


@every_dtype
@every_size
def test_products_with_two_vectors(dtype, D):
    X, vectors, _ = problem(dtype, D)
    for n in range(1, 10):
        out = np.full((2, n + 1), 7.0)
        dot_rows(X, 1, 1 + n, *vectors, out[0], out[1], 0)
        expected = X[1 : 1 + n].astype(np.float64) @ vectors.T
        np.testing.assert_allclose(out[:, :n], expected.T, rtol=1e-13, atol=1e-13)
        assert (out[:, n] == 7.0).all()


@every_dtype
@every_size
def test_sums_with_two_coefficients(dtype, D):
    X, _, coefficients = problem(dtype, D)
    for n in range(1, 10):
        sums = np.full((2, D + 1), 7.0)
        add_rows(X, 1, 1 + n, *coefficients, sums[0, :D], sums[1, :D], 0)
        expected = 7.0 + coefficients[:, :n] @ X[1 : 1 + n].astype(np.float64)
        np.testing.assert_allclose(sums[:, :D], expected, rtol=1e-13, atol=1e-13)
        assert (sums[:, D] == 7.0).all()


def test_what_comes_ahead_changes_nothing():
    X, vectors, coefficients = problem(np.float64, 20)
    results = []
    for ahead in (0, 1, 5, 1000):  # the last one lies outside of X
        out, sums = np.empty((2, 5)), np.zeros((2, 20))
        dot_rows(X, 1, 6, *vectors, out[0], out[1], ahead)
        add_rows(X, 1, 6, *coefficients, sums[0], sums[1], ahead)
        results.append(np.concatenate([out, sums], axis=1))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_infinite_tokens_stay_infinite():
    X = np.ones((1, LANES + 3))
    X[0, -1] = np.inf
    out = np.empty((2, 1))
    dot_rows(X, 0, 1, np.ones(LANES + 3), np.zeros(LANES + 3), out[0], out[1], 0)
    assert out[0, 0] == np.inf
    assert np.isnan(out[1, 0])


@pytest.mark.slow
def test_a_machine_with_narrower_registers(tmp_path):
    features = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    code = (
        "import sys, pytest\n"
        "from sklearn_attn.objective._lanes import LANES\n"
        "assert LANES == 4\n"
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {__file__!r}]))"
    )
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | features)
    assert run.returncode == 0

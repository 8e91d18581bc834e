"""Replica theory of ERM: reference values, exact cases, identities, and what it does where it must warn."""

import json
import math
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from theory_oracles import INF, draw_sequences, ridge_theory, weights

from sklearn_attn._compiled import ACTIVATION_CODES
from sklearn_attn.activations import ACTIVATIONS, get_activation
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import (
    Overlaps,
    ReplicaSymmetryWarning,
    _expectations,
    population_risk,
    replica_erm,
    risk_at,
)
from sklearn_attn.theory._proximal import proximal
from sklearn_attn.theory._stability import loss_hessian

SPIKED = SLRProblem("spiked", 2.0, 3)
REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "erm.json"
solve = lru_cache(replica_erm)


def order_parameters(result):
    return np.array(
        [result.m_key, result.m_value, result.q_key, result.q_value, result.V_key, result.V_value]
    )


# -- reference values --------------------------------------------------------------------------------------


def rows():
    if not REFERENCE.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"{REFERENCE} is not part of a checkout"))]
    return [
        pytest.param(row, id=f"{row['activation']}-{row['task']}-{row['sample_ratio']}")
        for row in json.loads(REFERENCE.read_text())
    ]


@pytest.mark.parametrize("row", rows())
def test_against_an_independent_slow_implementation(row):
    length = row["length"] if isinstance(row["length"], int) else tuple(row["length"])
    problem = SLRProblem(row["task"], float(row["signal"]), length, row["noise"])
    result = solve(
        problem, row["activation"], row["sample_ratio"], row["alpha"], row["alpha_key"], init="informed"
    )
    assert result.converged
    assert result.stability < 1.0
    for name, (value, _) in row["values"].items():
        # its README takes 0.004 as the uncertainty of an error: twice that, and more for overlaps
        tolerance = 0.008 if name.endswith("error") else 0.02
        assert getattr(result, name) == pytest.approx(value, abs=tolerance), name


# -- exact cases -------------------------------------------------------------------------------------------


def test_the_oracle_of_ridge_regression_is_right():
    # against ridge itself in 400 dimensions: 6 repetitions have a spread of about 1 %
    n, alpha, noise, D = 1.5, 0.4, 0.5, 400
    measured = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((int(n * D), D)) / math.sqrt(D)
        v_star = rng.standard_normal(D)
        y = x @ v_star + noise * rng.standard_normal(len(x))
        inverse = np.linalg.inv(x.T @ x + alpha * np.eye(D))
        v = inverse @ (x.T @ y)
        measured.append(
            [np.sum((v - v_star) ** 2) / D + noise**2, np.mean((y - x @ v) ** 2), v @ v_star / D, v @ v / D,
             np.trace(inverse) / D]
        )  # fmt: skip
    np.testing.assert_allclose(
        list(ridge_theory(n, alpha, noise).values()), np.mean(measured, axis=0), rtol=0.03
    )


ONE_TOKEN = [(task, "softmax", *setting) for task in ("spiked", "max")
             for setting in ((4.0, 1.0, 0.0), (2.0, 0.3, 0.5), (0.5, 0.5, 0.3))]  # fmt: skip
ONE_TOKEN.append(("max", "softplus", 4.0, 1.0, 0.1))


@lru_cache
def solve_one_token(task, name, sample_ratio, alpha, noise):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return replica_erm(SLRProblem(task, 2.0, 1, noise), name, sample_ratio, alpha, max_iter=60)


@pytest.mark.parametrize(("task", "name", "sample_ratio", "alpha", "noise"), ONE_TOKEN)
def test_one_token_is_ridge_regression(task, name, sample_ratio, alpha, noise):
    result = solve_one_token(task, name, sample_ratio, alpha, noise)
    exact = ridge_theory(sample_ratio, alpha, noise)
    for quantity, value in exact.items():
        assert getattr(result, quantity) == pytest.approx(value, abs=2e-3), quantity
    # S is a number: n (V_v / (1 + V_v))^2
    V = exact["V_value"]
    assert result.stability == pytest.approx(sample_ratio * (V / (1.0 + V)) ** 2, abs=2e-3)
    # the loss does not know the key
    assert result.m_key == pytest.approx(0.0, abs=5e-3)
    assert result.q_key == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(("task", "name", "sample_ratio", "alpha", "noise"), ONE_TOKEN)
def test_one_token_leaves_the_key_to_its_penalty(task, name, sample_ratio, alpha, noise):
    result = solve_one_token(task, name, sample_ratio, alpha, noise)
    assert result.converged
    assert result.V_key == pytest.approx(1.0 / alpha, rel=2e-3)
    assert 1e-7 < result.error_estimate < 2e-3  # the test error is off by some 1e-4


@pytest.mark.parametrize("name", ["softmax", "linear", "softplus"])
def test_many_samples_tend_to_the_population_risk(name):
    best = population_risk(SPIKED, name).risk
    gaps = [solve(SPIKED, name, n, init="informed", n_points=2**12).test_error - best for n in (10.0, 40.0)]
    assert 0.0 < gaps[1] < 0.07
    # the excess falls as 1 / n from some n on
    assert gaps[1] < 0.45 * gaps[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus"])
def test_very_many_samples(name):
    best = population_risk(SPIKED, name, 0.0).risk
    result = replica_erm(SPIKED, name, 400.0)
    assert result.converged
    assert best - 1e-3 < result.test_error < best + 0.01
    assert 1e-6 < result.error_estimate < 5e-3


# -- the equations of `replica_erm`, averaged in the plainest way ---------------------------------------------


def plain_draws(problem, name, x, n, rng):
    """Fields as `replica_erm` defines them, from the data model itself; one length only."""
    m_k, m_v, q_k, q_v, V_k, V_v = x
    (L,) = problem.lengths.tolist()
    key, value = math.sqrt(2.0) * np.eye(2)  # two features are enough for chi* and z*
    tokens, y, _ = draw_sequences(problem, L, n, key, value, rng)
    chi_star, z_star = tokens[..., 0], tokens[..., 1]
    zeta, zeta_z = rng.standard_normal((2, n, L))
    o = m_k * chi_star + math.sqrt(q_k - m_k**2) * zeta
    w = m_v * z_star + math.sqrt(q_v - m_v**2) * zeta_z
    chi, sigma, lam = o.copy(), np.empty_like(o), np.empty(n)
    proximal(ACTIVATION_CODES[name], ACTIVATIONS[name].normalised, 0.0, y, w, o, V_k, V_v, True, 1e-8, 0, n,
             chi, sigma, lam)  # fmt: skip
    f_chi, f_z = (chi - o) / V_k, lam[:, None] * weights(name, chi)
    return chi_star, z_star, zeta, zeta_z, chi, w, lam, f_chi, f_z


@pytest.mark.parametrize(
    ("problem", "name", "sample_ratio", "alpha"),
    [
        (SPIKED, "softmax", 4.0, 1.0),
        (SPIKED, "linear", 4.0, 1.0),
        (SLRProblem("max", INF, 3, 0.3), "softmax", 8.0, 0.5),
        (SLRProblem("max", 2.0, 2, 0.3), "erf", 6.0, 1.0),
        (SLRProblem("spiked", 1.0, 4), "softplus", 4.0, 0.5),
    ],
)
def test_a_plain_step_stays_at_the_fixed_point(problem, name, sample_ratio, alpha):
    result = solve(problem, name, sample_ratio, alpha)
    x = order_parameters(result)
    m_k, m_v, q_k, q_v = x[:4]
    n = 60_000
    chi_star, z_star, zeta, zeta_z, _, _, lam, f_chi, f_z = plain_draws(
        problem, name, x, n, np.random.default_rng(0)
    )
    # per draw: V_hat, q_hat, m_hat over n, of the key and of the value
    Vs = np.stack([-np.sum(f_chi * zeta, axis=1) / math.sqrt(q_k - m_k**2),
                   -np.sum(f_z * zeta_z, axis=1) / math.sqrt(q_v - m_v**2)])  # fmt: skip
    qs = np.stack([np.sum(f_chi**2, axis=1), np.sum(f_z**2, axis=1)])
    ms = (
        np.stack([np.sum(f_chi * chi_star, axis=1), np.sum(f_z * z_star, axis=1)])
        + np.array([[m_k], [m_v]]) * Vs
    )
    V_hat, q_hat, m_hat = (sample_ratio * numbers.mean(axis=1) for numbers in (Vs, qs, ms))
    V = 1.0 / (V_hat + alpha)
    # linear error propagation of the three averages into the step's outcome
    dV = sample_ratio * (Vs - Vs.mean(axis=1, keepdims=True))
    dq = sample_ratio * (qs - qs.mean(axis=1, keepdims=True))
    dm = sample_ratio * (ms - ms.mean(axis=1, keepdims=True))
    V_, m_, q_ = V[:, None], m_hat[:, None], q_hat[:, None]
    for new, spread, old, label in (
        (m_hat * V, dm * V_ - m_ * V_**2 * dV, x[0:2], "m"),
        (
            (m_hat**2 + q_hat) * V**2,
            2.0 * m_ * V_**2 * dm + V_**2 * dq - 2.0 * (m_**2 + q_) * V_**3 * dV,
            x[2:4],
            "q",
        ),
        (V, -(V_**2) * dV, x[4:6], "V"),
    ):
        error = spread.std(axis=1) / math.sqrt(n)
        assert np.all(error < 0.02 * np.abs(old) + 0.005), label  # the comparison can tell something
        # 4 standard errors, and the fixed point's own tolerance and quasi-random error
        np.testing.assert_array_less(
            np.abs(new - old), 4.0 * error + 2e-3 * (1.0 + np.abs(old)), err_msg=label
        )
    assert np.mean(lam**2) == pytest.approx(
        result.train_error, abs=4.0 * np.std(lam**2) / math.sqrt(n) + 2e-3
    )


@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus"])
def test_derivatives_of_the_fields_give_the_same_susceptibilities(name):
    # Stein's lemma: E[sum f zeta] / sd = E[sum df / domega], in a stable case without jumps to speak of
    result = solve(SPIKED, name, 4.0)
    x = order_parameters(result)
    n, L = 20_000, 3
    *_, chi, w, lam, f_chi, f_z = plain_draws(SPIKED, name, x, n, np.random.default_rng(1))
    del f_chi
    sigma = weights(name, chi)
    V = np.repeat(x[4:6], L)
    z_hat = w + x[5] * f_z
    H = loss_hessian(get_activation(name), chi, z_hat, sigma, lam)
    derivative = -np.linalg.solve(np.eye(2 * L) + H * V, H)
    diagonal = np.diagonal(derivative, axis1=1, axis2=2).reshape(n, 2, L).sum(axis=2)
    V_hat = -4.0 * diagonal.mean(axis=0)
    error = 4.0 * diagonal.std(axis=0) / math.sqrt(n)
    np.testing.assert_array_less(np.abs(V_hat - (1.0 / x[4:6] - 1.0)), 4.5 * error + 0.01)
    # and the replicon is that of these derivatives; its average has a heavier tail
    squares = (derivative**2).reshape(n, 2, L, 2, L).sum(axis=(2, 4))
    S = 4.0 * squares.mean(axis=0) * (x[4:6] ** 2)[:, None]
    assert result.stability == pytest.approx(np.abs(np.linalg.eigvals(S)).max(), rel=0.06)


@pytest.mark.parametrize("name", ["softmax", "linear", "erf", "softplus"])
def test_df_domega_by_differences_of_the_proximal_point(name):
    # the matrix -(I + H V)^{-1} H at samples away from jumps
    rng = np.random.default_rng(5)
    n, L, V_k, V_v = 40, 3, 0.6, 0.3
    y, fields = rng.standard_normal(n), rng.standard_normal((n, 2 * L))

    def f(fields):
        o, w = fields[:, :L].copy(), fields[:, L:].copy()
        chi, sigma, lam = o.copy(), np.empty_like(o), np.empty(n)
        proximal(ACTIVATION_CODES[name], ACTIVATIONS[name].normalised, 0.2, y, w, o, V_k, V_v, True, 1e-12, 0, n,
                 chi, sigma, lam)  # fmt: skip
        return np.hstack([(chi - o) / V_k, lam[:, None] * sigma]), chi, sigma, lam

    _, chi, sigma, lam = f(fields)
    H = loss_hessian(get_activation(name, 0.2), chi, fields[:, L:] + V_v * lam[:, None] * sigma, sigma, lam)
    exact = -np.linalg.solve(np.eye(2 * L) + H * np.repeat([V_k, V_v], L), H)
    h = 3e-4  # the proximal point is exact to 1e-8 at best, where its objective shows no decrease
    differences = np.stack(
        [(f(fields + h * e)[0] - f(fields - h * e)[0]) / (2 * h) for e in np.eye(2 * L)], axis=2
    )
    smooth = np.abs(differences).max(axis=(1, 2)) < 100.0
    assert smooth.sum() >= 38
    np.testing.assert_allclose(differences[smooth], exact[smooth], rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("problem", "name"),
    [(SPIKED, "softmax"), pytest.param(SLRProblem("spiked", 2.0, 2, 0.3), "linear", marks=pytest.mark.slow)],
)
def test_the_objective_knows_its_derivatives(problem, name):
    # by the envelope theorem d objective / d alpha = q_value / 2, and q_key / 2 for alpha_key
    h = 0.05

    def erm(alpha, alpha_key):
        return replica_erm(problem, name, 4.0, alpha, alpha_key, "informed")

    at = erm(1.0, 1.0)
    by_value = [erm(1.0 + s * h, 1.0).objective for s in (1, -1)]
    by_key = [erm(1.0, 1.0 + s * h).objective for s in (1, -1)]
    # the averages over draws are no gradients of one function; measured: within .5 %
    assert (by_value[0] - by_value[1]) / (2 * h) == pytest.approx(0.5 * at.q_value, rel=0.015)
    assert (by_key[0] - by_key[1]) / (2 * h) == pytest.approx(0.5 * at.q_key, rel=0.015)
    assert abs(at.q_value / at.q_key - 1.0) > 0.03  # else the two tests below are one


# -- starts and options ------------------------------------------------------------------------------------

QUOTED = [
    # problem, n, r, the stability of an independent computation, and by how much it varies here with the draws: over
    # 8 seeds of 8192 points .182-.187, .589-.637, .48-.57, .46-.50, .617-.656. An average of squares
    # with infinite variance where minima merge: its error falls slower than 1 / sqrt(points).
    (SPIKED, 4.0, 1.0, 0.18, 0.02),
    (SLRProblem("spiked", 1.0, 3), 4.0, 0.3, 0.59, 0.09),
    # Quoted as .53; few draws give anything from .37 to .95 here, 65,536 of them .398 to .417 over five seeds
    (SLRProblem("spiked", 1.0, 3), 20.0, 0.1, 0.40, 0.03),
    (SLRProblem("max", INF, 3), 4.0, 0.1, 0.44, 0.08),
    pytest.param(SLRProblem("max", INF, 3), 4.0, 0.01, 0.67, 0.1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("problem", "sample_ratio", "alpha", "quoted", "tolerance"), QUOTED)
def test_stability_of_stable_settings(problem, sample_ratio, alpha, quoted, tolerance):
    result = solve(problem, "softmax", sample_ratio, alpha, init="informed")
    assert result.stability == pytest.approx(quoted, abs=tolerance)
    assert result.converged


@pytest.mark.slow
def test_stability_where_replica_symmetry_breaks():
    # quoted 1.24; 8 seeds of 8192 points give 1.15 to 2.2, so only the side of the line is sure
    with pytest.warns(ReplicaSymmetryWarning, match="unstable"):
        result = replica_erm(SLRProblem("spiked", 1.0, 3), "softmax", 4.0, 0.1, init="informed")
    assert 1.0 < result.stability < 2.5
    assert result.test_error == pytest.approx(0.90, abs=0.05)


def test_low_penalties_warn():
    with pytest.warns(ReplicaSymmetryWarning, match="no prediction"):
        result = replica_erm(
            SLRProblem("spiked", 1.0, 3), "softmax", 4.0, 0.05, init="informed", n_points=1024
        )
    assert result.stability > 1.0


@pytest.mark.parametrize(
    ("problem", "sample_ratio", "alpha"),
    [case[:3] for case in QUOTED[:4] if case[1] < 20.0]
    + [pytest.param(*QUOTED[2][:3], marks=pytest.mark.slow)],
)
def test_starts_agree_where_they_should(problem, sample_ratio, alpha):
    both = solve(problem, "softmax", sample_ratio, alpha, init="both")
    assert isinstance(both, tuple)
    assert len(both) == 2
    uninformed, informed = both
    assert uninformed.test_error == pytest.approx(informed.test_error, abs=1e-3)
    np.testing.assert_allclose(order_parameters(uninformed), order_parameters(informed), rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("form", ["informed", "result", "tuple", "list", "array"])
def test_forms_of_init(form):
    at = solve(SPIKED, "softmax", 4.0)
    x = order_parameters(at)
    init = {"informed": form, "result": at, "tuple": tuple(x), "list": list(x), "array": x}[form]
    result = replica_erm(SPIKED, "softmax", 4.0, init=init)
    np.testing.assert_allclose(order_parameters(result), x, rtol=1e-3, atol=1e-3)
    if form != "informed":  # from its own solution it is there in a few evaluations
        assert result.n_iter < at.n_iter


def test_alpha_key():
    few = {"n_points": 2**11}
    same = replica_erm(SPIKED, "softmax", 4.0, 0.7, 0.7, **few)
    assert replica_erm(SPIKED, "softmax", 4.0, 0.7, **few) == same
    other = replica_erm(SPIKED, "softmax", 4.0, 0.7, 2.0, **few)
    assert other.q_key < same.q_key - 0.05
    assert other.V_key < 0.5


def test_offset():
    few = {"n_points": 2**11}
    shifted = replica_erm(SPIKED, "erf", 4.0, offset=-0.7, **few)
    assert abs(shifted.test_error - replica_erm(SPIKED, "erf", 4.0, **few).test_error) > 0.01
    assert shifted.test_error == pytest.approx(
        risk_at(SPIKED, "erf", shifted.overlaps, offset=-0.7), abs=1e-9
    )
    assert replica_erm(SPIKED, "softmax", 4.0, offset=-0.7, **few) == replica_erm(
        SPIKED, "softmax", 4.0, **few
    )


def test_fields_of_the_result():
    result = solve(SPIKED, "softmax", 4.0)
    assert replica_erm(SPIKED, "softmax", 4.0) == result  # deterministic
    assert result.overlaps == Overlaps(result.m_key, result.m_value, result.q_key, result.q_value)
    assert result.test_error == pytest.approx(risk_at(SPIKED, "softmax", result.overlaps), abs=1e-9)
    penalty = result.q_key + result.q_value
    assert result.objective == pytest.approx(0.5 * (4.0 * result.train_error + penalty), abs=1e-9)
    assert result.train_error < result.test_error
    for name in ("test_error", "train_error", "objective", "m_key", "stability", "error_estimate"):
        assert type(getattr(result, name)) is float, name
    assert (type(result.n_iter), type(result.converged)) == (int, bool)


def test_a_law_of_lengths():
    def erm(length):
        return replica_erm(SLRProblem("max", 2.0, length), "softmax", 4.0, init="informed", n_points=2**11)

    alone, mixed = erm(3), erm({1: 0.5, 3: 0.5})
    assert erm({3: 1.0, 9: 0.0}) == alone
    # half of the sequences are plain regression, which tells the value and has no location to find
    assert mixed.m_value > alone.m_value + 0.02
    assert mixed.test_error < alone.test_error - 0.05


def test_the_noise_is_in_the_errors():
    quiet, noisy = solve(SPIKED, "softmax", 4.0), solve(SLRProblem("spiked", 2.0, 3, 1.0), "softmax", 4.0)
    assert noisy.test_error > quiet.test_error + 1.0


@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_the_error_estimate_is_the_spread_over_seeds(name, monkeypatch):
    uniforms = _expectations.uniforms
    results = []
    for seed in range(6):
        monkeypatch.setattr(_expectations, "uniforms", lambda n, d, r=1, seed=seed: uniforms(n, d, r, seed))
        results.append(replica_erm(SPIKED, name, 4.0, n_points=2**11))
    spread = np.std([result.test_error for result in results], ddof=1)
    estimate = math.sqrt(np.mean([result.error_estimate**2 for result in results]))
    # the spread of 6 is known to 30 %; a factor of 3 either way is what the estimate promises
    assert spread / 3.0 < estimate < 3.0 * spread
    assert spread < 5e-3


@pytest.mark.slow
def test_the_error_estimate_of_a_nearly_flat_direction(monkeypatch):
    # spiked nu=1, n=20, r=.1 is stable, and 2e-3 is asked for at L = 3
    uniforms = _expectations.uniforms
    results = []
    for seed in range(4):
        monkeypatch.setattr(_expectations, "uniforms", lambda n, d, r=1, seed=seed: uniforms(n, d, r, seed))
        results.append(replica_erm(SLRProblem("spiked", 1.0, 3), "softmax", 20.0, 0.1))
    errors = np.array([result.test_error for result in results])
    assert errors.std(ddof=1) < 2e-3  # with 8192 draws alone it is 8e-3
    assert max(result.error_estimate for result in results) < 0.02


def test_more_points_agree():
    coarse, fine = replica_erm(SPIKED, "softmax", 4.0, n_points=2**11), solve(SPIKED, "softmax", 4.0)
    assert coarse.error_estimate > fine.error_estimate
    assert coarse.test_error == pytest.approx(fine.test_error, abs=4.0 * coarse.error_estimate + 1e-4)


# -- where there is no prediction --------------------------------------------------------------------------


@pytest.mark.parametrize("max_iter", [1, 2, 3])
@pytest.mark.parametrize("init", ["auto", "informed"])
def test_too_few_iterations(init, max_iter):
    with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter}"):
        result = replica_erm(SPIKED, "softmax", 4.0, init=init, max_iter=max_iter, n_points=2**11)
    assert not result.converged
    assert np.all(np.isfinite(order_parameters(result)))


@pytest.mark.parametrize("max_iter", [2, 7])
def test_max_iter_bounds_the_evaluations(max_iter):
    # "Bound on the evaluations of the map from one start"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = replica_erm(SPIKED, "softmax", 4.0, init="informed", max_iter=max_iter)
    assert result.n_iter <= max_iter


def test_both_warn_once_each():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        replica_erm(SPIKED, "softmax", 4.0, init="both", max_iter=2)
    assert [warning.category for warning in caught] == [ConvergenceWarning] * 2


@pytest.mark.slow
def test_sixty_four_tokens():
    problem = SLRProblem("spiked", 6.0, 64)
    result = replica_erm(problem, "softmax", 8.0, n_points=512, init="informed", tol=1e-3)
    assert result.converged
    assert population_risk(problem, "softmax").risk < result.test_error < 1.0


@pytest.mark.parametrize("alpha", [1e3, 372.8, 138.9])
@pytest.mark.parametrize(("name", "sample_ratio"), [("linear", 4.0), ("erf", 16.0)])
def test_large_penalties_leave_little_of_the_key(name, sample_ratio, alpha):
    # q_key falls to 1e-9: its averages by parts divide by the spread of the scores
    problem = SLRProblem("spiked", 2.0, 3, 0.3)
    both = replica_erm(problem, name, sample_ratio, alpha, init="both", n_points=2**11)
    assert all(result.converged for result in both)
    assert both[0].test_error == pytest.approx(both[1].test_error, abs=1e-5)
    assert 0.9 < both[0].test_error < 1.09  # that of predicting nothing
    assert 0.0 <= both[0].q_key < 1e-3


@pytest.mark.parametrize("alpha", [0.03, 0.3])
def test_many_samples_on_max_grow_a_large_key(alpha):
    # m_key^2 is all but q_key there, and steps that leave that cone would be lost
    result = replica_erm(SLRProblem("max", INF, 3, math.sqrt(0.1)), "softmax", 128.0, alpha, n_points=2**11)
    assert result.converged
    assert result.n_iter < 60
    assert result.m_key > 3.0
    assert 0.1 < result.test_error < 0.2

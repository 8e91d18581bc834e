"""Write golden.json: what fits and theory give on small data that a formula makes.

    python tests/golden/write_golden.py

Run it where a result changes on purpose, and say why in the commit. The data are fractions of small integers,
exact in float64, and depend on no random numbers, whose streams may change from one NumPy to the next.
"""

import json
import warnings
from pathlib import Path

import numpy as np

import sklearn_attn
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import bayes_optimal, bayes_risk, population_risk, replica_erm

GOLDEN = Path(__file__).with_name("golden.json")
N, D = 60, 3
# Far below the default, so that the minimum rather than the stopping of a fit is compared.
TIGHT = {"tol": 1e-10, "max_iter": 5000}


def data():
    """Sixty sequences of one to five tokens with three features in [-2, 2), and targets of variance about one.

    Squares modulo a prime look random. A target is the second feature of the token whose first is largest, and
    some noise.
    """
    lengths = 1 + (np.arange(N) ** 2 % 11) % 5
    i = np.arange(lengths.sum() * D)
    values = ((i * i + 7 * i + 3) % 251 / 256 * 4 - 2).reshape(-1, D)
    X = sklearn_attn.RaggedArray.from_flat(values, lengths=lengths)
    noise = (np.arange(N) ** 2 * 5 % 127 / 128 - 0.5) / 2
    y = np.array([x[x[:, 0].argmax(), 1] for x in X]) + noise + 0.25
    return X, y, 1 + np.arange(N) % 3


def fingerprint():
    """Sums over the data, which are exact."""
    X, y, weight = data()
    return {
        "lengths": X.lengths.tolist(),
        "sums": [float(X.values.sum()), float(np.arange(X.n_tokens) @ X.values.sum(axis=1))],
        "y": [float(y.sum()), float(np.arange(N) @ y)],
        "weight": int(weight.sum()),
    }


def estimators():
    """Estimators by name."""
    return {
        "softmax": sklearn_attn.SoftmaxAttentionRegressor(0.5, **TIGHT),
        "softmax, two penalties, no intercept": sklearn_attn.SoftmaxAttentionRegressor(
            0.5, alpha_key=2.0, fit_intercept=False, **TIGHT
        ),
        "linear": sklearn_attn.LinearAttentionRegressor(5.0, **TIGHT),
        "erf": sklearn_attn.ErfAttentionRegressor(5.0, offset=-0.5, **TIGHT),
        "erf, learned offset": sklearn_attn.ErfAttentionRegressor(5.0, offset="learn", **TIGHT),
        "softplus": sklearn_attn.SoftplusAttentionRegressor(0.5, **TIGHT),
        "descent": sklearn_attn.SoftmaxAttentionRegressor(solver="sgd"),
        "cross-validation": sklearn_attn.SoftmaxAttentionRegressorCV([0.1, 1.0, 10.0], cv=3, **TIGHT),
        "two classes": sklearn_attn.SoftmaxAttentionClassifier(0.5, **TIGHT),
        "three classes": sklearn_attn.ErfAttentionClassifier(5.0, **TIGHT),
    }


def fits():
    """Coefficients of all estimators on the data, by name."""
    X, y, weight = data()
    found = {}
    for name, model in estimators().items():
        if name == "descent":  # two passes in the given order: no random numbers
            model.partial_fit(X, y).partial_fit(X, y)
        elif "classes" in name:
            model.fit(X, np.digitize(y, [0.0] if "two" in name else [-0.5, 0.5]), weight)
        else:
            model.fit(X, y, weight)
        found[name] = {
            attribute: np.asarray(getattr(model, attribute)).tolist()
            for attribute in (
                "key_", "value_", "intercept_", "offset_", "objective_", "alpha_", "cv_scores_", "stop_crit_",
            )
            if hasattr(model, attribute)
        }  # fmt: skip
    return found


def theory():
    """Values of the theory, by name; of those that are averages over draws, with the error that they say."""
    spiked = SLRProblem("spiked", signal=2.0, length=3, noise=0.1)
    maximum = SLRProblem("max", signal=float("inf"), length=3)
    found = {}
    for name in ("softmax", "linear", "erf", "softplus"):
        for task, problem in (("spiked", spiked), ("max", maximum)):
            found[f"population risk, {name}, {task}"] = {"risk": float(population_risk(problem, name).risk)}
    for task, problem in (("spiked", spiked), ("max", maximum)):
        found[f"Bayes risk, {task}"] = {"risk": float(bayes_risk(problem))}
    result = replica_erm(spiked, "softmax", 4.0, 1.0, n_points=2048)
    found["replica, softmax"] = {
        field: float(getattr(result, field))
        for field in ("test_error", "train_error", "m_key", "m_value", "q_key", "q_value", "error_estimate")
    }
    result = bayes_optimal(spiked, 4.0, n_points=2048)
    found["Bayes-optimal"] = {
        "test_error": float(result.test_error),
        "error_estimate": float(result.error_estimate),
    }
    return found


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        golden = {"data": fingerprint(), "fits": fits(), "theory": theory()}
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")

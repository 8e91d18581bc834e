"""Models with every parameter that the fuzz tests draw."""

import numpy as np
from hypothesis import strategies as st

import sklearn_attn

NAMES = ["Softmax", "Linear", "Erf", "Softplus"]
penalties = st.sampled_from([0.0, 1e-8, 1e-3, 0.1, 1.0, 1.0, 10.0, 1e3, 1e6])


@st.composite
def common(draw, name, D, n_values=None):
    """Draw what all estimators share."""
    parameters = {
        "fit_intercept": draw(st.booleans()),
        "max_iter": draw(st.sampled_from([1, 5, 30, 60])),
        "tol": draw(st.sampled_from([1e-5, 1e-5, 1e-3, 1e-8, 0.0])),
        "n_init": draw(st.sampled_from([1, 1, 1, 2])),
        "random_state": draw(st.integers(0, 5)),
    }
    init = draw(st.sampled_from(["auto", "auto", "auto", "random", "pair"]))
    if init == "pair":
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        scale = draw(st.sampled_from([0.0, 1.0, 1.0, 30.0, 1e10]))
        init = rng.standard_normal(D) * scale, rng.standard_normal((n_values, D) if n_values else D) * scale
    parameters["init"] = init
    if name == "Erf":
        parameters["offset"] = draw(st.sampled_from([0.0, 0.0, -0.5, 2.0, 50.0, "learn", "learn"]))
    return parameters


@st.composite
def regressors(draw, D, solver="lbfgs"):
    name = draw(st.sampled_from(NAMES))
    parameters = draw(common(name, D))
    parameters |= {
        "alpha": draw(penalties),
        "alpha_key": draw(st.one_of(st.none(), penalties)),
        "solver": solver,
    }
    if solver == "sgd":
        parameters |= {
            "learning_rate": draw(st.sampled_from([1e-3, 0.01, 0.1, 0.1, 1.0])),
            "power_t": draw(st.sampled_from([0.0, 0.5, 1.0])),
            "batch_size": draw(st.sampled_from([1, 1, 3, 100])),
            "average": draw(st.sampled_from([False, False, True, 5])),
        }
        parameters["max_iter"] = min(parameters["max_iter"], 5)
    return getattr(sklearn_attn, f"{name}AttentionRegressor")(**parameters)


@st.composite
def searches(draw, D, n):
    name = draw(st.sampled_from(NAMES))
    parameters = draw(common(name, D))
    parameters |= {
        "alphas": draw(st.lists(penalties, min_size=1, max_size=3)),
        "cv": draw(st.integers(2, min(n, 3))),
        "scoring": draw(st.sampled_from(["neg_mean_squared_error", None])),
    }
    if draw(st.integers(0, 3)) == 0:
        parameters["alpha_keys"] = draw(st.lists(penalties, min_size=1, max_size=2))
    else:
        parameters["alpha_key_ratio"] = draw(st.sampled_from([1.0, 1.0, 0.1, 0.0]))
    return getattr(sklearn_attn, f"{name}AttentionRegressorCV")(**parameters)


@st.composite
def classifiers(draw, D, n_classes):
    name = draw(st.sampled_from(NAMES))
    parameters = draw(common(name, D, n_classes if n_classes > 2 else None))
    parameters |= {"alpha": draw(penalties), "alpha_key": draw(st.one_of(st.none(), penalties))}
    parameters["class_weight"] = draw(st.sampled_from([None, None, "balanced"]))
    return getattr(sklearn_attn, f"{name}AttentionClassifier")(**parameters)

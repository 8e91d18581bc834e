"""Fits on generated data: finite results or a message of the package's own, and inputs left as they are."""

import numpy as np
from certificates import assert_certified, assert_never_rises
from fuzz_cases import assert_finite, bytes_of, fuzz, labels, outcome, reloaded, sequences, targets, weights
from fuzz_models import classifiers, regressors, searches
from hypothesis import event
from hypothesis import strategies as st


@st.composite
def regressions(draw, solver="lbfgs"):
    data = draw(sequences())
    model = draw(regressors(data.values.shape[1], solver))
    return data, draw(targets(data.n)), draw(weights(data.n)), model


@st.composite
def classifications(draw):
    data = draw(sequences())
    y = draw(labels(data.n, draw(st.sampled_from([2, 2, 3, 4]))))
    model = draw(classifiers(data.values.shape[1], np.unique(y).size))
    return data, y, draw(weights(data.n)), model


@st.composite
def cross_validations(draw):
    data = draw(sequences().filter(lambda data: data.n >= 2))
    return data, draw(targets(data.n)), draw(weights(data.n)), draw(searches(data.values.shape[1], data.n))


def check_fit(data, y, weight, model):
    """Fit and use a model; return it, or None where the fit was refused."""
    arrays = [*data.kept, y, weight]
    before = bytes_of(arrays)
    unconverged = []
    fitted = outcome(model.fit, data.X, y, sample_weight=weight, unconverged=unconverged)
    assert bytes_of(arrays) == before
    event("refused" if fitted is None else "not converged" if unconverged else "converged")
    if fitted is not None:
        check_use(data, y, fitted)
        assert unconverged or fitted.stop_crit_ <= fitted.tol
        assert_certified(fitted, data.X, y, weight)
        if getattr(model, "solver", "lbfgs") == "lbfgs":
            assert_never_rises(fitted)
        assert bytes_of(arrays) == before
    return fitted


def check_use(data, y, model):
    names = ["key_", "value_", "intercept_", "objective_", "stop_crit_", "loss_curve_"]
    assert_finite(**{name: getattr(model, name) for name in names})
    again = reloaded(model)
    names = ["predict", "attention_weights", "token_contributions", "transform"]
    if hasattr(model, "classes_"):
        names += ["decision_function", "predict_proba", "predict_log_proba"]
    for X in (data.X, data.elsewhere):
        for name in names:
            result = outcome(getattr(model, name), X)
            if result is None:
                continue
            if name == "predict" and hasattr(model, "classes_"):
                assert np.isin(result, model.classes_).all()
            else:
                assert_finite(**{name: result})
            copy = getattr(again, name)(X)
            np.testing.assert_array_equal(getattr(copy, "values", copy), getattr(result, "values", result))
    score = outcome(model.score, data.X, y)
    assert score is None or data.n < 2 or np.isfinite(score)


@fuzz(regressions(), few=60, many=7000)
def test_regressors(case):
    check_fit(*case)


@fuzz(regressions("sgd"), few=40, many=3000)
def test_descent(case):
    data, y, weight, model = case
    fitted = check_fit(data, y, weight, model)
    if fitted is not None and outcome(fitted.partial_fit, data.X, y, sample_weight=weight) is not None:
        check_use(data, y, fitted)


@fuzz(classifications(), few=50, many=4000)
def test_classifiers(case):
    check_fit(*case)


@fuzz(cross_validations(), few=20, many=2000)
def test_searches(case):
    check_fit(*case)

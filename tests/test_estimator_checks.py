"""scikit-learn's own checks, the spine of the suite."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sklearn_attn import (
    ErfAttentionClassifier,
    ErfAttentionRegressor,
    ErfAttentionRegressorCV,
    LinearAttentionClassifier,
    LinearAttentionRegressor,
    LinearAttentionRegressorCV,
    SoftmaxAttentionClassifier,
    SoftmaxAttentionRegressor,
    SoftmaxAttentionRegressorCV,
    SoftplusAttentionClassifier,
    SoftplusAttentionRegressor,
    SoftplusAttentionRegressorCV,
)

REGRESSORS = [
    SoftmaxAttentionRegressor(),
    LinearAttentionRegressor(),
    ErfAttentionRegressor(),
    ErfAttentionRegressor(offset="learn"),
    SoftplusAttentionRegressor(),
    *(
        RegressorCV([1.0, 100.0], cv=2)
        for RegressorCV in (
            SoftmaxAttentionRegressorCV,
            LinearAttentionRegressorCV,
            ErfAttentionRegressorCV,
            SoftplusAttentionRegressorCV,
        )
    ),
]

CLASSIFIERS = [
    SoftmaxAttentionClassifier(),
    LinearAttentionClassifier(),
    ErfAttentionClassifier(),
    ErfAttentionClassifier(offset="learn"),
    SoftplusAttentionClassifier(),
]

# The checks' data are not scaled: only tiny steps do not diverge, and they do not converge.
STOCHASTIC = [
    type(regressor)(solver="sgd", learning_rate=1e-5, max_iter=20, random_state=0)
    for regressor in (REGRESSORS[0], REGRESSORS[1], REGRESSORS[2], REGRESSORS[4])
]

# Every check that is expected to fail, by class name, with its reason.
EXPECTED_FAILED_CHECKS = {}


@parametrize_with_checks(
    REGRESSORS + CLASSIFIERS,
    expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(STOCHASTIC)
def test_scikit_learn_checks_of_stochastic_gradient_descent(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", REGRESSORS + CLASSIFIERS, ids=str)
def test_there_are_checks_to_run(estimator):
    # an estimator that is tagged as taking no 2-D array would be asked one question only
    assert sum(1 for _ in estimator_checks_generator(estimator)) > 50

"""Prints a digest of what every kind of fit finds, to the last bit; see test_reproducible.py."""

import hashlib
import json
import os
import warnings

import numpy as np
from sklearn.base import clone

import sklearn_attn
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.problems import SLRProblem
from sklearn_attn.theory import BayesGAMPRegressor, population_risk, replica_erm

ESTIMATORS = {
    "softmax": sklearn_attn.SoftmaxAttentionRegressor(),
    "random starts": sklearn_attn.SoftmaxAttentionRegressor(n_init=3, random_state=0),
    "small penalty": sklearn_attn.SoftmaxAttentionRegressor(1e-3, max_iter=80),
    "linear": sklearn_attn.LinearAttentionRegressor(10.0),
    "erf": sklearn_attn.ErfAttentionRegressor(10.0),
    "learned offset": sklearn_attn.ErfAttentionRegressor(10.0, offset="learn", max_iter=30),
    "softplus": sklearn_attn.SoftplusAttentionRegressor(),
    "descent": sklearn_attn.SoftmaxAttentionRegressor(solver="sgd", max_iter=5, random_state=0),
    "cross-validation": sklearn_attn.SoftmaxAttentionRegressorCV([0.1, 1.0], cv=3),
    "two classes": sklearn_attn.SoftmaxAttentionClassifier(),
    "three classes": sklearn_attn.LinearAttentionClassifier(10.0),
    "GAMP": BayesGAMPRegressor("spiked", signal=6.0, noise=0.1, random_state=0),
}


def sequences(n=100, D=20):
    """Sequences of 1 to 300 tokens that two threads share, long ones among them that are cut."""
    return SLRDataset("spiked", D, signal=6.0, length=(1, 4, 300), noise=0.1, random_state=0).sample(n)


def fitted(name, X, y, **parameters):
    """Fit a clone of an estimator."""
    if "classes" in name:
        y = np.array(["low", "middle", "high"])[np.digitize(y, [0.0] if "two" in name else [-0.5, 0.5])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(ESTIMATORS[name]).set_params(**parameters).fit(X, y)


def outputs(name, model, X):
    """What a model predicts; of classifiers the scores."""
    return model.decision_function(X) if "classes" in name else model.predict(X)


def main():
    X, y = sequences()
    found = {}
    for dtype in (np.float64, np.float32):
        for name in ESTIMATORS:
            Z = X.astype(dtype)
            model = fitted(name, Z, y)
            digest = hashlib.sha256()
            for part in (
                model.key_,
                model.value_,
                getattr(model, "loss_curve_", 0.0),
                outputs(name, model, Z),
            ):
                digest.update(np.ascontiguousarray(part).tobytes())
            found[f"{name}, {np.dtype(dtype)}"] = digest.hexdigest()
    problem = SLRProblem("spiked", signal=2.0, length=3)
    found["population risk"] = population_risk(problem, "softmax").risk.hex()
    found["replica"] = float(replica_erm(problem, "softmax", 4.0, n_points=1024).test_error).hex()
    print(json.dumps({"found": found, "hash of a word": hash("attention"), "process": os.getpid()}))


if __name__ == "__main__":
    main()

"""What a fit says of itself, recomputed by plain array operations."""

import numpy as np

from sklearn_attn.objective import AttentionParameters
from sklearn_attn.ragged import check_ragged


def assert_never_rises(model):
    """L-BFGS takes no step upwards but for rounding."""
    curve = model.loss_curve_
    assert len(curve) == model.n_iter_ + 1
    assert (np.diff(curve) <= 1e-13 * np.abs(curve[:-1])).all()


def assert_certified(model, X, y, weight=None):
    """Recompute `objective_` and `stop_crit_` at the fitted parameters, in the generic form of the objective.

    Parameters
    ----------
    model : fitted regressor, CV estimator or classifier
    X, y, weight
        What it was fitted to. Of float32 tokens the parameters are too: there the gradient is not compared.
    """
    definition = model
    if hasattr(model, "alpha_"):
        options = {name: getattr(model, name) for name in ("fit_intercept", "offset") if hasattr(model, name)}
        definition = model._Regressor(model.alpha_, alpha_key=model.alpha_key_, **options)
    packed = check_ragged(X)
    objective = definition._build_objective(packed, y, weight)
    objective.backend = "generic"
    key, value, intercept = (np.asarray(p, dtype=float) for p in (model.key_, model.value_, model.intercept_))
    intercept = intercept if intercept.ndim else float(intercept)
    theta = objective.pack(AttentionParameters(key, value, intercept, getattr(model, "offset_", 0.0)))
    with np.errstate(over="ignore", invalid="ignore"):
        value, gradient = objective.value_and_gradient(theta)
    if not np.isfinite(gradient).all():  # far out, where the order of products tells which of them overflow
        assert model.stop_crit_ > model.tol
        return
    found = model.objective_ / objective.coordinates.objective_scale
    with np.errstate(over="ignore"):  # where the bounds bound nothing
        noise = _rounding(objective, theta)
        residual = 1.0 + np.sqrt(found)
        if packed.values.dtype == np.float32:
            noise = 1e-4 + 1e6 * noise
        else:
            assert abs(np.linalg.norm(gradient) - model.stop_crit_) <= noise * residual
        assert abs(value - found) <= noise * residual * (residual + noise)
        assert abs(model.loss_curve_[-1] - model.objective_) <= 1e-13 * model.objective_


def _rounding(objective, theta):
    """Bound what rounding may do to a prediction and to a derivative, in the units of the solver.

    It is small but where features are far from zero, or parameters so large that large terms cancel.
    """
    X, coordinates = objective.X, objective.coordinates
    tokens = np.abs(X.values).max(axis=0) / np.sqrt(X.n_features)
    keys = coordinates.unit[: X.n_features]
    values = coordinates.unit[coordinates.value_part].reshape(-1, X.n_features) / coordinates.target_scale
    intercepts = coordinates.unit[coordinates.intercept_part] / coordinates.target_scale
    largest = max(1.0, (tokens * keys).max(), (tokens * values).max(), intercepts.max(initial=0.0))
    longest = 1 if objective.activation.normalised else X.lengths.max()
    return 1e-13 * largest**2 * longest * (1.0 + np.abs(theta).sum()) ** 2

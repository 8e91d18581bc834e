"""What a fitted search over penalties measured."""

from itertools import pairwise
from numbers import Real

import numpy as np
from sklearn.metrics import get_scorer

PENALTIES = ("alpha", "alpha_key")
_SCORING = "neg_mean_squared_error"


def searched_errors(search, param):
    """Read cross-validation errors against the one searched penalty.

    Parameters
    ----------
    search : GridSearchCV or another fitted search
    param : str
        "alpha", "alpha_key" or the full name of either inside a Pipeline.

    Returns
    -------
    param : str
        The full name.
    values, mean, std : ndarray of shape (n_candidates,)
        Penalties, and mean squared errors over the folds; without candidates that failed.

    Raises
    ------
    TypeError, ValueError
        If `search` is none, or its scores are no curve of mean squared errors.
    """
    if not hasattr(search, "cv_results_"):
        raise TypeError(
            f"search must be a fitted GridSearchCV or another search with cv_results_, got "
            f"{type(search).__name__}."
        )
    scores = _score_name(search)
    param = full_name(search, param)
    values = np.array([candidate[param] for candidate in search.cv_results_["params"]], dtype=float)
    mean = -search.cv_results_[f"mean_test_{scores}"]
    std = search.cv_results_[f"std_test_{scores}"]
    scored = np.isfinite(mean)
    if not scored.any():
        raise ValueError("The search has no finite score: fits of every candidate failed.")
    return param, values[scored], mean[scored], std[scored]


def _score_name(search):
    """What `cv_results_` calls the mean squared error."""
    scorers = search.scorer_ if isinstance(search.scorer_, dict) else {"score": search.scorer_}
    names = [name for name, scorer in scorers.items() if repr(scorer) == repr(get_scorer(_SCORING))]
    if not names:
        raise ValueError(
            f"The search was scored with scoring={search.scoring!r}, whose numbers are no test errors that "
            f"theory predicts; pass scoring={_SCORING!r} to the search."
        )
    return names[0]


def full_name(search, param):
    """The one searched parameter, which must be a penalty."""
    searched = sorted({name for candidate in search.cv_results_["params"] for name in candidate})
    names = [name for name in searched if param in (name, name.rsplit("__", 1)[-1])]
    if len(names) != 1 or names[0].rsplit("__", 1)[-1] not in PENALTIES:
        raise ValueError(
            f"param must name one searched penalty, 'alpha' or 'alpha_key'; got {param!r} for a search over "
            f"{searched}."
        )
    if searched != names:
        raise ValueError(
            f"The search varied {searched}, of which a curve can show one; search {names[0]!r} alone."
        )
    return names[0]


def searched_regressor(estimator, param):
    """Return the regressor whose penalty is searched: a step of a pipeline, say, or the estimator itself."""
    place = param.rpartition("__")[0]
    return estimator.get_params()[place] if place else estimator


def penalties(estimator, param, value):
    """Alpha and alpha_key of the searched regressor at a value of one of them."""
    place, separator, _ = param.rpartition("__")
    parameters = estimator.get_params() | {param: value}
    alpha, alpha_key = (parameters.get(place + separator + name) for name in PENALTIES)
    if not isinstance(alpha, Real):
        raise ValueError(f"The searched estimator has no penalty {place + separator}alpha.")
    return float(alpha), float(alpha if alpha_key is None else alpha_key)


def refined_grid(values, n_points):
    """Positive values with geometric steps in between, so that about n_points result."""
    if values.size == 1:
        return values
    n_steps = max(1, round((n_points - 1) / (values.size - 1)))
    parts = [np.geomspace(low, high, n_steps + 1)[:-1] for low, high in pairwise(values)]
    return np.concatenate([*parts, values[-1:]])

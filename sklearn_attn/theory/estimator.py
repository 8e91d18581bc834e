"""Replica theory as a scikit-learn regressor on tables of experiments."""

import warnings
from collections.abc import Iterable
from contextlib import contextmanager

import numpy as np
from scipy.optimize import least_squares, minimize_scalar
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from .._backend import is_array_api, to_numpy
from ..problems import SLRProblem
from ..ragged import all_at_once
from ._parallel import map_problems
from ._validation import check_activation, check_positive, check_problem
from .replica import ReplicaSymmetryWarning, order_parameter_vector, replica_erm

_COLUMNS = ("sample_ratio", "alpha", "alpha_key", "signal", "noise")
_FIT_PARAMS = ("signal", "noise")
_FIT_POINTS = 2**13
_NO_PREDICTION = 1e6  # stands for the error of an unstable setting where the least one is sought
_ALPHAS = (1e-5, 1e4)
_N_ALPHAS = 20
_N_WORSE = 3  # steps of the search for the best penalty above the best error, after which it ends
_LARGEST_LOG_CHANGE = 7.0  # of the signal, in calibration


class ReplicaTheory(RegressorMixin, BaseEstimator):
    """Test errors of attention regressors as replica theory predicts them.

    A regressor on settings: one row of X per experiment, y the measured test errors. It predicts with
    `replica_erm`; `score` is the R2 of theory against experiment.

    Parameters
    ----------
    activation : {"softmax", "linear", "erf", "softplus"}, default="softmax"
    task : {"spiked", "max"}, default="spiked"
    signal : float, default=1.0
        nu; used where X has no such column.
    length : int, sequence of int or {int: probability}, default=3
        The law of L; see `SLRProblem`.
    noise : float, default=0.0
        Standard deviation of the noise on y; used where X has no such column.
    alpha, alpha_key : float, default=1.0 and None
        Penalties where X has no such column; ``alpha_key=None`` means alpha.
    fit_params : tuple of {"signal", "noise"}, default=()
        What `fit` calibrates.
    columns : tuple of str, default=("sample_ratio", "alpha")
        What the columns of an array X mean: "sample_ratio" and any of "alpha", "alpha_key", "signal",
        "noise". A DataFrame whose column names are all of these names its own.

    Attributes
    ----------
    signal_, noise_ : float
        Calibrated, or as given.
    columns_ : tuple of str
        What the columns of X meant in `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X is a frame.

    See Also
    --------
    replica_erm : The equations, and their domain.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.

    Examples
    --------
    >>> from sklearn_attn.theory import ReplicaTheory
    >>> theory = ReplicaTheory("softmax", signal=2.0).fit([[4.0, 1.0]], [0.6])
    >>> theory.predict([[4.0, 1.0], [20.0, 1.0]]).round(2)
    array([0.6 , 0.41])
    """

    def __init__(
        self,
        activation="softmax",
        *,
        task="spiked",
        signal=1.0,
        length=3,
        noise=0.0,
        alpha=1.0,
        alpha_key=None,
        fit_params=(),
        columns=("sample_ratio", "alpha"),
    ):
        self.activation = activation
        self.task = task
        self.signal = signal
        self.length = length
        self.noise = noise
        self.alpha = alpha
        self.alpha_key = alpha_key
        self.fit_params = fit_params
        self.columns = columns

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X, y):
        """Calibrate `fit_params` by least squares on measured test errors, or only check the input.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_experiments, n_columns)
        y : array-like of shape (n_experiments,)
            Measured mean squared errors on new data.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If X, y or a parameter is not valid; the message says what is allowed.

        Warns
        -----
        ReplicaSymmetryWarning, ConvergenceWarning
            If the calibrated theory is no prediction at some settings, or the calibration did not end.
        """
        columns = self._read_columns(X)
        table, y = _check_on_host(check_X_y, X, y, y_numeric=True)
        fit_params = self._check_parameters(columns)
        settings = _settings(table, columns, self.columns)
        fitted = {"signal": float(self.signal), "noise": float(self.noise)}
        if fit_params:
            fitted |= self._calibrate(settings, y, fit_params)
        else:
            self._problem(settings[0], fitted)  # refuses what no theory is about
        with all_at_once(self) as calibrated:
            validate_data(calibrated, X=X, skip_check_array=True)
            calibrated.columns_ = columns
            calibrated.signal_, calibrated.noise_ = fitted["signal"], fitted["noise"]
        return self

    def predict(self, X):
        """Predict the test error of every experiment.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_experiments, n_columns)

        Returns
        -------
        ndarray of shape (n_experiments,)

        Warns
        -----
        ReplicaSymmetryWarning
            If the theory is unstable at some settings: no prediction.
        """
        return np.array([result.test_error for result in self.results(X)])

    def predict_train_error(self, X):
        """Predict the training error, without penalties, of every experiment: (n_experiments,)."""
        return np.array([result.train_error for result in self.results(X)])

    def order_parameters(self, X):
        """Predict (m_key, m_value, q_key, q_value, V_key, V_value): (n_experiments, 6)."""
        return np.array([order_parameter_vector(result) for result in self.results(X)])

    def results(self, X):
        """Solve the theory for every experiment.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_experiments, n_columns)

        Returns
        -------
        list of ReplicaResult
            With the stability and the error estimate of each. Rows that are equal share one.
        """
        check_is_fitted(self)
        columns = self._read_columns(X)
        validate_data(self, X=X, reset=False, skip_check_array=True)
        if columns != self.columns_:
            raise ValueError(f"fit was given the columns {self.columns_}, got {columns}.")
        settings = _settings(_check_on_host(check_array, X), columns, self.columns)
        fitted = {"signal": self.signal_, "noise": self.noise_}
        keys = [tuple(sorted(setting.items())) for setting in settings]
        different = list(dict.fromkeys(keys))
        with _told_once():
            solved = map_problems(lambda key: self._solve(dict(key), fitted), different)
        solution = dict(zip(different, solved, strict=True))
        results = [solution[key] for key in keys]
        _warn_once(results)
        return results

    def optimal_alpha(self, sample_ratio):
        """Find the penalty of least predicted test error.

        Parameters
        ----------
        sample_ratio : float
            N / D.

        Returns
        -------
        float
            Searched between 1e-5 and 1e4; ``alpha_key`` follows it unless it was given. Penalties at which
            the theory is unstable do not count.

        Raises
        ------
        TypeError, ValueError
            If `sample_ratio` is not a positive number, or the theory is stable at no penalty.

        Warns
        -----
        ConvergenceWarning
            If the error still falls at an end of the search: the range, or where stability is lost.
        """
        check_is_fitted(self)
        check_positive(sample_ratio=sample_ratio)
        fitted = {"signal": self.signal_, "noise": self.noise_}

        def error(log_alpha):
            setting = {"sample_ratio": float(sample_ratio), "alpha": float(np.exp(log_alpha))}
            result = self._solve(setting, fitted, n_points=_FIT_POINTS)
            is_prediction = result.converged and result.stability < 1.0
            return result.test_error if is_prediction else _NO_PREDICTION

        with _told_once():
            alpha, end = self._least(error, sample_ratio)
        if end:
            warnings.warn(
                f"The predicted error still falls at {end}, alpha={alpha:.2g}: it has no minimum that is a "
                "prediction, or one beyond.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return alpha

    @staticmethod
    def _least(error, sample_ratio):
        # From large penalties down to where the theory loses stability, which it does not regain.
        grid, errors = np.linspace(*np.log(_ALPHAS)[::-1], _N_ALPHAS), []
        for log_alpha in grid:
            errors.append(error(log_alpha))
            best = int(np.argmin(errors))
            if errors[-1] == _NO_PREDICTION or len(errors) > best + _N_WORSE:
                break
        if errors[best] == _NO_PREDICTION:
            raise ValueError(f"The theory is stable at no penalty for sample_ratio={sample_ratio}.")
        end = ""
        if best in (0, _N_ALPHAS - 1):
            end = "the end of the range that is searched"
        elif errors[best + 1] == _NO_PREDICTION:
            end = "the last stable penalty"
        bounds = grid[min(best + 1, len(errors) - 1)], grid[max(best - 1, 0)]
        refined = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 0.02})
        return float(np.exp(refined.x if refined.fun <= errors[best] else grid[best])), end

    def _read_columns(self, X):
        """What the columns mean: the frame's own names if they are ours, else `columns`."""
        columns = _tuple_of_names(self.columns, "columns")
        if hasattr(X, "columns"):
            columns = tuple(str(name) for name in X.columns)
        unknown = [name for name in columns if name not in _COLUMNS]
        if unknown or len(set(columns)) < len(columns) or "sample_ratio" not in columns:
            raise ValueError(
                f"The columns of X must be 'sample_ratio' and any of {_COLUMNS[1:]}, each once; got "
                f"{columns}."
            )
        return columns

    def _check_parameters(self, columns):
        check_activation(self.activation, 0.0)
        fit_params = _tuple_of_names(self.fit_params, "fit_params")
        wrong = [name for name in fit_params if name not in _FIT_PARAMS]
        if wrong or len(set(fit_params)) < len(fit_params):
            raise ValueError(f"fit_params may name {_FIT_PARAMS}, got {fit_params}.")
        both = sorted(set(fit_params) & set(columns))
        if both:
            raise ValueError(f"fit_params names {both}, which X gives as columns; drop one of the two.")
        check_positive(alpha=self.alpha)
        if self.alpha_key is not None:
            check_positive(alpha_key=self.alpha_key)
        return fit_params

    def _problem(self, setting, fitted):
        problem = SLRProblem(
            self.task,
            signal=setting.get("signal", fitted["signal"]),
            length=self.length,
            noise=setting.get("noise", fitted["noise"]),
        )
        check_problem(problem)
        return problem

    def _solve(self, setting, fitted, *, init="auto", n_points=None):
        alpha = setting.get("alpha", self.alpha)
        alpha_key = setting.get("alpha_key", self.alpha_key)
        return replica_erm(
            self._problem(setting, fitted),
            self.activation,
            setting["sample_ratio"],
            alpha,
            alpha_key,
            init,
            n_points=n_points,
        )

    def _calibrate(self, settings, y, fit_params):
        """Least squares in log signal and in noise, each setting continued from its last solution."""
        given = {"signal": float(self.signal), "noise": float(self.noise)}
        self._problem(settings[0], given)
        last = ["auto"] * len(settings)

        def unpack(t):
            # In units in which 1 is where the search starts, as least_squares takes relative steps.
            numbers = dict(zip(fit_params, (t - 1.0).tolist(), strict=True))
            if "signal" in numbers:
                numbers["signal"] = given["signal"] * float(np.exp(numbers["signal"]))
            return given | numbers

        def residuals(t):
            fitted = unpack(t)

            def go_on(i):
                result = self._solve(settings[i], fitted, init=last[i], n_points=_FIT_POINTS)
                if not result.converged or result.stability >= 1.0:
                    result = self._solve(settings[i], fitted, n_points=_FIT_POINTS)
                return result

            last[:] = map_problems(go_on, range(len(settings)))
            return np.array([result.test_error for result in last]) - y

        if "signal" in fit_params and not np.isfinite(given["signal"]):
            raise ValueError("signal must start at a finite number where fit_params names it.")
        start = [1.0 if name == "signal" else 1.0 + max(given["noise"], 0.05) for name in fit_params]
        low = [1.0 - _LARGEST_LOG_CHANGE if name == "signal" else 1.0 for name in fit_params]
        high = [1.0 + _LARGEST_LOG_CHANGE if name == "signal" else np.inf for name in fit_params]
        with _told_once():
            solution = least_squares(
                residuals, start, bounds=(low, high), diff_step=2e-2, xtol=1e-3, ftol=1e-6, max_nfev=30
            )
            residuals(solution.x)
        _warn_once(last, stacklevel=4)
        if not solution.success:
            warnings.warn(
                f"The calibration of {' and '.join(fit_params)} did not end in {solution.nfev} steps; start "
                "nearer to the truth.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return unpack(solution.x)


def _tuple_of_names(names, parameter):
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{parameter} must be a tuple of names, got {names!r}.")
    return tuple(names)


def _check_on_host(check, *arrays, **options):
    """Check arrays as scikit-learn does, and return them in NumPy; solvers work there."""
    arrays = [to_numpy(array) if is_array_api(array) else array for array in arrays]
    with config_context(array_api_dispatch=False):  # older scikit-learn refuses lists where it is on
        return check(*arrays, ensure_all_finite=False, **options)


def _settings(table, columns, expected):
    """One dict per row of a checked table."""
    if table.shape[1] != len(columns):
        raise ValueError(
            f"X has {table.shape[1]} columns, but columns={expected} names {len(columns)}; pass one row per "
            "experiment with these columns, or a DataFrame that names its own."
        )
    if np.isnan(table).any():
        raise ValueError("Input X contains NaN.")
    for j, name in enumerate(columns):
        if name != "signal" and np.isinf(table[:, j]).any():
            raise ValueError(f"Input X contains infinity in column {name!r}; only 'signal' may be infinite.")
        numbers, allowed = table[:, j], "at least 0" if name == "noise" else "positive"
        bad = np.flatnonzero(numbers < 0.0 if name == "noise" else numbers <= 0.0)
        if bad.size:
            raise ValueError(f"Column {name!r} must be {allowed}, got {numbers[bad[0]]} in row {bad[0]}.")
    return [dict(zip(columns, row, strict=True)) for row in table.tolist()]


@contextmanager
def _told_once():
    """Hold back the warnings of single settings, which `_warn_once` sums up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicaSymmetryWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _warn_once(results, stacklevel=4):
    unstable = sum(result.stability >= 1.0 for result in results)
    if unstable:
        warnings.warn(
            f"Replica theory is unstable (stability >= 1) at {unstable} of {len(results)} settings: its "
            "numbers there are no prediction. See results(X) for which.",
            ReplicaSymmetryWarning,
            stacklevel=stacklevel,
        )
    lost = sum(not result.converged for result in results)
    if lost:
        warnings.warn(
            f"Replica theory found no fixed point at {lost} of {len(results)} settings.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )

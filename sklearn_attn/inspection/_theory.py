"""What theory predicts, with what was measured on top."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ._axes import axes_or_new
from ._search import PENALTIES, penalties, refined_grid, searched_errors, searched_regressor

_TITLES = {
    "sample_ratio": "sample ratio N / D",
    "alpha": "penalty alpha",
    "alpha_key": "penalty alpha_key",
    "signal": "signal",
    "noise": "noise (standard deviation)",
}
# Axes whose numbers span more than this factor are logarithmic.
_LOG_SPAN = 8.0


class TheoryDisplay:
    """Predicted test error against one setting, with measured errors on top.

    Build it with `from_theory` or `from_search`, which draw at once; `plot` draws again. All arguments are
    kept as attributes, those of the curve sorted by `settings`.

    Parameters
    ----------
    settings : array-like of shape (n_settings,)
        Where the curve is known, in any order.
    predicted : array-like of shape (n_settings,)
        Predicted test errors: mean squared errors on new data, noise included.
    stability : array-like of shape (n_settings,), optional
        Of the replica solutions. Where it is 1 or more, or NaN as where there is no fixed point, there is no
        prediction: the curve is dotted and the region is shaded. By default all are predictions.
    measured_settings, measured, measured_std : array-like of shape (n_measured,), optional
        Measured mean squared errors, where they were measured, and the half lengths of their error bars.
    name : str, default="sample_ratio"
        What `settings` are: "sample_ratio", "alpha", "alpha_key", "signal", "noise" or any other name.

    Attributes
    ----------
    predicted_minimum, measured_minimum : tuple of float (setting, error) or None
        The lowest point of the predicted curve, and of the measured errors; None where there is none.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The curve where it is a prediction.
    unstable_line_ : matplotlib Line2D
        The curve where it is none; it does not widen the axes.
    unstable_regions_ : list of matplotlib artists
        The shaded regions.
    errorbar_ : matplotlib ErrorbarContainer or None
        The measured errors.
    minima_ : list of matplotlib Line2D
        The marks of the minima, if any.

    Raises
    ------
    ValueError
        If arrays do not match in length, or hold what cannot be drawn.

    See Also
    --------
    sklearn_attn.theory.ReplicaTheory : Makes the predictions.

    Examples
    --------
    >>> from sklearn_attn.inspection import TheoryDisplay
    >>> display = TheoryDisplay(
    ...     [1, 4, 16], [0.8, 0.6, 0.5], stability=[1.2, 0.5, 0.1], measured_settings=[4], measured=[0.62]
    ... )
    >>> display.predicted_minimum
    (16.0, 0.5)
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        settings,
        predicted,
        *,
        stability=None,
        measured_settings=None,
        measured=None,
        measured_std=None,
        name="sample_ratio",
    ):
        settings = _vector("settings", settings)
        order = np.argsort(settings, kind="stable")
        self.settings = settings[order]
        if not settings.size or not np.all(np.isfinite(settings)):
            raise ValueError("settings must hold at least one number, and finite ones only.")
        self.predicted = _vector("predicted", predicted, settings.size)[order]
        self.stability = np.zeros_like(settings)
        if stability is not None:
            self.stability = _vector("stability", stability, settings.size)[order]
        if (measured is None) != (measured_settings is None):
            raise ValueError("Pass measured and measured_settings together.")
        self.measured_settings = self.measured = self.measured_std = None
        if measured is not None:
            self.measured_settings = _vector("measured_settings", measured_settings)
            self.measured = _vector("measured", measured, self.measured_settings.size)
        if measured_std is not None:
            if measured is None:
                raise ValueError("measured_std is the error of measured, which was not passed.")
            self.measured_std = _vector("measured_std", measured_std, self.measured.size)
            if np.any(self.measured_std < 0.0):
                raise ValueError("measured_std must not be negative.")
        self.name = name

    @property
    def predicted_minimum(self):
        """The lowest point of the curve among predictions: (setting, error), or None."""
        return _lowest(self.settings, np.where(self._is_prediction(), self.predicted, np.nan))

    @property
    def measured_minimum(self):
        """The lowest measured error: (setting, error), or None."""
        return None if self.measured is None else _lowest(self.measured_settings, self.measured)

    @classmethod
    def from_theory(
        cls, theory, X, *, x="sample_ratio", measured=None, measured_std=None, ax=None, **options
    ):
        """Predict the test error at a table of settings and draw it against one of the columns.

        Parameters
        ----------
        theory : ReplicaTheory
            Fitted.
        X : array-like or DataFrame of shape (n_settings, n_columns)
            Settings as `theory` takes them. Other columns may vary along the curve; equal rows, as repeated
            experiments have them, are one point of it.
        x : str, default="sample_ratio"
            The column on the horizontal axis.
        measured : array-like of shape (n_settings,), optional
            Measured mean squared errors, one per row; NaN where nothing was measured, so that X may
            have more rows than there were experiments.
        measured_std : array-like of shape (n_settings,), optional
            Half lengths of the error bars, such as standard errors over repetitions.
        ax : matplotlib Axes, optional
            By default a new figure's.
        **options
            Passed to `plot`.

        Returns
        -------
        TheoryDisplay

        Raises
        ------
        ValueError
            If `theory` has no column `x`, rows that differ have the same `x`, or `measured` does not match X.

        Examples
        --------
        >>> from sklearn_attn.inspection import TheoryDisplay
        >>> from sklearn_attn.theory import ReplicaTheory
        >>> settings = [[2.0, 1.0], [4.0, 1.0]]  # sample ratio, alpha
        >>> theory = ReplicaTheory("softmax", signal=2.0).fit(settings, [0.75, 0.6])
        >>> TheoryDisplay.from_theory(theory, settings, measured=[0.75, 0.6])  # doctest: +SKIP
        """
        check_is_fitted(theory)
        if x not in theory.columns_:
            raise ValueError(f"x must be a column of the theory, one of {theory.columns_}; got {x!r}.")
        table = np.asarray(X, dtype=float)
        predicted, stability = _predict(theory, X)
        settings = table[:, theory.columns_.index(x)]
        curve, first = np.unique(table, axis=0, return_index=True)
        if np.unique(settings[first]).size < len(curve):
            raise ValueError(
                f"X has rows that differ but have the same {x}: they are points of several curves. Draw one "
                "curve after the other, with the same ax."
            )
        points = {}
        if measured is not None:
            measured = _vector("measured", measured, len(table))
            was_measured = ~np.isnan(measured)
            points = {
                "measured_settings": settings[was_measured],
                "measured": measured[was_measured],
            }
        if measured_std is not None:
            if measured is None:
                raise ValueError("measured_std is the error of measured, which was not passed.")
            points["measured_std"] = _vector("measured_std", measured_std, len(table))[was_measured]
        display = cls(settings[first], predicted[first], stability=stability[first], name=x, **points)
        return display.plot(ax, **options)

    @classmethod
    def from_search(cls, search, theory, sample_ratio, *, param="alpha", n_points=24, ax=None, **options):
        """Lay the predicted curve over the cross-validation errors of a fitted search, and mark both minima.

        The penalties of the theory are those of the search: one follows `param`, the other is that of the
        searched estimator, where ``alpha_key=None`` means that it follows alpha. Points are means over the
        folds, and error bars standard deviations over them.

        Parameters
        ----------
        search : GridSearchCV or another search with `cv_results_`
            Fitted over penalties of an attention regressor, scored with "neg_mean_squared_error".
        theory : ReplicaTheory
            Fitted; its activation, task, lengths, `signal_` and `noise_` are used.
        sample_ratio : float
            N / D of the training folds, not of all data: with K folds (1 - 1 / K) N / D.
        param : str, default="alpha"
            The searched parameter, "alpha" or "alpha_key". The last component of a name inside a Pipeline
            counts, as in "softmaxattentionregressor__alpha"; the full name is fine as well.
        n_points : int, default=24
            Points of the curve, about; the searched values are always among them.
        ax : matplotlib Axes, optional
            By default a new figure's.
        **options
            Passed to `plot`.

        Returns
        -------
        TheoryDisplay

        Raises
        ------
        TypeError
            If `search` is not a fitted search.
        ValueError
            If it was scored with anything else, did not vary `param` alone, no fold was scored, or the
            searched regressor has another activation than the theory.

        Examples
        --------
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn_attn import SoftmaxAttentionRegressor
        >>> from sklearn_attn.datasets import SLRDataset
        >>> from sklearn_attn.inspection import TheoryDisplay
        >>> from sklearn_attn.theory import ReplicaTheory
        >>> X, y = SLRDataset("spiked", n_features=50, signal=2.0, length=3, random_state=0).sample(250)
        >>> search = GridSearchCV(
        ...     SoftmaxAttentionRegressor(fit_intercept=False),
        ...     {"alpha": [1.0, 3.0]},
        ...     scoring="neg_mean_squared_error",
        ... ).fit(X, y)
        >>> theory = ReplicaTheory("softmax", signal=2.0).fit([[4.0, 1.0]], [0.6])
        >>> TheoryDisplay.from_search(search, theory, 4.0)  # doctest: +SKIP
        """
        check_is_fitted(theory)
        param, values, measured, spread = searched_errors(search, param)
        if not isinstance(sample_ratio, Real) or not 0.0 < sample_ratio < np.inf:
            raise ValueError(
                f"sample_ratio must be a positive number, N / D of the folds, got {sample_ratio!r}."
            )
        if not isinstance(n_points, Integral) or n_points < 2:
            raise ValueError(f"n_points must be an integer of at least 2, got {n_points!r}.")
        regressor = searched_regressor(search.estimator, param)
        activation = getattr(regressor, "_activation_name", theory.activation)
        if activation != theory.activation:
            raise ValueError(
                f"The searched {type(regressor).__name__} has {activation} weights and the theory "
                f"{theory.activation} weights: pass ReplicaTheory({activation!r}, ...)."
            )
        grid = refined_grid(np.unique(values), n_points)
        columns = ("sample_ratio", *PENALTIES)
        table = np.array([[sample_ratio, *penalties(search.estimator, param, value)] for value in grid])
        explanation = clone(theory).set_params(
            signal=theory.signal_, noise=theory.noise_, fit_params=(), columns=columns
        )
        predicted, stability = _predict(explanation.fit(table, np.zeros(len(table))), table)
        display = cls(
            grid,
            predicted,
            stability=stability,
            measured_settings=values,
            measured=measured,
            measured_std=spread,
            name=param.rsplit("__", 1)[-1],
        )
        options = {"measured_label": "cross-validation (mean, std over folds)", "minima": True} | options
        return display.plot(ax, **options)

    def plot(
        self,
        ax=None,
        *,
        label="replica theory",
        measured_label="measured",
        unstable_label="unstable: no prediction",
        minima=False,
        line_kw=None,
        errorbar_kw=None,
        unstable_kw=None,
    ):
        """Draw the curve, the region where it is no prediction, and the measured points.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default a new figure's. Its horizontal axis becomes logarithmic where the settings are positive
            and span more than a factor of eight.
        label, measured_label, unstable_label : str or None
            Entries of the legend; None leaves one out.
        minima : bool, default=False
            Whether to mark the lowest points of the curve and of the measured errors.
        line_kw, errorbar_kw, unstable_kw : dict, optional
            Passed to `Axes.plot`, `Axes.errorbar` and `Axes.axvspan`.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_or_new(ax, self)
        from matplotlib.lines import Line2D

        is_log = self._is_log()
        if is_log:
            ax.set_xscale("log")
        x, curve, stable, regions = self._pieces(is_log)
        (self.line_,) = ax.plot(x, np.where(stable, curve, np.nan), **{"label": label} | (line_kw or {}))
        color = self.line_.get_color()
        inside = np.zeros(x.size, dtype=bool)
        for low, high in regions:
            inside |= (x >= low) & (x <= high)
        self.unstable_line_ = Line2D(x, np.where(inside, curve, np.nan), color=color, ls=":")
        ax.add_artist(self.unstable_line_)  # unlike `plot`, this leaves the limits to the predictions
        self.unstable_regions_ = [
            ax.axvspan(
                *region,
                **{"color": color, "alpha": 0.12, "lw": 0, "label": None if i else unstable_label}
                | (unstable_kw or {}),
            )
            for i, region in enumerate(regions)
        ]
        self.errorbar_ = None
        if self.measured is not None:
            self.errorbar_ = ax.errorbar(
                self.measured_settings,
                self.measured,
                self.measured_std,
                **{"fmt": "o", "ms": 5, "capsize": 3, "color": color, "label": measured_label}
                | (errorbar_kw or {}),
            )
        self.minima_ = []
        if minima:
            marks = [
                (self.predicted_minimum, "*", "lowest predicted"),
                (self.measured_minimum, "D", "lowest measured"),
            ]
            for place, marker, what in marks:
                if place is not None:
                    self.minima_ += ax.plot(
                        *place, marker, ms=11, mfc="none", mec="black", label=f"{what}: {place[0]:.3g}"
                    )
        ax.set(xlabel=_TITLES.get(self.name, self.name), ylabel="test error (mean squared)")
        if any(entry is not None for entry in (label, measured_label, unstable_label)):
            ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _is_prediction(self):
        return (self.stability < 1.0) & np.isfinite(self.predicted)

    def _is_log(self):
        settings = self.settings
        return bool(settings[0] > 0.0 and settings[-1] > _LOG_SPAN * settings[0])

    def _pieces(self, is_log):
        """Cut the curve where it starts or ends to be a prediction.

        Between two settings that is where the interpolated stability crosses 1. Returns the settings with
        these edges (n,), the curve there (n,), where it is a prediction, and the regions where it is none.
        """
        x, stable = (np.log(self.settings) if is_log else self.settings), self._is_prediction()
        edges = []
        for i in np.flatnonzero(stable[1:] != stable[:-1]):
            below, above = np.sort(self.stability[i : i + 2])
            share = (1.0 - below) / (above - below) if below < 1.0 <= above < np.inf else 0.5
            edges.append(x[i] + (share if stable[i] else 1.0 - share) * (x[i + 1] - x[i]))
        cut = np.append(x, edges)
        order = np.argsort(cut, kind="stable")
        curve = np.interp(cut, x, self.predicted)[order]
        stable_or_edge = np.append(stable, np.ones(len(edges), dtype=bool))[order]
        ends = [*([] if stable[0] else [x[0]]), *edges, *([] if stable[-1] else [x[-1]])]
        ends = np.exp(ends) if is_log else np.array(ends)
        settings = np.exp(cut[order]) if is_log else cut[order]
        return settings, curve, stable_or_edge, [(low, high) for low, high in ends.reshape(-1, 2).tolist()]


def _vector(name, values, size=None):
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or (size is not None and values.size != size):
        expected = "1-D" if size is None else f"of shape ({size},)"
        raise ValueError(f"{name} must be {expected}, got an array of shape {values.shape}.")
    return values


def _lowest(settings, errors):
    if not np.any(np.isfinite(errors)):
        return None
    best = int(np.nanargmin(errors))
    return float(settings[best]), float(errors[best])


def _predict(theory, X):
    """Test errors and stabilities; neither is a number where no fixed point was found."""
    from ..theory import ReplicaSymmetryWarning  # late, as most displays need no theory

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicaSymmetryWarning)  # drawn instead
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = theory.results(X)
    pairs = [
        (result.test_error, result.stability) if result.converged else (np.nan,) * 2 for result in results
    ]
    return np.transpose(pairs)

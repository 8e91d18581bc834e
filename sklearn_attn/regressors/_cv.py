"""The four regressors with their penalty chosen by cross-validation."""

import warnings
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._backend import to_numpy
from ..ragged import all_at_once, check_ragged
from ..solvers import single_threaded_blas
from ._attention import (
    ErfAttentionRegressor,
    LinearAttentionRegressor,
    SoftmaxAttentionRegressor,
    SoftplusAttentionRegressor,
)
from ._callbacks import EXTRA_FRAMES, CallbackSupportMixin, FitTask, with_callbacks
from ._docstring import document_cv
from ._fit import LBFGS_ADVICE
from ._folds import FoldScorer, split, training_weights
from ._model import AttentionModel, AttentionRegressorMixin, OffsetModel, quiet_overflow
from ._path import PenaltyPath
from ._validation import (
    check_common_parameters,
    check_init,
    check_number,
    check_penalties,
    check_sample_weight,
    check_target,
    leave_out_weightless,
)

_ALPHAS = tuple(float(f"{alpha:.3g}") for alpha in np.logspace(-3, 3, 13))


# Penalties that are fitted in lockstep. Products with 24 columns, of twelve fits, took as long as those with
# 12, at which BLAS is far from its best.
_AT_ONCE = 2


class BaseAttentionRegressorCV(AttentionRegressorMixin, CallbackSupportMixin, AttentionModel):
    """Single-head attention regressor that searches its penalty; subclasses name the regressor."""

    _Regressor = None

    def __init__(
        self,
        alphas=_ALPHAS,
        *,
        alpha_key_ratio=1.0,
        alpha_keys=None,
        cv=5,
        scoring=None,
        fit_intercept=True,
        init="auto",
        n_init=1,
        max_iter=1000,
        tol=1e-5,
        random_state=None,
        verbose=0,
    ):
        self.alphas = alphas
        self.alpha_key_ratio = alpha_key_ratio
        self.alpha_keys = alpha_keys
        self.cv = cv
        self.scoring = scoring
        self.fit_intercept = fit_intercept
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X, y, sample_weight=None, groups=None):
        """Score every penalty by cross-validation, and keep the fit on all data at the best.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            n sequences of tokens: a list of (L_i, D) arrays, a RaggedArray, an (n, L, D) array, an
            (n, D) array of sequences of one token, or an (n, 1) object column of (L_i, D) arrays.
        y : array-like of shape (n,)
            One target per sequence.
        sample_weight : float or array-like of shape (n,), optional
            Weights of the sequences, at least 0, in the fits and, where the scorer takes weights, in the
            scores, as in GridSearchCV from scikit-learn 1.9 on.
        groups : array-like of shape (n,), optional
            Passed on to a splitter that keeps groups together.

        Returns
        -------
        self
            Unchanged if an error is raised or the fit is interrupted.

        Raises
        ------
        ValueError
            If X, y, the weights or a parameter is not valid, a part of a fold is empty, or a score is NaN.
        TypeError
            If X holds no sequences (a generator, a string, sparse), or a parameter has another type.

        Warns
        -----
        ConvergenceWarning
            If fits stop with a scaled gradient norm above `tol`; once, with their number.
        """
        alphas, alpha_keys = self._check_parameters()
        activation, fit_offset = self._initial_activation()
        checked = check_ragged(X)
        target = check_target(y, len(checked), type(self).__name__)
        weights = check_sample_weight(sample_weight, len(checked))
        folds = split(self.cv, checked, target, groups)
        _, *fitted, fold_weights = leave_out_weightless(
            weights, checked, target, training_weights(folds, weights).T
        )
        fitted.append(np.ascontiguousarray(fold_weights.T))
        scorer = FoldScorer(self.scoring, X, target, folds, None if sample_weight is None else weights)
        options = {
            "fit_intercept": bool(self.fit_intercept), "fit_offset": fit_offset,
            "init": check_init(self.init, checked.n_features, getattr(activation, "offset", 0.0)),
            "n_init": self.n_init, "max_iter": self.max_iter, "tol": self.tol,
            "random_state": check_random_state(self.random_state),
        }  # fmt: skip
        scores = np.empty((*alpha_keys.shape, len(folds)))
        task = FitTask.of_fit(self, X, y, sample_weight, max_subtasks=alpha_keys.size)
        on_all_data, stop_crits = {}, []
        with (
            single_threaded_blas(),
            quiet_overflow(),
            PenaltyPath(*fitted, activation, **options) as path,
        ):
            for place, fits in self._walk(path, alphas, alpha_keys):
                penalties = float(alphas[place[0]]), float(alpha_keys[place])
                for i, fit in enumerate(fits[:-1]):
                    scores[(*place, i)] = scorer(
                        i,
                        to_numpy(fit.predictions),
                        lambda fit=fit, penalties=penalties: self._model_of(X, checked, fit, *penalties),
                    )
                on_all_data[place] = replace(fits[-1].result, state=None)
                stop_crits += [fit.result.stop_crit for fit in fits]
                self._report(*penalties, scores[place].mean(), path.n_passes)
                # Whether it asks to stop is not heard: scores of all penalties are compared.
                task.subtask("penalty").end(
                    lambda fit=fits[-1]: self._attributes_at(fit.objective, fit.result.params)
                )
            means = scores.mean(axis=-1)
            best = np.unravel_index(np.argmax(means), means.shape)
            penalties = float(alphas[best[0]]), float(alpha_keys[best])
            objective = path.objective(-1, *penalties)
        self._warn_of_far_features(objective.coordinates.far_features, stacklevel=3 + EXTRA_FRAMES)
        self._warn_of_unconverged(np.array(stop_crits))
        task.end(lambda: self._attributes_at(objective, on_all_data[best].params))
        with all_at_once(self) as fitted:
            fitted._keep(X, checked, objective, on_all_data[best])
            fitted.alphas_ = alphas
            fitted.alpha_, fitted.alpha_key_ = penalties
            fitted.best_score_ = float(means[best])
            fitted.cv_scores_ = scores if self.alpha_keys is not None else scores[:, 0]
            fitted.n_passes_ = path.n_passes
        return self

    def _check_parameters(self):
        """Validate the constructor's arguments.

        Returns
        -------
        alphas : ndarray of float64 of shape (n_alphas,)
        alpha_keys : ndarray of float64 of shape (n_alphas, n_alpha_keys)
            The penalties of k that go with each.
        """
        alphas = check_penalties(self.alphas, "alphas")
        check_number(self.alpha_key_ratio, "alpha_key_ratio", Real, min_val=0)
        check_common_parameters(self)
        if self.alpha_keys is None:
            return alphas, alphas[:, None] * self.alpha_key_ratio
        if self.alpha_key_ratio != 1.0:
            raise ValueError(
                "alpha_keys is a grid of its own: leave alpha_key_ratio at 1.0 with it, got "
                f"{self.alpha_key_ratio}."
            )
        alpha_keys = check_penalties(self.alpha_keys, "alpha_keys")
        return alphas, np.tile(alpha_keys, (alphas.size, 1))

    @staticmethod
    def _walk(path, alphas, alpha_keys):
        """Fit at every penalty, from large to small ones, each from a neighbour.

        Yields
        ------
        place : (int, int)
        fits : list of PathFit
        """
        first = None
        for j in np.argsort(-alpha_keys[0], kind="stable"):
            order, previous = np.argsort(-alphas, kind="stable"), first
            for start in range(0, order.size, _AT_ONCE):
                places = order[start : start + _AT_ONCE]
                fits = path.fit([(alphas[i], alpha_keys[i, j]) for i in places], previous)
                yield from (((i, j), fits_there) for i, fits_there in zip(places, fits, strict=True))
                previous = fits[-1]
                first = fits[0] if start == 0 else first

    def _model_of(self, X, checked, fit, alpha, alpha_key):
        """Return the plain regressor that a fit belongs to."""
        shared = set(self._Regressor().get_params()) & set(self.get_params())
        parameters = {name: getattr(self, name) for name in shared}
        model = self._Regressor(alpha, alpha_key=alpha_key, **parameters)
        model._keep(X, checked, fit.objective, fit.result)
        return model

    def _report(self, alpha, alpha_key, score, n_passes):
        if self.verbose:
            print(
                f"[{type(self).__name__}] alpha {alpha:.3g}, alpha_key {alpha_key:.3g}: mean score "
                f"{score:.6g} after {n_passes} passes"
            )

    def _warn_of_unconverged(self, stop_crits):
        n_above = int((stop_crits > self.tol).sum())
        if n_above:
            warnings.warn(
                f"{n_above} of the {stop_crits.size} fits of {type(self).__name__} did not converge: their "
                f"scaled gradient norms, at most {stop_crits.max():.1e}, are above tol={self.tol:.1e}. "
                f"{LBFGS_ADVICE}",
                ConvergenceWarning,
                stacklevel=3 + EXTRA_FRAMES,
            )


@document_cv(SoftmaxAttentionRegressor)
class SoftmaxAttentionRegressorCV(BaseAttentionRegressorCV):
    _activation_name = "softmax"
    _Regressor = SoftmaxAttentionRegressor


@document_cv(LinearAttentionRegressor)
class LinearAttentionRegressorCV(BaseAttentionRegressorCV):
    _activation_name = "linear"
    _Regressor = LinearAttentionRegressor


@document_cv(ErfAttentionRegressor)
class ErfAttentionRegressorCV(OffsetModel, BaseAttentionRegressorCV):
    _activation_name = "erf"
    _Regressor = ErfAttentionRegressor

    def __init__(
        self,
        alphas=_ALPHAS,
        *,
        alpha_key_ratio=1.0,
        alpha_keys=None,
        offset=0.0,
        cv=5,
        scoring=None,
        fit_intercept=True,
        init="auto",
        n_init=1,
        max_iter=1000,
        tol=1e-5,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            alphas,
            alpha_key_ratio=alpha_key_ratio,
            alpha_keys=alpha_keys,
            cv=cv,
            scoring=scoring,
            fit_intercept=fit_intercept,
            init=init,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            random_state=random_state,
            verbose=verbose,
        )
        self.offset = offset


@document_cv(SoftplusAttentionRegressor)
class SoftplusAttentionRegressorCV(BaseAttentionRegressorCV):
    _activation_name = "softplus"
    _Regressor = SoftplusAttentionRegressor

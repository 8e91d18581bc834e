"""Bayes-optimal generalised approximate message passing (GAMP) on data."""

import math
import warnings
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._backend import is_numpy_array
from ..problems import SLRProblem
from ..ragged import RaggedArray, all_at_once, check_ragged, set_features, validate_ragged
from ._location import location_evidence
from ._validation import check_count, check_positive, check_problem
from .bayes import posterior_scores

_START_SCALE = 1e-2

# Undamped, one data set in five at 400 features circles for hundreds of steps; at 1/2, without noise, all
# are slow.
_MAX_DAMPING = 0.3


class BayesGAMPRegressor(RegressorMixin, BaseEstimator):
    """The best known polynomial-time estimator of the single-location regression task.

    Approximates the posterior means of the hidden k*, v* ~ N(0, I) and predicts the posterior mean of y.
    With g_chi, g_z = `f_chi`, `f_z` of `bayes_optimal` at the data, one step is::

        omega_chi = X k / sqrt(D) - V_k g_chi(previous)      omega_z = X v / sqrt(D) - V_v g_z(previous)
        A = (1/D) sum over sequences and tokens of g^2
        v = (X^T g_z / sqrt(D) + A_z v) / (1 + A_z),                V_v = 1 / (1 + A_z)
        k = (X^T g_chi / sqrt(D) + (A_chi - c) k) / (1 + A_chi),    V_k = 1 / (1 + A_chi)

    c = 0 for max. For spiked c = nu N / D: the likelihood's normalisation ``exp(-nu |k|^2 / (2 D))`` is a
    precision that the score does not see. New k, v, V and the terms V g are mixed with the
    old ones: spiked tokens are not isotropic, and along k* the plain step multiplies the overlap v.k*/D by
    about -nu.

    Parameters
    ----------
    task : {"spiked", "max"}, default="spiked"
    signal : float, default=1.0
        nu, as known.
    noise : float, default=0.0
        Standard deviation of the noise on y, as known.
    damping : float in [0, 1) or "auto", default="auto"
        Share of the old k, v and V that a step keeps; "auto" is max(1/2, nu / (1 + nu)) for spiked and
        0.3 for max.
    max_iter : int, default=500
    tol : float, default=1e-5
        The iteration ends when k and v change by less, relative to sqrt(D), in an undamped step.
    random_state : int, RandomState instance or None, default=None
        Drives the start, which is uninformed: k and v are normal of size 0.01.

    Attributes
    ----------
    key_, value_ : ndarray of shape (D,)
        Posterior means of k* and v*; compare with `SLRDataset.key_` and `.value_`.
    key_variance_, value_variance_ : float
        V_k and V_v, posterior variances of a component.
    n_iter_ : int
    n_features_in_ : int

    See Also
    --------
    sklearn_attn.theory.bayes_optimal : What it achieves in high dimension.

    Notes
    -----
    The data are taken to be those of the task: tokens of unit variance and targets of variance about
    one, without an intercept. Data of another law may make the iteration diverge, which is an error.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.
    .. [2] S. Rangan, Generalized approximate message passing, ISIT 2011.

    Examples
    --------
    >>> from sklearn_attn.datasets import SLRDataset
    >>> from sklearn_attn.theory import BayesGAMPRegressor
    >>> dataset = SLRDataset("max", n_features=200, signal=float("inf"), noise=0.3, random_state=0)
    >>> X, y = dataset.sample(1600)
    >>> model = BayesGAMPRegressor("max", signal=float("inf"), noise=0.3, random_state=0).fit(X, y)
    >>> bool(model.key_ @ dataset.key_ / 200 > 0.7)
    True
    """

    def __init__(
        self,
        task="spiked",
        *,
        signal=1.0,
        noise=0.0,
        damping="auto",
        max_iter=500,
        tol=1e-5,
        random_state=None,
    ):
        self.task = task
        self.signal = signal
        self.noise = noise
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X, y):
        """Run the iteration.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array
            Sequences of tokens in any form that the attention regressors take.
        y : array-like of shape (n,)

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If X, y or a parameter is not valid.
        FloatingPointError
            If the iteration diverges.

        Warns
        -----
        ConvergenceWarning
            If `tol` was not reached in `max_iter` steps.
        """
        problem, damping = self._check_parameters()
        checked = check_ragged(X).to_device("cpu")
        y = _check_target(y, len(checked), type(self).__name__)
        state = _State(checked, y, problem, check_random_state(self.random_state))
        for n_iter in range(1, self.max_iter + 1):
            change = state.step(damping)
            if not math.isfinite(change):
                raise FloatingPointError(
                    f"GAMP diverged in step {n_iter}. It takes tokens of unit variance and targets of the "
                    "task that `task`, `signal` and `noise` describe; check these, or raise damping."
                )
            if change <= self.tol:
                break
        if change > self.tol:
            warnings.warn(
                f"BayesGAMPRegressor did not settle: its last step changed k or v by {change:.1e}, above "
                f"tol={self.tol:.1e}, after max_iter={self.max_iter} steps. Raise max_iter or damping.",
                ConvergenceWarning,
                stacklevel=2,
            )
        with all_at_once(self) as fitted:
            set_features(fitted, X, checked)
            fitted.key_, fitted.value_ = state.k, state.v
            fitted.key_variance_, fitted.value_variance_ = state.V_k, state.V_v
            fitted.n_iter_ = n_iter
        return self

    def predict(self, X):
        """Predict the posterior mean of y, ``sum_l p_l z_l``.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array

        Returns
        -------
        ndarray of shape (n,)
        """
        weights, z = self._weights(X)
        return np.add.reduceat(weights.values[:, 0] * z, weights.offsets[:-1])

    def attention_weights(self, X):
        """Compute the posterior of the location of every sequence.

        Parameters
        ----------
        X : RaggedArray, list, tuple or array

        Returns
        -------
        list of ndarray of shape (L_i,)
            Each sums to one.
        """
        return [sequence[:, 0] for sequence in self._weights(X)[0]]

    def _weights(self, X):
        check_is_fitted(self)
        X = validate_ragged(self, X, reset=False).to_device("cpu")
        problem, _ = self._check_parameters()
        scale = 1.0 / math.sqrt(X.n_features)
        chi, z = _project(X, self.key_) * scale, _project(X, self.value_) * scale
        weights = np.empty((X.n_tokens, 1))
        for tokens, _ in _blocks(X):
            w, _ = location_evidence(problem, chi[tokens], self.key_variance_, np.ones(tokens.shape))
            weights[tokens, 0] = w / w.sum(axis=1, keepdims=True)
        return RaggedArray(weights, X.offsets), z

    def _check_parameters(self):
        problem = SLRProblem(self.task, signal=self.signal, noise=self.noise)
        check_problem(problem)
        check_count(max_iter=self.max_iter)
        check_positive(tol=self.tol)
        if isinstance(self.damping, str) and self.damping == "auto":
            is_spiked = problem.task == "spiked"
            return problem, max(0.5, problem.signal / (1.0 + problem.signal)) if is_spiked else _MAX_DAMPING
        if not isinstance(self.damping, Real) or not 0.0 <= self.damping < 1.0:
            raise ValueError(f"damping must be 'auto' or lie in [0, 1), got {self.damping!r}.")
        return problem, float(self.damping)


class _State:
    """k, v, their variances and the last scores g."""

    def __init__(self, X, y, problem, random_state):
        self.X, self.y, self.problem = X, y, problem
        self.blocks = list(_blocks(X))
        self.k, self.v = _START_SCALE * random_state.standard_normal((2, X.n_features))
        self.V_k = self.V_v = 1.0
        self.g_chi, self.g_z = np.empty((2, X.n_tokens))
        self.memory_chi, self.memory_z = np.zeros((2, X.n_tokens))  # V g of the steps before, mixed as k is
        self.hidden_precision = problem.signal * len(X) / X.n_features if problem.task == "spiked" else 0.0

    def step(self, damping):
        """Go one step; returns how far the undamped one would have moved k and v."""
        scale = 1.0 / math.sqrt(self.X.n_features)
        omega_chi = _project(self.X, self.k) * scale - self.memory_chi
        omega_z = _project(self.X, self.v) * scale - self.memory_z
        with np.errstate(over="ignore", invalid="ignore"):
            for tokens, sequences in self.blocks:
                self.g_chi[tokens], self.g_z[tokens] = posterior_scores(
                    self.problem, omega_chi[tokens], omega_z[tokens], self.y[sequences], self.V_k, self.V_v
                )
            A_chi = float(self.g_chi @ self.g_chi) * scale**2
            A_z = float(self.g_z @ self.g_z) * scale**2
            pulled_k = (self.g_chi @ self.X.values) * scale
            k = (pulled_k + (A_chi - self.hidden_precision) * self.k) / (1.0 + A_chi)
            v = ((self.g_z @ self.X.values) * scale + A_z * self.v) / (1.0 + A_z)
            change = max(np.linalg.norm(k - self.k), np.linalg.norm(v - self.v)) * scale
        V_k, V_v = 1.0 / (1.0 + A_chi), 1.0 / (1.0 + A_z)

        def mix(old, new):
            return damping * old + (1.0 - damping) * new

        self.k, self.v = mix(self.k, k), mix(self.v, v)
        self.V_k, self.V_v = mix(self.V_k, V_k), mix(self.V_v, V_v)
        self.memory_chi = mix(self.memory_chi, V_k * self.g_chi)
        self.memory_z = mix(self.memory_z, V_v * self.g_z)
        return float(change)


def _project(X, direction):
    return (X.values @ direction.astype(X.values.dtype)).astype(float)


def _blocks(X):
    """Yield (tokens (n_b, L), sequences (n_b,)) for every length."""
    lengths = X.lengths
    for L in np.unique(lengths):
        sequences = np.flatnonzero(lengths == L)
        yield X.offsets[sequences][:, None] + np.arange(L), sequences


def _check_target(y, n, name):
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    y = column_or_1d(y if is_numpy_array(y) else np.asarray(y), warn=True)
    if y.dtype.kind not in "fiub":
        raise ValueError(f"Unknown label type: y must hold real numbers, got dtype {y.dtype}.")
    y = y.astype(float)
    if y.shape[0] != n:
        raise ValueError(f"X has {n} sequences, but y has {y.shape[0]} targets.")
    if not np.all(np.isfinite(y)):
        raise ValueError("Input y contains NaN or infinity.")
    return y

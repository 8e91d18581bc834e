"""The docstring that all attention regressors share, with the formula of each."""

_DOCSTRING = """{title}

    A sequence X of L tokens in R^D is predicted by::

        f(X) = b + sigma(chi)^T z,   chi = X k / sqrt(D),   z = X v / sqrt(D)
        {formula}

    The fit minimises::

        sum_i w_i (y_i - b - sigma(chi_i)^T z_i)^2 + alpha_key |k|^2 + alpha |v|^2

    over the key k, the value v{parameters}, with weights w_i. {remark}

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty of v, at least 0. As Ridge's it stands against the sum, not the mean, of squared errors; for
        sequences of one token the fit is Ridge's at the penalty D alpha, as z is divided by sqrt(D).
    alpha_key : float, optional
        Penalty of k, by default `alpha`.{offset_parameter}
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised; otherwise it is 0.
    solver : {{"lbfgs", "sgd"}}, default="lbfgs"
        How the objective is minimised: by L-BFGS, or by stochastic gradient descent, which also has
        `partial_fit`; see Notes.
    init : {{"auto", "random"}} or (key, value), default="auto"
        Where the fit starts. "auto": uniform attention, k = 0, and the v along the covariance of y with
        pooled tokens that minimises the objective; it depends on the data only. "random": normal k
        and v such that scores, and token values in units of y, have variance about one. Or a pair
        of (D,) arrays, to which the best intercept is added.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    max_iter : int, default=1000
        Largest number of iterations of each start; an iteration of "sgd" is a pass over the data.
    tol : float, default=1e-5
        The fit has converged when the scaled gradient norm, `stop_crit_`, is at most this. Below about 1e-8
        rounding stops L-BFGS first, which warns.
    learning_rate : float, default=0.1
        gamma > 0, with solver="sgd", as are the next three.
    power_t : float, default=0.0
        Step t has the rate gamma_t = gamma / (1 + t / D)^power_t.
    batch_size : int, default=1
        Sequences per step; the last batch of a pass may be shorter.
    average : bool or int, default=False
        True: the result is the average of the iterates of all steps. An int above 1: of those since
        that many sequences have been seen.
    warm_start : bool, default=False
        Whether to start from the result of the previous fit, where there is one.
    random_state : int, RandomState instance or None, default=None
        Drives random starts, and the order of the sequences in `fit` with solver="sgd": with one
        "auto" start a fit by L-BFGS is deterministic.
    verbose : int, default=0
        1 prints a line every ten iterations, 2 one every iteration, of `fit`.

    Attributes
    ----------
    key_, value_ : array of shape (D,)
        k and v, in the float dtype of X.
    intercept_ : float
        b.{offset_attribute}
    n_iter_ : int
        Iterations of the start that was kept; with solver="sgd" passes, those of `partial_fit` included.
    n_passes_ : int
        How many times X was read: evaluations of all starts and line searches, one for the moments of the
        features, and passes of descent; after `partial_fit`, in that call.
    t_ : int
        Steps so far; with solver="sgd" only.
    objective_ : float
        The minimised function at the result; after `partial_fit`, on the data of that call.
    stop_crit_ : float
        Norm of the gradient there of the objective over 2 sum(w) s_y^2, with respect to::

            k_j / sqrt(D) (s_j^2 + D alpha_key / (sum(w) s_y^2))^(1/2),
            v_j / (s_y sqrt(D)) (s_j^2 + D alpha / sum(w))^(1/2) and b / s_y{offset_scaled}.

        s_y is the standard deviation of y (its root mean square without an intercept), s_j that of feature j
        over the tokens, each sequence counting by its weight; it is the root mean square instead where a
        shift of the feature would change the model. So the norm depends neither on the units of y nor on
        those of any feature. What it cannot take out, save for softmax, is a mean of the tokens that is
        large against their spread: centre such tokens; `fit` warns.
    loss_curve_ : ndarray of float64 of shape (`n_iter_` + 1,)
        The objective at the start and after every iteration.
    n_features_in_ : int
        D.
    feature_names_in_ : ndarray of str of shape (D,)
        Only where X was a frame of single tokens with named columns.

    See Also
    --------
    {see_also}

    Notes
    -----
    float32 tokens stay float32 in memory and in the results; all sums are float64. The objective is
    not convex: `n_init` finds out whether that matters.

    With solver="sgd" step t on a batch B follows the gradient of::

        1 / (2 |B|) sum_{{i in B}} w_i (y_i - b - sigma(chi_i)^T z_i)^2

    with the rate gamma_t for k and v, and gamma_t / D for b and a learned offset: all overlaps then
    move on the time scale t / D of the theory of one-pass descent [1]_, [2]_. The penalty's share is a
    division of k by 1 + gamma_t alpha_key / n after the step, and of v alike. In `fit`, n is the number of
    sequences, so that the minimum is the one above, and the order is shuffled before every pass;
    `objective_` and `stop_crit_` are computed after it, on all data. In `partial_fit`, n counts the
    sequences seen so far: the penalty belongs to the sum over all of them. The rate has no units taken out:
    scale X and y to variance about one, or the descent diverges.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, "Statistical Advantage of Softmax
       Attention: Insights from Single-Location Regression", arXiv:2509.21936.
    .. [2] P. Marion, R. Berthier, G. Biau, C. Boyer, "Attention layers provably solve single-location
       regression", arXiv:2410.01537.

    Examples
    --------
    >>> from sklearn_attn import {name}
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> X, y = make_spiked_slr(n_samples=400, n_features=20, signal=9.0, length=4, random_state=0)
    >>> model = {name}(alpha=0.1).fit(X[:300], y[:300])
    >>> model.predict(X[300:]).shape
    (100,)
    >>> model.attention_weights(X[300:])[0].shape
    (4, 1)
    """

_CV_DOCSTRING = """{title}

    A sequence X of L tokens in R^D is predicted as by `{regressor}`::

        f(X) = b + sigma(chi)^T z,   chi = X k / sqrt(D),   z = X v / sqrt(D)
        {formula}

    and for every penalty the fits, on the training part of every fold and on all data, minimise::

        sum_i w_i (y_i - b - sigma(chi_i)^T z_i)^2 + alpha_key |k|^2 + alpha |v|^2

    over the key k, the value v{parameters}. The penalty with the highest mean score on the
    test parts is chosen, as by GridSearchCV with the same folds, and its fit on all data kept. All folds
    share every pass over X, which is not copied, and every fit starts from the one at a larger penalty.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=13 values from 1e-3 to 1e3
        Penalties of v to try, at least 0.
    alpha_key_ratio : float, default=1.0
        The penalty of k is ``alpha_key_ratio * alpha``.
    alpha_keys : array-like of shape (n_alpha_keys,), optional
        Penalties of k as a grid of their own: all pairs with `alphas` are tried.{offset_parameter}
    cv : int, splitter or iterable of (train, test), default=5
        The folds, as in GridSearchCV; they need not partition the data.
    scoring : None, str or callable, default=None
        None is R2. A scorer by name or from ``make_scorer`` is given predictions that the last pass left
        behind; any other callable ``scorer(estimator, X, y)`` a fitted `{regressor}` and the test part of X,
        which is then copied.
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised; otherwise it is 0.
    init : {{"auto", "random"}} or (key, value), default="auto"
        Where the fits at the largest penalty start; see `{regressor}`.
    n_init : int, default=1
        Number of starts at every penalty; those after the first are random. The lowest objective is kept.
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS from each start.
    tol : float, default=1e-5
        A fit has converged when its scaled gradient norm, `stop_crit_`, is at most this.
    random_state : int, RandomState instance or None, default=None
        Drives random starts; `cv` has its own.
    verbose : int, default=0
        1 prints a line for every penalty.

    Attributes
    ----------
    alpha_, alpha_key_ : float
        The chosen penalties.
    alphas_ : ndarray of float64 of shape (n_alphas,)
        The penalties of v that were tried.
    best_score_ : float
        Mean score of the chosen penalties over the folds.
    cv_scores_ : ndarray of float64 of shape (n_alphas, n_folds)
        All scores; with `alpha_keys` of shape (n_alphas, n_alpha_keys, n_folds).
    n_passes_ : int
        Passes over X in all.
    key_, value_ : array of shape (D,)
        k and v of the fit on all data, in the float dtype of X.
    intercept_ : float
        b.{offset_attribute}
    objective_, stop_crit_ : float
        As those of `{regressor}` at the chosen penalties.
    n_iter_ : int
        Iterations of that fit, from its start at the neighbouring penalty.
    loss_curve_ : ndarray of float64 of shape (`n_iter_` + 1,)
        The objective at that start and after every iteration.
    n_features_in_ : int
        D.
    feature_names_in_ : ndarray of str of shape (D,)
        Only where X was a frame of single tokens with named columns.

    See Also
    --------
    {regressor}

    Notes
    -----
    Scores equal those of GridSearchCV to the solver's tolerance where the objective has one minimum that both
    reach. Where it has several, the start from the neighbouring penalty may find another one, often a
    lower one, than the start that a single fit takes.

    Examples
    --------
    >>> from sklearn_attn import {name}
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> X, y = make_spiked_slr(n_samples=400, n_features=20, signal=9.0, length=4, random_state=0)
    >>> model = {name}(alphas=[0.1, 1.0, 10.0], cv=3).fit(X[:300], y[:300])
    >>> model.cv_scores_.shape
    (3, 3)
    >>> model.predict(X[300:]).shape
    (100,)
    """

_NAMES = [f"{name}AttentionRegressor" for name in ("Softmax", "Linear", "Erf", "Softplus")]


def document(
    title,
    formula,
    remark,
    *,
    parameters=" and the intercept b",
    offset_parameter="",
    offset_attribute="",
    offset_scaled="",
):
    """Return a class decorator that writes the docstring of a regressor.

    Parameters
    ----------
    title, formula, remark : str
        First line, definition of the activation, and what to know about it.
    parameters, offset_parameter, offset_attribute, offset_scaled : str
        What a fitted offset adds to the text.

    Returns
    -------
    callable
    """

    def decorate(cls):
        cls._doc_parts = {
            "formula": formula, "parameters": parameters, "offset_parameter": offset_parameter,
            "offset_attribute": offset_attribute,
        }  # fmt: skip
        cls.__doc__ = _DOCSTRING.format(
            name=cls.__name__,
            see_also=", ".join([f"{cls.__name__}CV", *(name for name in _NAMES if name != cls.__name__)]),
            title=title,
            formula=formula,
            remark=remark,
            parameters=parameters,
            offset_parameter=offset_parameter,
            offset_attribute=offset_attribute,
            offset_scaled=offset_scaled,
        )
        return cls

    return decorate


def document_cv(regressor):
    """Return a class decorator that writes the docstring of the CV sibling of a documented regressor."""

    def decorate(cls):
        first_line = regressor.__doc__.splitlines()[0].removesuffix(".")
        cls.__doc__ = _CV_DOCSTRING.format(
            name=cls.__name__,
            regressor=regressor.__name__,
            title=f"{first_line}, penalty by cross-validation.",
            **regressor._doc_parts,
        )
        return cls

    return decorate

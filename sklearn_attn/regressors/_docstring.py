"""The docstring that all attention regressors share, with the formula of each."""

_DOCSTRING = """{title}

    A sequence X of L tokens in R^D is predicted by

        f(X) = b + sigma(chi)^T z,   chi = X k / sqrt(D),   z = X v / sqrt(D)
        {formula}

    The fit minimises

        sum_i w_i (y_i - b - sigma(chi_i)^T z_i)^2 + alpha_key |k|^2 + alpha |v|^2

    over the key k, the value v{parameters}, with weights w_i. {remark}

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty of v, at least 0. It is Ridge's: against the sum, not the mean, of squared errors.
    alpha_key : float, optional
        Penalty of k, by default `alpha`.{offset_parameter}
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised; otherwise it is 0.
    solver : {{"lbfgs"}}, default="lbfgs"
        How the objective is minimised.
    init : {{"auto", "random"}} or (key, value), default="auto"
        Where the fit starts. "auto": uniform attention, k = 0, and the v along the covariance of y with
        pooled tokens that minimises the objective; it depends on the data only. "random": normal k
        and v such that scores, and token values in units of y, have variance about one. Or a pair
        of (D,) arrays, to which the best intercept is added.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    max_iter : int, default=1000
        Largest number of iterations of each start.
    tol : float, default=1e-5
        The fit has converged when the scaled gradient norm, `stop_crit_`, is at most this.
    warm_start : bool, default=False
        Whether to start from the result of the previous fit, where there is one.
    random_state : int, RandomState instance or None, default=None
        Drives random starts only: with one "auto" start a fit is deterministic.
    verbose : int, default=0
        1 prints a line every ten iterations, 2 one every iteration.

    Attributes
    ----------
    key_, value_ : array of shape (D,)
        k and v, in the float dtype of X.
    intercept_ : float
        b.{offset_attribute}
    n_iter_ : int
        Iterations of the start that was kept.
    objective_ : float
        The minimised function at the result.
    stop_crit_ : float
        Norm of the gradient there of the objective over 2 sum(w) s_y^2, with respect to
        s_x k / sqrt(D), s_x v / (s_y sqrt(D)), b / s_y{offset_scaled}; s_x is the root mean square of the
        tokens' features, each sequence counting by its weight, and s_y the standard deviation of y
        (its root mean square without an intercept). So it does not depend on the units of X and y.
    loss_curve_ : ndarray of float64 of shape (n_iter_ + 1,)
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

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, "Statistical Advantage of Softmax
       Attention: Insights from Single-Location Regression", arXiv:2509.21936.

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
        cls.__doc__ = _DOCSTRING.format(
            name=cls.__name__,
            see_also=", ".join(name for name in _NAMES if name != cls.__name__),
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

"""The docstring that all attention classifiers share, with the formula of each."""

_DOCSTRING = """{title}

    A sequence X of L tokens in R^D has the class c with probability::

        P(c | X) = exp(f_c) / sum_c' exp(f_c'),   f_c(X) = b_c + sigma(chi)^T z_c,
        chi = X k / sqrt(D),   z_c = X v_c / sqrt(D)
        {formula}

    For two classes there is one value v and one intercept b, and f are the log odds of ``classes_[1]``; for
    K > 2 every class has its own, and all look through the same key k. The fit minimises::

        -2 sum_i w_i log P(y_i | X_i) + alpha_key |k|^2 + alpha sum_c |v_c|^2

    over the key, the values{parameters}, with weights w_i. {remark}

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty of the values, at least 0. It stands against twice the sum of log losses, the deviance, as
        that of the regressors against the sum of squared errors; for sequences of one token the fit of
        softmax and softplus attention is LogisticRegression's at C = 1 / (D alpha).
    alpha_key : float, optional
        Penalty of k, by default `alpha`.{offset_parameter}
    fit_intercept : bool, default=True
        Whether to fit the intercepts, which are not penalised; otherwise they are 0.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, by which the sequences' are multiplied; 1 for classes that a dict does not name.
        "balanced": W / (K W_c), with W_c the total weight of class c and W that of all.
    init : {{"auto", "random"}} or (key, value), default="auto"
        Where the fit starts. "auto": uniform attention, k = 0, and values along the covariance of the classes
        with pooled tokens; it depends on the data only. "random": normal k and v. Or a pair of arrays of
        shapes (D,) and (D,), or (K, D) for K > 2 classes, to which good intercepts are added.
    n_init : int, default=1
        Number of starts; those after the first are random. The lowest objective is kept.
    max_iter : int, default=1000
        Largest number of iterations of each start.
    tol : float, default=1e-5
        The fit has converged when the scaled gradient norm, `stop_crit_`, is at most this. Below about 1e-8
        rounding stops L-BFGS first, which warns.
    warm_start : bool, default=False
        Whether to start from the result of the previous fit, where there is one, on the same classes.
    random_state : int, RandomState instance or None, default=None
        Drives random starts: with one "auto" start a fit is deterministic.
    verbose : int, default=0
        1 prints a line every ten iterations, 2 one every iteration.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    key_ : array of shape (D,)
        k, in the float dtype of X.
    value_ : array of shape (D,), or (K, D) for K > 2 classes
        v or the v_c, likewise.
    intercept_ : float, or array of shape (K,) for K > 2 classes
        b or the b_c.{offset_attribute}
    n_iter_ : int
        Iterations of the start that was kept.
    n_passes_ : int
        How many times X was read, by all starts.
    objective_ : float
        The minimised function at the result.
    stop_crit_ : float
        Norm of the gradient there of the objective over 2 sum(w), with respect to::

            k_j / sqrt(D) (s_j^2 + D alpha_key / sum(w))^(1/2),
            v_j / sqrt(D) (h s_j^2 + D alpha / sum(w))^(1/2) and b h^(1/2){offset_scaled}.

        h = p (1 - p) with p the share of a class in the weight, 1 / K without an intercept (of K > 2 classes,
        v_c and b_c have that of class c), and s_j the spread of feature j, as in the regressors.
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
    not convex: `n_init` finds out whether that matters. A pass over X takes the time of a regressor's for two
    classes; for more it is a product with K + 1 columns, and needs room for O(longest sequence (D + K))
    numbers in every thread.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, "Statistical Advantage of Softmax
       Attention: Insights from Single-Location Regression", arXiv:2509.21936.

    Examples
    --------
    >>> from sklearn_attn import {name}
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> X, y = make_spiked_slr(n_samples=400, n_features=20, signal=9.0, length=4, random_state=0)
    >>> model = {name}(alpha=0.1).fit(X[:300], y[:300] > 0)
    >>> model.predict_proba(X[300:]).shape
    (100, 2)
    >>> model.attention_weights(X[300:])[0].shape
    (4, 1)
    """

_NAMES = [f"{name}AttentionClassifier" for name in ("Softmax", "Linear", "Erf", "Softplus")]


def document(regressor, remark, offset_scaled=""):
    """Return a class decorator that writes the docstring of the classifier beside a documented regressor.

    Parameters
    ----------
    regressor : type
        With the formula and what a fitted offset adds to the text.
    remark, offset_scaled : str
        What to know about it, and what a fitted offset adds to the units of the stop criterion.

    Returns
    -------
    callable
    """

    def decorate(cls):
        parts = dict(regressor._doc_parts)
        parts["parameters"] = parts["parameters"].replace("the intercept b", "the intercepts")
        siblings = [regressor.__name__, *(name for name in _NAMES if name != cls.__name__)]
        title = regressor.__doc__.splitlines()[0].replace("regression", "classification")
        cls.__doc__ = _DOCSTRING.format(
            name=cls.__name__, see_also=", ".join(siblings), title=title, remark=remark,
            offset_scaled=offset_scaled, **parts,
        )  # fmt: skip
        return cls

    return decorate

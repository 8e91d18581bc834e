"""The four regressors: what differs is the activation."""

from ._base import BaseAttentionRegressor
from ._docstring import document
from ._model import OffsetModel


@document(
    title="Softmax attention regression on sequences of unequal length.",
    formula="sigma(chi)_l = exp(chi_l) / sum_m exp(chi_m)",
    remark="It attains the Bayes risk of single-location regression [1]_; at L = 1 it is Ridge.",
)
class SoftmaxAttentionRegressor(BaseAttentionRegressor):
    _activation_name = "softmax"


@document(
    title="Linear attention regression on sequences of unequal length.",
    formula="sigma(chi)_l = 1 + chi_l",
    remark="The weights do not sum to one, and predictions grow with the length [1]_.",
)
class LinearAttentionRegressor(BaseAttentionRegressor):
    _activation_name = "linear"


@document(
    title="Error-function attention regression on sequences of unequal length.",
    formula="sigma(chi)_l = 1 + erf(c + chi_l)",
    parameters=', the intercept b and, with ``offset="learn"``, the offset c',
    remark="Weights lie between 0 and 2 and do not compete within a sequence [1]_.",
    offset_parameter=(
        '\n    offset : float or "learn", default=0.0\n        The constant c added to every score; '
        '"learn" fits it with k and v, from 0 and\n        without a penalty.'
    ),
    offset_attribute="\n    offset_ : float\n        c.",
    offset_scaled=" and c",
)
class ErfAttentionRegressor(OffsetModel, BaseAttentionRegressor):
    _activation_name = "erf"

    def __init__(
        self,
        alpha=1.0,
        *,
        alpha_key=None,
        offset=0.0,
        fit_intercept=True,
        solver="lbfgs",
        init="auto",
        n_init=1,
        max_iter=1000,
        tol=1e-5,
        learning_rate=0.1,
        power_t=0.0,
        batch_size=1,
        average=False,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            alpha,
            alpha_key=alpha_key,
            fit_intercept=fit_intercept,
            solver=solver,
            init=init,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            learning_rate=learning_rate,
            power_t=power_t,
            batch_size=batch_size,
            average=average,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.offset = offset


@document(
    title="Softplus attention regression on sequences of unequal length.",
    formula="sigma(chi)_l = softplus(chi_l) / sum_m softplus(chi_m)",
    remark="Weights sum to one but grow only linearly with the score [1]_; at L = 1 it is Ridge.",
)
class SoftplusAttentionRegressor(BaseAttentionRegressor):
    _activation_name = "softplus"


REGRESSORS = {
    regressor._activation_name: regressor
    for regressor in (
        SoftmaxAttentionRegressor,
        LinearAttentionRegressor,
        ErfAttentionRegressor,
        SoftplusAttentionRegressor,
    )
}

"""What is minimised: the deviance of single-head attention plus ridge penalties."""

from ._batch import shared_pass
from ._coordinates import AttentionParameters, like, total_weight
from ._curvature import curvature_cost, gauss_newton_matrix
from ._losses import LogLoss, MultinomialLogLoss, refuse_overflow
from ._moments import moments
from ._objective import AttentionObjective, on_host
from ._projection import pool, project

__all__ = [
    "AttentionObjective",
    "AttentionParameters",
    "LogLoss",
    "MultinomialLogLoss",
    "curvature_cost",
    "gauss_newton_matrix",
    "like",
    "moments",
    "on_host",
    "pool",
    "project",
    "refuse_overflow",
    "shared_pass",
    "total_weight",
]

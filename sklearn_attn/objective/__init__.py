"""What is minimised: the squared error of single-head attention plus ridge penalties."""

from ._batch import shared_pass
from ._coordinates import AttentionParameters
from ._curvature import curvature_cost, gauss_newton_matrix
from ._moments import moments
from ._objective import AttentionObjective
from ._projection import project

__all__ = [
    "AttentionObjective",
    "AttentionParameters",
    "curvature_cost",
    "gauss_newton_matrix",
    "moments",
    "project",
    "shared_pass",
]

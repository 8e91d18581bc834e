"""What is minimised: the squared error of single-head attention plus ridge penalties."""

from ._batch import shared_pass
from ._coordinates import AttentionParameters, moments
from ._curvature import GaussNewton
from ._objective import AttentionObjective, project

__all__ = ["AttentionObjective", "AttentionParameters", "GaussNewton", "moments", "project", "shared_pass"]

"""What is minimised: the squared error of single-head attention plus ridge penalties."""

from ._coordinates import AttentionParameters
from ._objective import AttentionObjective, project

__all__ = ["AttentionObjective", "AttentionParameters", "project"]

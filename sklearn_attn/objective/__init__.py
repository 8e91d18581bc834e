"""What is minimised: the squared error of single-head attention plus ridge penalties."""

from ._objective import AttentionObjective, AttentionParameters, project

__all__ = ["AttentionObjective", "AttentionParameters", "project"]

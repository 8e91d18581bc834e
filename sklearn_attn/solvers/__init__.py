"""How the objective is minimised."""

from ._lbfgs import lbfgs
from ._result import SolverResult
from ._sgd import Schedule, SGDState, sgd, sgd_pass

__all__ = ["SGDState", "Schedule", "SolverResult", "lbfgs", "sgd", "sgd_pass"]

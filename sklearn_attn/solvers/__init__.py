"""How the objective is minimised."""

from ._lbfgs import lbfgs
from ._result import SolverResult

__all__ = ["SolverResult", "lbfgs"]

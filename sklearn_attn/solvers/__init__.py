"""How the objective is minimised."""

from ._blas import single_threaded_blas
from ._curvature_pairs import CurvaturePairs
from ._lbfgs import Renewal, lbfgs, lbfgs_steps
from ._lockstep import run_in_lockstep
from ._result import SolverResult
from ._sgd import Schedule, SGDState, sgd, sgd_pass

__all__ = [
    "CurvaturePairs",
    "Renewal",
    "SGDState",
    "Schedule",
    "SolverResult",
    "lbfgs",
    "lbfgs_steps",
    "run_in_lockstep",
    "sgd",
    "sgd_pass",
    "single_threaded_blas",
]

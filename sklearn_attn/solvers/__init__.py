"""How the objective is minimised."""

from ._blas import single_threaded_blas
from ._lbfgs import lbfgs
from ._lbfgs_batch import CurvaturePairs, lbfgs_steps, run_in_lockstep
from ._result import SolverResult
from ._sgd import Schedule, SGDState, sgd, sgd_pass

__all__ = [
    "CurvaturePairs",
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

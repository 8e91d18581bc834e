"""The high-dimensional theory of the single-location regression task.

Population risk, Bayes-optimal error, replica theory of ERM at finite sample ratio, the hard phase and
one-pass SGD, from Duranthon, Marion, Boyer, Loureiro, Zdeborova, arXiv:2509.21936.
"""

from ._overlaps import Overlaps, order_parameters
from .bayes import BayesResult, bayes_optimal, hard_phase
from .estimator import ReplicaTheory
from .gamp import BayesGAMPRegressor
from .population import PopulationRisk, bayes_risk, population_risk, risk_at
from .replica import ReplicaResult, ReplicaSymmetryWarning, replica_erm
from .sgd import SGDDynamics, sgd_dynamics

__all__ = [
    "BayesGAMPRegressor",
    "BayesResult",
    "Overlaps",
    "PopulationRisk",
    "ReplicaResult",
    "ReplicaSymmetryWarning",
    "ReplicaTheory",
    "SGDDynamics",
    "bayes_optimal",
    "bayes_risk",
    "hard_phase",
    "order_parameters",
    "population_risk",
    "replica_erm",
    "risk_at",
    "sgd_dynamics",
]

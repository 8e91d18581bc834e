"""What a solver returns."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class SolverResult:
    """The end of one minimisation.

    Attributes
    ----------
    params : ndarray of float64 of shape (n_parameters,)
        The flat vector at which the solver stopped.
    objective : float
        The value there, as the objective reports it.
    stop_crit : float
        The Euclidean norm of the gradient there.
    n_iter : int
        Number of iterations.
    converged : bool
        Whether `stop_crit` is at most the tolerance.
    message : str
        Why it stopped, for people.
    stopped : bool
        Whether its callback stopped it.
    loss_curve : list of float
        The objective at the start and after every iteration.
    state : object, optional
        What the solver needs to go on, where it can.
    """

    params: np.ndarray
    objective: float
    stop_crit: float
    n_iter: int
    converged: bool
    message: str
    loss_curve: list = field(repr=False, default_factory=list)
    state: object = field(repr=False, default=None)
    stopped: bool = False

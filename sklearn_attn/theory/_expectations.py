"""Quasi-random draws of the hidden scores, for expectations over the SLR task.

Every sequence is drawn with its hidden token first, which is no loss as tokens are exchangeable. Points
are scrambled Sobol points (Owen 1997): the error of an average of N of them over a smooth function falls
nearly as 1/N. A fixed seed makes every average a deterministic function of its parameters, so
that fixed points and optima are those of smooth functions.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtri, softmax
from scipy.stats import qmc

_SMALLEST_UNIFORM = 1e-16
_MAX_DIMENSIONS = qmc.Sobol.MAXDIM


@lru_cache(maxsize=16)
def uniforms(n_points, n_dimensions, n_replicates=1, seed=0):
    """Draw independent scrambles of Sobol points.

    Parameters
    ----------
    n_points : int
        Points per replicate, a power of 2.
    n_dimensions, n_replicates, seed : int

    Returns
    -------
    ndarray of shape (n_replicates * n_points, n_dimensions)
        In (0, 1), replicate after replicate; read-only, as it is kept for the next call.
    """
    if n_dimensions > _MAX_DIMENSIONS:
        raise ValueError(
            f"Sequences are too long for the theory's averages: these need {n_dimensions} random numbers for "
            f"each, and there are {_MAX_DIMENSIONS}; that is enough for 7,000 tokens anywhere."
        )
    rng = np.random.default_rng(seed)
    replicates = [
        qmc.Sobol(n_dimensions, scramble=True, rng=rng).random(n_points) for _ in range(n_replicates)
    ]
    points = np.clip(np.concatenate(replicates), _SMALLEST_UNIFORM, 1.0 - _SMALLEST_UNIFORM)
    points.flags.writeable = False
    return points


def posterior(problem, chi_star):
    """Law of the hidden location given the hidden scores, softmax(c_nu chi*).

    Parameters
    ----------
    problem : SLRProblem
    chi_star : ndarray of shape (n, L)

    Returns
    -------
    ndarray of shape (n, L)
        c_nu = sqrt(nu) for the spiked task and nu for max.
    """
    log_weight = problem.log_weight(chi_star)
    if math.isinf(problem.signal):
        return (log_weight == log_weight.max(axis=1, keepdims=True)).astype(float)
    return softmax(log_weight, axis=1)


def hidden_scores(problem, points):
    """Turn uniforms into hidden scores chi*, in an order that suits quasi-random points.

    Parameters
    ----------
    problem : SLRProblem
    points : ndarray of shape (n, L)
        Uniform on (0, 1).

    Returns
    -------
    ndarray of shape (n, L)
        spiked: the first token is the hidden one, shifted by sqrt(nu). max: standard normals, the
        largest first, which is the hidden one where nu = inf.
    """
    if problem.task == "spiked":
        chi_star = ndtri(points)
        chi_star[:, 0] += math.sqrt(problem.signal)
        return chi_star
    # The largest of L normals has the distribution function Phi^L; the others are normals below it.
    chi_star = np.empty_like(points)
    largest = points[:, 0] ** (1.0 / points.shape[1])
    chi_star[:, 0] = -ndtri(-np.expm1(np.log(points[:, 0]) / points.shape[1]))
    chi_star[:, 1:] = ndtri(np.maximum(points[:, 1:] * largest[:, None], _SMALLEST_UNIFORM))
    return chi_star


def hidden_first(problem, chi_star, points):
    """Draw the hidden location and move it to the front.

    Parameters
    ----------
    problem : SLRProblem
    chi_star : ndarray of shape (n, L)
        From `hidden_scores`.
    points : ndarray of shape (n,)
        Uniform on (0, 1): which location is drawn.

    Returns
    -------
    ndarray of shape (n, L)
        The first token is the hidden one.
    """
    if problem.task == "spiked" or math.isinf(problem.signal):
        return chi_star
    cumulated = np.cumsum(posterior(problem, chi_star), axis=1)
    location = np.minimum((points[:, None] > cumulated).sum(axis=1), chi_star.shape[1] - 1)
    rows = np.arange(chi_star.shape[0])
    swapped = chi_star.copy()
    swapped[rows, location] = chi_star[:, 0]
    swapped[:, 0] = chi_star[rows, location]
    return swapped

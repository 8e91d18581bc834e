"""Law of the hidden location when the hidden scores are known up to Gaussian noise.

With independent chi*_l ~ N(mean_l, V) the evidence for a location e is w_e = E[g(e, chi*)], and

    spiked   w_e ~ exp(sqrt(nu) mean_e)
    max      w_e / L = P(e is the argmax of h_l = chi*_l + Gumbel / nu)

For max let G be the distribution function of h - mean, and G' = r G. Then
w_e / L = int P r_e dx with P(x) = prod_l G(x - mean_l), and for weights N_e of the locations

    sum_e N_e dw_e / dmean_l  =  L int P r_l (N_l R - S) dx,   R = sum_e r_e,  S = sum_e N_e r_e

so that all of them cost one pass over the tokens at each point of a one-dimensional integral.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, softmax

from .._compiled import jit
from ._parallel import split_samples

_TABLE_SIZE = 2048
_MIN_VARIANCE = 1e-12
_EULER_GAMMA = 0.5772156649015329
# Beyond this ratio of the Gaussian's to the Gumbel's width the sum is a Gaussian to 1e-5.
_GAUSSIAN_RATIO = 50.0


@dataclass(frozen=True)
class LocationModel:
    """The max task at a given signal and variance, tabulated.

    Attributes
    ----------
    table : ndarray of shape (2, n)
        log G and r = G' / G on a uniform grid.
    start, spacing : float
        The grid of the table.
    below, above, step : float
        The integral runs from ``max(mean) - below`` to ``max(mean) + above`` in steps of `step`.
    """

    table: np.ndarray
    start: float
    spacing: float
    below: float
    above: float
    step: float


def location_model(signal, variance):
    """Tabulate the distribution of chi* + Gumbel / nu.

    Parameters
    ----------
    signal : float
        nu > 0, up to inf.
    variance : float
        V of the Gaussian.

    Returns
    -------
    LocationModel
    """
    sd = math.sqrt(max(variance, _MIN_VARIANCE))
    gumbel = 1.0 / signal
    start, stop = -9.0 * sd - 5.0 * gumbel, 9.0 * sd + 36.0 * gumbel
    x = np.linspace(start, stop, _TABLE_SIZE)
    if sd > _GAUSSIAN_RATIO * gumbel:
        width = math.sqrt(sd**2 + (math.pi * gumbel) ** 2 / 6.0)
        t = (x - _EULER_GAMMA * gumbel) / width
        log_G = log_ndtr(t)
        rate = np.exp(-0.5 * t**2 - 0.5 * math.log(2.0 * math.pi) - log_G) / width
    else:
        step = min(0.25, 0.5 * gumbel / sd)
        g = np.arange(-9.0, 9.0 + step, step)
        log_weights = -0.5 * g**2 - math.log(math.sqrt(2.0 * math.pi) / step)
        # exp(-(x - sd g) / gumbel); where it overflows its weight is zero
        with np.errstate(over="ignore"):
            decay = np.exp(-x / gumbel)[:, None] * np.exp((sd / gumbel) * g)
        decay = np.minimum(decay, 1e300)
        exponent = log_weights - decay
        top = exponent.max(axis=1, keepdims=True)
        terms = np.exp(exponent - top)
        total = terms.sum(axis=1)
        log_G = np.log(total) + top[:, 0]
        rate = (terms * decay).sum(axis=1) / total / gumbel
    return LocationModel(
        table=np.stack([log_G, rate]),
        start=start,
        spacing=x[1] - x[0],
        below=5.0 * sd + 3.0 * gumbel,
        above=6.0 * sd + 25.0 * gumbel,
        step=0.5 * math.sqrt(sd**2 + gumbel**2),
    )


@jit
def max_location(mean, N, table, start, spacing, below, above, step, first, last, w, field):
    """Evaluate w / L and sum_e N_e dw_e / dmean / L of the samples `first` to `last`.

    Parameters
    ----------
    mean, N : ndarray of shape (n, L)
    table, start, spacing, below, above, step
        A `LocationModel`.
    first, last : int
    w, field : ndarray of shape (n, L)
        Out.
    """
    L = mean.shape[1]
    size = table.shape[1]
    rate = np.empty(L)
    for s in range(first, last):
        top = mean[s, 0]
        for i in range(L):
            top = max(top, mean[s, i])
            w[s, i] = field[s, i] = 0.0
        for point in range(int((below + above) / step) + 1):
            x = top - below + point * step
            log_P = total = weighted = 0.0
            for i in range(L):
                position = min(max((x - mean[s, i] - start) / spacing, 0.0), size - 1.001)
                cell = int(position)
                t = position - cell
                log_P += (1.0 - t) * table[0, cell] + t * table[0, cell + 1]
                rate[i] = (1.0 - t) * table[1, cell] + t * table[1, cell + 1]
                total += rate[i]
                weighted += N[s, i] * rate[i]
            P = math.exp(log_P) * step
            for i in range(L):
                w[s, i] += P * rate[i]
                field[s, i] += P * rate[i] * (N[s, i] * total - weighted)


def location_evidence(problem, mean, variance, N):
    """Evaluate the evidence for every location and its gradient, for all samples.

    Parameters
    ----------
    problem : SLRProblem
    mean : ndarray of shape (n, L)
        Means of the hidden scores.
    variance : float
        Their common variance V.
    N : ndarray of shape (n, L)
        Non-negative weights of the locations.

    Returns
    -------
    w : ndarray of shape (n, L)
        w_e over its sum or, for max, over L.
    score : ndarray of shape (n, L)
        d log(sum_e w_e N_e) / d mean.
    """
    if problem.task == "spiked":
        shift = math.sqrt(problem.signal)
        w = softmax(shift * mean, axis=1)
        weighted = w * N
        # w is normalised here, which the evidence is not: its sum is left out of the derivative.
        return w, shift * weighted / np.sum(weighted, axis=1, keepdims=True)
    n, L = mean.shape
    if problem.signal == 0.0 or L == 1:
        return np.full((n, L), 1.0 / L), np.zeros((n, L))
    model = location_model(problem.signal, variance)
    w, field = np.empty((n, L)), np.empty((n, L))
    arguments = (model.table, model.start, model.spacing, model.below, model.above, model.step)
    split_samples(lambda first, last: max_location(mean, N, *arguments, first, last, w, field), n)
    evidence = np.sum(w * N, axis=1, keepdims=True)
    return w, field / np.maximum(evidence, np.finfo(float).tiny)

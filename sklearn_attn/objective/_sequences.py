"""From scores and token values of whole sequences to the coefficients of the gradient, in compiled code.

Sequences of a few tokens are most of the work here: a loop over the tokens of each would end before the
processor has learnt where. So all loops run over the tokens of a block or over its sequences, without a
branch.
"""

import math

import numpy as np

from .._compiled import LINEAR, SOFTMAX, SQUARED, exponentiate, jit, potential

# Where potentials of a block differ by less, one maximum does for all its sequences: exp(-300) and its
# inverse are far from the ends of float64.
_NARROW = 300.0
# Numbers of a token that `coefficients` needs room for.
SCRATCH_ROWS = 5


@jit
def number_tokens(offsets, first, last, places):
    """Fill places with the sequence of every token, counted from `first`."""
    start = offsets[first]
    n = offsets[last] - start
    for i in range(n):
        places[i] = 0
    for s in range(first + 1, last):
        places[offsets[s] - start] = 1
    place = places[0]
    for i in range(n):
        place += places[i]
        places[i] = place


@jit
def potentials(kind, offset, scores, n, p, d):
    """Fill potentials and slopes of a block of tokens; loops without a branch run on vectors."""
    if kind == SOFTMAX:
        for i in range(n):
            p[i], d[i] = scores[i], 1.0
    elif kind == LINEAR:
        for i in range(n):
            p[i], d[i] = 1.0 + scores[i], 1.0
    else:
        for i in range(n):
            p[i], d[i] = potential(kind, scores[i], offset)


@jit
def subtract_maximum(p, start, stop):
    """Subtract the largest of p[start:stop] from all of them, and return it."""
    top = -np.inf
    for i in range(start, stop):
        top = max(top, p[i])
    for i in range(start, stop):
        p[i] -= top
    return top


@jit
def exponentials(p, d, n):
    """Turn potentials, less their maximum, into p = exp(u) and slopes into d = p u'."""
    exponentiate(p, n)
    for i in range(n):
        d[i] *= p[i]


@jit
def _subtract_maxima(offsets, first, last, p):
    """Subtract from the potentials of every sequence at least the largest of them, and not much more."""
    start = offsets[first]
    n = offsets[last] - start
    top, bottom = -np.inf, np.inf
    for i in range(n):
        top = max(top, p[i])
        bottom = min(bottom, p[i])
    if top - bottom < _NARROW:
        for i in range(n):
            p[i] -= top
    else:
        for s in range(first, last):
            subtract_maximum(p, offsets[s] - start, offsets[s + 1] - start)


@jit
def _sums(places, n, token_values, p, d, total, F, slope):
    """Sum p, p z and d z over every sequence."""
    running_total = running_F = running_slope = 0.0
    before = places[0]
    for i in range(n):
        place = places[i]
        keep = 1.0 - (place - before)  # 0 where a sequence begins
        before = place
        running_total = keep * running_total + p[i]
        running_F = keep * running_F + p[i] * token_values[i]
        running_slope = keep * running_slope + d[i] * token_values[i]
        total[place], F[place], slope[place] = running_total, running_F, running_slope


@jit
def unit_deviance(loss, y, prediction):
    """Compute the deviance of one sequence and the residual, -1/2 of its derivative; see `_losses`."""
    if loss == SQUARED:
        residual = y - prediction
        return residual * residual, residual
    decay = math.exp(-abs(prediction))
    probability = (1.0 if prediction >= 0.0 else decay) / (1.0 + decay)
    return 2.0 * (max(prediction, 0.0) - y * prediction + math.log1p(decay)), y - probability


@jit
def attend(offsets, kind, normalised, offset, first, last, scores, p, d):
    """Fill p and d of the tokens of whole sequences; see `coefficients`."""
    n = offsets[last] - offsets[first]
    potentials(kind, offset, scores, n, p, d)
    if normalised:
        _subtract_maxima(offsets, first, last, p)
        exponentials(p, d, n)


@jit
def coefficients(
    offsets, y, sample_weight, loss, kind, normalised, offset, intercept, first, last, places, scores,
    token_values, scratch, scalars,
):  # fmt: skip
    """Turn scores and token values of the sequences `first` to `last` into coefficients of the gradient.

    With p = exp(u - max u) and d = p u' (normalised; p = u, d = u' otherwise), f = sum p z / Z and Z = sum p
    (or 1), the residual r, y - b - f for the squared error, gives the derivatives with respect to a token's
    score and value,

        -2 w r d (z - f) / Z    and    -2 w r p / Z

    where -f is there for normalised activations only. They take the place of the scores and token values.

    Parameters
    ----------
    places : ndarray of int64 of shape (block,)
        From `number_tokens`.
    scratch : ndarray of float64 of shape (5, block)
        Its first row receives f of every sequence.
    scalars : ndarray of float64 of shape (3,)
        The deviance and its derivatives with respect to b and c are added.
    """
    F, total, slope, p, d = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    n = offsets[last] - offsets[first]
    attend(offsets, kind, normalised, offset, first, last, scores, p, d)
    _sums(places, n, token_values, p, d, total, F, slope)
    # not in `scalars`: threads may share its line
    total_deviance = intercept_gradient = offset_gradient = 0.0
    for s in range(last - first):
        Z = total[s] if normalised else 1.0
        f = F[s] / Z
        deviance, residual = unit_deviance(loss, y[first + s], intercept + f)
        weight = sample_weight[first + s]
        factor = -2.0 * weight * residual / Z
        total_deviance += weight * deviance
        intercept_gradient -= 2.0 * weight * residual
        offset_gradient += factor * slope[s]
        F[s] = f
        total[s] = factor
    scalars[0] += total_deviance
    scalars[1] += intercept_gradient
    scalars[2] += offset_gradient
    for i in range(n):
        factor = total[places[i]]
        shift = F[places[i]] if normalised else 0.0
        scores[i] = factor * d[i] * (token_values[i] - shift)
        token_values[i] = factor * p[i]

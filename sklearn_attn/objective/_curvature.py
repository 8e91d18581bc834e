"""The Gauss-Newton matrix: curvature of the deviance that is known without differences."""

import math
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from .._backend import is_numpy_array
from ..ragged import Segments
from ._coordinates import activation_at
from ._cpu import n_threads_for
from ._losses import SQUARED_ERROR
from ._projection import project
from ._threads import ThreadTeam

# Numbers of derivatives that are held at a time, and of tokens, of which float32 ones are copied.
_BLOCK_NUMBERS = 2**20
_TOKEN_NUMBERS = 2**22
# The largest number of rows of a matrix (64 MB).
_MAX_SIZE = 2800


def curvature_cost(X, loss=SQUARED_ERROR):
    """Estimate what a `GaussNewton` and its factors cost, in passes over X, by multiplications.

    Parameters
    ----------
    X : RaggedArray
    loss : Loss, default=SQUARED_ERROR

    Returns
    -------
    float
        Infinite where the matrix would be too large, the tokens are not in a NumPy array, or the loss has
        several outputs, whose matrix would take K times as many multiplications and K^2 times the memory.
    """
    size = 2 * X.n_features
    if size > _MAX_SIZE or not is_numpy_array(X.values) or loss.n_outputs is not None:
        return math.inf
    return (len(X) + size / 3) * size**2 / (4 * X.n_tokens * X.n_features)


def gauss_newton_matrix(
    X, sample_weight, activation, parameters, centre, fit_intercept, fit_offset, loss=SQUARED_ERROR,
    n_threads=None,
):  # fmt: skip
    """Compute 2 sum_i w_i h_i J_i J_i^T, with J_i the derivatives of b + f(X_i).

    Half of the second derivative of the deviance, h, is 1 for the squared error and p (1 - p) for the log
    loss.

    With a the pullback of z through the weights, d f / d chi,

        df/dk = X^T a / sqrt(D),   df/dv = X^T sigma / sqrt(D) - m / sqrt(D),   df/db = 1,   df/dc = sum a

    where m / sqrt(D) is what centring takes out, see `Coordinates`.

    Parameters
    ----------
    X : RaggedArray
        With tokens in a NumPy array.
    sample_weight : ndarray of float64 of shape (n,)
    activation : Activation
    parameters : AttentionParameters
        The point.
    centre : ndarray of float64 of shape (D,)
        m / sqrt(D).
    fit_intercept, fit_offset : bool
        Whether b and c are parameters.
    loss : Loss, default=SQUARED_ERROR
        One of a single output.
    n_threads : int, optional
        By default those that are available.

    Returns
    -------
    ndarray of float64 of shape (n_parameters, n_parameters)
        In the units of k, v, the intercept after centring, and c.

    Notes
    -----
    The work is a product of n (2 D)^2 multiplications; BLAS should be held to one thread meanwhile.
    """
    D = X.n_features
    size = 2 * D + fit_intercept + fit_offset
    activation = activation_at(activation, parameters)
    scores, token_values = project(X, parameters.key, parameters.value, n_threads)
    segments = Segments(X.offsets, scores)
    scale = 1.0 / math.sqrt(D)
    pooled = segments.map(activation.weights, scores)
    slopes = segments.map(activation.pullback, scores, token_values)
    predictions = segments.sum(pooled * token_values) + parameters.intercept
    root = np.sqrt(2.0 * sample_weight * loss.curvature(predictions[:, None]))
    blocks = _blocks(X.offsets, max(1, _BLOCK_NUMBERS // size), _TOKEN_NUMBERS // D)
    n_threads = n_threads_for(X.values.size, n_threads)
    matrices = np.zeros((n_threads, size, size))

    def add_blocks(thread):
        for first, last in blocks[thread::n_threads]:
            offsets = X.offsets[first : last + 1]
            start, stop = int(offsets[0]), int(offsets[-1])
            shape = offsets.size - 1, stop - start
            block, tokens = X.values[start:stop], np.arange(stop - start)
            jacobian = np.empty((shape[0], size))
            for column, weights in ((0, slopes), (D, pooled)):
                pooling = csr_array((weights[start:stop] * scale, tokens, offsets - start), shape=shape)
                jacobian[:, column : column + D] = pooling @ block
            jacobian[:, D : 2 * D] -= centre
            if fit_intercept:
                jacobian[:, 2 * D] = 1.0
            if fit_offset:
                jacobian[:, -1] = np.add.reduceat(slopes[start:stop], offsets[:-1] - start)
            jacobian *= root[first:last, None]
            matrices[thread] += jacobian.T @ jacobian

    team = ThreadTeam(n_threads)
    try:
        team.run(add_blocks)
    finally:
        team.close()
    return matrices.sum(axis=0)


def _blocks(offsets, n_sequences, n_tokens):
    """Cut the sequences into blocks of at most so many, and of at most so many tokens or of one sequence.

    Returns
    -------
    list of (int, int)
        The first and one past the last sequence of every block.
    """
    bounds = [0]
    while bounds[-1] < offsets.size - 1:
        first = bounds[-1]
        fitting = int(np.searchsorted(offsets, offsets[first] + n_tokens, side="right")) - 1
        bounds.append(min(max(fitting, first + 1), first + n_sequences, offsets.size - 1))
    return list(pairwise(bounds))


class GaussNewton:
    """The second derivative of the deviance, but for terms with the residuals, at one point.

    Parameters
    ----------
    matrix : ndarray of float64 of shape (n_parameters, n_parameters)
        As `gauss_newton_matrix` computes it.
    """

    def __init__(self, matrix):
        self.matrix = matrix

    def inverse(self, objective):
        """Return the product with the inverse curvature of an objective in its coordinates, as a function.

        Parameters
        ----------
        objective : AttentionObjective
            With other penalties, or slightly other weights, than the one of the matrix.

        Returns
        -------
        callable or None
            Takes and returns an ndarray of shape (n_parameters,). None where the matrix with the
            penalties is singular but for rounding.
        """
        D, unit = objective.X.n_features, objective.coordinates.unit
        penalties = np.zeros_like(unit)
        penalties[:D], penalties[D : 2 * D] = 2.0 * objective.alpha_key, 2.0 * objective.alpha_value
        curvature = self.matrix * unit
        curvature *= unit[:, None] / objective.coordinates.objective_scale
        curvature.flat[:: unit.size + 1] += penalties * unit**2 / objective.coordinates.objective_scale
        try:
            factor = cho_factor(curvature, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        return lambda vector: cho_solve(factor, vector, check_finite=False)

"""The Gauss-Newton matrix: curvature of the deviance that is known without differences."""

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._backend import is_numpy_array
from ..ragged import Segments
from ._coordinates import activation_at
from ._cpu import n_threads_for
from ._losses import SQUARED_ERROR
from ._projection import TOKEN_NUMBERS, cut_blocks, pool_block, project
from ._threads import ThreadTeam

# Numbers of derivatives that are held at a time.
_BLOCK_NUMBERS = 2**20
# The largest number of rows of a matrix (64 MB).
_MAX_SIZE = 2800
# The blocks are dealt out to matrices that are added up at the end, as many on any number of threads: 12,
# fewer where they would fill more than 128 MB.
_MAX_SHARES, _MATRIX_NUMBERS = 12, 2**24


def curvature_cost(X, loss=SQUARED_ERROR):
    """Estimate what a `GaussNewton` and its factors cost, in passes over X, by multiplications.

    Parameters
    ----------
    X : RaggedArray
    loss : Loss, default=SQUARED_ERROR

    Returns
    -------
    float
        Infinite where the matrix would be too large or the tokens are not in a NumPy array.
    """
    K = loss.n_outputs
    rows, directions = (1, 2) if K is None else (K + 1, K + 1)  # of a sequence
    size = directions * X.n_features
    if size > _MAX_SIZE or not is_numpy_array(X.values):
        return math.inf
    return (len(X) * rows + size / 3) * size**2 / (2 * directions * X.n_tokens * X.n_features)


def gauss_newton_matrix(
    X, sample_weight, activation, parameters, centre, fit_intercept, fit_offset, loss=SQUARED_ERROR,
    n_threads=None,
):  # fmt: skip
    """Compute 2 sum_i w_i J_i^T H_i J_i, with J_i the derivatives of b + f(X_i).

    Half of the second derivative of the deviance, H, is 1 for the squared error and p (1 - p) for the log
    loss. For K classes J_i has K rows and H = diag(p) - p p^T, for which it does not matter when all f_c rise
    alike: lest the matrix be singular, 1 / K^2 is added to the curvature of v and b in that direction, in
    which nothing but the penalty has a gradient.

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
    n_threads : int, optional
        By default those that are available.

    Returns
    -------
    ndarray of float64 of shape (n_parameters, n_parameters)
        In the units of k, v, the intercept after centring, and c.

    Notes
    -----
    The work is a product of n (2 D)^2 multiplications, or n (K + 1)^3 D^2; BLAS should be held to one thread
    meanwhile.
    """
    D, K = X.n_features, loss.n_outputs or 1
    size = D + K * D + K * fit_intercept + fit_offset
    activation = activation_at(activation, parameters)
    scores, token_values = project(X, parameters.key, np.atleast_2d(parameters.value), n_threads)
    segments = Segments(X.offsets, scores)
    scale = 1.0 / math.sqrt(D)
    pooled = segments.map(activation.weights, scores)
    slopes = [segments.map(activation.pullback, scores, token_values[:, c]) for c in range(K)]
    outputs = [segments.sum(pooled * token_values[:, c]) for c in range(K)]
    predictions = np.stack(outputs, axis=1) + parameters.intercept
    root = np.sqrt(2.0 * sample_weight)
    blocks = cut_blocks(X.offsets, max(1, _BLOCK_NUMBERS // (K * size)), TOKEN_NUMBERS // D)
    n_shares = min(len(blocks), _MAX_SHARES, _MATRIX_NUMBERS // size**2)
    matrices = np.zeros((n_shares, size, size))

    def add_blocks(share):
        for first, last in blocks[share::n_shares]:
            start, stop = int(X.offsets[first]), int(X.offsets[last])
            block, offsets = X.values[start:stop], X.offsets[first : last + 1] - start
            jacobian = np.zeros((last - first, K, size))
            attended = pool_block(pooled[start:stop] * scale, block, offsets) - centre
            for c in range(K):
                jacobian[:, c, :D] = pool_block(slopes[c][start:stop] * scale, block, offsets)
                jacobian[:, c, D + c * D : 2 * D + c * D] = attended
                if fit_intercept:
                    jacobian[:, c, D + K * D + c] = 1.0
                if fit_offset:
                    jacobian[:, c, -1] = np.add.reduceat(slopes[c][start:stop], offsets[:-1])
            parts = []
            if loss.n_outputs is not None:
                together = jacobian.mean(axis=1, keepdims=True)
                together[:, :, :D] = 0.0
                together[:, :, D + K * D + K * fit_intercept :] = 0.0
                parts.append(together)
            parts.append(loss.root_curvature(jacobian, predictions[first:last]))
            for rows in parts:
                rows *= root[first:last, None, None]
                rows = rows.reshape(-1, size)
                matrices[share] += rows.T @ rows

    team = ThreadTeam(min(n_shares, n_threads_for(X, n_threads)))
    try:
        team.deal(add_blocks, n_shares)
    finally:
        team.close()
    return matrices.sum(axis=0)


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
        penalties[:D] = 2.0 * objective.alpha_key
        penalties[objective.coordinates.value_part] = 2.0 * objective.alpha_value
        curvature = self.matrix * unit
        curvature *= unit[:, None] / objective.coordinates.objective_scale
        curvature.flat[:: unit.size + 1] += penalties * unit**2 / objective.coordinates.objective_scale
        try:
            factor = cho_factor(curvature, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        return lambda vector: cho_solve(factor, vector, check_finite=False)

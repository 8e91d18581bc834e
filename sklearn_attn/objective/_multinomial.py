"""The fused pass for several classes: one key, and a value for every class.

The tokens of a block are multiplied with the key and all K values at once, a matrix product of K + 1 columns,
and so are the coefficients of the gradient with the tokens: the block is read from memory once.
"""

import math

import numpy as np

from .._compiled import ACTIVATION_CODES, jit
from ._blocks import BlockKernel, as_float64
from ._sequences import attend, number_tokens


@jit
def _log_loss(f, y, weight, residuals):
    """Compute the deviance of one sequence of class y, and w r_c of every class; see `_losses`."""
    K = f.shape[0]
    top = -np.inf
    for c in range(K):
        top = max(top, f[c])
    total = 0.0
    for c in range(K):
        residuals[c] = math.exp(f[c] - top)
        total += residuals[c]
    for c in range(K):
        residuals[c] *= -weight / total
    residuals[y] += weight
    return 2.0 * weight * (math.log(total) + top - f[y])


@jit
def _coefficients(
    offsets, y, sample_weight, kind, normalised, offset, intercepts, first, last, places, pre_activations,
    scratch, scalars, factors,
):  # fmt: skip
    """Turn scores and token values of whole sequences into coefficients of the gradient.

    With p, d and Z as in `_sequences.coefficients`, f_c = b_c + sum p z_c / Z and the residuals r_c, the
    derivatives with respect to a token's score and its values are

        -2 w d sum_c r_c (z_c - sum p z_c / Z) / Z    and    -2 w r_c p / Z

    where the second sum is there for normalised activations only.

    Parameters
    ----------
    pre_activations : ndarray of float64 of shape (1 + K, n_tokens)
        Scores and token values, in whose place the coefficients are written.
    scratch : ndarray of float64 of shape (4, block)
    scalars : ndarray of float64 of shape (2 + K,)
        The deviance and its derivatives with respect to c and all b_c are added.
    factors : ndarray of float64 of shape (2, K, block)
        Room for what belongs to a sequence and a class.
    """
    scores, p, d = pre_activations[0], scratch[0], scratch[1]
    total, spread = scratch[2], scratch[3]
    n, n_sequences, K = scores.shape[0], last - first, intercepts.shape[0]
    F, residuals = factors
    attend(offsets, kind, normalised, offset, first, last, scores, p, d)
    for s in range(n_sequences):
        total[s] = 0.0 if normalised else 1.0
        for c in range(K):
            F[c, s] = 0.0
    if normalised:
        for i in range(n):
            total[places[i]] += p[i]
    for c in range(K):
        token_values = pre_activations[1 + c]
        for i in range(n):
            F[c, places[i]] += p[i] * token_values[i]
    f, weighted = np.empty(K), np.empty(K)
    # not in `scalars`: threads may share its line
    deviance, offset_gradient, intercept_gradient = 0.0, 0.0, np.zeros(K)
    for s in range(n_sequences):
        for c in range(K):
            F[c, s] /= total[s]
            f[c] = intercepts[c] + F[c, s]
        deviance += _log_loss(f, int(y[first + s]), sample_weight[first + s], weighted)
        for c in range(K):
            intercept_gradient[c] -= 2.0 * weighted[c]
            residuals[c, s] = -2.0 * weighted[c] / total[s]
    for i in range(n):
        spread[i] = 0.0
    for c in range(K):
        token_values = pre_activations[1 + c]
        for i in range(n):
            factor = residuals[c, places[i]]
            shift = F[c, places[i]] if normalised else 0.0
            spread[i] += factor * (token_values[i] - shift)
            token_values[i] = factor * p[i]
    for i in range(n):
        scores[i] = d[i] * spread[i]
        offset_gradient += scores[i]
    scalars[0] += deviance
    scalars[1] += offset_gradient
    for c in range(K):
        scalars[2 + c] += intercept_gradient[c]


@jit
def evaluate_classes(
    X, offsets, y, sample_weight, kind, normalised, offset, directions, intercepts, cuts, tokens, products,
    scratch, places, partial, factors, gradient, scalars,
):  # fmt: skip
    """Evaluate the deviance over the blocks between the sequences `cuts`, as `_batch.evaluate_batch` does."""
    K = intercepts.shape[0]
    for i in range(cuts.shape[0] - 1):
        first, last = cuts[i], cuts[i + 1]
        block = as_float64(X, offsets[first], offsets[last], tokens)
        pre_activations = products[: (1 + K) * block.shape[0]].reshape((1 + K, block.shape[0]))
        np.dot(directions, block.T, pre_activations)
        number_tokens(offsets, first, last, places)
        _coefficients(
            offsets, y, sample_weight, kind, normalised, offset, intercepts, first, last, places,
            pre_activations, scratch, scalars, factors,
        )  # fmt: skip
        np.dot(pre_activations, block, partial)
        gradient += partial


class MultinomialKernel(BlockKernel):
    """The fused pass of a loss of K outputs, over one data set.

    Parameters
    ----------
    X : RaggedArray
        float32 or float64 tokens in a C-ordered buffer.
    y : ndarray of float64 of shape (n,)
        Classes, 0 to K - 1.
    sample_weight : ndarray of float64 of shape (n,)
    loss : MultinomialLogLoss
    n_threads : int, optional
        By default `_compiled.available_threads`, fewer for small X.
    """

    def __init__(self, X, y, sample_weight, *, loss, n_threads=None):
        super().__init__(X, n_threads, numbers_per_token=3 * loss.n_outputs)
        self.y, self.sample_weight, self._n_outputs = y, sample_weight, loss.n_outputs

    def deviance(self, activation, key, value, intercept):
        """Evaluate the deviance and its gradient; see `_generic.deviance`.

        Parameters
        ----------
        activation : Activation
            One that `ACTIVATION_CODES` names.
        key : ndarray of float64 of shape (D,)
        value : ndarray of float64 of shape (K, D)
        intercept : ndarray of float64 of shape (K,)

        Returns
        -------
        deviance : float
        key_gradient, value_gradient, intercept_gradient : ndarray of float64
            Of the shapes of key, value and intercept.
        offset_gradient : float
        """
        K, D = self._n_outputs, self.X.n_features
        scale = 1.0 / math.sqrt(D)
        directions = np.concatenate([key[None, :], value]) * scale
        gradients, scalars = np.zeros((len(self.cuts), 1 + K, D)), np.zeros((len(self.cuts), 2 + K))
        arguments = (
            self.X.values, self.X.offsets, self.y, self.sample_weight, ACTIVATION_CODES[activation.name],
            activation.normalised, float(getattr(activation, "offset", 0.0)), directions, intercept,
        )  # fmt: skip

        def room():
            products, scratch = np.empty((1 + K) * self.block), np.empty((4, self.block))
            places, partial = np.empty(self.block, dtype=np.int64), np.empty((1 + K, D))
            return self.room_for_tokens(), products, scratch, places, partial, np.empty((2, K, self.block))

        def run(share, *space):
            evaluate_classes(*arguments, self.cuts[share], *space, gradients[share], scalars[share])

        self.team.deal(run, len(self.cuts), room)
        gradient, sums = gradients.sum(axis=0) * scale, scalars.sum(axis=0)
        offset_gradient = float(sums[1]) if activation.has_offset else 0.0
        return float(sums[0]), gradient[0], gradient[1:], sums[2:], offset_gradient

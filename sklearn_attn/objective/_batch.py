"""Many parameters and weightings of the same sequences in one read of X.

The fits of a penalty path on several folds differ in their parameters and in the weights of the
sequences (zero for those held out), but not in X. For B of them the tokens of a block are multiplied with
all keys and values at once, a matrix product of 2 B columns, and so are the coefficients of the
gradient with the tokens: the block is read from memory once, and the arithmetic is that of matrix products.
"""

import math

import numpy as np

from .._compiled import ACTIVATION_CODES, SQUARED, jit
from ._blocks import BlockKernel, as_float64
from ._generic_batch import GenericBatch
from ._objective import has_cpu_kernel
from ._sequences import SCRATCH_ROWS, coefficients, number_tokens


@jit
def _block(
    block, offsets, y, sample_weights, rows, kind, normalised, score_offsets, directions, intercepts, first,
    last, products, scratch, places, partial, gradient, scalars, predictions,
):  # fmt: skip
    """Add the sequences `first` to `last`, whose tokens are `block`, to the sums of all problems."""
    n, B = block.shape[0], intercepts.shape[0]
    pre_activations = products[: 2 * B * n].reshape((2 * B, n))
    np.dot(directions, block.T, pre_activations)
    number_tokens(offsets, first, last, places)
    for b in range(B):
        coefficients(
            offsets, y, sample_weights[rows[b]], SQUARED, kind, normalised, score_offsets[b], intercepts[b],
            first, last, places, pre_activations[b], pre_activations[B + b], scratch, scalars[b],
        )  # fmt: skip
        for s in range(first, last):
            predictions[b, s] = scratch[0, s - first] + intercepts[b]
    np.dot(pre_activations, block, partial)
    for c in range(2 * B):
        for j in range(block.shape[1]):
            gradient[c, j] += partial[c, j]


@jit
def evaluate_batch(
    X, offsets, y, sample_weights, rows, kind, normalised, score_offsets, directions, intercepts,
    cuts, tokens, products, scratch, places, partial, gradient, scalars, predictions,
):  # fmt: skip
    """Evaluate B problems over the blocks between the sequences `cuts`.

    `directions` (2 B, D) holds the keys, then the values, over sqrt(D); `rows` (B,) says which row of
    `sample_weights` a problem has. `tokens` (block, D), `products`, `scratch`, `places` and `partial` are
    room to work in; `gradient` (2 B, D) and `scalars` (B, 3: error, d/db, d/dc) receive sums, `predictions`
    (B, n) b + f.
    """
    for i in range(cuts.shape[0] - 1):
        first, last = cuts[i], cuts[i + 1]
        _block(
            as_float64(X, offsets[first], offsets[last], tokens), offsets, y, sample_weights, rows, kind,
            normalised, score_offsets, directions, intercepts, first, last, products, scratch, places,
            partial, gradient, scalars, predictions,
        )  # fmt: skip


class BatchKernel(BlockKernel):
    """The fused pass for many parameters at once, over one data set split over threads.

    Parameters
    ----------
    X : RaggedArray
        float32 or float64 tokens in a C-ordered buffer.
    y : ndarray of float64 of shape (n,)
    sample_weights : ndarray of float64 of shape (R, n)
        The weightings that problems may have.
    n_threads : int, optional
        By default `_compiled.available_threads`, fewer for small X.

    """

    def __init__(self, X, y, sample_weights, *, n_threads=None):
        super().__init__(X, n_threads)
        self.y, self.sample_weights = y, sample_weights

    def deviances(self, activation, parameters, rows):
        """Evaluate the squared error of every problem and its gradient; see `_generic.deviance`.

        Parameters
        ----------
        activation : Activation
            One that `ACTIVATION_CODES` names; its offset is that of the parameters.
        parameters : sequence of B AttentionParameters
        rows : sequence of B ints
            The weighting of each problem.

        Returns
        -------
        terms : list of B tuples
            Each the squared error and its derivatives with respect to k, v, b and c.
        predictions : ndarray of float64 of shape (B, n)
            b + f(X_i), whatever the weight of sequence i.
        """
        B, D = len(parameters), self.X.n_features
        scale = 1.0 / math.sqrt(D)
        keys, values, intercepts, offsets = map(np.array, zip(*parameters, strict=True))
        predictions = np.empty((B, len(self.X)))
        gradients = np.zeros((len(self.cuts), 2 * B, D))
        scalars = np.zeros((len(self.cuts), B, 3))
        arguments = (
            self.X.values, self.X.offsets, self.y, self.sample_weights, np.array(rows, dtype=np.int64),
            ACTIVATION_CODES[activation.name], activation.normalised, offsets,
            np.concatenate([keys, values]) * scale, intercepts,
        )  # fmt: skip

        def room():
            products, scratch = np.empty(2 * B * self.block), np.empty((SCRATCH_ROWS, self.block))
            places, partial = np.empty(self.block, dtype=np.int64), np.empty((2 * B, D))
            return self.room_for_tokens(), products, scratch, places, partial

        def run(share, *space):
            sums = gradients[share], scalars[share]
            evaluate_batch(*arguments, self.cuts[share], *space, *sums, predictions)

        self.team.deal(run, len(self.cuts), room)
        gradient, sums = gradients.sum(axis=0) * scale, scalars.sum(axis=0)
        if not activation.has_offset:
            sums[:, 2] = 0.0
        terms = [
            (error, gradient[b], gradient[B + b], intercept_gradient, offset_gradient)
            for b, (error, intercept_gradient, offset_gradient) in enumerate(sums.tolist())
        ]
        return terms, predictions


def shared_pass(X, y, sample_weights, activation):
    """Return the fastest way there is to evaluate many problems on X.

    Parameters
    ----------
    X : RaggedArray
    y : ndarray of float64 of shape (n,)
    sample_weights : ndarray of float64 of shape (R, n)
    activation : Activation

    Returns
    -------
    BatchKernel or GenericBatch
        A context manager with `deviances`.
    """
    batch = BatchKernel if has_cpu_kernel(X, activation) else GenericBatch
    return batch(X, y, sample_weights)

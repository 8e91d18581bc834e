"""Many parameters and weightings of the same sequences in shared passes, in any namespace.

As in `_batch`, a block of tokens is multiplied with all keys and values at once: on a GPU the products are
those of its BLAS.
"""

import math

import numpy as np

from .._backend import array_namespace, to_numpy
from ..ragged import Segments
from ._coordinates import like
from ._generic import block_numbers
from ._projection import cut_blocks

# Numbers beside the features that are held for every token.
_PER_TOKEN = 64


class GenericBatch:
    """What `BatchKernel` does, for arrays of any namespace.

    Parameters
    ----------
    X : RaggedArray
    y : ndarray of float64 of shape (n,)
    sample_weights : ndarray of float64 of shape (R, n)
    """

    def __init__(self, X, y, sample_weights):
        self._values, self._offsets = X.values, X.offsets
        n_tokens = block_numbers(X.values) // (X.n_features + _PER_TOKEN)
        self._blocks = [
            (first, last, Segments(X.offsets[first : last + 1] - X.offsets[first], X.values))
            for first, last in cut_blocks(X.offsets, len(X), n_tokens)
        ]
        self._y, self._sample_weights = (like(x, X.values, "float64") for x in (y, sample_weights))

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """Hold nothing that needs an end."""

    def deviances(self, activation, parameters, rows):
        """Evaluate the squared errors, their gradients and the predictions; see `BatchKernel`.

        The equations are those of `_generic.deviance`, with an axis of B problems before that of the tokens.
        """
        values, xp = self._values, array_namespace(self._values)
        B, scale = len(parameters), 1.0 / math.sqrt(values.shape[1])
        keys, token_keys, intercepts, offsets = zip(*parameters, strict=True)
        directions = xp.stack([like(x, values, "float64") for x in (*keys, *token_keys)]) * scale  # (2 B, D)
        intercepts = like(np.array(intercepts)[:, None], values, "float64")
        if activation.has_offset:
            activation = activation.with_offset(like(np.array(offsets)[:, None, None], values, "float64"))
        gradient, sums, predictions = 0.0, 0.0, []
        for first, last, segments in self._blocks:
            start, stop = int(self._offsets[first]), int(self._offsets[last])
            tokens = xp.astype(values[start:stop, :], xp.float64, copy=False)
            y = self._y[first:last]
            sample_weights = xp.stack([self._sample_weights[row, first:last] for row in rows])  # (B, n)
            products = directions @ tokens.T
            scores, token_values = products[:B, :], products[B:, :]  # (B, n_tokens)
            weights = segments.map(activation.weights, scores)
            predictions.append(segments.sum(weights * token_values) + intercepts)
            residual = y - predictions[-1]
            error_gradient = -2.0 * sample_weights * residual
            spread = segments.spread(error_gradient)
            score_gradient = segments.map(activation.pullback, scores, spread * token_values)
            gradient = gradient + xp.concat([score_gradient, spread * weights]) @ tokens
            parts = sample_weights * residual**2, error_gradient, score_gradient
            sums = sums + xp.stack([xp.sum(part, axis=1) for part in parts], axis=1)  # (B, 3)
        gradient = gradient * scale
        sums = to_numpy(sums)
        if not activation.has_offset:
            sums = sums * np.array([1.0, 1.0, 0.0])
        terms = [
            (error, gradient[b, :], gradient[B + b, :], intercept_gradient, offset_gradient)
            for b, (error, intercept_gradient, offset_gradient) in enumerate(sums.tolist())
        ]
        return terms, xp.concat(predictions, axis=1)

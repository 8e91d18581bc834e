"""Sequence-wise operations on one number per token, in any array-API namespace."""

import numpy as np

from .._backend import array_namespace, device


class Segments:
    """Sequences regrouped by length, so that those of one length form a dense block.

    Per-sequence operations then are plain operations along the last axis of (..., n_b, L_b) blocks:
    without padding, without a loop over sequences, and in any namespace. Axes before that of the tokens or
    sequences, if any, are left as they are.

    Parameters
    ----------
    offsets : ndarray of int64 of shape (n + 1,)
        Where each sequence starts, followed by n_tokens; no sequence is empty.
    like : array
        Index arrays are made in its namespace and on its device.

    Attributes
    ----------
    n_tokens, n_sequences : int
    """

    def __init__(self, offsets, like):
        self._xp = array_namespace(like)
        self._device = device(like)
        lengths = np.diff(offsets)
        self.n_sequences, self.n_tokens = lengths.size, int(offsets[-1])
        sequences = np.argsort(lengths, kind="stable")
        starts = np.concatenate([[0], np.cumsum(lengths[sequences])])
        tokens = np.arange(self.n_tokens) + np.repeat(
            offsets[:-1][sequences] - starts[:-1], lengths[sequences]
        )
        values, counts = np.unique(lengths, return_counts=True)
        # (first token, first sequence, n_b, L_b) of every block, in the order of `tokens`
        n_before = np.concatenate([[0], np.cumsum(counts)])
        t_before = np.concatenate([[0], np.cumsum(counts * values)])
        self._blocks = list(
            zip(t_before.tolist(), n_before.tolist(), counts.tolist(), values.tolist(), strict=False)
        )
        self._token_order = self._permutation(tokens) if values.size > 1 else None
        self._token_place = self._permutation(np.argsort(tokens)) if values.size > 1 else None
        self._sequence_order = self._permutation(sequences) if values.size > 1 else None
        self._sequence_place = self._permutation(np.argsort(sequences)) if values.size > 1 else None

    def map(self, function, *tokens):
        """Apply a function of (..., n_b, L_b) blocks that keeps their shape.

        Parameters
        ----------
        function : callable
            Takes as many (..., n_b, L_b) arrays as there are `tokens`, returns one of the same shape.
        *tokens : arrays of shape (..., n_tokens)

        Returns
        -------
        array of shape (..., n_tokens)
        """
        blocks = (function(*block) for block in self._dense(tokens))
        flat = [self._xp.reshape(block, (*block.shape[:-2], -1)) for block in blocks]
        return self._arrange(self._xp.concat(flat, axis=-1), self._token_place)

    def reduce(self, function, *tokens):
        """Apply a function that turns (..., n_b, L_b) blocks into (..., n_b).

        Parameters
        ----------
        function : callable
            Takes as many (..., n_b, L_b) arrays as there are `tokens`, returns an (..., n_b) array.
        *tokens : arrays of shape (..., n_tokens)

        Returns
        -------
        array of shape (..., n)
        """
        blocks = [function(*block) for block in self._dense(tokens)]
        return self._arrange(self._xp.concat(blocks, axis=-1), self._sequence_place)

    def sum(self, tokens):
        """Sum over the tokens of every sequence: (..., n_tokens) -> (..., n)."""
        return self.reduce(lambda block: self._xp.sum(block, axis=-1), tokens)

    def spread(self, sequences):
        """Give every token the number of its sequence: (..., n) -> (..., n_tokens)."""
        ordered = self._arrange(sequences, self._sequence_order)
        before, xp, blocks = sequences.shape[:-1], self._xp, []
        for _, first, n, length in self._blocks:
            block = xp.broadcast_to(ordered[..., first : first + n, None], (*before, n, length))
            blocks.append(xp.reshape(block, (*before, n * length)))
        return self._arrange(xp.concat(blocks, axis=-1), self._token_place)

    def _dense(self, tokens):
        ordered = [self._arrange(x, self._token_order) for x in tokens]
        for start, _, n, length in self._blocks:
            yield [
                self._xp.reshape(x[..., start : start + n * length], (*x.shape[:-1], n, length))
                for x in ordered
            ]

    def _arrange(self, x, order):
        return x if order is None else self._xp.take(x, order, axis=-1)

    def _permutation(self, indices):
        return self._xp.asarray(indices, device=self._device)

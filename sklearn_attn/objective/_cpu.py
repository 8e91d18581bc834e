"""Fused CPU kernels: one read of X per evaluation of the deviance and its gradient.

The tokens are split into equal shares, whose number does not depend on that of the threads which they
are dealt out to: so sums are the same to the last bit on any number of threads. Shares are walked in blocks
that fit into a core's cache. A block
of whole sequences is read from memory once: its scores and token values first, then, from cache, its
part of X^T g, while the next block is on its way. A sequence longer than a block goes through several;
there the coefficients of X^T g are not known before its end, so the sums

    Z = sum p,  F = sum p z,  S_v = sum p x,  S_kz = sum d z x,  S_k = sum d x

run along with p = exp(u - max u), d = p u' (normalised; p = u, d = u' otherwise), rescaled whenever the
maximum rises. They give f = F / Z and both gradients at the end, and pieces in different
shares add up. Numbers of the calculation are float64 whatever the dtype of X.
"""

import math
from typing import NamedTuple

import numpy as np

from .._compiled import ACTIVATION_CODES, LOSS_CODES, SOFTMAX, SOFTPLUS, available_threads, jit
from . import _sequences
from ._losses import SQUARED_ERROR
from ._sequences import (
    coefficients,
    exponentials,
    number_tokens,
    potentials,
    subtract_maximum,
    unit_deviance,
)
from ._threads import ThreadTeam
from ._token_products import add_rows, dot_rows

_BLOCK_BYTES = 2**18  # half of a typical L2 cache; 2^17 to 2^19 measured alike at D = 64 to 4,000
_MIN_BLOCK_TOKENS = 8
SCRATCH_ROWS = 2 + _sequences.SCRATCH_ROWS  # numbers of a token beside its row of X, and an integer
# Below this many numbers a share takes less time than waking a thread (tens of microseconds).
_MIN_SHARE = 2**17
# Numbers of shares that most numbers of threads divide, or nearly.
_SHARES = (1, 2, 4, 6, 12, 24, 48)

# What is known of a sequence that a share holds only in part.
_MAX, _Z, _F, _OFFSET = 0, 1, 2, 3


@jit
def _sums(token_values, n, p, d):
    """Sum p, p z and d z."""
    total = F = slope = 0.0
    for i in range(n):
        total += p[i]
        F += p[i] * token_values[i]
        slope += d[i] * token_values[i]
    return total, F, slope


@jit
def _absorb(normalised, stats, sums, top, total, F, slope):
    """Rescale the running sums to the larger maximum; return the factor of the new piece."""
    if not normalised:
        stats[_Z] = 1.0
        stats[_F] += F
        stats[_OFFSET] += slope
        return 1.0
    new_top = max(stats[_MAX], top)
    old, new = math.exp(stats[_MAX] - new_top), math.exp(top - new_top)
    stats[_MAX] = new_top
    stats[_Z] = old * stats[_Z] + new * total
    stats[_F] = old * stats[_F] + new * F
    if old != 1.0:
        for i in range(sums.shape[0]):
            for j in range(sums.shape[1]):
                sums[i, j] *= old
    return new


@jit
def _close(loss, normalised, stats, sums, y, weight, intercept, gradient, scalars):
    """Add a finished long sequence to the gradient and to (deviance, d/db, d/dc)."""
    f = stats[_F] / stats[_Z]
    deviance, residual = unit_deviance(loss, y, intercept + f)
    factor = -2.0 * weight * residual / stats[_Z]
    shift = f if normalised else 0.0
    for j in range(gradient.shape[1]):
        gradient[0, j] += factor * (sums[0, j] - shift * sums[2, j])
        gradient[1, j] += factor * sums[1, j]
    scalars[0] += weight * deviance
    scalars[1] -= 2.0 * weight * residual
    scalars[2] += factor * stats[_OFFSET]


@jit
def whole_sequences(
    X, offsets, y, sample_weight, loss, kind, normalised, offset, key, value, intercept, first, last, scratch,
    places, gradient, scalars,
):  # fmt: skip
    """Add the sequences `first` to `last`, which fit into one block."""
    scores, token_values = scratch[0], scratch[1]
    start, stop = offsets[first], offsets[last]
    ahead = min(stop - start, X.shape[0] - stop)
    dot_rows(X, start, stop, key, value, scores, token_values, ahead)
    number_tokens(offsets, first, last, places)
    coefficients(
        offsets, y, sample_weight, loss, kind, normalised, offset, intercept, first, last, places, scores,
        token_values, scratch[2:], scalars,
    )  # fmt: skip
    add_rows(X, start, stop, scores, token_values, gradient[0], gradient[1], ahead)


@jit
def _long_sequence(X, kind, normalised, offset, key, value, start, stop, scratch, stats, sums):
    """Run the sums of one long sequence, or of the stretch of it from `start` to `stop`."""
    scores, token_values, p, d = scratch[0], scratch[1], scratch[2], scratch[3]
    stats[_MAX] = -np.inf
    for piece in range(start, stop, scratch.shape[1]):
        piece_stop = min(piece + scratch.shape[1], stop)
        n = piece_stop - piece
        ahead = min(n, X.shape[0] - piece_stop)
        dot_rows(X, piece, piece_stop, key, value, scores, token_values, ahead)
        potentials(kind, offset, scores, n, p, d)
        top = 0.0
        if normalised:
            top = subtract_maximum(p, piece - piece, n)  # a literal 0 would be one more signature to compile
            exponentials(p, d, n)
        total, F, slope = _sums(token_values, n, p, d)
        factor = _absorb(normalised, stats, sums, top, total, F, slope)
        for i in range(n):
            p[i] *= factor
            d[i] *= factor
            scores[i] = d[i] * token_values[i]
        add_rows(X, piece, piece_stop, scores, p, sums[0], sums[1], ahead)
        if kind == SOFTPLUS:
            add_rows(X, piece, piece_stop, d, d, sums[2], sums[3], ahead)
    if kind == SOFTMAX:
        for j in range(sums.shape[1]):
            sums[2, j] = sums[1, j]  # d = p


@jit
def evaluate(
    X, offsets, y, sample_weight, loss, kind, normalised, offset, key, value, intercept,
    first_token, last_token, sequence, scratch, places, gradient, scalars, part_sequence, part_stats,
    part_sums,
):  # fmt: skip
    """Evaluate the deviance over the tokens `first_token` to `last_token`.

    `sequence` is the one that the first token belongs to; `scratch` (7, block) sets the block;
    `gradient` (2, D) and `scalars` (deviance, d/db, d/dc) receive sums over the sequences that lie here
    as a whole. A sequence cut by the first bound goes to slot 0 of the `part_` arrays, one cut by the
    last bound to slot 1; one cut by both only to slot 0. Slot 2 is for long sequences that are whole.
    """
    block = scratch.shape[1]
    token = first_token
    while token < last_token:
        if offsets[sequence + 1] - offsets[sequence] <= block:
            end = sequence + 1
            while end < y.shape[0] and offsets[end] < last_token and offsets[end + 1] - token <= block:
                end += 1
            whole_sequences(
                X, offsets, y, sample_weight, loss, kind, normalised, offset, key, value, intercept,
                sequence, end, scratch, places, gradient, scalars,
            )  # fmt: skip
            sequence = end
            token = offsets[end]
            continue
        stop = min(offsets[sequence + 1], last_token)
        slot = 2
        if token != offsets[sequence]:
            slot = 0
        elif stop != offsets[sequence + 1]:
            slot = 1
        stats, sums = part_stats[slot], part_sums[slot]
        _long_sequence(X, kind, normalised, offset, key, value, token, stop, scratch, stats, sums)
        if slot == 2:
            _close(
                loss, normalised, stats, sums, y[sequence], sample_weight[sequence], intercept, gradient,
                scalars,
            )  # fmt: skip
            for i in range(stats.shape[0]):
                stats[i] = 0.0
                for j in range(sums.shape[1]):
                    sums[i, j] = 0.0
        else:
            part_sequence[slot] = sequence
        token = stop
        sequence += 1


@jit
def _evaluate_shares(
    X, offsets, y, sample_weight, loss, kind, normalised, offset, key, value, intercept, bounds, thread,
    n_threads, scratch, places, gradients, scalars, part_sequences, part_stats, part_sums,
):  # fmt: skip
    """Evaluate the shares of one thread; `bounds` are those of `split_tokens`."""
    for share in range(thread, bounds.shape[0], n_threads):
        evaluate(
            X, offsets, y, sample_weight, loss, kind, normalised, offset, key, value, intercept,
            bounds[share, 0], bounds[share, 1], bounds[share, 2], scratch, places, gradients[share],
            scalars[share], part_sequences[share], part_stats[share], part_sums[share],
        )  # fmt: skip


class FusedKernel:
    """The fused pass over one data set, split into shares once and for all.

    Parameters
    ----------
    X : RaggedArray
        float32 or float64 tokens in a C-ordered buffer.
    y, sample_weight : ndarray of float64 of shape (n,), optional
        `project` needs neither.
    loss : Loss, default=SQUARED_ERROR
        One of a single output.
    n_threads : int, optional
        By default `_compiled.available_threads`, fewer for small X.

    Notes
    -----
    The threads are plain Python threads that run compiled code without the interpreter lock: unlike
    an OpenMP pool they survive a fork, and any number of fits may run at once. Use as a context
    manager, or call `close`, to end them.
    """

    def __init__(self, X, y=None, sample_weight=None, *, loss=SQUARED_ERROR, n_threads=None):
        self.X, self.y, self.sample_weight = X, y, sample_weight
        self._loss = LOSS_CODES[loss.name]
        self.block = block_tokens(X)
        self.bounds = split_tokens(X.offsets, n_shares_for(X), self.block)
        self.n_threads = n_threads_for(X, n_threads)
        self._team = ThreadTeam(self.n_threads)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """End the threads."""
        self._team.close()

    def deviance(self, activation, key, value, intercept):
        """Evaluate the deviance and its gradient; see `_generic.deviance`.

        Parameters
        ----------
        activation : Activation
            One that `ACTIVATION_CODES` names.
        key, value : ndarray of float64 of shape (D,)
        intercept : float

        Returns
        -------
        deviance : float
        key_gradient, value_gradient : ndarray of float64 of shape (D,)
        intercept_gradient, offset_gradient : float
        """
        D = self.X.n_features
        scale = 1.0 / math.sqrt(D)
        parts = _Parts.of(len(self.bounds), D)
        arguments = (
            self.X.values, self.X.offsets, self.y, self.sample_weight, self._loss,
            ACTIVATION_CODES[activation.name], activation.normalised, getattr(activation, "offset", 0.0),
            key * scale, value * scale, intercept,
        )  # fmt: skip

        def run(thread):
            scratch, places = np.empty((SCRATCH_ROWS, self.block)), np.empty(self.block, dtype=np.int64)
            _evaluate_shares(*arguments, self.bounds, thread, self.n_threads, scratch, places, *parts)

        self._team.run(run)
        gradient, scalars = parts.gradients.sum(axis=0), parts.scalars.sum(axis=0)
        self._merge_cut_sequences(parts, activation.normalised, intercept, gradient, scalars)
        deviance, intercept_gradient, offset_gradient = scalars.tolist()
        if not activation.has_offset:
            offset_gradient = 0.0
        return deviance, gradient[0] * scale, gradient[1] * scale, intercept_gradient, offset_gradient

    def project(self, key, value):
        """Compute scores and token values in one read of X; see `_generic.project`."""
        scale = 1.0 / math.sqrt(self.X.n_features)
        scores, token_values = np.empty(self.X.n_tokens), np.empty(self.X.n_tokens)
        key, value = key * scale, value * scale

        def run(share):
            start, stop, _ = self.bounds[share]
            out = scores[start:stop], token_values[start:stop]
            dot_rows(self.X.values, start, stop, key, value, *out, 0)

        self._team.deal(run, len(self.bounds))
        return scores, token_values

    def _merge_cut_sequences(self, parts, normalised, intercept, gradient, scalars):
        """Finish the sequences that lie in several shares, in the order of the shares."""
        pieces = {}
        for place in zip(*np.nonzero(parts.sequences >= 0), strict=True):  # share and slot
            pieces.setdefault(int(parts.sequences[place]), []).append((parts.stats[place], parts.sums[place]))
        for sequence, ((stats, sums), *others) in pieces.items():
            for other_stats, other_sums in others:
                sums += other_sums * _absorb(normalised, stats, sums, *other_stats)
            _close(
                self._loss, normalised, stats, sums, self.y[sequence], self.sample_weight[sequence],
                intercept, gradient, scalars,
            )  # fmt: skip


def n_shares_for(X, least_tokens=1):
    """Return into how many shares a pass over X is cut, whatever the number of threads.

    Parameters
    ----------
    X : RaggedArray
    least_tokens : int, default=1
        Of a share, lest what is kept for each should add up to more than a part of X.

    Returns
    -------
    int
    """
    most = min(X.values.size // _MIN_SHARE, X.n_tokens // least_tokens)
    return max(n for n in _SHARES if n <= max(1, most))


def n_threads_for(X, n_threads=None, least_tokens=1):
    """Return how many threads a pass over X is worth, at most `n_threads` or those available."""
    return min(available_threads() if n_threads is None else n_threads, n_shares_for(X, least_tokens))


def block_tokens(X):
    """Return how many tokens a block holds."""
    row_bytes = X.n_features * X.values.dtype.itemsize + 8 * (SCRATCH_ROWS + 1)
    return max(_MIN_BLOCK_TOKENS, _BLOCK_BYTES // row_bytes)


class _Parts(NamedTuple):
    """What is added up in every share, as `evaluate` takes it."""

    gradients: np.ndarray
    scalars: np.ndarray
    sequences: np.ndarray
    stats: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, n, D):
        """Make room for n shares."""
        sequences = np.full((n, 2), -1, dtype=np.int64)
        return cls(
            np.zeros((n, 2, D)), np.zeros((n, 3)), sequences, np.zeros((n, 3, 4)), np.zeros((n, 3, 4, D))
        )


def split_tokens(offsets, n_shares, block):
    """Cut the tokens into equal shares.

    Parameters
    ----------
    offsets : ndarray of int64 of shape (n + 1,)
    n_shares : int
    block : int
        Sequences of at most this many tokens are not cut: the cut moves to their start.

    Returns
    -------
    ndarray of int64 of shape (n_shares, 3)
        The first and one past the last token of every share, and the sequence of the first.
    """
    cuts = np.linspace(0, offsets[-1], n_shares + 1).astype(np.int64)
    sequences = np.clip(np.searchsorted(offsets, cuts, side="right") - 1, 0, offsets.size - 2)
    short = offsets[sequences + 1] - offsets[sequences] <= block
    cuts = np.where(short, offsets[sequences], cuts)
    cuts[-1] = offsets[-1]
    return np.stack([cuts[:-1], cuts[1:], sequences[:-1]], axis=1)

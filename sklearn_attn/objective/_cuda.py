"""The fused pass of `_cpu` on a GPU: one read of X per evaluation.

The kernels are in `_cuda_pass.cu`. The tokens are split evenly over blocks of threads, as `_cpu` splits them
over threads, so that long sequences are shared and short ones are not cut. Parameters and gradients, 2 D
numbers each, travel between host and device in every evaluation.
"""

import math
from importlib.resources import files

import numpy as np

from .._backend import CudaDevice, is_cupy_array
from .._compiled import ACTIVATION_CODES, LOSS_CODES
from ._cpu import split_tokens
from ._losses import SQUARED_ERROR

_THREADS = 256  # of a block, a multiple of 32
_MAX_TILE = 64  # rows: one thread finishes a sequence of so many tokens
# Numbers in shared memory beside the rows of a tile: of a token, of a feature, of a thread, and others.
_PER_TOKEN, _PER_FEATURE, _PER_THREAD, _OTHERS = 4, 2, 3, 8
_N_SUMS = 3
# What the kernels have branches for.
_ACTIVATIONS, _LOSSES = {"softmax", "linear", "erf", "softplus"}, {"squared", "logistic"}


def tile_rows(X, shared_bytes, n_threads=_THREADS):
    """Return how many tokens fit into the shared memory of a block; 0 where none does."""
    room = shared_bytes - 8 * (_PER_FEATURE * X.n_features + _OTHERS + _PER_THREAD * n_threads)
    row = X.n_features * X.values.dtype.itemsize + 8 * _PER_TOKEN
    return max(0, min(_MAX_TILE, room // row))


def has_cuda_kernel(X, activation, loss=SQUARED_ERROR):
    """Whether there is a fused kernel on the GPU for the buffer, the activation and the loss."""
    if not is_cupy_array(X.values) or activation.name not in _ACTIVATIONS or loss.name not in _LOSSES:
        return False
    return tile_rows(X, CudaDevice.shared_bytes_of(X.values)) > 0  # pragma: no cover - a GPU is needed


def source():
    """Return the source of the kernels."""
    return files(__package__).joinpath("_cuda_pass.cu").read_text(encoding="utf-8")


class CudaKernel:
    """The fused pass over one data set on a GPU.

    Parameters
    ----------
    X : RaggedArray
        float32 or float64 tokens in a C-ordered buffer on the device.
    y, sample_weight : ndarray of float64 of shape (n,)
    loss : Loss, default=SQUARED_ERROR
        One of a single output.
    device : CudaDevice, optional
        What runs the kernels; by default the device of X.
    n_threads : int, default=256
        Of a block, a multiple of 32.
    """

    def __init__(self, X, y, sample_weight, *, loss=SQUARED_ERROR, device=None, n_threads=_THREADS):
        real = {4: "float", 8: "double"}[X.values.dtype.itemsize]
        self.device = CudaDevice(X.values, source(), (f"-DREAL={real}",)) if device is None else device
        self.X, self._loss, self._n_threads = X, LOSS_CODES[loss.name], n_threads
        self.tile = tile_rows(X, self.device.shared_bytes, n_threads)
        self.n_blocks = max(1, min(self.device.n_blocks, -(-X.n_tokens // self.tile)))
        shares = split_tokens(X.offsets, self.n_blocks, self.tile)
        sequences, first_pieces, pieces = _cut_sequences(X.offsets, shares)
        self._n_cut = sequences.size
        starts, _, first_sequences = zip(*shares, strict=True)
        self._first_tokens = self.device.asarray(np.array([*starts, X.n_tokens], dtype=np.int64))
        self._first_sequences = self.device.asarray(np.array(first_sequences, dtype=np.int64))
        self._cuts = [self.device.asarray(x) for x in (sequences, first_pieces, pieces)]
        self._offsets, self._y, self._sample_weight = map(self.device.asarray, (X.offsets, y, sample_weight))
        D = X.n_features
        rows = self.n_blocks + self._n_cut
        self._gradients, self._scalars = self.device.zeros((rows, 2, D)), self.device.zeros((rows, 3))
        self._part_stats = self.device.zeros((self.n_blocks, 3, 4))
        self._part_sums = self.device.zeros((self.n_blocks, 3, _N_SUMS, D))

    def close(self):
        """Hold nothing that needs an end."""

    def deviance(self, activation, key, value, intercept):
        """Evaluate the deviance and its gradient; see `_generic.deviance`.

        Parameters
        ----------
        activation : Activation
            One that the kernels have a branch for.
        key, value : ndarray of float64 of shape (D,)
        intercept : float

        Returns
        -------
        deviance : float
        key_gradient, value_gradient : ndarray of float64 of shape (D,)
            On the host.
        intercept_gradient, offset_gradient : float
        """
        D, n = self.X.n_features, self.n_blocks
        scale = 1.0 / math.sqrt(D)
        key, value = (self.device.asarray(vector * scale) for vector in (key, value))
        loss, normalised = np.int32(self._loss), np.int32(activation.normalised)
        shared = 8 * (_PER_FEATURE * D + _OTHERS + _PER_THREAD * self._n_threads + _PER_TOKEN * self.tile)
        shared += self.tile * D * self.X.values.dtype.itemsize
        self.device.run(
            "attention_pass", n, self._n_threads, shared, self.X.values, self._offsets, self._y,
            self._sample_weight, loss, np.int32(ACTIVATION_CODES[activation.name]), normalised,
            np.float64(getattr(activation, "offset", 0.0)), key, value, np.float64(intercept), np.int32(D),
            np.int32(self.tile), self._first_tokens, self._first_sequences, self._gradients, self._scalars,
            self._part_stats, self._part_sums,
        )  # fmt: skip
        if self._n_cut:
            self.device.run(
                "merge_cut_sequences", self._n_cut, self._n_threads, 0, *self._cuts, self._y,
                self._sample_weight, loss, normalised, np.float64(intercept), np.int32(D), self._part_stats,
                self._part_sums, self._gradients[n:], self._scalars[n:],
            )  # fmt: skip
        gradient = self.device.to_host(self._gradients.sum(axis=0)) * scale
        deviance, intercept_gradient, offset_gradient = self.device.to_host(
            self._scalars.sum(axis=0)
        ).tolist()
        if not activation.has_offset:
            offset_gradient = 0.0
        return deviance, gradient[0], gradient[1], intercept_gradient, offset_gradient


def _cut_sequences(offsets, shares):
    """Find the sequences that several shares hold, and where the kernel puts their pieces.

    Returns
    -------
    sequences : ndarray of int64 of shape (n_cut,)
    first_pieces : ndarray of int64 of shape (n_cut + 1,)
    pieces : ndarray of int64 of shape (n_pieces,)
        3 b + slot of every piece, in the order of the tokens.
    """
    held = {}
    for b, (start, stop, sequence) in enumerate(shares):
        if start == stop:
            continue
        if start != offsets[sequence]:
            held.setdefault(sequence, []).append(3 * b)
        last = int(np.searchsorted(offsets, stop - 1, side="right")) - 1
        if offsets[last] >= start and offsets[last + 1] > stop:
            held.setdefault(last, []).append(3 * b + 1)
    first_pieces = np.cumsum([0, *map(len, held.values())])
    pieces = [piece for places in held.values() for piece in places]
    return (
        np.array(list(held), dtype=np.int64),
        first_pieces.astype(np.int64),
        np.array(pieces, dtype=np.int64),
    )

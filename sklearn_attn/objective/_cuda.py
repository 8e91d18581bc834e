"""The fused pass of `_cpu` on a GPU: one read of X per evaluation.

The kernels are in `_cuda_pass.cu`. The tokens are split evenly over blocks of threads, as `_cpu` splits them
over threads, so that long sequences are shared and short ones are not cut. Parameters and gradients stay on
the device; three sums travel to the host in an evaluation.
"""

import math
import warnings
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from .._backend import CudaDevice, is_cupy_array
from .._compiled import ACTIVATION_CODES, LOSS_CODES
from ._cpu import split_tokens
from ._losses import SQUARED_ERROR

_THREADS = 256  # of a block, a multiple of 32, and no more
_MAX_TILE = 128  # rows: one thread adds up a sequence of so many tokens
_GOOD_TILE = 8  # rows of which the work that a tile makes, whatever its size, is a small part
# Numbers in shared memory beside the rows of a tile: of a token, of a thread, and others.
_PER_TOKEN, _PER_THREAD, _OTHERS = 7, 3, 8
_GRADIENT, _SUMS = 2, 3  # numbers of a feature, for every group of threads
_WORD = 16  # bytes that a thread reads at once, where rows begin at multiples of them
_N_SUMS = 3
# What the kernels have branches for.
_ACTIVATIONS, _LOSSES = {"softmax", "linear", "erf", "softplus"}, {"squared", "logistic"}


class Layout(NamedTuple):
    """How the kernel divides its work; see `attention_pass`.

    Attributes
    ----------
    n_blocks : int
        That run at the same time.
    tile, width, groups : int
    sums_apart : bool
    shared_bytes : int
        That a block takes.
    """

    n_blocks: int
    tile: int
    width: int
    groups: int
    sums_apart: bool
    shared_bytes: int


def choose_layout(X, device, n_threads=_THREADS):
    """Choose how the kernel runs on a device: two blocks on a multiprocessor unless their tiles are small.

    Returns
    -------
    Layout
        With a tile of no rows where a row does not fit into shared memory.
    """
    D, itemsize = X.n_features, X.values.dtype.itemsize
    width = _WORD // itemsize
    if D % width or device.address(X.values) % _WORD:
        width = 1
    for per_processor, sums_apart in ((2, False), (1, False), (1, True)):
        n_blocks, shared_bytes = device.share(per_processor)
        groups = 1 if sums_apart else max(1, n_threads // (D // width))
        per_feature = _GRADIENT if sums_apart else _GRADIENT + _SUMS
        fixed = 8 * (per_feature * groups * D + _OTHERS + _PER_THREAD * n_threads + 1)
        row = D * itemsize + 8 * _PER_TOKEN
        tile = max(0, min(_MAX_TILE, n_threads, (shared_bytes - fixed) // row))
        layout = Layout(n_blocks, tile, width, groups, sums_apart, fixed + tile * row)
        if tile >= _GOOD_TILE:
            break
    return layout


def has_cuda_kernel(X, activation, loss=SQUARED_ERROR):
    """Whether there is a fused kernel on the GPU for the buffer, the activation and the loss."""
    if not is_cupy_array(X.values) or activation.name not in _ACTIVATIONS or loss.name not in _LOSSES:
        return False
    if not X.values.flags.c_contiguous:  # pragma: no cover - a GPU is needed; the kernels read row after row
        return False
    device = CudaDevice(X.values)
    return choose_layout(X, device).tile > 0 and _can_be_built(device, X)


def _can_be_built(device, X):
    """Whether the kernels compile there, which CuPy remembers; warns where they do not."""
    try:
        device.compile(source(), _compiler_options(X))
    except Exception as error:  # of the compiler, the driver or a missing header
        warnings.warn(
            f"The kernel for GPUs could not be built, and array operations take its place: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def _compiler_options(X):
    real = {4: "float", 8: "double"}[X.values.dtype.itemsize]
    return (f"-DREAL={real}",)


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
        Of a block, a multiple of 32, 256 at most.
    """

    def __init__(self, X, y, sample_weight, *, loss=SQUARED_ERROR, device=None, n_threads=_THREADS):
        self.device = CudaDevice(X.values) if device is None else device
        self.device.compile(source(), _compiler_options(X))
        self.X, self._loss, self._n_threads = X, LOSS_CODES[loss.name], n_threads
        self.layout = choose_layout(X, self.device, n_threads)
        tile = self.layout.tile
        self.n_blocks = max(1, min(self.layout.n_blocks, -(-X.n_tokens // tile)))
        shares = split_tokens(X.offsets, self.n_blocks, tile)
        sequences, first_pieces, pieces = _cut_sequences(X.offsets, shares)
        self._n_cut = sequences.size
        starts, _, first_sequences = zip(*shares, strict=True)
        self._first_tokens = self.device.asarray(np.array([*starts, X.n_tokens], dtype=np.int64))
        self._first_sequences = self.device.asarray(np.array([*first_sequences, len(X)], dtype=np.int64))
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
        key, value : array of float64 of shape (D,)
            On the device, as the gradients.
        intercept : float

        Returns
        -------
        deviance : float
        key_gradient, value_gradient : array of float64 of shape (D,)
        intercept_gradient, offset_gradient : float
        """
        D, n = self.X.n_features, self.n_blocks
        scale = 1.0 / math.sqrt(D)
        key, value = (self.device.asarray(vector * scale) for vector in (key, value))
        loss, normalised = np.int32(self._loss), np.int32(activation.normalised)
        layout = self.layout
        division = map(np.int32, (D, layout.tile, layout.width, layout.groups, layout.sums_apart))
        self.device.run(
            "attention_pass", n, self._n_threads, layout.shared_bytes, self.X.values, self._offsets, self._y,
            self._sample_weight, loss, np.int32(ACTIVATION_CODES[activation.name]), normalised,
            np.float64(getattr(activation, "offset", 0.0)), key, value, np.float64(intercept), *division,
            self._first_tokens, self._first_sequences, self._gradients, self._scalars, self._part_stats,
            self._part_sums,
        )  # fmt: skip
        if self._n_cut:
            self.device.run(
                "merge_cut_sequences", self._n_cut, self._n_threads, 0, *self._cuts, self._y,
                self._sample_weight, loss, normalised, np.float64(intercept), np.int32(D), self._part_stats,
                self._part_sums, self._gradients[n:], self._scalars[n:],
            )  # fmt: skip
        gradient = self._gradients.sum(axis=0) * scale
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

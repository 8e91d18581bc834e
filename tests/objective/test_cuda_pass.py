"""The kernels for GPUs: they compile, and compute on the host what the generic form does."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import LogLoss, _cuda, _generic, _objective
from sklearn_attn.objective._losses import SQUARED_ERROR
from sklearn_attn.ragged import Segments

HERE = Path(__file__).parent
SOURCE = Path(_cuda.__file__).with_name("_cuda_pass.cu")
every = pytest.mark.parametrize("activation", [cls() for cls in ACTIVATIONS.values()], ids=lambda a: a.name)
LENGTHS = {
    "ones": np.ones(60, int),
    "mixed": np.random.default_rng(1).integers(1, 12, 40),
    "longer than a tile": np.array([1, 2, 70, 1, 3, 40, 1, 1, 8, 2]),
    "one giant": np.array([300]),
    "giants in a row": np.array([90, 120, 31]),
}


class HostDevice:
    """Runs the kernels of a library that was built of the same source for the host."""

    def __init__(self, library, n_blocks, shared_bytes):
        self.library, self.n_blocks, self.shared_bytes = library, n_blocks, shared_bytes

    def compile(self, source, options):
        """The library is compiled."""

    def share(self, per_processor):
        return self.n_blocks, self.shared_bytes // per_processor

    def address(self, x):
        return x.ctypes.data

    def run(self, name, n_blocks, n_threads, shared_bytes, *arguments):
        assert shared_bytes <= self.shared_bytes
        kinds = {np.int32: ctypes.c_int, np.float64: ctypes.c_double}
        passed = [
            ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else kinds[type(x)](x)
            for x in arguments
        ]
        if name == "attention_pass":
            self.library.run_pass(n_blocks, n_threads, ctypes.c_long(shared_bytes), *passed)
        else:
            assert name == "merge_cut_sequences"
            self.library.run_merge(n_blocks, n_threads, *passed)

    def asarray(self, x):
        return np.ascontiguousarray(x)

    def zeros(self, shape):
        return np.full(shape, np.nan)  # what is read was written

    def to_host(self, x):
        return x


class Libraries(dict):
    """The kernels for tokens of a dtype, built for the host where they are first asked for."""

    def __init__(self, folder):
        self.folder = folder

    def __missing__(self, dtype):
        real = {np.float32: "float", np.float64: "double"}[dtype]
        library = self.folder / f"{real}.so"
        command = ["g++", "-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", f"-DREAL={real}"]
        command += [f'-DCUDA_SOURCE="{SOURCE}"', str(HERE / "cuda_on_host.cpp"), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
        self[dtype] = ctypes.CDLL(str(library))
        return self[dtype]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("needs g++, to build the kernels for the host")
    return Libraries(tmp_path_factory.mktemp("cuda"))


def problem(lengths, dtype=np.float64, D=7, loss=SQUARED_ERROR):
    rng = np.random.default_rng(3)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), D)).astype(dtype), lengths=lengths)
    y = rng.standard_normal(lengths.size)
    y = (y > 0).astype(float) if loss is not SQUARED_ERROR else y
    weight = rng.random(lengths.size)
    weight[::3] = 0.0 if lengths.size > 3 else 1.0
    return X, y, weight, *rng.standard_normal((2, D))


def assert_agree(actual, expected):
    for part, reference in zip(actual, expected, strict=True):
        size = np.max(np.abs(reference))
        np.testing.assert_allclose(part, reference, rtol=1e-10, atol=1e-10 * size + 1e-13)


def oracle(X, y, weight, activation, key, value, loss):
    values = X.values.astype(np.float64)
    return _generic.deviance(
        values, Segments(X.offsets, values), y, weight, activation, key, value, 0.2, loss
    )


@every
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("n_blocks", [1, 3, 8])
@pytest.mark.parametrize("loss", [SQUARED_ERROR, LogLoss()], ids=["squared", "logistic"])
def test_agrees_with_the_oracle(libraries, activation, lengths, n_blocks, loss):
    X, y, weight, key, value = problem(lengths, loss=loss)
    shared = 8 * (5 * 9 * 7 + 8 + 3 * 64 + 1) + 8 * (8 * 7 + 7 * 8)  # eight tokens, nine groups of seven
    device = HostDevice(libraries[np.float64], n_blocks, shared)
    kernel = _cuda.CudaKernel(X, y, weight, loss=loss, device=device, n_threads=64)
    assert kernel.layout[1:5] == (8, 1, 9, False)
    for scale in (1.0, 200.0):
        actual = kernel.deviance(activation, scale * key, value, 0.2)
        assert_agree(actual, oracle(X, y, weight, activation, scale * key, value, loss))


@every
# Features, dtype, threads, kilobytes of shared memory: narrow and wide reads, one group of threads and several.
@pytest.mark.parametrize(
    ("D", "dtype", "n_threads", "kilobytes", "division"),
    [
        (1, np.float32, 32, 24, (32, 1, 32, False)),
        (33, np.float32, 64, 48, (64, 1, 1, False)),
        (200, np.float32, 128, 100, (37, 4, 2, False)),
        (64, np.float64, 64, 64, (45, 2, 2, False)),
        (1024, np.float32, 64, 100, (14, 4, 1, False)),
        (1030, np.float64, 64, 60, (5, 2, 1, True)),
    ],
)
def test_every_size(libraries, activation, D, dtype, n_threads, kilobytes, division):
    X, y, weight, key, value = problem(LENGTHS["longer than a tile"], dtype, D)
    kernel = _cuda.CudaKernel(
        X, y, weight, device=HostDevice(libraries[dtype], 3, kilobytes * 1024), n_threads=n_threads
    )
    assert kernel.layout[1:5] == division
    assert_agree(
        kernel.deviance(activation, key, value, 0.2),
        oracle(X, y, weight, activation, key, value, SQUARED_ERROR),
    )


def test_a_fit_by_the_kernels(libraries, monkeypatch):
    """With the wiring of a GPU, in which the host stands for the device."""
    dataset = SLRDataset("spiked", n_features=6, signal=9.0, length=(1, 2, 40), noise=0.1, random_state=0)
    X, y = dataset.sample(60)
    expected = SoftmaxAttentionRegressor(0.3, tol=1e-8).fit(X, y)
    monkeypatch.setattr(_objective, "has_cpu_kernel", lambda *_: False)
    monkeypatch.setattr(_objective, "has_cuda_kernel", lambda *_: True)
    monkeypatch.setattr(_cuda, "CudaDevice", lambda x: HostDevice(libraries[np.float64], 4, 64 * 1024))
    model = SoftmaxAttentionRegressor(0.3, tol=1e-8).fit(X, y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-6)


def test_the_source_is_packaged():
    assert "merge_cut_sequences" in _cuda.source()


def test_where_cut_sequences_are():
    offsets = np.array([0, 10, 12, 40])
    shares = [(0, 5, 0), (5, 12, 0), (12, 20, 2), (20, 30, 2), (30, 30, 2), (30, 40, 2)]
    sequences, first_pieces, pieces = _cuda._cut_sequences(offsets, shares)
    assert sequences.tolist() == [0, 2]
    assert first_pieces.tolist() == [0, 2, 5]
    assert pieces.tolist() == [1, 3, 7, 9, 15]


def test_tiles_fill_shared_memory():
    device = HostDevice(None, 132, 227 * 1024)
    for D, n_blocks in ((1024, 2), (2048, 1), (4096, 1)):
        layout = _cuda.choose_layout(RaggedArray(np.zeros((4, D), np.float32), [0, 4]), device)
        used = 8 * ((2 if D == 4096 else 5) * D + 8 + 3 * 256 + 1 + 7 * layout.tile) + layout.tile * D * 4
        assert layout.shared_bytes == used
        assert 227 * 1024 // n_blocks - D * 4 - 56 < used <= 227 * 1024 // n_blocks
    assert _cuda.choose_layout(RaggedArray(np.zeros((4, 30_000)), [0, 4]), device).tile == 0
    values = np.zeros(8 * 64 + 1, np.float32)[1:].reshape(8, 64)
    assert _cuda.choose_layout(RaggedArray(values, [0, 8]), device).width == 1  # begins between words


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("real", ["float", "double"])
def test_compiles_for_gpus(tmp_path, architecture, real):
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc, to compile the kernels for a GPU")
    command = ["nvcc", "-ptx", f"-arch={architecture}", f"-DREAL={real}", "-Werror", "all-warnings"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "pass.ptx"), str(SOURCE)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "merge_cut_sequences" in (tmp_path / "pass.ptx").read_text()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("real", ["float", "double"])
def test_compiles_as_cupy_does(architecture, real):
    """By the run-time compiler that CuPy calls; it needs no GPU."""
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="needs CuPy")
    program = nvrtc.createProgram(_cuda.source(), "pass.cu", (), ())
    nvrtc.compileProgram(program, (f"-DREAL={real}", f"-arch={architecture}"))
    assert nvrtc.getProgramLog(program).strip("\0 \n") == ""
    assert b"attention_pass" in nvrtc.getCUBIN(program)


def test_array_operations_where_the_kernel_cannot_be_built(libraries, monkeypatch):
    X, *_ = problem(LENGTHS["mixed"])
    device = HostDevice(libraries[np.float64], 4, 48 * 1024)
    monkeypatch.setattr(_cuda, "is_cupy_array", lambda x: True)
    monkeypatch.setattr(_cuda, "CudaDevice", lambda values: device)
    softmax = ACTIVATIONS["softmax"]()
    assert _cuda.has_cuda_kernel(X, softmax)

    def fail(source, options):
        raise RuntimeError("no header cuda_fp16.h")

    monkeypatch.setattr(device, "compile", fail)
    with pytest.warns(RuntimeWarning, match=r"could not be built, .* take its place: no header cuda_fp16\.h"):
        assert not _cuda.has_cuda_kernel(X, softmax)

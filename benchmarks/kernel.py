"""One fused evaluation against BLAS, the memory of a fit, and what the first fit of a process costs.

    python benchmarks/kernel.py            # n_tokens = 60,000, D = 500, float64
    python benchmarks/kernel.py --fast     # a sixth of it

Everything is interleaved in one run; figures are medians, and only their ratios mean anything on a
shared machine. BLAS threads spin for up to a tenth of a second after a call, so a pause stands before
every measurement; then calls for a twentieth of a second that are not counted, as cores wake slowly, and
five in a row, as in a fit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np
import scipy
import sklearn

import sklearn_attn
from sklearn_attn import RaggedArray
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.objective import _cpu, _generic
from sklearn_attn.ragged import Segments

REPEATS = 9
WARM_UP = 0.05
IN_A_ROW = 5
PAUSE = 0.2

_FIRST_FIT = """
import time
import numpy as np
from sklearn_attn import SoftmaxAttentionRegressor
rng = np.random.default_rng(0)
X, y = rng.standard_normal((100, 3, 5)), rng.standard_normal(100)
start = time.perf_counter()
SoftmaxAttentionRegressor().fit(X, y).predict(X)
print(time.perf_counter() - start)
"""

_PEAK_MEMORY = """
import sys
import numpy as np
from _memory import memory
from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
n_tokens, D = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
SoftmaxAttentionRegressor().fit(rng.standard_normal((100, 3, D)), rng.standard_normal(100))  # compile
before = memory("VmHWM")
X = RaggedArray.from_flat(rng.standard_normal((n_tokens, D)), lengths=[3] * (n_tokens // 3))
y = X.values[::3, 0] + 0.1 * rng.standard_normal(len(X))
loaded = memory("VmHWM")
SoftmaxAttentionRegressor().fit(X, y)
after = memory("VmHWM")
print((after - before) / X.nbytes, (after - loaded) / X.nbytes)
"""


def measure(tasks):
    """Return the median seconds of each task, all of them run in turn."""
    seconds = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(REPEATS):
        for name, task in tasks.items():
            time.sleep(PAUSE)
            awake = time.perf_counter() + WARM_UP
            while time.perf_counter() < awake:
                task()
            start = time.perf_counter()
            for _ in range(IN_A_ROW):
                task()
            seconds[name].append((time.perf_counter() - start) / IN_A_ROW)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def ragged_lengths(kind, n_tokens, rng):
    if kind == "fixed":
        return np.full(n_tokens // 3, 3)
    lengths = np.ceil(rng.pareto(1.2, size=n_tokens) + 1).astype(int)
    lengths = lengths[np.cumsum(lengths) <= n_tokens]
    return np.append(lengths, n_tokens - lengths.sum()) if lengths.sum() < n_tokens else lengths


def bench_evaluation(n_tokens, D, dtype, kind):
    rng = np.random.default_rng(0)
    lengths = ragged_lengths(kind, n_tokens, rng)
    X = RaggedArray.from_flat(rng.standard_normal((lengths.sum(), D)).astype(dtype), lengths=lengths)
    y, weight = rng.standard_normal(len(X)), np.ones(len(X))
    key, value = rng.standard_normal((2, D))
    one, both = key.astype(dtype), np.stack([key, value], axis=1).astype(dtype)
    cotangent = rng.standard_normal((X.n_tokens, 2)).astype(dtype)
    softmax = ACTIVATIONS["softmax"]()
    with _cpu.FusedKernel(X, y, weight) as kernel:
        fused = kernel.deviance(softmax, key, value, 0.1)
        oracle = _generic.deviance(
            X.values.astype(np.float64), Segments(X.offsets, X.values), y, weight, softmax, key, value, 0.1
        )
        agreement = max(
            np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in zip(fused[:3], oracle[:3], strict=True)
        )
        seconds = measure(
            {
                "gemv": lambda: X.values @ one,
                "two gemm": lambda: (X.values @ both, X.values.T @ cotangent),
                "four gemv": lambda: (
                    X.values @ one, X.values @ one,
                    cotangent[:, 0] @ X.values, cotangent[:, 0] @ X.values,
                ),
                "fused": lambda: kernel.deviance(softmax, key, value, 0.1),
            }
        )  # fmt: skip
    print(
        f"| {X.n_tokens:,} x {D} {np.dtype(dtype).name}, {kind} | "
        + " | ".join(f"{1e3 * seconds[name]:.1f}" for name in ("gemv", "two gemm", "four gemv", "fused"))
        + f" | {seconds['two gemm'] / seconds['fused']:.1f} | {seconds['gemv'] / seconds['fused']:.2f} "
        f"| {agreement:.0e} |"
    )


def run_python(code, *arguments, **environment):
    """Run code in a new process and return the numbers it prints."""
    here = {"PYTHONPATH": str(Path(__file__).parent)}
    out = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | here | environment, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    return [float(number) for number in out.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="a sixth of the tokens")
    n_tokens = 9_999 if parser.parse_args().fast else 60_000
    print(
        f"sklearn_attn {sklearn_attn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, numba {numba.__version__}, {numba.get_num_threads()} threads\n"
    )
    print("| X | gemv ms | two gemm ms | four gemv ms | fused ms | two gemm / fused | gemv / fused | error |")
    print("|---|---|---|---|---|---|---|---|")
    for dtype in (np.float64, np.float32):
        for D in (500, 64, 4000):
            for kind in ("fixed", "pareto"):
                bench_evaluation(n_tokens, D, dtype, kind)
    total, fit = run_python(_PEAK_MEMORY, 2 * n_tokens, 500)
    print(f"\nPeak memory of making X and fitting: {total:.2f} times the buffer; of the fit alone {fit:.2f}.")
    with tempfile.TemporaryDirectory() as cache:
        first, cached = (run_python(_FIRST_FIT, NUMBA_CACHE_DIR=cache)[0] for _ in range(2))
    print(f"First fit and predict of a process: {first:.1f} s; once compiled and cached {cached:.2f} s.")


if __name__ == "__main__":
    main()

"""Evaluations and fits on a GPU, against copies of memory there, PyTorch there, and this package on the CPU.

Used by `run.py --device cuda`. Figures are medians of interleaved rounds, each call waited for.
"""

import gc
import importlib.util
import time

import numpy as np
from _contenders import Task, padded, segments, tokens_of, torch_objective

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.activations import ACTIVATIONS
from sklearn_attn.datasets import SLRDataset
from sklearn_attn.objective import AttentionObjective, AttentionParameters, shared_pass

LAYOUTS = {"PyTorch, padded": padded, "PyTorch, segments": segments}
# Tokens, features, law of the lengths, dtype.
EVALUATIONS = [
    (4_000_000, 1024, (1, 2, 3, 4, 5, 6, 7, 8), "float32"),
    (4_000_000, 1024, (1, 2, 3, 4, 5, 60), "float32"),
    (2_000_000, 1024, (1, 2, 3, 4, 5, 6, 7, 8), "float64"),
    (20_000_000, 64, (1, 2, 3, 4, 5, 6, 7, 8), "float32"),
]
FITS = [(1_000_000, 500, (1, 2, 3, 4, 5, 60), "float64"), (1_000_000, 64, 3, "float32")]
FITS_AT_ONCE = 12
ALPHA = 1.0


def release(device):
    """Give back what the pools of CuPy and PyTorch hold of the GPU: neither can take what the other keeps."""
    if device != "cuda":
        return
    import cupy

    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.cuda.empty_cache()


def draw(n_tokens, D, length, dtype, device):
    """Draw spiked sequences of about so many tokens; return X, y and a name."""
    release(device)
    n = int(n_tokens / np.mean(length))
    dataset = SLRDataset("spiked", D, signal=2.0, length=length, noise=0.3, random_state=0, device=device)
    X, y = dataset.sample(n)
    law = f"L = {length}" if np.ndim(length) == 0 else f"L in {length[0]} to {length[-1]}"
    X = X.astype(getattr(np, dtype))
    release(device)
    return X, y, f"{X.n_tokens:,} x {D} {dtype}, {law}"


def interleave(tasks, wait, rounds):
    """Return the median seconds of every task."""
    seconds = {name: [] for name in tasks}
    for turn in range(rounds + 1):  # the first warms up
        for name, task in tasks.items():
            wait()
            start = time.perf_counter()
            task()
            wait()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def evaluation_tasks(X, y, rng):
    """Return the objective and its gradient in all ways, by name, and a copy of X."""
    D = X.n_features
    theta = rng.standard_normal(2 * D + 1) / 10.0
    parameters = AttentionParameters(theta[:D], theta[D : 2 * D], float(theta[-1]), 0.0)
    softmax = ACTIVATIONS["softmax"]()
    objective = AttentionObjective(X, y, softmax, alpha_key=ALPHA, alpha_value=ALPHA)
    point = objective.pack(parameters)
    target = X.values.copy()

    def copy():
        target[...] = X.values

    tasks = {"copy": copy, "sklearn_attn": lambda: objective.value_and_gradient(point)}
    batch = shared_pass(X, objective.y, np.ones((1, len(X))), softmax)
    at_once = [objective.unpack(point)] * FITS_AT_ONCE
    tasks["batch"] = lambda: batch.deviances(softmax, at_once, [0] * FITS_AT_ONCE)
    if importlib.util.find_spec("torch") is not None:
        import torch

        task = Task(X, objective.y, ALPHA)
        for name, layout in LAYOUTS.items():
            tasks[name] = torch_evaluation(torch, torch_objective(torch, layout, task), theta, X)
    return objective, tasks


def torch_evaluation(torch, objective, theta, X):
    """Return an evaluation of value and gradient by autograd, in the dtype of the tokens."""
    tokens = tokens_of(torch, X)
    point = torch.as_tensor(theta, dtype=tokens.dtype, device=tokens.device).requires_grad_()

    def evaluate():
        value = objective(point)
        return value, torch.autograd.grad(value, point)[0]

    return evaluate


def evaluations(size, wait, rounds, device):
    """Measure evaluations on one size; return a row of the table."""
    X, y, name = draw(*size, device)
    objective, tasks = evaluation_tasks(X, y, np.random.default_rng(0))
    with objective:
        seconds = interleave(tasks, wait, rounds)
    ours, bandwidth = seconds["sklearn_attn"], 2 * X.nbytes / seconds["copy"]
    cells = [
        name,
        objective.backend,
        f"{bandwidth / 1e9:.0f}",
        f"{1e3 * ours:.2f}",
        f"{X.nbytes / ours / bandwidth:.2f}",
    ]
    cells += [f"{seconds[peer] / ours:.1f}" if peer in seconds else "absent" for peer in LAYOUTS]
    cells.append(f"{seconds['batch'] / ours:.1f}")
    return cells


def fits(size, wait, rounds, device):
    """Measure whole fits to the same tolerance on the device and on the host; return a row of the table."""
    X, y, name = draw(*size, device)
    host = X.to_device("cpu")
    there, here = SoftmaxAttentionRegressor(ALPHA), SoftmaxAttentionRegressor(ALPHA)
    memory = peak_memory(lambda: there.fit(X, y), X) if device == "cuda" else None
    seconds = interleave({"there": lambda: there.fit(X, y), "here": lambda: here.fit(host, y)}, wait, rounds)
    difference = abs(there.objective_ / here.objective_ - 1.0)
    cells = [name, f"{seconds['there']:.3f}", f"{seconds['here']:.3f}"]
    cells.append(f"{seconds['here'] / seconds['there']:.1f}")
    return [*cells, f"{memory:.2f}" if memory else "", f"{difference:.0e}"]


def peak_memory(fit, X):
    """Return what CuPy's pool has taken from the GPU after a fit, that of X included, in sizes of X."""
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    others = pool.total_bytes() - X.nbytes
    fit()
    return (pool.total_bytes() - others) / X.nbytes


def table(header, rows):
    """Return the lines of a table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def report(device, wait, share=1, rounds=7):
    """Return all lines; `share` divides the number of tokens."""
    header = ["X", "backend", "copy GB/s", "ms", "share of copy"]
    header += [f"{peer} / ours" for peer in LAYOUTS] + [f"{FITS_AT_ONCE} fits at once / ours"]
    sizes = [(n // share, *rest) for n, *rest in EVALUATIONS]
    lines = table(header, [evaluations(size, wait, rounds, device) for size in sizes])
    header = [
        "X",
        "seconds of a fit",
        "on the CPU",
        "CPU / device",
        "memory / X",
        "difference of the objective",
    ]
    sizes = [(n // share, *rest) for n, *rest in FITS]
    return [*lines, "", *table(header, [fits(size, wait, min(rounds, 3), device) for size in sizes])]


def main(fast):
    """Measure on the current GPU; return the lines of the report."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    wait = cupy.cuda.Device().synchronize
    share, rounds = (16, 3) if fast else (1, 7)
    title = f"{properties['name'].decode()}, CuPy {cupy.__version__}, numpy {np.__version__}"
    return [title, "", *report("cuda", wait, share, rounds)]

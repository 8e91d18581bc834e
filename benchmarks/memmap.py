"""Fit data larger than memory: a RaggedArray on disk, under a limit on anonymous memory.

Writes 8 GB of spiked sequences to a temporary folder (`--fast`: 0.8 GB), then fits them in a new process
whose anonymous memory is limited to 1 GB (0.5 GB), and prints what it took.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sklearn_attn.datasets import SLRDataset

D, LENGTH = 1000, 5
CHUNK = 2000  # sequences written at a time

_FIT = """
import json, resource, sys, time, warnings
from pathlib import Path
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
import numpy as np
from _memory import memory
from sklearn.exceptions import ConvergenceWarning
from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.ragged import load_ragged
X, y = load_ragged(folder, mmap_mode="r"), np.load(folder / "y.npy")
start = time.perf_counter()
model = SoftmaxAttentionRegressor(alpha=1.0).fit(X, y)
seconds = time.perf_counter() - start
start = time.perf_counter()
predictions = model.predict(X)
print(json.dumps(dict(
    seconds=seconds, n_iter=int(model.n_iter_), stop_crit=float(model.stop_crit_),
    anonymous=memory("RssAnon"), predict=time.perf_counter() - start,
    r2=float(1 - np.mean((y - predictions) ** 2) / np.var(y)),
)))
"""


def write(folder, n_sequences):
    """Write the data in chunks, so that it never stands in memory as a whole."""
    dataset = SLRDataset("spiked", D, signal=4.0, length=LENGTH, noise=0.1, random_state=0)
    shape = (n_sequences * LENGTH, D)
    values = np.lib.format.open_memmap(folder / "values.npy", mode="w+", dtype=np.float64, shape=shape)
    y = np.empty(n_sequences)
    for first in range(0, n_sequences, CHUNK):
        X, y[first : first + CHUNK] = dataset.sample(min(CHUNK, n_sequences - first))
        values[first * LENGTH : first * LENGTH + X.n_tokens] = X.values
    values.flush()
    np.save(folder / "offsets.npy", np.arange(n_sequences + 1) * LENGTH)
    np.save(folder / "y.npy", y)
    return values.nbytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="a tenth of the data")
    fast = parser.parse_args().fast
    n_sequences, limit = (20_000, 2**29) if fast else (200_000, 2**30)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        size = write(folder, n_sequences)
        print(f"Wrote {size / 1e9:.1f} GB in {time.perf_counter() - start:.0f} s.")
        out = subprocess.run(
            [sys.executable, "-c", _FIT, str(folder), str(limit)],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    result = json.loads(out.stdout)
    print(
        f"Fit under a limit of {limit / 2**30:.1f} GiB on anonymous memory: {result['seconds']:.1f} s, "
        f"{result['n_iter']} iterations to a scaled gradient norm of {result['stop_crit']:.1e}; "
        f"{result['anonymous'] / 2**20:.0f} MiB of anonymous memory at the end; "
        f"predict {result['predict']:.1f} s, R2 {result['r2']:.2f}."
    )


if __name__ == "__main__":
    main()

"""Data of the benchmarks of whole fits."""

import numpy as np

from sklearn_attn import RaggedArray
from sklearn_attn.datasets import SLRDataset, load_review_needles

# Name: sequences, features, law of the lengths, penalty. A sixth of the heavy-tailed sequences hold 80 % of
# the tokens.
_SYNTHETIC = {
    "fixed": (4000, 500, 3, 1.0),
    "uniform": (20_000, 64, tuple(range(1, 9)), 1.0),
    "heavy-tailed": (4000, 500, (1, 2, 3, 4, 5, 60), 1.0),
}
PROBLEMS = [*_SYNTHETIC, "review needles"]


def load(name, share=1):
    """Return sequences, one in `share` of all, targets and the penalty."""
    if name == "review needles":
        X, y = load_review_needles(return_X_y=True)
        X, y = X[: len(X) // share], y[: len(y) // share]
        # A copy, so that what is left out is not held; float64, the same for all.
        return RaggedArray.from_flat(X.values.astype(np.float64), lengths=X.lengths), y, 0.01
    n, D, lengths, alpha = _SYNTHETIC[name]
    dataset = SLRDataset("spiked", D, signal=2.0, length=lengths, noise=0.3, random_state=0)
    return *dataset.sample(n // share, random_state=1), alpha

"""Make the figures of docs/_static that no example makes: ``python docs/figures.py``."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from sklearn_attn import SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.datasets import SLRDataset, make_spiked_slr
from sklearn_attn.inspection import AttentionDisplay, PenaltyPathDisplay

STATIC = Path(__file__).parent / "_static"


def save(name, size, draw):
    """Draw on new axes, and save them."""
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    draw(ax)
    figure.savefig(STATIC / f"{name}.png", dpi=100)


def attention():
    """The first page's: where a model looks that has found the hidden tokens."""
    dataset = SLRDataset("spiked", n_features=30, signal=9.0, length=(2, 5, 9), noise=0.1, random_state=0)
    X, y = dataset.sample(1000)
    X_test, _, location = dataset.sample(500, return_location=True)
    model = SoftmaxAttentionRegressorCV(alphas=[0.01, 0.1, 1.0, 10.0]).fit(X, y)
    display = AttentionDisplay.from_estimator(model, X_test[:12], locations=location[:12])
    save("attention", (6, 3.6), lambda ax: display.plot(ax=ax))


def attention_bars():
    """That of the page on reading attention."""
    dataset = SLRDataset("spiked", n_features=20, signal=12.0, length=(2, 4, 7), noise=0.1, random_state=0)
    model = SoftmaxAttentionRegressor(alpha=0.3).fit(*dataset.sample(800))
    X, _, location = dataset.sample(300, return_location=True)
    words = [[f"t{i}" for i in range(len(x))] for x in X[:4]]
    display = AttentionDisplay.from_estimator(model, X[:4], locations=location[:4], tokens=words)
    save("attention_bars", (5, 3.2), lambda ax: display.plot(ax=ax, kind="bars"))


def penalty_path():
    """That of the page on alpha."""
    X, y = make_spiked_slr(300, 10, signal=9.0, noise=0.3, random_state=0)
    model = SoftmaxAttentionRegressorCV(alphas=np.logspace(-2, 3, 11), cv=5).fit(X, y)
    save("penalty_path", (5, 3.2), lambda ax: PenaltyPathDisplay.from_estimator(model).plot(ax=ax))


if __name__ == "__main__":
    mpl.use("Agg")
    attention()
    attention_bars()
    penalty_path()

"""
Find the one sentence that decides a document's rating
======================================================

A document is a stack of newspaper sentences with one film-review sentence hidden at a random place; its
target is the rating of that review. Every sentence is a 384-dimensional embedding. Which sentence matters
is not given: attention has to find it.

Softmax and linear attention are compared with Ridge on mean-pooled sentences, and with Ridge on the needle
alone, which no method that has to search can be expected to beat. Run it with::

    pip install ".[plot]" && python examples/quickstart.py

It prints one table and saves one figure, `quickstart.png`, in the current folder.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_attn import LinearAttentionRegressor, SoftmaxAttentionRegressor
from sklearn_attn.datasets import load_review_needles
from sklearn_attn.inspection import AttentionDisplay
from sklearn_attn.preprocessing import SequencePooler, TokenTransformer

HAYSTACKS = [(4, 12), (20, 60)]
# Each grid reaches over its model's optimum on either side, on short and on long haystacks.
GRIDS = {
    "softmax attention": (SoftmaxAttentionRegressor(), [1, 2, 4, 8]),
    "linear attention": (LinearAttentionRegressor(), [10, 30, 100, 300, 1000]),
}
RIDGE_ALPHAS = np.logspace(-1, 5, 25)


def attention_search(regressor, alphas):
    """Standardise every sentence, attend, and choose the penalty by cross-validation."""
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), regressor)
    grid = {f"{type(regressor).__name__.lower()}__alpha": alphas}
    return GridSearchCV(pipeline, grid, cv=3, n_jobs=2, error_score="raise")


def needle_found(search, X, location):
    """Share of documents whose largest attention weight sits on the review."""
    weights = search.best_estimator_[-1].attention_weights(search.best_estimator_[:-1].transform(X))
    return np.mean([w.argmax() == needle for w, needle in zip(weights, location, strict=True)])


def needles(X, location):
    """The hidden sentence of every document: what the oracle is given."""
    return np.stack([x[needle] for x, needle in zip(X, location, strict=True)])


def compare(haystack):
    """Fit the four models on one haystack; return rows of the table and the fitted searches."""
    train = load_review_needles(length=haystack, subset="train")
    test = load_review_needles(length=haystack, subset="test")
    rows, searches = [], {}

    def run(name, model, X, X_test):
        print(f"  {name} ...", end="", flush=True)
        start = time.perf_counter()
        model.fit(X, train.target)
        seconds = time.perf_counter() - start
        found = None
        if name in GRIDS:
            found = needle_found(model, X_test, test.location)
            searches[name] = model
        rows.append((haystack, name, model.score(X_test, test.target), found, seconds))
        print(f" {seconds:.1f} s", flush=True)

    ridge = RidgeCV(RIDGE_ALPHAS)
    pooled = make_pipeline(SequencePooler("mean"), StandardScaler(), ridge)
    run("mean pooling + Ridge", pooled, train.data, test.data)
    for name, (regressor, alphas) in GRIDS.items():
        run(name, attention_search(regressor, alphas), train.data, test.data)
    oracle = make_pipeline(StandardScaler(), ridge)
    run("oracle: Ridge on the needle", oracle, needles(train.data, train.location),
        needles(test.data, test.location))  # fmt: skip
    return rows, searches, test


def draw(results, n_documents=12):
    """Show where both models look in a few test documents of each haystack."""
    fig, axes = plt.subplots(len(results), 2, figsize=(11, 7.5), layout="constrained")
    for row, (_, searches, test) in zip(axes, results, strict=True):
        for ax, (name, search) in zip(row, searches.items(), strict=True):
            AttentionDisplay.from_estimator(
                search.best_estimator_, test.data[:n_documents], locations=test.location[:n_documents]
            ).plot(ax=ax)
            lengths = f"{test.data.lengths.min()}-{test.data.lengths.max()} sentences"
            ax.set(title=f"{name}, {lengths}", xlabel="sentence", ylabel="document")
    axes[0, 0].legend(loc="upper right", fontsize="small")
    fig.savefig("quickstart.png", dpi=90)


def main():
    results = []
    for haystack in HAYSTACKS:
        print(f"Documents of {haystack[0]} to {haystack[1]} sentences:", flush=True)
        results.append(compare(haystack))
    print("\n| sentences | model | test R2 | needle found | seconds |\n|---|---|---|---|---|")
    for rows, _, _ in results:
        for (low, high), name, score, found, seconds in rows:
            share = "" if found is None else f"{100 * found:.0f} %"
            print(f"| {low}-{high} | {name} | {score:.2f} | {share} | {seconds:.1f} |")
    draw(results)
    print("\nAttention over a few documents: quickstart.png")


if __name__ == "__main__":
    main()

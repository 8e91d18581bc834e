"""Softmax attention, pooled baselines and torchmil's ABMIL on the MUSK data, on the same folds.

    pip install ".[musk]"
    python benchmarks/musk.py --data musk1.csv.gz --name MUSK1
    python benchmarks/musk.py --data musk1.csv.gz --repeats 1 --contenders "attention, RBF" "mean, SVC"

A row of the file is a conformation of a molecule: label, molecule, features. A molecule is a bag, and
positive if one of its rows is. Ten folds of bags, stratified by label, are drawn anew in every repeat from a
fixed seed, so that all contenders see the same ones. `--output` names a file to which the folds and the
results of every contender are appended, a line of JSON each; `--table` prints what it holds and measures
nothing. What a contender chooses it chooses in the training part of a fold (_musk_models.py).

Accuracy and area under the curve (AUC) are means over all folds, with the standard deviations of the means of
repeats and of single folds; seconds are for a fit with its search.
"""

import argparse
import hashlib
import importlib.metadata
import json
import time
import warnings
from pathlib import Path

import numpy as np
from _musk_models import CONTENDERS, missing
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

import sklearn_attn
from sklearn_attn import RaggedArray

N_FOLDS = 10
SEED = 0


def load(path):
    """Return the bags, a RaggedArray, and the label of every bag, 0 or 1."""
    rows = np.loadtxt(path, delimiter=",", ndmin=2)
    bags = rows[:, 1].astype(int)
    X = RaggedArray.from_groups(rows[:, 2:], bags)  # in the order in which bags appear
    names, first, index = np.unique(bags, return_index=True, return_inverse=True)
    y = np.zeros(len(names), dtype=int)
    np.maximum.at(y, index, rows[:, 0].astype(int))
    return X, y[np.argsort(first)]


def draw_folds(y, repeats, n_folds=N_FOLDS):
    """Return the training and test bags of all folds, `n_folds` for every repeat."""
    splitter = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=repeats, random_state=SEED)
    return list(splitter.split(np.zeros(len(y)), y))


def digest(folds):
    """Return a short name of the folds, the same for the same test bags."""
    return hashlib.sha256(json.dumps([test.tolist() for _, test in folds]).encode()).hexdigest()[:12]


def scores_of(model, X):
    """Return what ranks the bags, larger for the second class."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict_proba(X)[:, 1]


def measure(make, X, y, folds):
    """Fit a contender on every fold; return accuracy, AUC and seconds of all."""
    results = {"accuracy": [], "auc": [], "seconds": []}
    for train, test in folds:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # small penalties, which are not chosen
            model = make().fit(X[train], y[train])
        results["seconds"].append(time.perf_counter() - start)
        results["accuracy"].append(float(np.mean(model.predict(X[test]) == y[test])))
        results["auc"].append(float(roc_auc_score(y[test], scores_of(model, X[test]))))
    return results


def versions():
    """Return the versions of what the figures depend on."""
    found = {"sklearn_attn": sklearn_attn.__version__}
    for package in ("numpy", "scikit-learn", "torch", "torchmil"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def row_of(record):
    """Write a line of the table."""
    cells = [record["name"], record["contender"]]
    for measure_ in ("accuracy", "auc"):
        values = np.array(record[measure_]).reshape(-1, record["n_folds"])  # (repeats, folds)
        means = values.mean(axis=1)
        cells.append(f"{means.mean():.3f} ({means.std():.3f}, {values.std():.3f})")
    repeats = len(record["seconds"]) // record["n_folds"]
    return f"| {' | '.join(cells)} | {repeats} | {np.mean(record['seconds']):.2f} |"


def header():
    names = [
        "data",
        "contender",
        "accuracy (sd of repeats, of folds)",
        "AUC (likewise)",
        "repeats",
        "seconds",
    ]
    return f"| {' | '.join(names)} |\n{'|---' * len(names)}|"


def append(path, record):
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def run(options):
    """Measure the contenders, and print and append their results."""
    X, y = load(options.data)
    folds = draw_folds(y, options.repeats)
    common = {"name": options.name or options.data.name.split(".")[0], "folds": digest(folds)}
    print(
        f"{len(X)} bags, {y.sum()} positive, of {X.lengths.min()} to {X.lengths.max()} instances; folds",
        end=" ",
    )
    print(f"{common['folds']}; {versions()}\n\n{header()}", flush=True)
    append(options.output, common | {"test_bags": [test.tolist() for _, test in folds]})
    for contender in options.contenders:
        if (reason := missing(contender)) is not None:
            print(f"| {common['name']} | {contender} | absent: {reason} | | | |", flush=True)
            continue
        record = common | {"contender": contender, "n_folds": N_FOLDS, "versions": versions()}
        record |= measure(CONTENDERS[contender], X, y, folds)
        append(options.output, record)
        print(row_of(record), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the file, musk1.csv.gz or musk2.csv.gz")
    parser.add_argument("--name", help="name of the data in tables, by default that of the file")
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    parser.add_argument("--repeats", type=int, default=5, help="ten folds each")
    parser.add_argument("--output", type=Path, help="file to which folds and results are appended")
    parser.add_argument("--table", action="store_true", help="print what --output holds, and measure nothing")
    options = parser.parse_args()
    if options.table:
        records = map(json.loads, options.output.read_text(encoding="utf-8").splitlines())
        print("\n".join([header(), *(row_of(record) for record in records if "contender" in record)]))
    elif options.data is None:
        parser.error("--data is needed")
    else:
        run(options)


if __name__ == "__main__":
    main()

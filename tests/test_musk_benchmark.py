"""The benchmark on MUSK, on generated bags in the form of its files."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
N_BAGS, N_FEATURES = 60, 5


@pytest.fixture(scope="module")
def musk():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("musk")
    for name in ("musk", "_musk_models", "_musk_abmil"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Bags whose numbers are not sorted; a positive one has one positive row, far out in a feature."""
    rng = np.random.default_rng(0)
    rows = []
    for bag in rng.permutation(N_BAGS):
        tokens = rng.standard_normal((rng.integers(4, 8), N_FEATURES))
        labels = np.zeros(len(tokens))
        if bag % 2:
            needle = rng.integers(len(tokens))
            tokens[needle, 0] += 8.0
            labels[needle] = 1.0
        rows.append(np.column_stack([labels, np.full(len(tokens), bag), tokens]))
    file = tmp_path_factory.mktemp("musk") / "bags.csv"
    np.savetxt(file, np.concatenate(rows), delimiter=",")
    return file


def test_a_bag_is_positive_if_a_row_is(musk, path):
    X, y = musk.load(path)
    rows = np.loadtxt(path, delimiter=",")
    bags = list(dict.fromkeys(rows[:, 1]))  # in the order of the file
    assert len(X) == N_BAGS
    for sequence, label, bag in zip(X, y, bags, strict=True):
        np.testing.assert_array_equal(sequence, rows[rows[:, 1] == bag, 2:])
        assert label == bag % 2


def test_folds_hold_every_bag_once_and_are_stratified(musk, path):
    _, y = musk.load(path)
    folds = musk.draw_folds(y, 2)
    assert len(folds) == 20
    for repeat in (folds[:10], folds[10:]):
        np.testing.assert_array_equal(
            np.sort(np.concatenate([test for _, test in repeat])), np.arange(N_BAGS)
        )
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(N_BAGS))
        assert y[test].sum() == 3
    # A short run sees the first folds of a long one.
    assert musk.digest(musk.draw_folds(y, 1)) == musk.digest(folds[:10]) != musk.digest(folds)


def test_no_test_bag_is_fitted(musk, path):
    X, y = musk.load(path)
    folds = musk.draw_folds(y, 1)
    fitted = []

    class Spy:
        def fit(self, X, y):
            fitted.append(X)
            return self

        def decision_function(self, X):
            trained = {sequence.tobytes() for sequence in fitted[-1]}
            assert not any(sequence.tobytes() in trained for sequence in X)
            return X.values[X.offsets[:-1], 0]

        def predict(self, X):
            return (self.decision_function(X) > 0.0).astype(int)

    musk.measure(Spy, X, y, folds)
    assert [len(X) for X in fitted] == [len(train) for train, _ in folds]


@pytest.mark.parametrize(
    "contender", ["attention", "attention, RBF", "attention, log loss", "mean, logistic"]
)
def test_contender_runs(musk, path, contender):
    X, y = musk.load(path)
    results = musk.measure(musk.CONTENDERS[contender], X, y, musk.draw_folds(y, 1)[:2])
    assert len(results["accuracy"]) == len(results["seconds"]) == 2
    assert min(results["auc"]) > (0.5 if contender == "mean, logistic" else 0.9)


@pytest.mark.skipif(
    importlib.util.find_spec("torchmil") is None, reason='torchmil is missing: pip install ".[musk]"'
)
def test_abmil_learns(musk, path):
    from _musk_abmil import ABMILClassifier

    X, y = musk.load(path)
    results = musk.measure(
        lambda: ABMILClassifier(gated=True, learning_rate=1e-3, n_epochs=20), X, y, musk.draw_folds(y, 1)[:1]
    )
    assert results["auc"][0] > 0.8


def test_results_are_appended_and_printed(musk, path, tmp_path, monkeypatch, capsys):
    output = tmp_path / "results.jsonl"
    arguments = ["musk.py", "--data", str(path), "--repeats", "1", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", [*arguments, "--contenders", "mean, logistic"])
    musk.main()
    printed = capsys.readouterr().out
    folds, record = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    assert folds["folds"] == record["folds"]
    assert sorted(np.concatenate(folds["test_bags"])) == list(range(N_BAGS))
    row = musk.row_of(record)
    assert row.startswith(f"| bags | mean, logistic | {np.mean(record['accuracy']):.3f} (")
    monkeypatch.setattr(sys, "argv", [*arguments, "--table"])
    musk.main()
    assert row in printed
    assert row in capsys.readouterr().out

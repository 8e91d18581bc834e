"""The benchmark of whole fits runs to its end, with what peers there are."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_attn.objective import AttentionParameters

RUN = Path(__file__).parents[1] / "benchmarks" / "run.py"


@pytest.mark.slow
def test_all_contenders_reach_the_same_minimum(tmp_path):
    subprocess.run([sys.executable, RUN, "--fast", "--output", tmp_path], check=True)
    table = (tmp_path / "fits.md").read_text(encoding="utf-8")
    assert "missed" not in table
    assert table.count("| sklearn_attn |") == 4
    for peer, module in (("JAX, segments", "jax"), ("PyTorch, padded", "torch")):
        rows = [line for line in table.splitlines() if f"| {peer} |" in line]
        assert len(rows) == 4
        assert all(("absent" in row) == (importlib.util.find_spec(module) is None) for row in rows)


@pytest.fixture
def device_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(RUN.parent)
    return importlib.import_module("_device")


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_all_ways_to_evaluate_agree(device_benchmark):
    X, y, _ = device_benchmark.draw(400, 20, (1, 2, 9), "float64", "cpu")
    objective, tasks = device_benchmark.evaluation_tasks(X, y, np.random.default_rng(0))
    theta = np.random.default_rng(0).standard_normal(41) / 10.0
    with objective:
        value = objective.original_units(tasks["sklearn_attn"]()[0])
        J, gradient = objective.evaluate(AttentionParameters(theta[:20], theta[20:40], theta[40], 0.0))
        deviance = objective.deviance(AttentionParameters(theta[:20], theta[20:40], theta[40], 0.0))[0]
    assert value == pytest.approx(J, rel=1e-12)
    batch, _ = tasks["batch"]()
    assert [terms[0] for terms in batch] == pytest.approx([deviance] * device_benchmark.FITS_AT_ONCE)
    gradient = np.concatenate([gradient.key, gradient.value, [gradient.intercept]])
    for name in set(device_benchmark.LAYOUTS) & set(tasks):
        peer, peer_gradient = tasks[name]()
        assert peer.item() == pytest.approx(J, rel=1e-10)
        np.testing.assert_allclose(peer_gradient.numpy(), gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_the_report_of_a_device_has_a_row_for_every_size(device_benchmark):
    """On the host; on a GPU `run.py --device cuda` writes the same tables."""
    lines = device_benchmark.report("cpu", lambda: None, share=40_000, rounds=1)
    rows = [line for line in lines if line.startswith("| ") and "x" in line]
    assert sum(" float" in row for row in rows) == len(device_benchmark.EVALUATIONS) + len(
        device_benchmark.FITS
    )
    assert "nan" not in "".join(lines)

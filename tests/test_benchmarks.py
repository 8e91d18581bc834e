"""The benchmark of whole fits runs to its end, with what peers there are."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

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

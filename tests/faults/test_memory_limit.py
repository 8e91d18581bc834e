"""A fit that runs out of memory says so, changes nothing, and leaves nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of memory are Linux's here"
)


@pytest.mark.parametrize(
    "name",
    [
        "softmax",
        pytest.param("cross-validation", marks=pytest.mark.slow),
        pytest.param("three classes", marks=pytest.mark.slow),
        pytest.param("descent", marks=pytest.mark.slow),
    ],
)
def test_rooms_of_all_sizes(name):
    # With one thread: where a new thread finds no memory for itself, Python's Thread.start waits for ever.
    environment = os.environ | {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, Path(__file__).with_name("memory_limits.py"), name]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["next fit"] is True
    reports = found["reports"]
    for report in reports:
        assert (report["threads"], report["files"]) == (1, 0), report
        assert report["raised"] in {"MemoryError", "nothing"}, report
        assert report["unchanged"] or report["raised"] == "nothing", report
    *tight, roomy = reports
    assert roomy["raised"] == "nothing"
    assert not roomy["unchanged"]
    messages = [report["message"] for report in tight if report["raised"] == "MemoryError"]
    assert len(messages) >= 3
    assert any("Unable to allocate" in message for message in messages)

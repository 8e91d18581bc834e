"""An interrupt (Ctrl-C) at any moment of a fit leaves the estimator as it was, or fitted, and nothing behind."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from interrupted_fits import MODELS

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/fd"), reason="counts files and threads in /proc"
)


def interrupt_fits(name, n_trials):
    script = Path(__file__).with_name("interrupted_fits.py")
    moments = random.Random(name)
    reports = []
    with subprocess.Popen(
        [sys.executable, script, name, str(n_trials)], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            duration = float(child.stdout.readline())
            for _ in range(n_trials):
                assert child.stdout.readline() == "go\n"
                time.sleep(moments.uniform(0.0, 1.02 * duration))
                child.send_signal(signal.SIGINT)
                reports.append(json.loads(child.stdout.readline()))
        finally:
            if len(reports) < n_trials:
                child.kill()
    assert child.returncode == 0
    return reports


def check(name, n_trials):
    reports = interrupt_fits(name, n_trials)
    states = Counter(report.pop("state") for report in reports)
    for report in reports:
        assert report == {"interrupted": True, "threads": [], "next fit": True, "blas": True, "files": 0}
    assert states["as it was"] + states["fitted"] == n_trials, states
    assert states["as it was"], "no fit was interrupted, but the wait after it"


@pytest.mark.parametrize("name", ["lbfgs", "cv"])
def test_a_few_moments(name):
    check(name, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_moments(name):
    check(name, 50 if name == "gamp" else 100)

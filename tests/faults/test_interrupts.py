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
from interrupted_fits import MODELS, contents

from sklearn_attn import SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.datasets import make_spiked_slr

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


@pytest.mark.parametrize("name", ["lbfgs", pytest.param("cv", marks=pytest.mark.slow)])
def test_a_few_moments(name):
    check(name, 6)


@pytest.mark.parametrize("model", [SoftmaxAttentionRegressor(), SoftmaxAttentionRegressorCV([1.0], cv=2)])
def test_between_two_attributes(model):
    """The moment at which an estimator that set them one by one would be half of each fit."""
    X, y = make_spiked_slr(60, 4, random_state=0)

    class Interrupted(type(model)):
        def _keep(self, *arguments, **options):
            super()._keep(*arguments, **options)
            if hasattr(self, "mark"):
                raise KeyboardInterrupt

    interrupted = Interrupted(**model.get_params()).fit(X, y)
    interrupted.mark = True
    before = contents(interrupted)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X[:50], y[:50])
    assert contents(interrupted) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_moments(name):
    check(name, 50 if name == "gamp" else 100)

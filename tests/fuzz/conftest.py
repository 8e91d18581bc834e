"""Two sizes of one suite: some hundred cases by default, always the same; tens of thousands by `pytest -m fuzz`."""

import re

import pytest
from fuzz_cases import N_CASES, settings

MANY = pytest.StashKey[bool]()


def pytest_configure(config):
    chosen = config.getoption("markexpr")
    config.stash[MANY] = bool(re.search(r"\bfuzz\b", chosen)) and not re.search(r"\bnot fuzz\b", chosen)
    settings.load_profile("many" if config.stash[MANY] else "few")


def pytest_itemcollected(item):
    if item.config.stash[MANY]:
        item.add_marker("fuzz")


def pytest_terminal_summary(terminalreporter):
    if N_CASES:
        terminalreporter.section("generated cases")
        for name, n in sorted(N_CASES.items()):
            terminalreporter.line(f"{n:7d} {name}")
        terminalreporter.line(f"{sum(N_CASES.values()):7d} in all")

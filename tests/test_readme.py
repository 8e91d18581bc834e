"""The README's snippet runs, is as short as it says, and shows what it promises."""

import re
import tomllib
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def text():
    if not README.exists():
        pytest.skip("README.md is not beside the tests; run them in a checkout")
    return README.read_text(encoding="utf-8")


def snippets(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_snippet_runs_and_finds_the_needle(text, capsys):
    snippet = snippets(text)[0]
    statements = [
        line for line in snippet.splitlines() if line.strip() and not line.startswith(("from", "import"))
    ]
    assert len(statements) <= 10
    exec(compile(snippet, "README.md", "exec"), {})
    score, found = map(float, capsys.readouterr().out.split())
    assert 0.8 < score < 1.0
    assert found > 0.9


def test_the_snippet_of_the_theory_prints_what_it_says(text, capsys):
    snippet = snippets(text)[1]
    exec(compile(snippet, "README.md", "exec"), {})
    printed = [float(word) for word in capsys.readouterr().out.split()]
    promised = [
        float(number) for line in snippet.splitlines() if "#" in line and "print" in line
        for number in re.findall(r"\d+\.\d+", line.split("#")[1])
    ]  # fmt: skip
    assert len(printed) == len(promised) == 7
    for value, number in zip(printed, promised, strict=True):
        assert value == pytest.approx(number, abs=6e-4 if number < 0.1 else 6e-3)


def test_both_commands_are_there(text):
    assert 'pip install ".[plot]" && python examples/quickstart.py' in text
    assert 'pip install ".[test]" && pytest' in text


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_versions_are_those_of_the_package(text, page):
    with (README.parent / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    bounds = dict(requirement.split(">=") for requirement in project["dependencies"])
    bounds["Python"] = project["requires-python"].removeprefix(">=")
    said = re.sub(r"\s+", " ", (README.parent / page).read_text(encoding="utf-8"))
    for name, label in {"Python": "Python", "numpy": "NumPy", "scipy": "SciPy", "numba": "Numba"}.items():
        assert f"{label} {bounds[name]} " in said or f"{label} {bounds[name]}," in said, label
    assert f"scikit-learn {bounds['scikit-learn']} " in said

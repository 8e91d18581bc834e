"""The examples in the pages of the documentation show what they say."""

import doctest
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What pages import beyond the package, scikit-learn, NumPy and what every test has.
NEEDS = {"callbacks": ("sklearn.callback", "rich"), "weights_and_persistence": ("skops.io",)}

pytestmark = pytest.mark.skipif(not PAGES, reason="docs are not beside the tests; run them in a checkout")


def examples_of(page):
    """The examples of all Python blocks of a page, which share their names, at the lines of the page."""
    text = page.read_text(encoding="utf-8")
    parser = doctest.DocTestParser()
    examples = []
    for block in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        first_line = text[: block.start(1)].count("\n")
        for example in parser.get_examples(block.group(1), name=page.name):
            example.lineno += first_line
            examples.append(example)
    return examples


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_shows_what_it_says(page):
    for module in NEEDS.get(page.stem, ()):
        pytest.importorskip(module)
    test = doctest.DocTest(examples_of(page), {}, page.name, str(page), 0, None)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    report = []
    runner.run(test, out=report.append)
    plt.close("all")
    assert runner.failures == 0, "".join(report)


def test_examples_are_found():
    pages = {page.stem for page in PAGES if examples_of(page)}
    assert {"index", "alpha", "attention", "troubleshooting"} <= pages

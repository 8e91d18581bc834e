"""The examples in docstrings show what they say."""

import doctest
import importlib
import pkgutil

import pytest

import sklearn_attn

MODULES = [module.name for module in pkgutil.walk_packages(sklearn_attn.__path__, "sklearn_attn.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_examples_are_found():
    finder = doctest.DocTestFinder()
    examples = [
        test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples
    ]
    assert len(examples) >= 20

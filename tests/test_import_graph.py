"""The arrows between the parts of the package point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_attn

PACKAGE = Path(sklearn_attn.__file__).parent

# What each part may import of the package; a part may always import itself.
ARROWS = {
    "_backend": set(),
    "_compiled": set(),
    "problems": {"_backend"},
    "ragged": {"_backend"},
    "activations": {"_backend"},
    "objective": {"_backend", "_compiled", "ragged", "activations"},
    "solvers": {"_backend", "_compiled", "ragged", "activations", "objective"},
    "regressors": {"_backend", "ragged", "activations", "objective", "solvers"},
    "classifiers": {"_backend", "activations", "objective", "regressors"},
    "preprocessing": {"_backend", "ragged"},
    "datasets": {"_backend", "ragged", "problems"},
    "inspection": {"_backend", "ragged", "theory"},
    "theory": {"_backend", "_compiled", "ragged", "problems", "activations"},
    "distributed": {"ragged", "objective", "regressors", "solvers"},
    "__init__": {"ragged", "regressors", "classifiers"},
}
# Not pandas: scikit-learn itself imports it where it is installed, and it imports PyArrow.
OPTIONAL = ["matplotlib", "cupy", "torch", "jax", "dask", "pyarrow", "polars", "awkward"]


def imported_parts(source, module):
    """Parts of the package that a module imports, given its dotted name inside the package."""
    parts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ["sklearn_attn", *module.split(".")]
                base = ".".join([*package[: len(package) - node.level], *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        parts |= {name.split(".")[1] for name in names if name.startswith("sklearn_attn.")}
    return parts


def forbidden(source, module):
    part = module.split(".")[0]
    return imported_parts(source, module) & set(ARROWS) - ARROWS[part] - {part}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield pytest.param(path, ".".join(path.relative_to(PACKAGE).with_suffix("").parts), id=path.stem)


@pytest.mark.parametrize(("path", "module"), list(modules()))
def test_arrows_point_one_way(path, module):
    assert module.split(".")[0] in ARROWS, "a new part needs its arrows here and in docs/design.md"
    assert not forbidden(path.read_text(encoding="utf-8"), module)


def test_the_check_sees_a_wrong_arrow():
    assert forbidden("from ..regressors import SoftmaxAttentionRegressor", "objective._cpu") == {"regressors"}
    assert forbidden("from .. import solvers", "ragged._container") == {"solvers"}
    assert forbidden("import sklearn_attn.theory.replica", "regressors._base") == {"theory"}
    assert not forbidden(
        "from ._container import RaggedArray\nfrom .._backend import erf", "ragged._validation"
    )


@pytest.mark.parametrize(("path", "module"), list(modules()))
def test_only_the_backend_names_cupy(path, module):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert module == "_backend" or not any(name.startswith("cupy") for name in named)


@pytest.mark.parametrize(("path", "module"), list(modules()))
def test_files_are_about_one_thing(path, module):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450


def test_importing_the_package_imports_nothing_optional():
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import sklearn_attn, sklearn_attn.datasets, sklearn_attn.preprocessing, sklearn_attn.inspection\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

"""How the documentation is built; see development.md."""

import warnings

from docutils.utils.math.latex2mathml import tex2mathml

import sklearn_attn

project = "sklearn_attn"
author = "The sklearn_attn developers"
copyright = author
version = release = sklearn_attn.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
default_role = "py:obj"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

smartquotes = False  # in types such as {"auto", "random"}

html_title = "sklearn_attn"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False

# Examples that take less than half a minute are run, the others are shown; to run all of them pass
# -D sphinx_gallery_conf.filename_pattern="plot_|quickstart"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"theory/plot_sgd",
    "ignore_pattern": r"__init__",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": "True",
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _skip_what_scikit_learn_documents(app, what, name, obj, skip, options):
    """Leave out inherited members of other packages, such as get_params and set_fit_request."""
    if skip or what != "class":
        return skip
    function = getattr(obj, "fget", None) or getattr(obj, "fn", None) or obj
    module = getattr(function, "__module__", None) or "sklearn_attn"
    is_request = name.startswith("set_") and name.endswith("_request")
    return is_request or not module.startswith("sklearn_attn")


def _mathml(self, node, as_block):
    formula = tex2mathml(node.astext(), as_block=as_block)
    self.body.append(f'<div class="math">{formula}</div>' if as_block else formula)


def _visit_inline(self, node):
    _mathml(self, node, as_block=False)
    from docutils import nodes

    raise nodes.SkipNode


def _visit_block(self, node):
    _mathml(self, node, as_block=True)
    from docutils import nodes

    raise nodes.SkipNode


def setup(app):
    """Write formulas as MathML, which browsers draw without a script and without a network."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("autodoc-skip-member", _skip_what_scikit_learn_documents)

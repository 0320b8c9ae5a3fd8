"""The documentation site: Sphinx reads the same pages that a code host shows, and the docstrings of every public name.

sphinx-build -W --keep-going -b html docs docs/_build/html
"""

import sys
from pathlib import Path

import pathexp

sys.path.insert(0, str(Path(__file__).parent / "_site"))
import sources

project = "pathexp"
author = "pathexp contributors"
copyright = author
version = release = pathexp.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "mathematics"]
exclude_patterns = ["_build", "_site"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tutorials keep the outputs that CI made

default_role = "code"
autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "pathexp"
html_static_path: list[str] = []
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}


def setup(app) -> None:
    """Let docstrings be read as they are written."""
    app.connect("autodoc-process-docstring", sources.process)
    app.connect("source-read", sources.leading_out)

"""Sphinx configuration of the project's site, which ./lab docs builds from Markdown files and notebooks.

The source folder is the repository itself, so links in pages work both on the site and on GitHub. Only the order of
pages is defined here. Before Sphinx runs, ./lab docs writes docs/reference.md and docs/claims.md.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.ext.napoleon import Config as NapoleonConfig
from sphinx.ext.napoleon import GoogleDocstring

project = "Periscope"
author = "The Periscope authors"
project_copyright = author
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]

# Subpages of a page, by heading in the sidebar.
PAGES = {
    "README": {
        "Tutorial": ["notebooks/first_look", "notebooks/your_checkpoint", "notebooks/your_placement"],
        "How-to": ["docs/questions", "docs/running", "docs/sweeps", "docs/checkpoints", "docs/training", "docs/python"],
        "Reference": ["docs/reference", "docs/python_api"],
        "Explanation": ["docs/theory/README", "docs/experiments", "docs/findings", "docs/claims",
                        "docs/ledger", "docs/lab_notes/README"],
        "Project": ["CHANGELOG", "CONTRIBUTING", "experiments/bench/RESULTS"],
    },
    "docs/theory/README": {
        "": [f"docs/theory/{chapter}" for chapter in (
            "blocks", "attention_and_mlp", "weight_scales", "gradients", "first_steps", "bounds", "certificates",
            "finite_width", "verdicts", "number_formats", "literature")],
    },
    "docs/lab_notes/README": {
        "": [f"docs/lab_notes/{note}" for note in (
            "discoveries", "finite_width", "growth_in_training", "weight_scales", "certificates", "number_formats",
            "blocks_2026", "first_steps")],
    },
}  # fmt: skip

root_doc = "README"
include_patterns = [*PAGES, *(page for sections in PAGES.values() for pages in sections.values() for page in pages)]
include_patterns = [f"{page}.ipynb" if page.startswith("notebooks/") else f"{page}.md" for page in include_patterns]

exclude_patterns = [".?*", "build*", "dist", "results"]  # folders that Sphinx does not search

# -- Markdown and notebooks --------------------------------------------------------------------------
myst_heading_anchors = 6  # anchors for headings of all levels, as on GitHub
# MyST syntax that GitHub does not support, such as comments that start with %.
myst_disable_syntax = ["myst_line_comment", "myst_target", "myst_block_break", "myst_role"]
smartquotes = False
highlight_language = "none"
nb_execution_mode = "force"
nb_execution_timeout = 240
nb_execution_raise_on_error = True

# -- the Python package ------------------------------------------------------------------------------
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_display_short_literal_types = True
nitpick_ignore = [("py:class", "Figure"), ("py:class", "periscope.plots.style.Page")]  # classes of matplotlib figures
# Types of other packages are not linked, because Sphinx would need a network to resolve such links.
nitpick_ignore_regex = [("py:.*", r"(collections|concurrent|numpy|os|pandas|pd|tempfile|typing|xarray|xr)\..*")]

# -- the site ----------------------------------------------------------------------------------------
html_theme = "furo"
html_title = "Periscope"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_additional_pages = {"index": "index.html"}
html_domain_indices = False
html_static_path = ["site/static"]
html_css_files = ["periscope.css"]
copybutton_selector = "div.command pre, div.highlight-python pre, div.highlight-ipython3 pre, div.highlight-toml pre"
templates_path = ["site/templates"]


def add_pages_below(app: Any, page: str, source: list[str]) -> None:
    """Adds a hidden table of contents to the end of a page with subpages; the sidebar shows it."""
    for heading, pages in PAGES.get(page, {}).items():
        caption = f":caption: {heading}\n" if heading else ""
        listed = "\n".join(f"/{below}" for below in pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n{caption}\n{listed}\n```\n"


def read_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Parses the section "Arguments:" of docstrings. The napoleon extension is not enabled, because it would treat text
    before a colon in an attribute's docstring as a type. The docstring of a compiled property is its signature."""
    if what in ("function", "method", "class"):
        config = NapoleonConfig(napoleon_numpy_docstring=False)
        lines[:] = GoogleDocstring(lines, config, app, what, name, thing, options).lines()
    elif what == "property" and lines and lines[0].startswith("(self) -> "):
        lines[0] = f"``{lines[0].removeprefix('(self) -> ')}``"


def set_dashes(app: Any, page: nodes.document) -> None:
    """Replaces the "--" between arguments and their meaning with a dash. Smartquotes would do this too, but is off
    because it would also change flags such as "--seeds"."""
    for text in list(page.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def mark_commands(app: Any, page: nodes.document) -> None:
    """Gives blocks of shell commands the class "command", which adds line wrapping and a copy button."""
    for block in page.findall(nodes.literal_block):
        if re.match(r"(build|\.|\.venv|build-\w+)/|cmake |ctest |python3? ", block.astext()):
            block["classes"].append("command")


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", add_pages_below)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("doctree-read", set_dashes)
    app.connect("doctree-read", mark_commands)
    return {"parallel_read_safe": True}

"""How Sphinx makes the site of the project's Markdown files and notebooks: ./lab docs.

The source folder is the project's own, so that every page is the file that a forge shows and its links work in both.
What only the site has is here: the order of its pages. The reference is printed by the program before.
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

# Below which page stand which, under which heading of the sidebar.
PAGES = {
    "README": {
        "Tutorial": ["notebooks/first_look", "notebooks/your_checkpoint", "notebooks/your_placement"],
        "How-to": ["docs/questions", "docs/running", "docs/checkpoints", "docs/training", "docs/python"],
        "Reference": ["docs/reference", "docs/python_api"],
        "Explanation": ["docs/theory/README", "docs/experiments", "docs/findings", "docs/lab_notes/README"],
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

exclude_patterns = [".?*", "build*", "dist", "results"]  # whose folders are not looked into

# -- Markdown and notebooks --------------------------------------------------------------------------
myst_heading_anchors = 6  # as a forge makes them
# What a forge does not know, as comments behind %.
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
nitpick_ignore = [("py:class", "Figure"), ("py:class", "periscope.plots.style.Page")]  # matplotlib
# Types of other packages have their pages elsewhere; the site links to nothing that needs a network to be built.
nitpick_ignore_regex = [("py:.*", r"(collections|numpy|os|pandas|pd|typing|xarray|xr)\..*")]

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
    """Adds the contents of the sidebar to the end of a page that has others below it."""
    for heading, pages in PAGES.get(page, {}).items():
        caption = f":caption: {heading}\n" if heading else ""
        listed = "\n".join(f"/{below}" for below in pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n{caption}\n{listed}\n```\n"


def read_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Reads the section "Arguments:" of docstrings. As an extension napoleon would also take the text before a colon in
    the docstring of an attribute for its type. What the compiled module says of a property is its type alone."""
    if what in ("function", "method", "class"):
        config = NapoleonConfig(napoleon_numpy_docstring=False)
        lines[:] = GoogleDocstring(lines, config, app, what, name, thing, options).lines()
    elif what == "property" and lines and lines[0].startswith("(self) -> "):
        lines[0] = f"``{lines[0].removeprefix('(self) -> ')}``"


def set_dashes(app: Any, page: nodes.document) -> None:
    """Sets the dashes between arguments and their meaning, which Sphinx leaves to smartquotes. In Markdown "--seeds" is
    a flag, so that these are off."""
    for text in list(page.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def mark_commands(app: Any, page: nodes.document) -> None:
    """Gives blocks of shell commands the class "command": they wrap and have a copy button, which tables do not."""
    for block in page.findall(nodes.literal_block):
        if re.match(r"(build|\.|\.venv|build-\w+)/|cmake |ctest |python3? ", block.astext()):
            block["classes"].append("command")


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", add_pages_below)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("doctree-read", set_dashes)
    app.connect("doctree-read", mark_commands)
    return {"parallel_read_safe": True}

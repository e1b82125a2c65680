"""Every notebook runs with the Python module, and its text agrees with its outputs."""

import re

import pytest

from program import ROOT, imported

nbformat = imported("nbformat", "notebooks/requirements.txt")
nbclient = imported("nbclient", "notebooks/requirements.txt")
VERDICT = re.compile(r"\*\*(agrees|disagrees|inconclusive)\*\*")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell, kind="text/plain"):
    """Returns the results and printed text of a cell, of one MIME type."""
    printed = [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout"]
    answers = [o.data[kind] for o in cell.outputs if kind in o.get("data", {})]
    return "".join((printed if kind == "text/plain" else []) + answers)


def number_after(name, text):
    return float(re.search(rf"^{re.escape(name)} +(\S+)$", text, re.M)[1])


@pytest.fixture(scope="module")
def notebooks():
    found = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = found[path.stem] = nbformat.read(path, as_version=4)
        assert not any(c.outputs or c.execution_count is not None for c in code_cells(notebook)), "stored with outputs"
        nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": path.parent}}).execute()
    return found


def test_figures_have_a_description(notebooks):
    figures = 0
    for cell in (cell for notebook in notebooks.values() for cell in code_cells(notebook)):
        described = bool(cell.metadata.get("mystnb", {}).get("image", {}).get("alt"))
        assert bool(shown(cell, "image/png")) == described, cell.source
        figures += described
    assert figures == 7


def test_standard_error_has_only_progress_bars(notebooks):
    for cell in (cell for notebook in notebooks.values() for cell in code_cells(notebook)):
        errors = "".join(output.text for output in cell.outputs if output.get("name") == "stderr")
        if "progress=True" in cell.source:
            assert "100%" in errors and "Warning" not in errors, errors
        else:
            assert errors == "", cell.source


def test_verdicts_agree_with_the_text(notebooks):
    compared = 0
    for notebook in notebooks.values():
        for before, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
            words = VERDICT.findall(cell.source) if cell.cell_type == "markdown" else []
            if words:
                assert set(re.findall(r"\b(agrees|disagrees|inconclusive)\b", shown(before))) == set(words), cell.source
                compared += 1
    assert compared == 3


def test_first_look_finds_the_law_of_peri_ln(notebooks):
    found = shown(code_cells(notebooks["first_look"])[-1]).split()[-2:]
    assert [float(x) for x in found] == pytest.approx([1.0, 4.0], abs=1e-3)


def test_your_checkpoint_grows_by_alignment_and_is_certified(notebooks):
    cells = code_cells(notebooks["your_checkpoint"])
    parts = next(shown(cell) for cell in cells if "log_growth_from_alignment" in cell.source)
    for other in ("scales", "sizes_inside"):
        assert number_after("log_growth_from_alignment", parts) > 2 * number_after(f"log_growth_from_{other}", parts)
    assert number_after("fp16", shown(cells[-1])) == 1.0

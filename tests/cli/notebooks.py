"""Executes every notebook with the Python module, and checks what its text says of the outputs. Usage: notebooks.py
SOURCE_DIR

Prints the seconds that each takes. Needs the packages of notebooks/requirements.txt, which ./lab test installs, and the
module; skipped (exit code 77) without the packages.
"""

import pathlib
import re
import sys
import time
import unittest

try:
    import nbformat
    from nbclient import NotebookClient
except ImportError:
    print("skipped: the packages of notebooks/requirements.txt are not installed")
    sys.exit(77)
VERDICT = re.compile(r"\*\*(agrees|disagrees|inconclusive)\*\*")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell, kind="text/plain"):
    """What a cell answered or printed, of one MIME type."""
    texts = [output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"]
    return "".join(texts if kind == "text/plain" else []) + "".join(
        output.data[kind] for output in cell.outputs if kind in output.get("data", {})
    )


def number_after(name, text):
    return float(re.search(rf"^{re.escape(name)} +(\S+)$", text, re.M).group(1))


class Notebooks(unittest.TestCase):
    notebooks: dict = {}

    @classmethod
    def setUpClass(cls):
        for path in sorted((SOURCE / "notebooks").glob("*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            for cell in code_cells(notebook):
                if cell.outputs or cell.execution_count is not None:
                    raise AssertionError(f"{path.name}: stored with outputs; expected none")
            start = time.monotonic()
            NotebookClient(notebook, timeout=240, resources={"metadata": {"path": path.parent}}).execute()
            print(f"{path.name}: {time.monotonic() - start:.0f} s", flush=True)
            cls.notebooks[path.stem] = notebook

    def test_figures_show_and_have_a_description(self):
        figures = 0
        for name, notebook in self.notebooks.items():
            for cell in code_cells(notebook):
                described = bool(cell.metadata.get("mystnb", {}).get("image", {}).get("alt"))
                self.assertEqual(bool(shown(cell, "image/png")), described, f"{name}: {cell.source}")
                figures += described
        self.assertEqual(figures, 7)

    def test_nothing_is_on_standard_error_but_a_bar(self):
        for name, notebook in self.notebooks.items():
            for cell in code_cells(notebook):
                errors = [output.text for output in cell.outputs if output.get("name") == "stderr"]
                if "progress=True" in cell.source:
                    self.assertIn("100%", "".join(errors), name)
                    self.assertNotIn("Warning", "".join(errors), name)
                else:
                    self.assertEqual(errors, [], f"{name}: {cell.source}")

    def test_verdicts_are_what_the_text_says(self):
        compared = 0
        for name, notebook in self.notebooks.items():
            for before, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
                said = VERDICT.findall(cell.source) if cell.cell_type == "markdown" else []
                if said:
                    found = re.findall(r"\b(agrees|disagrees|inconclusive)\b", shown(before))
                    self.assertEqual(set(found), set(said), f"{name}: {cell.source}")
                    compared += 1
        self.assertEqual(compared, 3)

    def test_first_look_finds_the_law_of_peri_ln(self):
        cells = code_cells(self.notebooks["first_look"])
        one, four = map(float, shown(cells[-1]).split()[-2:])
        self.assertAlmostEqual(one, 1.0, delta=1e-3)
        self.assertAlmostEqual(four, 4.0, delta=1e-3)

    def test_your_checkpoint_grows_by_alignment_and_is_certified(self):
        cells = code_cells(self.notebooks["your_checkpoint"])
        parts = next(shown(cell) for cell in cells if "log_growth_from_alignment" in cell.source)
        alignment = number_after("log_growth_from_alignment", parts)
        self.assertGreater(alignment, 2 * number_after("log_growth_from_scales", parts))
        self.assertGreater(alignment, 2 * number_after("log_growth_from_sizes_inside", parts))
        self.assertEqual(number_after("fp16", shown(cells[-1])), 1.0)


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

"""Executes every notebook, and checks that it is stored without outputs. Usage: notebooks.py SOURCE_DIR

Needs the packages of notebooks/requirements.txt, which ./lab test installs; skipped (exit code 77) without them.
"""

import pathlib
import sys
import unittest

try:
    import nbformat
    from nbclient import NotebookClient
except ImportError:
    print("skipped: the packages of notebooks/requirements.txt are not installed")
    sys.exit(77)


class Notebooks(unittest.TestCase):
    def test_they_run(self):
        found = sorted((SOURCE / "notebooks").glob("*.ipynb"))
        self.assertTrue(found)
        for path in found:
            with self.subTest(notebook=path.name):
                notebook = nbformat.read(path, as_version=4)
                for cell in notebook.cells:
                    self.assertFalse(cell.get("outputs"), "stored without outputs")
                NotebookClient(notebook, timeout=240, resources={"metadata": {"path": SOURCE}}).execute()


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

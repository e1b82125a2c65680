"""A run in a Jupyter notebook: interrupting a cell, and the progress bar. Usage: notebook_test.py

Needs the packages of notebooks/requirements.txt, which ./lab test installs; skipped (exit code 77) without them.
"""

import os
import re
import sys
import time
import unittest
from typing import Any

try:
    from jupyter_client.manager import start_new_kernel
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook
except ImportError:
    print("skipped: the packages of notebooks/requirements.txt are not installed")
    sys.exit(77)

SMALL = {"model.layers": 2, "model.width": 32, "model.heads": 2, "input.tokens": 8, "run.seeds": 4}
WIDGET = "application/vnd.jupyter.widget-view+json"
# Some minutes of work.
LONG = {"model.layers": 24, "model.width": 256, "model.heads": 4, "input.tokens": 128, "run.seeds": 64,
        "run.weights": "dense", "model.placement": ["pre", "peri"], "run.threads": 1}  # fmt: skip


class Interruption(unittest.TestCase):
    def setUp(self) -> None:
        self.manager, self.client = start_new_kernel(env=dict(os.environ))
        self.addCleanup(self.manager.shutdown_kernel, now=True)
        self.addCleanup(self.client.stop_channels)

    def begin(self, code: str) -> str:
        """Sends a cell, and returns when it prints "begins"."""
        # The kernel would drop what is sent soon after an error, as the rest of "run all".
        message: str = self.client.execute(code, stop_on_error=False)
        while True:
            answer = self.client.get_iopub_msg(timeout=60)
            if answer["msg_type"] == "stream" and "begins" in answer["content"]["text"]:
                return message

    def reply(self, message: str) -> dict[str, Any]:
        while True:
            answer: dict[str, Any] = self.client.get_shell_msg(timeout=60)
            if answer["parent_header"].get("msg_id") == message:
                return dict(answer["content"])

    def test_an_interrupted_cell_is_a_keyboard_interrupt_and_the_kernel_goes_on(self) -> None:
        self.reply(self.client.execute("import periscope as ps\nps.propagate"))
        for after in (0.3, 2.0):
            message = self.begin(f"print('begins', flush=True)\nds = ps.propagate({LONG!r})")
            time.sleep(after)
            sent = time.monotonic()
            self.manager.interrupt_kernel()
            reply = self.reply(message)
            self.assertLess(time.monotonic() - sent, 2.0)
            self.assertEqual((reply["status"], reply.get("ename")), ("error", "KeyboardInterrupt"))
            done = self.client.execute(f"again = ps.propagate({SMALL!r})\nassert 'ds' not in globals()")
            self.assertEqual(self.reply(done)["status"], "ok")


class Bar(unittest.TestCase):
    def test_progress_shows_a_bar(self) -> None:
        cell = new_code_cell(f"import periscope as ps\nds = ps.propagate({SMALL!r}, progress=True)")
        NotebookClient(new_notebook(cells=[cell]), timeout=60).execute()
        shown = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        widgets = [output for output in cell.outputs if WIDGET in output.get("data", {})]
        self.assertFalse([output for output in cell.outputs if output.output_type == "error"])
        self.assertNotIn("Warning", shown)
        self.assertTrue(widgets or re.search(r"propagate .*█ +100%", shown), shown)  # text without ipywidgets


if __name__ == "__main__":
    unittest.main()

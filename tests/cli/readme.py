"""The commands that README.md and docs/questions.md print run as they are printed, on smaller stacks.
Usage: readme.py BINARY SOURCE_DIR"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from periscope_process import BINARY

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
STACK = ["--seeds", "2", "--set", "model.layers=2", "--set", "input.tokens=8"]
NARROW = ["--set", "model.width=32", "--set", "model.heads=2", "--set", "model.mlp_width=64"]
# One wrong theory instead of power's list of them all.
LIST = """
[[config]]
name = "small"
file = "experiments/configs/short.toml"
set = ["run.seeds=8", "model.layers=1", "model.width=32", "model.heads=2", "input.tokens=4", "model.placement=pre"]
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
"""
# What makes a command quick, by its first words. A command that is not here runs as it is printed.
SMALLER = {
    "theory": ["--set", "model.layers=1", "--set", "input.tokens=4"],
    "propagate": STACK + NARROW,
    "ladder": ["--set", "model.layers=1", "--set", "input.tokens=4", "--set", "ladder.widths=[16, 24, 32, 48]", "--set",
               "ladder.seeds=16", "--set", "model.width=16", "--set", "model.heads=2"],
    "power": ["--config", "list.toml"],
    "formats": ["--seeds", "4", "--set", "model.layers=1", "--set", "input.tokens=4", "--set",
                'formats.format=["bf16", "int8"]', *NARROW],
    "train": ["--set", "model.layers=2", "--set", "input.tokens=8", "--set", "train.steps=3", "--set", "train.batch=2"],
    "reproduce": ["--set", "model.layers=3", "--set", "input.tokens=8", "--set", "train.steps=3", "--set",
                  "train.batch=2", *NARROW],
    "gradients depth": ["--seeds", "2", "--set", "gradients.layers=[1, 2, 4]", "--set", "input.tokens=4", *NARROW],
    "gradients": STACK + NARROW,
    "probe": ["--draws", "2"],
}


def commands(text):
    """Lines of code blocks that start the program, continued lines joined, prompts and comments cut."""
    lines = "\n".join(re.findall(r"^```\n(.*?)^```", text, re.S | re.M)).replace("\\\n", " ").split("\n")
    lines = [line.removeprefix("$ ") for line in lines]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("build/periscope ")]


class Readme(unittest.TestCase):
    def test_every_printed_command(self):
        printed = []  # in one folder, one document after the other, as a reader runs them
        for document, least in (("README.md", 6), ("docs/questions.md", 25)):
            found = commands((SOURCE / document).read_text())
            self.assertGreaterEqual(len(found), least)
            printed += found
        self.run_all(printed)

    def run_all(self, printed):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for thing in ("README.md", "experiments"):
                (folder / thing).symlink_to(SOURCE / thing)
            (folder / "list.toml").write_text(LIST)
            (folder / "build").mkdir()
            (folder / "build" / "periscope").symlink_to(BINARY)
            for words in printed:
                with self.subTest(command=shlex.join(words)):
                    key = next((k for k in SMALLER if words[1:1 + len(k.split())] == k.split()), None)
                    if "--cases" in words:
                        words[words.index("--cases") + 1] = "100"
                    done = subprocess.run([*words, *SMALLER.get(key, [])], cwd=folder, capture_output=True, text=True,
                                          timeout=120)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    if "--out" in words:
                        self.assertTrue(any((folder / words[words.index("--out") + 1]).iterdir()))


if __name__ == "__main__":
    unittest.main()

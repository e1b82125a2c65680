"""Paths and arguments are any bytes, JSON is UTF-8: what is no UTF-8 is replaced, and no result is lost for it.
Usage: bytes_that_are_no_text.py BINARY"""

import json
import os
import pathlib
import subprocess
import unittest

import tiny_checkpoint
from periscope_process import BINARY, LIST, SMALL, STUDIES, SWEEPS, FolderTest, sets

NAME = b"caf\xe9"  # Latin 1
SHOWN = "caf\ufffd"


class AnyBytes(FolderTest):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(os.fsencode(self.folder), NAME)
        for suffix, text in ((".toml", SMALL + SWEEPS), ("-list.toml", LIST), (".txt", "More than six bytes.")):
            pathlib.Path(os.fsdecode(self.path) + suffix).write_text(text)

    def result(self, *arguments):
        words = [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in (BINARY, *arguments, "--json", "--quiet")]
        done = subprocess.run(words, capture_output=True, timeout=300, cwd=self.folder)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        return json.loads(done.stdout.decode("utf-8"))

    def test_every_study(self):
        for name, words in STUDIES.items():
            files = {"small.toml": self.path + b".toml", "list.toml": self.path + b"-list.toml"}
            with self.subTest(study=name):
                out = os.path.join(self.path + b"-out", os.fsencode(name))
                found = self.result(*(files.get(word, word) for word in words), "--out", out)
                shown = found["attrs"]["circumstances"]
                self.assertTrue("--config" not in words or SHOWN in shown, shown)
                self.assertTrue(any(file.endswith(b".nc") for file in os.listdir(out)))

    def test_text_and_checkpoint(self):
        text = [*sets("input.kind=text", "model.placement=pre"), "--set", b"input.path=" + self.path + b".txt"]
        found = self.result("propagate", "--config", self.path + b".toml", *text, "--dump", self.path + b"-dump")
        self.assertTrue(json.loads(found["attrs"]["config"])["stacks"][0]["input"]["path"].endswith(SHOWN + ".txt"))
        dumped = pathlib.Path(os.fsdecode(self.path) + "-dump", "config.json").read_text(encoding="utf-8")
        self.assertTrue(json.loads(dumped)["input"]["path"].endswith(SHOWN + ".txt"))
        tiny_checkpoint.write(pathlib.Path(os.fsdecode(self.path)))
        found = self.result("probe", self.path, "--text", self.path + b".txt", "--max-tokens", 6)
        self.assertEqual(found["data_vars"]["model"]["data"], SHOWN)
        for command in (["info"], ["certify"], ["generate", "--tokens", "1,2", "--count", 1]):
            self.result(command[0], self.path, *command[1:])


if __name__ == "__main__":
    unittest.main()

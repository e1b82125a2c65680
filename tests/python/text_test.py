"""Text through tokenizers of Python. Usage: text_test.py"""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import xarray as xr
from studies import FIXTURES, rejected
from tokenizers import Tokenizer, models, pre_tokenizers

import periscope as ps

WORDS = {"[UNK]": 0, "peri": 1, "norm": 2, "stream": 3}


class Text(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())) / "model"
        shutil.copytree(FIXTURES / "llama", self.folder)
        self.text = self.folder.parent / "text.txt"
        self.text.write_text("peri norm stream norm unknown")
        self.ids = [1, 2, 3, 2, 0]

    def write_tokenizer(self) -> Path:
        tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        path = self.folder / "tokenizer.json"
        tokenizer.save(str(path))
        return path

    def same(self, ds: xr.Dataset) -> None:
        expected = ps.probe(self.folder, tokens=self.ids, no_theory=True)
        xr.testing.assert_identical(ds.assign_attrs(circumstances=""), expected.assign_attrs(circumstances=""))

    def test_the_folders_tokenizer_is_found(self) -> None:
        self.write_tokenizer()
        self.same(ps.probe(self.folder, text=self.text, no_theory=True))
        self.same(ps.probe(str(self.folder), text=str(self.text), no_theory=True))

    def test_another_tokenizer(self) -> None:
        path = self.write_tokenizer()
        moved = path.rename(self.folder.parent / "another.json")
        self.same(ps.probe(self.folder, text=self.text, tokenizer=moved, no_theory=True))
        self.same(ps.probe(self.folder, text=self.text, tokenizer=Tokenizer.from_file(str(moved)), no_theory=True))
        self.same(ps.probe(self.folder, text=self.text, no_theory=True,
                           tokenizer=lambda text: [WORDS.get(word, 0) for word in text.split()]))  # fmt: skip
        for ids in (self.ids, [self.ids]):
            self.same(ps.probe(self.folder, text=self.text, tokenizer=lambda text, i=ids: {"input_ids": i},
                               no_theory=True))  # fmt: skip

    def test_the_door_reads_it_too(self) -> None:
        self.write_tokenizer()
        command = [sys.executable, "-m", "periscope", "run", "probe", self.folder, "--text", self.text, "--no-theory"]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["data_vars"]["token_id"]["data"], self.ids)
        self.assertIn("model: llama", done.stderr)

    def test_what_is_no_text_is_refused(self) -> None:
        self.write_tokenizer()
        self.text.write_bytes(b"peri \xff")
        for call, kind, words in (
            (lambda: ps.probe(self.folder, text=self.text), ps.InputError, "byte 5 is not UTF-8"),
            (lambda: ps.probe(self.folder, text="no/such/file"), ps.InputError, "no/such/file"),
            (lambda: ps.probe(self.folder, text=self.text, tokens=[1]), ps.ConfigError, "text or tokens, found both"),
            (lambda: ps.probe(self.folder, text="a\0"), ps.ConfigError, "U+0000"),
            (lambda: ps.probe(self.folder, tokenizer=len), ps.ConfigError, "no effect without text"),
            (lambda: ps.probe(self.folder, text=__file__, tokenizer=len), ps.ConfigError, "a list of token ids"),
            (lambda: ps.probe(self.folder, text=__file__, tokenizer=str.split), ps.ConfigError, "whole numbers"),
        ):
            with rejected(words, kind):
                call()
        (self.folder / "tokenizer.json").write_text("{}")
        self.text.write_text("peri")
        with rejected("tokenizer.json"):
            ps.probe(self.folder, text=self.text)


if __name__ == "__main__":
    unittest.main()

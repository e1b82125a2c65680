"""Paths and arguments are any bytes, JSON is UTF-8: what is no UTF-8 is replaced, and no result is lost for it.
Usage: bytes_that_are_no_text.py BINARY"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import tiny_checkpoint
from periscope_process import BINARY, SMALL

NAME = b"caf\xe9"  # Latin 1
SHOWN = "caf\ufffd"
EXPERIMENTS = ("depth", "attenuation", "identity-path", "score-path", "crossover")


class AnyBytes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.fsencode(folder.name)
        self.text = os.path.join(self.folder, NAME + b".txt")
        pathlib.Path(os.fsdecode(self.text)).write_bytes(b"A text of more than six bytes.")
        self.config = os.path.join(self.folder, NAME + b".toml")
        pathlib.Path(os.fsdecode(self.config)).write_text(SMALL.replace("seeds = 4", "seeds = 2"))

    def periscope(self, *arguments, codes=(0,)):
        done = subprocess.run([os.fsencode(a if isinstance(a, (bytes, str)) else str(a)) for a in (BINARY, *arguments)],
                              capture_output=True, timeout=300)
        self.assertIn(done.returncode, codes, done.stderr)
        return done.stdout

    def run_json(self, *arguments, codes=(0,)):
        return json.loads(self.periscope(*arguments, "--json", "--quiet", codes=codes).decode("utf-8"))

    def test_every_command_that_takes_a_configuration(self):
        gradients = ("--set", "gradients.layers=[1, 2, 4]", "--set", "gradients.qk_factors=[1.0]",
                     "--set", "gradients.down_factors=[0.05, 5.0]")
        commands = {("gradients", e): gradients for e in EXPERIMENTS}
        commands |= {("propagate",): (), ("theory",): (), ("verify",): ("--cases", 50),
                     ("certify",): ("--set", "model.placement=peri", "--set", "input.kind=tokens"),
                     ("formats",): ("--set", "formats.certificates=false"),
                     ("ladder",): ("--set", "ladder.widths=[16, 24, 32, 48]", "--set", "ladder.seeds=8",
                                   "--set", "model.width=16", "--set", "model.kv_heads=2",
                                   "--set", "model.mlp_width=16")}
        for command, flags in commands.items():
            with self.subTest(command=command):
                out = os.path.join(self.folder, b"out", NAME)
                r = self.run_json(*command, "--config", self.config, *flags, "--out", out, codes=(0, 4))
                self.assertIn(SHOWN + ".toml", r["attrs"]["circumstances"])

    def test_the_list_of_wrong_theories(self):
        listed = os.path.join(self.folder, NAME + b"-list.toml")
        pathlib.Path(os.fsdecode(listed)).write_bytes(
            b"[[config]]\nname = \"small\"\nfile = \"small.toml\"\nset = [\"run.seeds=4\"]\nmaster_seeds = true\n"
            b"[[theory]]\nname = \"strong W_down\"\nset = [\"init.down_factor=9\"]\nconfig = \"small\"\n")
        os.rename(self.config, os.path.join(self.folder, b"small.toml"))
        out = os.path.join(self.folder, b"power", NAME)
        r = self.run_json("power", "--config", listed, "--out", out, codes=(0, 4))
        self.assertIn(SHOWN + "-list.toml", r["attrs"]["circumstances"])
        self.run_json("power", "--config", listed, "--master-seeds", 2, "--out", out, codes=(0, 4))
        self.assertEqual(sorted(os.listdir(out)), [b"cache", b"power.nc"])

    def test_text_input(self):
        path = b"input.path=" + self.text
        for command in (("propagate",), ("gradients", "depth", "--set", "gradients.layers=[1, 2, 4]")):
            with self.subTest(command=command):
                r = self.run_json(*command, "--config", self.config, "--set", "input.kind=text", "--set", path,
                                  "--out", os.path.join(self.folder, b"text"))
                self.assertTrue(json.loads(r["attrs"]["config"])["stacks"][0]["input"]["path"].endswith(SHOWN + ".txt"))

    def test_checkpoint(self):
        checkpoint = os.path.join(self.folder, NAME)
        tiny_checkpoint.write(pathlib.Path(os.fsdecode(checkpoint)))
        out = os.path.join(self.folder, b"probe")
        r = self.run_json("probe", checkpoint, "--text", self.text, "--max-tokens", 6, "--out", out)
        self.assertEqual(r["data_vars"]["model"]["data"], SHOWN)
        self.assertTrue(r["attrs"]["checkpoint"].endswith(SHOWN))
        self.run_json("certify", checkpoint, "--out", out)
        self.run_json("info", checkpoint)
        self.run_json("generate", checkpoint, "--tokens", "1,2", "--count", 1)

    def test_dump(self):
        target = os.path.join(self.folder, b"dump")
        self.periscope("propagate", "--config", self.config, "--set", "input.kind=text", "--set",
                       b"input.path=" + self.text, "--set", "model.placement=pre", "--dump", target, "--quiet")
        config = json.loads(pathlib.Path(os.fsdecode(target), "config.json").read_text(encoding="utf-8"))
        self.assertTrue(config["input"]["path"].endswith(SHOWN + ".txt"))


if __name__ == "__main__":
    unittest.main()

"""Rejected settings and files of which no golden can be (tests/golden/cases/rejected.toml has the others): what no
terminal should show, great lengths, odd files, a device that is absent. Usage: config_errors.py BINARY"""

import os
import shutil
import subprocess
import unittest

from periscope_process import BINARY, FolderTest, run, sets

SETTINGS = [
    ("a." * 50000 + "b=1", ["--set a.a.a.", "expected a key of at most 16 parts, found 50001", "(100003 bytes)"]),
    ("model.width={" + "a." * 50000 + "b=1}", ["--set model.width={a.a.", "invalid TOML"]),
    ("model.width=" + "[" * 100000, ["--set model.width=[[[", "invalid TOML", "bytes)"]),
    ("model.width=\x1b[2J", ["model.width = ", "\\x1b[2J", "expected a whole number"]),
    ("model.width=é\x85", ["model.width = ", "é\\u0085"]),
    ("model.norm=\udcff", ['model.norm = "\\xff"', "rms, layer"]),
    ("\udcff=1", ["unknown key \\xff"]),
    ("init.std=[1,2]\nb=1", ["--set init.std=[1,2]", "invalid TOML: found more than one value"]),
]


class ConfigErrors(FolderTest):
    def check(self, done, code, *words):
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_settings(self):
        for setting, words in SETTINGS:
            with self.subTest(setting=setting[:40]):
                self.check(run("theory", "--config", self.config, "--set", setting), 2, *words)
        self.check(run("x\x1b[2J"), 2, "x\\x1b[2J")
        done = run("propagate", "--config", self.config, *sets("init.o_factor=1e40"), "--dtype", "f64", "--quiet")
        self.assertEqual(done.returncode, 0, "f64 holds what f32 does not")

    def test_a_device_that_is_not_there(self):
        """Built without CUDA: a configuration that cannot be. Built with it, where there is no GPU: a failure."""
        for device in ("cuda", "cuda-tf32"):
            done = run("propagate", "--config", self.config, "--device", device)
            if done.returncode != 0:
                absent = "this build has no CUDA backend" in done.stderr
                self.check(done, 2 if absent else 1, f'device = "{device}"' if absent else 'device = "cuda"')

    def test_a_list_of_the_project_that_cannot_be_read(self):
        """power looks for its own list in the working folder first: one that leads nowhere is none."""
        place = self.folder / "experiments" / "configs"
        place.mkdir(parents=True)
        (place / "power.toml").symlink_to("power.toml")
        copy = self.folder / "bin" / "periscope"
        copy.parent.mkdir()
        shutil.copy2(BINARY, copy)
        done = subprocess.run([str(copy), "power"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.check(done, 2, "--config", "power.toml", "neither in the working directory nor next to")

    def test_what_is_no_configuration_file(self):
        (self.folder / "loop.toml").symlink_to("loop.toml")
        os.mkfifo(self.folder / "fifo.toml")
        (self.folder / "large.toml").write_text("#" * (1 << 20) + "\n")
        (self.folder / "nested.toml").write_text("a = " + "[" * 100000)
        for i, text in enumerate(("a." * 100000 + "b = 1", "[" + "a." * 100000 + "b]", "x = {" + "a . " * 100000)):
            (self.folder / f"deep{i}.toml").write_text("\n" + text)
        for name, *words in (("loop.toml", "symbolic links"), ("fifo.toml", "expected a regular file, found a FIFO"),
                             ("x" * 5000, "ame too long", "(5000 bytes)"), ("a\x1b[2J", "a\\x1b[2J", "No such file"),
                             ("large.toml", "at most 1048576 bytes"), ("nested.toml", "nested.toml:1", "invalid TOML"),
                             *((f"deep{i}.toml", f"deep{i}.toml:2", "parts") for i in range(3))):
            with self.subTest(name=name[:40]):
                self.check(run("theory", "--config", name, cwd=self.folder), 2, *words)

    def test_results_that_cannot_be_written(self):
        nowhere = self.folder / "nowhere"
        nowhere.symlink_to("no/such/folder")
        for out in (nowhere, nowhere / "sub"):
            self.check(run("theory", "--config", self.config, "--out", out), 2,
                       "cannot write", f"{nowhere}: expected a folder, found a broken symbolic link")


if __name__ == "__main__":
    unittest.main()

"""How the program answers who does not know it: help, flags and keys that do nothing, words it does not know.
Usage: manners.py BINARY LIBRARY, which sends a signal while it is loaded"""

import os
import pathlib
import signal
import sys
import unittest

from periscope_process import FolderTest, run, run_json, start_program

LIBRARY = pathlib.Path(sys.argv.pop(1)).resolve()
FIXTURE = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures" / "llama"


def commands():
    """All commands, as the program's own help has them: those of a group by two words."""
    names = []
    for line in run("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0].splitlines():
        if (name := line[2:30].strip()) and line[2] != " " and name != "help":
            inner = run(name, "--help").stdout.split("Subcommands:\n")
            names += [f"{name} {row.split()[0]}" for row in inner[1].split("\n\n")[0].splitlines() if row[2:3] != " "] \
                if len(inner) > 1 else [name]
    return [*names, "help"]


class Help(unittest.TestCase):
    def test_help_of_commands(self):
        for words in ((), ("propagate",), ("gradients",), ("gradients", "depth")):
            with self.subTest(words=words):
                done = run("help", *words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, run(*words, "--help").stdout)

    def test_alone_it_says_where_to_begin(self):
        done = run()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        listed = {row["name"]: row["command"] for row in run_json("list")[0]["experiments"]}
        for name in ("propagate", "probe", "train"):
            self.assertIn(f"periscope {listed[name]}\n", done.stderr)
        self.assertIn("periscope help", done.stderr)
        self.assertLess(len(done.stderr.splitlines()), 15)

    def test_nothing_is_wider_than_100_columns(self):
        texts = {name: run(*name.split(), "--help").stdout for name in [*commands(), "gradients"]}
        texts |= {" ".join(words): run(*words).stdout for words in (["--help"], ["list"], ["list", "--columns"])}
        texts["alone"] = run().stderr
        for name, text in texts.items():
            with self.subTest(name):
                self.assertTrue(text)
                self.assertEqual([line for line in text.splitlines() if len(line) > 100], [])


class Checkpoints(FolderTest):
    def refused(self, place, *words):
        done = run("info", place, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_what_is_no_folder_of_a_checkpoint(self):
        self.refused(FIXTURE / "config.json", "this is a file", f"safetensors files: {FIXTURE}\n")
        self.refused("nowhere", "nowhere: no such folder", "config.json")
        (self.folder / "circle").symlink_to("circle")
        self.refused("circle", "circle: Too many levels of symbolic links")
        self.refused("x" * 300, "x: File name too long")
        cache = self.folder / "models--org--name"
        for name in ("0a1b", "9f3e"):
            (cache / "snapshots" / name).mkdir(parents=True)
        self.refused(cache, f"use its folder {cache}/snapshots/0a1b\n")
        (cache / "refs").mkdir()
        (cache / "refs" / "main").write_text("9f3e")
        self.refused(cache, f"use its folder {cache}/snapshots/9f3e\n")
        (cache / "refs" / "main").write_text("../../elsewhere")
        self.refused(cache, f"use its folder {cache}/snapshots/0a1b\n")
        for name in ("pytorch_model.bin", "model.gguf"):
            with self.subTest(name):
                place = self.folder / name.replace(".", "-")
                place.mkdir()
                (place / name).write_bytes(b"PK")
                self.refused(place, f'"{name}"', "only safetensors files are supported")
                (place / "config.json").write_bytes((FIXTURE / "config.json").read_bytes())
                self.refused(place, f'"{name}"', "only safetensors files are supported")
                self.refused(place / name, "this is a file", "expected a folder", "save_pretrained")


class Signals(FolderTest):
    def test_a_signal_at_the_very_start(self):
        """While libraries are initialised: what is documented happens, not the system's default."""
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "SIGNAL_AT_LOAD": str(int(number))}
                process = start_program("propagate", "--config", self.config, "--out", self.folder / "out",
                                        env=environment)
                self.assertEqual(process.wait(timeout=60), 128 + number)
                self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()

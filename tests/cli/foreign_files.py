"""What comes from elsewhere, through the program: checkpoints, texts. Usage: foreign_files.py
BINARY"""

import errno
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import unittest

import tiny_checkpoint
from periscope_process import BINARY, FolderTest, run, run_json, start_program

ESCAPE = "\x1b]0;owned\x07\x1b[2J"


def limited(*arguments, seconds=60):
    """Runs the program with 2 GiB of address space and little time."""
    return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=seconds,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)))


def on_terminal(*arguments):
    """Exit code, and what a terminal would get as standard output; standard error goes nowhere."""
    master, slave = pty.openpty()
    process = start_program(*arguments, stdout=slave, stderr=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # which says that the last writer is gone
                raise
            break
        if not part:
            break
        shown += part
    os.close(master)
    return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")


class HostileCheckpoint(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        tiny_checkpoint.write(self.model)

    def test_names_command_no_terminal(self):
        tensors = tiny_checkpoint.random_tensors(256)
        tensors[f"x{ESCAPE}\u202e.rotary_emb.inv_freq"] = ([2], [1.0, 1.0])  # a buffer, which is not used
        tiny_checkpoint.write(self.model, tensors=tensors)
        done = run("info", self.model)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("x\\x1b]0;owned\\x07\\x1b[2J\\u202e.rotary_emb", done.stdout)
        named = self.folder / f"model{ESCAPE}"
        shutil.copytree(self.model, named)
        probed = run("probe", named, "--tokens", "1,2", "--no-theory")
        self.assertIn("model\\x1b]0;owned", probed.stderr)
        missing = run("info", self.folder / f"none{ESCAPE}")
        for asked in (done, probed, missing):
            self.assertNotIn("\x1b", asked.stdout + asked.stderr)
        info, _ = run_json("info", self.model)
        self.assertEqual(info["unused"], [f"x{ESCAPE}\u202e.rotary_emb.inv_freq"], "JSON has the name as it is")


class Generated(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        tiny_checkpoint.write(self.model)
        (self.folder / "prompt.txt").write_bytes(ESCAPE.encode() + "é\n".encode())
        self.prompt = ("--text", self.folder / "prompt.txt")

    def test_text_on_stdout_ids_on_stderr(self):
        done = subprocess.run([str(BINARY), "generate", str(self.model), *map(str, self.prompt), "--count", "3"],
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        ids = [int(word) for word in done.stderr.decode().splitlines()[-1].split()]
        self.assertEqual(done.stdout, bytes(ids) + b"\n", "a pipe gets the bytes as they are")
        quiet = run("generate", self.model, "--tokens", "65,66", "--count", 1, "--quiet", "--json")
        self.assertEqual(quiet.stderr, "")
        json.loads(quiet.stdout)

    def test_a_terminal_gets_no_command(self):
        code, shown = on_terminal("generate", self.model, *self.prompt, "--count", 3)
        self.assertEqual(code, 0)
        self.assertTrue(shown.startswith("\\x1b]0;owned\\x07\\x1b[2Jé\n"), shown)
        self.assertNotIn("\x1b", shown)

    def test_ids_are_the_result_where_no_tokenizer_makes_a_text_of_them(self):
        tiny_checkpoint.write(self.model, vocab=300)
        ids = json.loads(run("generate", self.model, "--tokens", "65,66", "--count", 3,
                             "--quiet", "--json").stdout)["ids"]
        done = run("generate", self.model, "--tokens", "65,66", "--count", 3, "--quiet")
        self.assertEqual((done.returncode, done.stdout.split(), done.stderr), (0, [str(i) for i in ids], ""))

    def test_a_text_that_breaks_off_ends_its_line(self):
        tensors = tiny_checkpoint.random_tensors(256)
        shape, values = tensors["model.norm.weight"]
        tiny_checkpoint.write(self.model, tensors=tensors | {"model.norm.weight": (shape, [float("nan"), *values[1:]])})
        done = run("generate", self.model, "--tokens", "65,66", "--count", 3)
        self.assertEqual((done.returncode, done.stdout), (1, "AB\n"), done.stderr)
        self.assertIn("no token is the most likely", done.stderr)
        refused = run("generate", self.model, "--tokens", "65,66", "--count", 2147483647)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))

    def test_what_was_generated_stays_when_it_is_stopped(self):
        process = start_program("generate", self.model, "--tokens", "65,66", "--count", 16000, stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL)
        shown = b""
        while len(shown) < 12:
            self.assertTrue(select.select([process.stdout], [], [], 60)[0], "text comes while it is generated")
            shown += os.read(process.stdout.fileno(), 4096)
        process.send_signal(signal.SIGINT)
        shown += process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 130)
        self.assertTrue(shown.startswith(b"AB") and shown.endswith(b"\n"), shown)


class Replaced(FolderTest):
    def test_a_text_that_is_replaced_during_the_run(self):
        text = self.folder / "text"
        first, second = b"the first text, of some bytes", b"A SECOND TEXT, OF SOME BYTES!"
        command = ("propagate", "--config", self.config, "--set", "input.kind=text", "--set", f"input.path={text}",
                   "--seeds", 300, "--set", "theory.finite_width=false", "--json")
        expected = {}
        for content in (first, second):
            text.write_bytes(content)
            expected[content] = json.loads(run(*command, "--quiet").stdout)
        text.write_bytes(first)
        process = start_program(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()  # progress: some seeds are done
        (self.folder / "other").write_bytes(second)
        (self.folder / "other").rename(text)
        self.assertIsNone(process.poll(), "it was over before the text was replaced")
        result = json.loads(process.communicate(timeout=120)[0])
        self.assertEqual(result["data_vars"], expected[first]["data_vars"])
        self.assertEqual(result["attrs"]["config_sha256"], expected[first]["attrs"]["config_sha256"])
        self.assertNotEqual(expected[first]["attrs"]["config_sha256"],
                            expected[second]["attrs"]["config_sha256"])

    def test_files_that_are_no_text(self):
        os.mkfifo(self.folder / "pipe")
        (self.folder / "empty").write_bytes(b"")
        (self.folder / "loop").symlink_to("loop")
        for path in (self.folder / "pipe", "/dev/zero", "/proc/self/status", self.folder / "empty", self.folder,
                     self.folder / "loop", self.folder / "missing", "/" + "x" * 5000):
            with self.subTest(path=path):
                done = limited("propagate", "--config", self.config, "--set", "input.kind=text", "--set",
                               f"input.path={path}", "--quiet")
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertTrue(done.stderr.startswith("periscope: input.path "), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()

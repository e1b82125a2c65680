"""What comes from elsewhere, through the program: checkpoints, texts, journals. Usage: foreign_files.py
BINARY"""

import errno
import hashlib
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import time
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

    def change_config(self, **changes):
        config = json.loads((self.model / "config.json").read_text()) | changes
        (self.model / "config.json").write_text(json.dumps(config))

    def test_a_config_that_promises_more_than_the_files_hold(self):
        for changes, word in (({"num_hidden_layers": 10000}, "num_hidden_layers"),
                              ({"num_hidden_layers": 10000, "head_dim": 1 << 20, "num_attention_heads": 1,
                                "num_key_value_heads": 1}, "num_hidden_layers"),
                              ({"num_hidden_layers": 20, "head_dim": 262144, "num_attention_heads": 4}, "head_dim"),
                              ({"num_hidden_layers": 19, "hidden_size": 1 << 20, "num_attention_heads": 1,
                                "num_key_value_heads": 1}, "head_dim"),
                              ({"vocab_size": 1 << 24}, "embed_tokens"), ({"intermediate_size": 1 << 20}, "mlp")):
            with self.subTest(changes=changes):
                tiny_checkpoint.write(self.model)
                self.change_config(**changes)
                for command in (("info",), ("probe", "--tokens", "1"), ("certify",), ("generate", "--tokens", "1")):
                    start = time.monotonic()
                    done = limited(command[0], self.model, *command[1:])
                    self.assertEqual(done.returncode, 3, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertIn(word, done.stderr)
                    self.assertLess(time.monotonic() - start, 10)

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

    def test_how_many(self):
        for count in ("2147483647", "16384"):
            done = limited("generate", self.model, "--tokens", "1,2", "--count", count)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--count {count}: {int(count) + 1} tokens would be read, expected at most 16384",
                          done.stderr)
        (self.folder / "many").write_text("1 " * 400_000)
        for command, words in (("generate", "400063 tokens would be read"), ("probe", "by a lower --max-tokens")):
            done = limited(command, self.model, "--tokens", self.folder / "many", "--max-tokens", 2147483647)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

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
        self.assertIn("no token is the likeliest", done.stderr)
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


class Journals(FolderTest):
    """A record with a good checksum whose payload is none of a seed's."""

    def stopped(self, out, *flags):
        """A run that was killed with a journal of some records; its path."""
        command = [str(BINARY), "propagate", "--config", str(self.config), "--seeds", "400", "--set",
                   "theory.finite_width=false", "--set", "model.placement=pre", "--out", str(out), "--json", *flags]
        process = start_program(*command[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while sum(j.read_bytes().count(b"\n") for j in out.glob("*.journal")) < 6:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.001)
        process.kill()
        process.wait()
        return command

    def line(self, record):
        payload = json.dumps(record, separators=(",", ":"))
        return f"{hashlib.sha256(payload.encode()).hexdigest()[:16]} {len(payload)} {payload}\n".encode()

    def test_records_of_another_shape(self):
        out = self.folder / "out"
        command = self.stopped(out)
        journal, = out.glob("*.journal")
        lines = journal.read_bytes().splitlines(keepends=True)[:4]
        good = json.loads(lines[2].split(b" ", 2)[2])
        self.assertEqual(self.line(good), lines[2], "this test writes records as the program does")
        name, signal_index, bits = good["cell"]["curves"][0]

        def cell(**changes):
            return {"key": good["key"], "cell": good["cell"] | changes}

        def first_curve(*entry):
            return cell(curves=[list(entry)] + good["cell"]["curves"][1:])

        bad = {
            "no cell": {"key": good["key"]},
            "key is a number": {"key": 7, "cell": good["cell"]},
            "a list": [1, 2],
            "a missing key": {"key": good["key"], "cell": {k: v for k, v in good["cell"].items() if k != "angles"}},
            "a number of the wrong type": cell(diverged_at="no"),
            "a number out of range": cell(diverged_at=1 << 40),
            "a digit too few": first_curve(name, signal_index, bits[1:]),
            "a number too few": first_curve(name, signal_index, bits[16:]),
            "a bad digit": first_curve(name, signal_index, "g" + bits[1:]),
            "an upper-case digit": first_curve(name, signal_index, "A" + bits[1:]),
            "a number for digits": first_curve(name, signal_index, 3),
            "no such statistic": first_curve(99, signal_index, bits),
            "no such signal": first_curve(name, -1, bits),
            "a curve twice": cell(curves=good["cell"]["curves"][:-1] + good["cell"]["curves"][:1]),
            "a curve less": cell(curves=good["cell"]["curves"][1:]),
            "a row less": cell(top=[[s, rows[1:]] for s, rows in good["cell"]["top"]]),
            "angles of another length": cell(angles=good["cell"]["angles"][16:]),
        }
        for what, record in bad.items():
            with self.subTest(what=what):
                journal.write_bytes(lines[0] + lines[1] + self.line(record) + lines[3])
                before = journal.read_bytes()
                done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(f"{journal}: record 3", done.stderr)
                self.assertEqual(journal.read_bytes()[:len(before)], before, "the file is left as it was")
        deep = b'{"key":"' + good["key"].encode() + b'","cell":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
        journal.write_bytes(lines[0] + lines[1] + hashlib.sha256(deep).hexdigest()[:16].encode() +
                            f" {len(deep)} ".encode() + deep + b"\n" + lines[3])
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("record 3", done.stderr)

    def test_a_file_of_that_name_that_is_no_journal(self):
        out = self.folder / "out"
        command = self.stopped(out)
        journal, = out.glob("*.journal")
        lines = journal.read_bytes().splitlines(keepends=True)
        for content in (b"notes of mine\n", b"notes of mine", b"\0" * 100, lines[0] + lines[1] + b"and notes",
                        lines[0] + lines[1] + b"0123456789abcdef 12 no JSON\n"):
            with self.subTest(content=content[-40:]):
                journal.write_bytes(content)
                done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(str(journal), done.stderr)
                self.assertEqual(journal.read_bytes(), content, "what is not ours stays")
        journal.unlink()
        os.mkfifo(journal)
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_journals_of_other_configurations_are_named_and_stay(self):
        out = self.folder / "out"
        self.stopped(out)
        journal, = out.glob("*.journal")
        (out / "propagate-notes-of-me.journal").write_text("mine")
        (out / "propagate_old-0123456789ab.journal").write_text("of another command")
        other = ("propagate", "--config", self.config, "--set", "model.gamma=0.5", "--out", out)
        done = run(*other)
        self.assertEqual(done.returncode, 0, done.stderr)
        named = [line for line in done.stderr.splitlines() if "nobody will, delete it" in line]
        self.assertEqual(len(named), 1, done.stderr)
        self.assertIn(str(journal), named[0])
        self.assertTrue(journal.exists())
        self.assertNotIn("nobody will, delete it", run(*other, "--quiet").stderr)


if __name__ == "__main__":
    unittest.main()

"""Runs that are stopped or killed: exit codes, and the same command resumes to the same result. Usage: interruption.py
BINARY"""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from periscope_process import FolderTest, cached, run, sets, start_program

LIST = """
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=200"]
master_seeds = true
[[config]]
name = "rungs"
file = "small.toml"
ladder = true
set = ["ladder.widths=[32,64,96,128]", "ladder.seeds=100", "model.placement=pre", "model.width=32"]
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
[[theory]]
name = "weak W_down"
set = ["init.down_factor=0.5"]
config = "small"
[[theory]]
name = "strong W_down, limit"
set = ["init.down_factor=2"]
config = "rungs"
"""
SMALL_TRAINING = sets("model.width=16", "model.mlp_width=24", "model.vocab=40", "input.tokens=8", "train.batch=4",
                      "train.record_sequences=2")
CONFIG = ["--config", "small.toml"]
# Enough seeds that a signal comes in time, in a second or two.
COMMANDS = {
    "propagate": [*CONFIG, "--backward", "--seeds", "1500", "--set", "theory.finite_width=false"],
    "ladder": [*CONFIG, *sets("ladder.widths=[32,64,96,128]", "ladder.seeds=200")],
    "formats": [*CONFIG, "--seeds", "400", *sets('formats.format=["bf16","int8"]', "formats.certificates=false",
                                                 "theory.replicates=32")],
    "power": ["--config", "list.toml", "--set", "theory.finite_width=false"],
    "power --master-seeds": ["24", "--config", "list.toml"],
    "gradients depth": [*CONFIG, "--set", "gradients.layers=[2,4,6]", "--seeds", "200"],
    "gradients identity-path": [*CONFIG, "--set", "run.seeds=1000"],
    "train": [*CONFIG, *SMALL_TRAINING, "--corpus", "synthetic", "--seeds", "10", *sets(
        "train.steps=100", "train.record_every=10", "model.placement=[{A=true,alpha=1.25},{A=true,alpha=12.5}]")],
    "first-steps": [*CONFIG, *SMALL_TRAINING, "--corpus", "synthetic", "--seeds", "60",
                    *sets("train.steps=3", "first_steps.neurons=8")],
    "reproduce": [*SMALL_TRAINING, "--corpus", "synthetic", "--seeds", "2", "--figure", "1",
                  *sets("model.layers=2", "model.heads=2", "train.steps=60", "train.record_every=10")],
}  # fmt: skip


def values(done):
    """The values of the result that a program printed."""
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    return answer["data_vars"] if "data_vars" in answer else answer["runs"]


class Interruption(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "list.toml").write_text(LIST)
        os.chdir(self.folder)

    def command(self, name, *flags):
        return [*name.split(), *COMMANDS[name], "--json", *map(str, flags)]

    def interrupted(self, command, out, kill, tasks):
        """Sends `kill` once `tasks` more files are in the cache; the exit code, standard error, seconds it took. On a
        busy machine a run may be over before the signal arrives; then it begins anew."""
        for _ in range(5):
            before = len(cached(out))
            with (self.folder / "output").open("w+") as output, start_program(
                *command, stdout=output, stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
                deadline = time.monotonic() + 120
                while len(cached(out)) < before + tasks and process.poll() is None:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.001)
                process.send_signal(kill)
                start = time.monotonic()
                _, errors = process.communicate(timeout=60)
                seconds = time.monotonic() - start
            if not (self.folder / "output").read_text():
                return process.returncode, errors, seconds
            shutil.rmtree(out)
        self.fail(f"{command}: the signal has no effect")

    def test_the_same_command_resumes_to_the_same_result(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                out = self.folder / name.replace(" ", "-")
                whole = run(*self.command(name, "--quiet", "--out", self.folder / "whole"))
                for kill, threads in ((signal.SIGKILL, 1), (signal.SIGTERM, 2), (signal.SIGINT, 1)):
                    command = self.command(name, "--out", out, "--threads", threads)
                    code, errors, seconds = self.interrupted(command, out, kill, 2)
                    if kill == signal.SIGKILL:
                        self.assertEqual(code, -kill)
                        continue
                    self.assertEqual(code, 75, errors)
                    self.assertIn(f"the same command resumes from {out}/cache/", errors)
                    self.assertLess(seconds, 2)
                before = len(cached(out))
                again = run(*self.command(name, "--quiet", "--out", out))
                self.assertEqual(again.returncode, whole.returncode, again.stderr)
                self.assertEqual(values(again), values(whole))
                self.assertGreaterEqual(before, 2, "the runs cached what they had")

    def test_theory_says_how_far_it_is_and_stops_when_it_is_asked(self):
        deep = ["--set", "model.layers=3000", "--set", "model.placement=pre", "--seeds", "1", "--threads", "1"]
        for command, kind in ((["theory", "--backward"], "theory"), (["propagate"], "theory"),
                              (["propagate", "--set", "init.qk_factor=0.0"], "theory at this width")):
            for kill, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
                with self.subTest(command=command, kill=kill):
                    process = start_program(*command, "--config", str(self.config), *deep, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
                    line = ""
                    while f": {kind})" not in line and f": {kind})," not in line:
                        line = process.stderr.readline()
                        self.assertNotEqual(line, "", "it says how far theory is before it is over")
                    self.assertRegex(line, r"^\w+: [\d.]+/\d+(, [^ ]+/s)? \(pre, gaussian input: theory")
                    process.send_signal(kill)
                    start = time.monotonic()
                    output, errors = process.communicate(timeout=60)
                    self.assertEqual((process.returncode, output), (code, ""), errors)
                    self.assertLess(time.monotonic() - start, 2)

    def test_a_run_that_is_stopped_in_theory_resumes_from_its_predictions(self):
        command = ["propagate", *CONFIG, "--json", "--set", "theory.replicates=6000", "--backward"]
        out = self.folder / "out"
        whole = run(*command, "--quiet")
        code, errors, seconds = self.interrupted([*command, "--out", out, "--threads", 1], out, signal.SIGINT, 1)
        self.assertEqual((code, seconds < 2), (75, True), errors)
        self.assertEqual(values(run(*command, "--out", out)), values(whole))

    def test_a_dump_of_a_run_that_was_stopped_is_no_obstacle(self):
        out = self.folder / "out"
        command = ["propagate", *CONFIG, "--json", "--backward", "--seeds", 2000, "--dump", self.folder / "dump",
                   "--out", out, *sets("theory.finite_width=false", "model.placement=pre")]  # fmt: skip
        code, errors, _ = self.interrupted(command, out, signal.SIGTERM, 3)
        self.assertEqual(code, 75, errors)
        self.assertEqual(run(*command, "--quiet").returncode, 0)
        another = run(*command, "--quiet")
        self.assertEqual(another.returncode, 2, "what another run wrote stays")
        self.assertIn("already exists", another.stderr)

    def test_another_run_reads_what_is_of_its_own_alone(self):
        """Nothing of another configuration, and seeds that a run of more seeds, or of other ones, has cached."""
        out = self.folder / "out"
        for name, other in (("ladder", ["--set", "model.gamma=0.5"]), ("train", ["--set", "train.lr=0.01"]),
                            ("gradients identity-path", ["--set", "run.seeds=30", "--seed", 5])):
            self.interrupted(self.command(name, "--out", out), out, signal.SIGKILL, 3)
            fresh, beside = (run(*self.command(name, "--quiet", *other, *where)) for where in ([], ["--out", out]))
            self.assertEqual(values(beside), values(fresh), name)

    def test_damaged_files_are_computed_again(self):
        out = self.folder / "out"
        command = self.command("propagate", "--out", out, "--threads", 1)
        self.interrupted(command, out, signal.SIGKILL, 5)
        for task, bad in zip(cached(out), (b"", b"notes of mine", "cut", "flipped"), strict=False):
            good = task.read_bytes()
            middle = len(good) // 2
            flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:]
            task.write_bytes({"cut": good[:middle], "flipped": flipped}.get(bad, bad))
        done = run(*command)
        self.assertEqual(values(done), values(run(*self.command("propagate", "--quiet"))))
        self.assertGreaterEqual(done.stderr.count("damaged, will be recomputed"), 3, done.stderr)

    def test_with_nothing_to_resume_from(self):
        for command in (self.command("propagate"), self.command("ladder"), ["verify", "--cases", "2000000"],
                        self.command("train", "--set", "train.steps=1000000")):
            for kill, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
                with self.subTest(command=command[0], kill=kill):
                    process = start_program(*command, "--threads", "1", stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
                    time.sleep(0.3)
                    process.send_signal(kill)
                    start = time.monotonic()
                    output, errors = process.communicate(timeout=60)
                    self.assertEqual((process.returncode, output), (code, ""), errors)
                    self.assertLess(time.monotonic() - start, 4)

    def test_a_second_signal_ends_it_at_once(self):
        process = start_program("theory", "--set", "model.layers=48", "--set", "input.tokens=512",
                                "--backward", "--threads", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertLess(time.monotonic() - start, 1)

    def test_a_signal_that_was_ignored_at_the_start_stays_so(self):
        """As of nohup, and of a shell's background jobs."""
        for number in (signal.SIGHUP, signal.SIGINT):
            with self.subTest(signal=number.name):
                out = self.folder / number.name
                process = start_program(*self.command("gradients identity-path", "--out", out), ignoring=(number,),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                deadline = time.monotonic() + 60
                while not cached(out) and time.monotonic() < deadline:
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=120), 0)
                self.assertTrue(list(out.glob("*.nc")), "the run went on to its end")


if __name__ == "__main__":
    unittest.main()

"""Runs that are stopped or killed: exit codes, and the same command resumes to the same result. Usage: interruption.py
BINARY"""

import json
import signal
import subprocess
import time
import unittest

from periscope_process import BINARY, FolderTest, cached, run, start_program

LIST = """
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=200"]
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
# Enough seeds that a signal comes in time, in a second or two.
COMMANDS = {
    "propagate": ["--backward", "--seeds", "600", "--set", "theory.finite_width=false"],
    "ladder": ["--set", "ladder.widths=[32,64,96,128]", "--set", "ladder.seeds=200"],
    "formats": ["--seeds", "400", "--set", 'formats.format=["bf16","int8"]', "--set", "formats.certificates=false",
                "--set", "theory.replicates=32"],
    "power": ["--set", "theory.finite_width=false"],
    "gradients depth": ["--set", "gradients.layers=[2,4,6]", "--seeds", "200"],
    "gradients identity-path": ["--seeds", "400"],
}


def values(done):
    """The values of the result that a program printed."""
    return json.loads(done.stdout)["data_vars"]


class Interruption(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "list.toml").write_text(LIST)

    def command(self, name, *flags):
        config = self.folder / ("list.toml" if name == "power" else "small.toml")
        return [str(BINARY), *name.split(), "--config", str(config), *COMMANDS[name], "--json", *map(str, flags)]

    def interrupted(self, command, out, kill, tasks):
        """Sends `kill` once `tasks` more files are in the cache; the exit code, standard error, seconds it took."""
        before = len(cached(out))
        with start_program(*command[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 120
            while len(cached(out)) < before + tasks:
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll(), "it was over before it was interrupted")
                time.sleep(0.001)
            process.send_signal(kill)
            start = time.monotonic()
            output, errors = process.communicate(timeout=60)
            self.assertEqual(output, "", "no half results")
            return process.returncode, errors, time.monotonic() - start

    def test_the_same_command_resumes_to_the_same_result(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                out = self.folder / name.replace(" ", "-")
                whole = subprocess.run(self.command(name, "--quiet", "--out", self.folder / "whole"),
                                       capture_output=True, text=True)
                expected = values(whole)
                for kill, threads in ((signal.SIGKILL, 1), (signal.SIGTERM, 2), (signal.SIGINT, 1)):
                    code, errors, seconds = self.interrupted(self.command(name, "--out", out, "--threads", threads),
                                                             out, kill, 2)
                    if kill == signal.SIGKILL:
                        self.assertEqual(code, -kill)
                        continue
                    self.assertEqual(code, 75, errors)
                    self.assertIn(f"the same command resumes from {out}/cache/", errors)
                    self.assertLess(seconds, 2)
                before = len(cached(out))
                again = subprocess.run(self.command(name, "--quiet", "--out", out), capture_output=True, text=True)
                self.assertEqual(again.returncode, whole.returncode, again.stderr)
                self.assertEqual(values(again), expected)
                self.assertGreaterEqual(before, 6, "three runs cached what they had")
                self.assertEqual((cached(out), len(cached(out, finished=True))), ([], 1), "finished runs need no tasks")

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
        command = [str(BINARY), "propagate", "--config", str(self.config), "--json", "--seeds", "4", "--set",
                   "theory.replicates=6000", "--backward"]
        out = self.folder / "out"
        whole = subprocess.run([*command, "--quiet"], capture_output=True, text=True, timeout=300)
        stopped = [*command, "--out", str(out), "--threads", "1"]
        code, errors, seconds = self.interrupted(stopped, out, signal.SIGINT, 1)
        self.assertEqual(code, 75, errors)
        self.assertIn("the same command resumes from", errors)
        self.assertLess(seconds, 2)
        again = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, timeout=300)
        self.assertEqual(values(again), values(whole))

    def test_a_dump_of_a_run_that_was_stopped_is_no_obstacle(self):
        out, dump = self.folder / "out", self.folder / "dump"
        flags = ["--backward", "--seeds", 2000, "--set", "theory.finite_width=false", "--set", "model.placement=pre"]
        command = [BINARY, "propagate", "--config", self.config, "--json", *flags, "--dump", dump, "--out", out]
        command = [str(word) for word in command]
        code, errors, _ = self.interrupted(command, out, signal.SIGTERM, 3)
        self.assertEqual(code, 75, errors)
        again = subprocess.run([*command, "--quiet"], capture_output=True, text=True, timeout=120)
        self.assertEqual(again.returncode, 0, again.stderr)
        another = subprocess.run([*command, "--quiet"], capture_output=True, text=True, timeout=120)
        self.assertEqual(another.returncode, 2, "what another run wrote stays")
        self.assertIn("is there already", another.stderr)

    def test_another_configuration_reads_nothing_of_it(self):
        out = self.folder / "out"
        self.interrupted(self.command("ladder", "--out", out), out, signal.SIGTERM, 2)
        other = ["--set", "model.gamma=0.5"]
        fresh = run(*self.command("ladder", "--quiet", *other)[1:])
        beside = run(*self.command("ladder", "--quiet", "--out", out, *other)[1:])
        self.assertEqual(values(beside), values(fresh))

    def test_any_cover_of_the_seeds_is_read(self):
        """Seeds that a run of more seeds, or of other ones, has cached."""
        out = self.folder / "out"
        self.interrupted(self.command("gradients identity-path", "--out", out), out, signal.SIGKILL, 3)
        command = ["gradients", "identity-path", "--config", self.config, "--json", "--quiet", "--seeds", 30,
                   "--seed", 5]
        fresh, other = run(*command), run(*command, "--out", out)
        self.assertEqual(values(other), values(fresh))

    def test_damaged_files_are_computed_again(self):
        out = self.folder / "out"
        command = self.command("propagate", "--out", out)
        self.interrupted(command, out, signal.SIGKILL, 5)
        tasks = cached(out)
        for task, bad in zip(tasks, (b"", b"notes of mine", None, "cut", "flipped"), strict=False):
            good = task.read_bytes()
            task.unlink()
            if bad is None:
                task.mkdir()
            else:
                middle = len(good) // 2
                flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:]
                task.write_bytes({"cut": good[:middle], "flipped": flipped}.get(bad, bad))
        tasks[2].rmdir()
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        fresh = run(*self.command("propagate", "--quiet")[1:])
        self.assertEqual(values(done), values(fresh))
        self.assertGreaterEqual(done.stderr.count("is damaged, and is computed again"), 3, done.stderr)

    def test_with_nothing_to_resume_from(self):
        for command in (self.command("propagate"), self.command("ladder"),
                        [str(BINARY), "verify", "--cases", "2000000"]):
            for kill, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
                with self.subTest(command=command[1], kill=kill):
                    process = start_program(*command[1:], "--threads", "1", stdout=subprocess.PIPE,
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
                process = start_program(*self.command("gradients identity-path", "--out", out)[1:], ignoring=(number,),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                deadline = time.monotonic() + 60
                while not cached(out) and time.monotonic() < deadline:
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=120), 0)
                self.assertTrue(list(out.glob("*.nc")), "the run went on to its end")


if __name__ == "__main__":
    unittest.main()

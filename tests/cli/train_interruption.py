"""train: runs that are stopped or killed resume to the same bits, and a full disk costs nothing that was kept. Usage:
train_interruption.py BINARY DISK_FAULTS, the library of tests/outputs/disk_faults.cpp"""

import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time
import unittest

DISK_FAULTS = pathlib.Path(sys.argv.pop(2)).resolve()

from periscope_process import BINARY, cached, run, sets, start_program  # noqa: E402  pops its argument
from small_training import ONE, TrainTest  # noqa: E402

# Long enough that a signal comes in time: a second or two, and many runs.
MANY = ("--seeds", "10", "--set", "train.steps=100")


def kept_steps(path):
    """How many steps a state file says that it comes after."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return int(json.loads(data[8:8 + length])["__metadata__"]["steps"])


class Interrupted(TrainTest):
    WHOLE = {}  # by the flags: what several tests compare with

    def command(self, *flags):
        """Every result is there as text too, out of its folder."""
        flags = list(flags)
        csv = ["--csv", f"{flags[flags.index('--out') + 1]}.csv"] if "--out" in flags else []
        return super().command(*flags, *csv)

    def start(self, *flags):
        return start_program(*self.command(*flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def whole(self, *flags):
        """The numbers and every variable of the file of a run that nobody stops."""
        if flags not in self.WHOLE:
            out = self.folder / "whole"
            data = self.data(*flags, "--out", out)
            self.WHOLE[flags] = data, self.variables(out)
        return self.WHOLE[flags]

    def variables(self, out):
        self.assertEqual((sorted(os.listdir(out)), cached(out)), (["cache", "train.nc"], []),
                         "finished runs need no tasks")
        text = pathlib.Path(f"{out}.csv").read_text()
        self.assertGreater(text.count("\n"), 100)
        return text

    def states(self, out):
        return sorted(out.glob("cache/*/*.safetensors"))

    def wait_for(self, process, condition):
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), "it was over before it was interrupted")
            time.sleep(0.002)

    def test_a_run_that_is_killed_in_its_midst_goes_on_from_there(self):
        """In the midst of its steps, and while it writes down where it is."""
        flags = (*ONE, *sets("train.steps=1500"), "--threads", "1")
        draw = random.Random(2)
        out = self.folder / "out"
        done = []
        for _ in range(8):
            with self.start(*flags, "--out", out, "--quiet") as process:
                self.wait_for(process, out.exists)
                time.sleep(draw.uniform(0, 0.1))
                process.send_signal(signal.SIGTERM)
                time.sleep(draw.uniform(0, 0.15))
                process.kill()
                process.communicate()
            # It may be stopped before it has read or written a state.
            self.assertIn(process.returncode, (75, -signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM))
            self.assertLessEqual(len(self.states(out)), 1)
            done += [kept_steps(state) for state in self.states(out)]
        self.assertEqual(done, sorted(done), "no step is lost that was kept")
        self.assertGreater(len(done), 0)
        self.assertLess(done[-1], 1500)
        self.assertEqual((self.data(*flags, "--out", out), self.variables(out)), self.whole(*flags))

    def stopped(self, out, *flags):
        """Stops a run that has just begun; its state."""
        with self.start(*ONE, *flags, "--out", out) as process:
            self.wait_for(process, out.exists)
            process.send_signal(signal.SIGTERM)
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 75, errors)
        state, = self.states(out)
        return state

    def test_a_damaged_state_is_refused_by_its_name(self):
        flags = sets("train.steps=600")
        out = self.folder / "out"
        state = self.stopped(out, *flags)
        good = state.read_bytes()
        middle = len(good) * 2 // 3
        for bad in (good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:], good[:middle], b"", good + b"\0"):
            state.write_bytes(bad)
            done = run(*self.command(*ONE, *flags, "--out", out, "--quiet"))
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertIn(str(state), done.stderr.splitlines()[0])
            self.assertIn("delete the file to restart this run", done.stderr)
            self.assertLess(done.stderr.count("\n"), 3, done.stderr)
            self.assertEqual(state.read_bytes(), bad, "it is for the user to remove")
        state.unlink()
        expected = self.whole(*ONE, *flags)
        self.assertEqual((self.data(*ONE, *flags, "--out", out), self.variables(out)), expected)

    # -- a full disk --------------------------------------------------------------------------------------------------

    def on_a_full_disk(self, room, *flags):
        return subprocess.run([str(BINARY), *self.command(*flags)], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "LD_PRELOAD": str(DISK_FAULTS), "DISK_ROOM": str(room)})

    def test_a_full_disk_is_said_and_costs_nothing_that_was_kept(self):
        flags = ("--seeds", "3", "--quiet")
        expected = self.whole(*flags)
        self.data(*flags, "--out", self.folder / "size")
        size = (self.folder / "size" / "train.nc").stat().st_size
        for room in (0, 1, 10_000, 100_000, size):
            with self.subTest(room=room):
                out = self.folder / f"room{room}"
                done = self.on_a_full_disk(room, *flags, "--out", out)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn(f"cannot write {out}/", done.stderr)
                self.assertIn("No space left on device", done.stderr)
                self.assertEqual(list(out.rglob("*.tmp")), [])
                self.assertFalse((out / "train.nc").exists())
                self.assertEqual((self.data(*flags, "--out", out), self.variables(out)), expected)

    def test_models_on_a_full_disk_are_written_by_the_same_command_when_there_is_room(self):
        """Wherever it ends: the result is there before the first model, and what was begun is no obstacle."""
        flags = ("--seeds", "1", *sets("train.steps=3"), "--quiet")
        expected = self.whole(*flags)
        self.data(*flags, "--export", self.folder / "size")
        size = max(file.stat().st_size for file in (self.folder / "size").rglob("*.safetensors"))
        written = 0
        for room in range(0, 50 * size, size):
            out, models = self.folder / f"room{room}", self.folder / f"models{room}"
            done = self.on_a_full_disk(room, *flags, "--out", out, "--export", models)
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("No space left on device", done.stderr)
            if models.exists():
                written += 1
                self.assertTrue((out / "train.nc").exists())
                self.assertIn(f"finished tasks are cached in {cached(out)[0].parent}", done.stderr)
            self.assertEqual(self.data(*flags, "--out", out, "--export", models), expected[0])
            self.assertEqual(self.variables(out), expected[1])
            names = sorted(os.listdir(models))
            self.assertEqual(len(names), 2, "one of each placement")
            for name in names:
                self.assertEqual(sorted(os.listdir(models / name)), ["config.json", "model.safetensors"])
        self.assertEqual(done.returncode, 0, "it was as much as is needed")
        self.assertGreater(written, 0)

    def test_models_that_another_command_wrote_are_not_overwritten(self):
        """The leave to overwrite what a full disk cut short is for that folder alone."""
        flags = (*ONE, *sets("train.steps=3"), "--quiet")
        begun, other = self.folder / "begun", self.folder / "other"
        self.data(*flags, "--export", other, *sets("train.lr=0.5"))
        before = {file: file.read_bytes() for file in other.rglob("*.*") if file.is_file()}
        out = self.folder / "out"
        for room in range(0, 1_000_000, 10_000):
            done = self.on_a_full_disk(room, *flags, "--out", out, "--export", begun)
            self.assertEqual(done.returncode, 1, "no room was enough for the result and too small for the model")
            if any(task.name.startswith("writing-") for task in cached(out)):
                break
        self.refused(2, [other, "--force"], *flags, "--out", out, "--export", other)
        self.assertEqual({file: file.read_bytes() for file in before}, before)
        self.data(*flags, "--out", out, "--export", begun)


if __name__ == "__main__":
    unittest.main()

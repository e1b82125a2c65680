"""Two writers of one model, and signals at random times: there is never a torn or mixed model, nothing is left behind,
and exit code 0 means a whole model. Usage: two_writers.py BINARY [ROUNDS [SEED]]"""

import os
import random
import signal
import subprocess
import sys
import time
import unittest

ROUNDS = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 40
SEED = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 1

from periscope_process import BINARY, FolderTest, contents, start_program  # noqa: E402  takes the arguments before

STACK = ("--set", "model.width=128", "--set", "model.heads=4", "--set", "model.layers=8", "--set", "input.tokens=16",
         "--set", "model.placement=pre", "--quiet", "--threads", "1")
COMMANDS = {
    "write-checkpoint": ("write-checkpoint", "--family", "llama", *STACK, "--out"),
    "propagate --dump": ("propagate", *STACK, "--seeds", "1", "--dump"),
}


def content_names(folder):
    return sorted(os.listdir(folder)) if folder.exists() else []


class TwoWriters(FolderTest):
    def whole_models(self, command):
        """What seeds 1 and 2 write undisturbed, and the second one's exit code and time."""
        models = []
        for seed in (1, 2):
            start = time.monotonic()
            done = subprocess.run([BINARY, *command, self.folder / f"seed{seed}", "--seed", str(seed)],
                                  capture_output=True)
            self.assertIn("config.json", os.listdir(self.folder / f"seed{seed}"), done.stderr)
            models.append(contents(self.folder / f"seed{seed}"))
        return models, done.returncode, time.monotonic() - start

    def start(self, command, out, seed):
        return start_program(*command, out, "--seed", seed, "--force", stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)

    def rounds(self, name):
        draw = random.Random(f"{SEED} {name}")
        command = COMMANDS[name]
        models, ok, seconds = self.whole_models(command)
        self.assertEqual(ok, 0)
        self.assertNotEqual(models[0], models[1])
        out = self.folder / "out"
        counts = {"whole": 0, "refused": 0, "ended": 0}
        for i in range(ROUNDS // len(COMMANDS)):
            before = contents(out)
            writers = [self.start(command, out, 1), self.start(command, out, 2)]
            kill = [draw.choice((None, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)) for _ in writers]
            for k, writer in sorted(zip(kill, writers, strict=True), key=lambda pair: pair[0] or 0):
                if k is not None:
                    time.sleep(draw.uniform(0, 0.7) * seconds)
                    writer.send_signal(k)
            errors = [writer.communicate(timeout=120)[1] for writer in writers]
            codes = [writer.returncode for writer in writers]
            where = f"{name}, seed {SEED}, round {i}: {kill} {codes} {errors}"
            found = contents(out)
            left = [name for name in found if name.endswith(".tmp")]
            self.assertTrue(set(left) <= set(before) or signal.SIGKILL in kill, f"{where}: left {left}")
            whole = {name: data for name, data in found.items() if name not in left}
            # The marker config.json comes last: without it there is no model, with it there is a whole one.
            if "config.json" in whole:
                self.assertIn(whole, models, f"{where}: torn or mixed")
            else:
                self.assertTrue("config.json" not in before or any(kill), f"{where}: the old model is gone")
            finished = [seed for seed, code in enumerate(codes) if code == ok]
            if finished and all(code in (ok, 2) for code in codes):
                self.assertIn(whole, [models[seed] for seed in finished], f"{where}: another model than was finished")
            for code, error, k in zip(codes, errors, kill, strict=True):
                if code == 2:
                    self.assertIn("another process is writing to this folder", error)
                elif code != ok:
                    # Negative: it came before the process had asked for signals.
                    self.assertIn(code, {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}
                                  .get(k, ()), where)
                counts["whole" if code == ok else "refused" if code == 2 else "ended"] += 1
        # What a killed process left goes with the next writer.
        last = self.start(command, out, 1)
        last.communicate()
        self.assertEqual(contents(out), models[0])
        print(f"{name}: {counts}", file=sys.stderr)
        self.assertTrue(all(counts.values()), f"{name}: {counts}: every ending was seen")

    def test_what_is_ended_at_once_leaves_nothing(self):
        """Two signals end the process where it is; the handler removes its files."""
        out = self.folder / "out"
        command = ("write-checkpoint", "--family", "llama", "--set", "model.width=512", "--set", "model.layers=8",
                   "--set", "model.placement=pre", "--threads", "1", "--quiet", "--out")
        for kill, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
            with self.subTest(kill=kill):
                writer = self.start(command, out, 1)
                deadline = time.monotonic() + 60
                while not content_names(out):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.001)
                writer.send_signal(kill)
                time.sleep(0.12)  # less than a tenth of a second apart they count as one
                writer.send_signal(kill)
                error = writer.communicate(timeout=60)[1]
                self.assertEqual((writer.returncode, content_names(out)), (code, []), error)

    def test_checkpoints(self):
        self.rounds("write-checkpoint")

    def test_dumps(self):
        self.rounds("propagate --dump")


if __name__ == "__main__":
    unittest.main()

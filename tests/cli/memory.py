"""The coarse bound of memory: what cannot fit is refused with it, and what is measured is not far from it.
Usage: memory.py BINARY FAULTS, the library of tests/outputs/memory_faults.cpp"""

import collections
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import unittest

from periscope_process import BINARY, FolderTest, run, start_program

FAULTS = pathlib.Path(sys.argv.pop(1)).resolve()

MEGABYTE = 1e6
UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
# What the program takes before it begins: its code, libraries and OpenMP.
OWN = 60 * MEGABYTE
# The bound counts the largest arrays. What is measured also has small ones, what the backward pass keeps where there is
# memory for it, and what the allocator keeps of freed arrays; it lacks parts that are not alive at the same moment.
FACTOR = 3.0

SMALL_STACK = {"model.layers": 1, "model.width": 64, "model.heads": 2, "model.mlp_width": 64, "input.tokens": 16,
               "model.vocab": 16, "init.qk_factor": 0.0}  # uniform attention is predicted without sampling


def shape(**other):
    """Flags for SMALL_STACK with other values of some keys, their dots written as __."""
    keys = SMALL_STACK | {key.replace("__", "."): value for key, value in other.items()}
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


SHAPES = {
    "wide, forward": ["propagate", "--seeds", "1", "--threads", "2",
                      *shape(model__width=1024, model__mlp_width=32768, input__tokens=300,
                             theory__finite_width="false")],
    "wide, backward": ["propagate", "--seeds", "1", "--threads", "2", "--backward",
                       *shape(model__width=1024, model__mlp_width=16384, input__tokens=300,
                              theory__finite_width="false")],
    "many tokens, limit alone": ["propagate", "--seeds", "1", "--threads", "4",
                                 *shape(model__width=16, input__tokens=600, theory__finite_width="false")],
    "many tokens, exact at the width": ["propagate", "--seeds", "2", "--threads", "2",
                                        *shape(model__width=2048, model__heads=4, input__tokens=700,
                                               theory__replicates=2)],
    "two streams": ["propagate", "--seeds", "2", "--threads", "2",
                    *shape(model__width=1024, model__heads=4, input__tokens=800, theory__replicates=2,
                           model__placement="residual-dual")],
    "sampled attention": ["theory", "--threads", "4",
                          *shape(input__kind="tokens", input__tokens=500, init__qk_factor=1.0, theory__tolerance=0.9)],
    "sampled attention on a grid of tokens": ["theory", "--threads", "2",
                                              *shape(input__tokens=32768, init__qk_factor=1.0)],
    "sampled attention, backward": ["theory", "--threads", "4", "--backward",
                                    *shape(input__tokens=400, init__qk_factor=1.0, theory__tolerance=0.9,
                                           theory__gradient_tolerance=99)],
    "several seeds and threads, backward": ["propagate", "--seeds", "4", "--threads", "4", "--backward",
                                            *shape(model__width=512, model__heads=8, model__mlp_width=4096,
                                                   model__layers=4, input__tokens=192)],
    "many layers, backward": ["propagate", "--seeds", "1", "--threads", "2", "--backward",
                              *shape(model__width=32, model__layers=64, input__tokens=192)],
    "a large vocabulary": ["propagate", "--seeds", "1", "--threads", "1", "--backward",
                           *shape(model__width=128, input__tokens=64, model__vocab=200000)],
    "depths": ["gradients", "depth", "--seeds", "2", "--threads", "2",
               *shape(model__width=16, input__tokens=128, gradients__layers=[2, 4, 8])],
    "paths": ["gradients", "identity-path", "--seeds", "1", "--threads", "1",
              *shape(model__width=512, model__mlp_width=2048, model__layers=48, input__tokens=32,
                      model__placement="pre")],
    "number formats": ["formats", "--seeds", "2", "--threads", "2", "--backward", "--set", 'formats.format=["bf16"]',
                       "--set", "formats.certificates=false",
                       *shape(model__width=512, model__mlp_width=2048, model__layers=4, input__tokens=128)],
    "first steps, many neurons": ["first-steps", "--threads", "2",
                                  *shape(first_steps__neurons=8192, first_steps__replicates=2,
                                         first_steps__predict_only="true", train__steps=2, train__batch=2,
                                         model__width=512, model__mlp_width=8192, model__vocab=256,
                                         input__kind="tokens")],
    "first steps, many tokens": ["first-steps", "--threads", "2",
                                 *shape(first_steps__neurons=8, first_steps__replicates=2,
                                        first_steps__predict_only="true", train__steps=3, train__batch=32,
                                        model__vocab=256, input__kind="tokens")],
    "first steps, a large vocabulary": ["first-steps", "--threads", "2",
                                        *shape(first_steps__neurons=8, first_steps__replicates=2,
                                               first_steps__predict_only="true", train__steps=1, train__batch=1,
                                               model__vocab=200000, input__kind="tokens")],
    "a certificate": ["certify", *shape(model__width=512, model__mlp_width=6000, input__kind="tokens",
                                        model__placement="pre")],
}


def limited(bytes_, *arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_)))


def bytes_in(message):
    number, unit = re.search(r"memory estimate ([0-9.e+]+) (MB|GB|TB)", message).groups()
    return float(number) * UNITS[unit]


def peak(*arguments):
    """Bytes of memory that a run had at its peak, and its exit code."""
    child = start_program(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return 1024 * usage.ru_maxrss, child.returncode


class Memory(FolderTest):
    def test_what_is_measured_is_near_the_estimate(self):
        for name, command in SHAPES.items():
            with self.subTest(shape=name):
                refused = limited(190 << 20, *command, "--quiet")
                self.assertEqual(refused.returncode, 2, refused.stderr)
                estimate = bytes_in(refused.stderr)
                measured, code = peak(*command, "--quiet")
                self.assertEqual(code, 0)
                found = f"estimate {estimate:.3g}, measured {measured:.3g}"
                self.assertLess(measured, OWN + FACTOR * estimate, found)
                self.assertGreater(measured, OWN + estimate / FACTOR, found)

    def test_what_cannot_fit_is_refused_at_once(self):
        huge = {"input.tokens": ["--set", "input.tokens=1048576", "--set", "model.heads=32"],
                "model.mlp_width": ["--set", "model.mlp_width=1048576", "--set", "model.width=65536",
                                    "--set", "model.heads=8",
                                    "--device", "reference"]}  # which holds matrices whole
        dense = ["--set", "run.weights=dense"]
        commands = [["propagate"], ["propagate", "--backward"], ["theory", "--backward"],
                    ["gradients", "depth"], ["gradients", "identity-path"], ["gradients", "score-path"],
                    ["gradients", "attenuation"], ["gradients", "crossover",
                                                   "--set", "model.placement=['pre', 'peri']"],
                    ["ladder", "--set", "init.scheme=lecun"], ["formats", "--backward"]]
        for key, flags in huge.items():
            for command in commands:
                if command[0] in ("ladder", "theory", "formats") and key != "input.tokens":
                    continue  # widths of their own, no matrices, or none on that device
                draws = key == "model.mlp_width" and "identity-path" not in command  # which never does without matrices
                with self.subTest(command=command, key=key):
                    done = limited(8 << 30, *command, "--quiet", "--threads", "2", *flags, *(dense if draws else []))
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    for word in ("memory", "available", key, "--force"):
                        self.assertIn(word, done.stderr)

    def test_force_tries_and_says_what_was_missing(self):
        wide = ["--set", "model.mlp_width=1048576", "--set", "init.qk_factor=0.0", "--set", "theory.finite_width=false"]
        for flags in (["--set", "input.tokens=24000"], wide):
            for threads in ("1", "2"):
                with self.subTest(flags=flags, threads=threads):
                    done = limited(1 << 30, "propagate", "--quiet", "--threads", threads, "--set", "model.layers=1",
                                   "--force", *flags)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("not enough memory: the memory estimate is", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_memory_that_is_lacking_at_any_moment_is_said(self):
        """Allocations fail from a random one on: one, 200 or all that follow, also in destructors, and while the result
        is written, when HDF5 crashes or calls exit."""
        out, counted = self.folder / "out", self.folder / "count"
        anywhere = ["--seeds", "4", "--set", "run.weights=dense"]
        for flags, faults, begin, said in ((anywhere, [1, 200, 10**9] * 10, 0.02, "not enough memory"),
                                           (["--seeds", "2", "--out", out], [10**9] * 25, 0.75,
                                            "periscope: (not enough memory|cannot write .*propagate.nc)")):
            def with_faults(flags=flags, **variables):
                return run("propagate", "--config", self.config, "--threads", "1", "--quiet", *flags,
                           environment={**os.environ, "LD_PRELOAD": str(FAULTS), **variables})
            self.assertEqual(with_faults(MEMORY_COUNT=str(counted)).returncode, 0)
            moments, count, codes = random.Random(1), int(counted.read_text()), collections.Counter()
            for fault in faults:
                first = moments.randrange(int(begin * count), count)
                shutil.rmtree(out, ignore_errors=True)
                done = with_faults(MEMORY_FAULT_AT=str(first), MEMORY_FAULTS=str(fault))
                codes[done.returncode] += 1
                with self.subTest(flags=flags, first=first, faults=fault):
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    if done.returncode == 1:
                        self.assertRegex(done.stderr, said)
                        self.assertEqual([file for file in out.glob("*") if file.suffix], [])
            self.assertGreater(codes[1], 10)
            self.assertTrue(codes[0] or 1 not in faults, "a single fault is survived")

    def test_what_fits_is_not_refused(self):
        done = limited(1 << 30, "propagate", "--quiet", "--threads", "2", "--config", str(self.config))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

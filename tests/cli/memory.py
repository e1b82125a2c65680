"""The estimate of memory: what cannot fit is refused with it, and what is measured is near it.
Usage: memory.py BINARY"""

import os
import re
import resource
import subprocess
import unittest

from periscope_process import BINARY, FolderTest, run

MEGABYTE = 1e6
UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
# What the program takes before it begins: its code, libraries and OpenMP.
OWN = 60 * MEGABYTE
# The estimate counts the arrays that exist at the peak. What is measured also has what the allocator keeps of freed
# ones (up to as much again, as arrays of different sizes follow one another), and lacks parts that are not alive at the
# same moment.
FACTOR = 2.0

SHAPES = {
    "wide, forward": ["--seeds", "1", "--threads", "2", "--set", "model.width=2048", "--set", "model.heads=16",
                      "--set", "model.mlp_width=32768", "--set", "model.layers=1", "--set", "input.tokens=16"],
    "wide, backward": ["--seeds", "1", "--threads", "2", "--backward", "--set", "model.width=1024",
                       "--set", "model.heads=8", "--set", "model.mlp_width=16384", "--set", "model.layers=1",
                       "--set", "input.tokens=16"],
    "many tokens, no theory at the width": ["--seeds", "1", "--threads", "1", "--set", "model.width=16",
                                            "--set", "model.heads=2", "--set", "model.layers=1",
                                            "--set", "input.tokens=1500", "--set", "init.qk_factor=0.0",
                                            "--set", "theory.finite_width=false"],
    "several seeds and threads, backward": ["--seeds", "4", "--threads", "4", "--backward", "--set", "model.width=512",
                                            "--set", "model.heads=8", "--set", "model.mlp_width=4096",
                                            "--set", "model.layers=4", "--set", "input.tokens=192",
                                            "--set", "init.qk_factor=0.0"],
    "many layers, backward": ["--seeds", "1", "--threads", "2", "--backward", "--set", "model.width=32",
                              "--set", "model.heads=2", "--set", "model.layers=96", "--set", "input.tokens=192",
                              "--set", "init.qk_factor=0.0", "--set", "model.vocab=64"],
    "a large vocabulary": ["--seeds", "1", "--threads", "1", "--backward", "--set", "model.width=128",
                           "--set", "model.heads=2", "--set", "model.layers=1", "--set", "input.tokens=64",
                           "--set", "model.vocab=300000", "--set", "init.qk_factor=0.0"],
}


def limited(bytes_, *arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_)))


def bytes_in(message):
    number, unit = re.search(r"about ([0-9.e+]+) (MB|GB|TB)", message).groups()
    return float(number) * UNITS[unit]


def peak(*arguments):
    """Bytes of memory that a run had at its peak, and its exit code."""
    child = subprocess.Popen([str(BINARY), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return 1024 * usage.ru_maxrss, child.returncode


class Memory(FolderTest):
    def test_what_is_measured_is_near_the_estimate(self):
        for name, shape in SHAPES.items():
            with self.subTest(shape=name):
                refused = limited(250 << 20, "propagate", "--quiet", *shape)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                estimate = bytes_in(refused.stderr)
                measured, code = peak("propagate", "--quiet", *shape)
                self.assertIn(code, (0, 4))
                self.assertLess(measured, OWN + FACTOR * estimate, f"estimate {estimate:.3g}")
                self.assertGreater(measured, OWN + estimate / FACTOR, f"estimate {estimate:.3g}")

    def test_what_cannot_fit_is_refused_at_once(self):
        huge = {"input.tokens": ["--set", "input.tokens=1048576"],
                "model.mlp_width": ["--set", "model.mlp_width=1048576", "--set", "model.width=1048576"]}
        commands = [["propagate"], ["propagate", "--backward"], ["theory", "--backward"], ["converge"],
                    ["gradients", "depth"], ["gradients", "identity-path"], ["gradients", "score-path"],
                    ["gradients", "attenuation"]]
        for key, shape in huge.items():
            for command in commands:
                if (command == ["converge"] or "theory" in command) and key != "input.tokens":
                    continue  # one has widths of its own, the other no matrices
                with self.subTest(command=command, key=key):
                    done = limited(8 << 30, *command, "--quiet", "--threads", "2", *shape)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    for word in ("memory", "there is", key, "--force"):
                        self.assertIn(word, done.stderr)

    def test_force_tries_and_says_what_was_missing(self):
        for shape in (["--set", "input.tokens=30000"], ["--set", "model.mlp_width=262144", "--set", "init.qk_factor=0.0"]):
            for threads in ("1", "2"):
                with self.subTest(shape=shape, threads=threads):
                    done = limited(1 << 30, "propagate", "--quiet", "--threads", threads, "--set", "model.layers=1",
                                   "--force", *shape)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("not enough memory: needed about", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_what_fits_is_not_refused(self):
        done = limited(1 << 30, "propagate", "--quiet", "--threads", "2", "--config", str(self.config))
        self.assertIn(done.returncode, (0, 4), done.stderr)


if __name__ == "__main__":
    unittest.main()

"""The attack on certificates: verdict, exit codes, violations. Usage: soundness.py SOUNDNESS_ATTACK BINARY"""

import json
import subprocess
import sys
import unittest


def attack(*flags):
    return subprocess.run([PROGRAM, *map(str, flags)], capture_output=True, text=True, timeout=300)


class Soundness(unittest.TestCase):
    def test_nothing_is_passed(self):
        done = attack("--checkpoints", 60, "--seed", 5)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("no certified number was passed: 60 checkpoints", done.stderr)

    def test_lower_bounds_are_passed(self):
        flags = ["--format", "fp16", "--arithmetic", "mixed", "--seed", 2, "--scale", 0.9]
        done = attack(*flags, "--checkpoints", 30)
        self.assertEqual(done.returncode, 1, done.stderr)
        first = json.loads(done.stdout)[0]
        self.assertGreater(first["breaches"][0]["reached"], first["breaches"][0]["bound"])
        alone = attack(*flags, "--only", first["index"])
        self.assertEqual((alone.returncode, json.loads(alone.stdout)), (1, [first]))
        self.assertIn("1 of 1 checkpoints passed a certified number", alone.stderr)
        self.assertIn(f"--only {first['index']}", alone.stderr)

    def test_usage(self):
        for flags, word in ((["--checkpoints", "0"], "--checkpoints"), (["--scale", "2"], "--scale"),
                            (["--format", "fp12"], "fp12"), (["--arithmetic", "exact"], "mixed"),
                            (["--only", "-1"], "--only")):  # fmt: skip
            done = attack(*flags)
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop()
    unittest.main()

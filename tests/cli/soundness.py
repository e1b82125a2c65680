"""`periscope soundness` as a user meets it: verdict, exit codes, JSON, files. Usage: soundness.py BINARY"""

import json
import pathlib
import tempfile
import unittest

from periscope_process import run, run_json


class Soundness(unittest.TestCase):
    def test_nothing_is_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            result, code = run_json("soundness", "--checkpoints", 60, "--seed", 5, "--out", folder, "--quiet")
            self.assertEqual((code, result["violated"], result["checkpoints"]), (0, 0, 60))
            self.assertEqual(len(result["arithmetics"]), 10)
            self.assertEqual(sum(a["runs"] for a in result["arithmetics"]), result["runs"])
            for arithmetic in result["arithmetics"]:
                for one in arithmetic["tightness"].values():
                    self.assertLessEqual(one["largest"], 1.0)
            stored = json.loads((pathlib.Path(folder) / "soundness.json").read_text())
            self.assertEqual(stored["arithmetics"], result["arithmetics"])
            self.assertTrue((pathlib.Path(folder) / "soundness.nc").exists())

    def test_lower_bounds_are_passed(self):
        flags = ["soundness", "--format", "fp16", "--arithmetic", "mixed", "--seed", 2, "--scale", 0.9]
        result, code = run_json(*flags, "--checkpoints", 30, "--quiet")
        self.assertEqual(code, 4)
        self.assertGreater(result["violated"], 5)
        first = result["violations"][0]
        breach = first["breaches"][0]
        self.assertGreater(breach["reached"], breach["bound"])
        self.assertGreaterEqual(first["worst"]["reached"] / first["worst"]["bound"],
                                breach["reached"] / breach["bound"])
        shapes = [weight["shape"] for weight in first["weights"].values()]
        self.assertEqual(sum(rows * columns for rows, columns in shapes), first["parameters"])
        alone, code = run_json(*flags, "--only", first["index"], "--quiet")
        self.assertEqual((code, alone["violations"][0]), (4, first))
        done = run(*flags, "--only", first["index"])
        self.assertIn("passed a certified number", done.stderr)
        self.assertIn(f"--only {first['index']}", done.stderr)

    def test_usage(self):
        for flags, word in ((["--checkpoints", "0"], "--checkpoints"), (["--scale", "2"], "--scale"),
                            (["--format", "fp12"], "fp12"), (["--arithmetic", "exact"], "mixed or pure"),
                            (["--only", "-1"], "--only")):
            done = run("soundness", *flags)
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()

"""`periscope formats` as a user meets it: exit codes, JSON, keys, refusals. Usage: number_formats.py BINARY"""

import math
import unittest

from periscope_process import FolderTest, run, run_json

FORMATS = ["--set", 'formats.format=["fp16","int4"]', "--set", "formats.certificates=false"]
REFUSED = [
    ("model.norm=dyt", ['model.norm = "dyt"', '"rms", "layer", "l2"']),
    ('formats.format=["fp7"]', ["formats.format", "fp7", "fp32, bf16, fp16"]),
    ("formats.format=[]", ["formats.format = []", "at least one"]),
    ('formats.format=["fp16","fp16"]', ["formats.format", "fp16 is in the list twice"]),
    ('formats.covers=["all"]', ["formats.covers", "all", "stream, norms, modules, inputs, weights"]),
    ("formats.rest=int8", ["formats.rest", "int8", "fp32, bf16 or fp16"]),
    ("formats.scale=none", ["formats.scale", "none", "int4"]),
    ("formats.scale=column", ["column", "none, tensor, row, block"]),
    ("formats.rounding=up", ["up", "nearest, stochastic"]),
    ("formats.massive=0.5", ["formats.massive = 0.5", "from 1 to"]),
    ("formats.massive_features=33", ["formats.massive_features = 33", "model.width = 32"]),
    ("formats.loss_scale=0.0", ["formats.loss_scale = 0", "above 0 and below"]),
    ("run.device=reference", ["run.device does nothing in formats"]),
    ("run.dtype=f64", ["run.dtype does nothing in formats"]),
]


def without_provenance(result):
    return {k: v for k, v in result.items() if k not in ("provenance", "circumstances")}


class NumberFormats(FolderTest):
    def formats(self, *flags):
        return run_json("formats", "--config", self.config, *FORMATS, "--quiet", *flags)

    def test_what_it_reports(self):
        result, code = self.formats("--backward", "--seeds", 8, "--set", "formats.massive=40", "--set",
                                    "formats.certificates=true", "--out", self.folder / "out")
        self.assertEqual(code, 0)
        self.assertTrue((self.folder / "out" / "formats.nc").exists())
        self.assertEqual([c["placement"] for c in result["cells"]], ["pre", "peri"])
        for cell in result["cells"]:
            self.assertEqual(list(cell["formats"]), ["fp64", "fp16", "int4"])
            self.assertEqual(len(cell["second_moment_predicted"]), 5)
            self.assertEqual(cell["formats"]["fp64"]["law"]["verdict"] != "disagrees", True)
            fp16, int4 = (cell["formats"][name] for name in ("fp16", "int4"))
            for site in ("x_out", "f_out", "grad x_out", "grad f_out"):
                errors = [f["plain"][site]["error"] for f in (fp16, int4)]
                for fine, coarse in zip(*errors, strict=True):
                    self.assertTrue(fine is None or fine < coarse, site)
            self.assertEqual(fp16["certificate"]["certified"], True)
            self.assertNotIn("certificate", int4)
            self.assertEqual(fp16["plain"]["overflow"]["seeds"], 0)
            self.assertIn(int4["massive_cost"]["branch"]["verdict"], ("hurts", "no difference seen"))
            # A dB more or less at every depth.
            for predicted, found in zip(fp16["plain"]["x_out"]["sqnr_predicted"], fp16["plain"]["x_out"]["sqnr"],
                                        strict=False):  # nothing is predicted behind the last sublayer
                self.assertLess(abs(predicted - found), 1.5)
            self.assertAlmostEqual(fp16["rounding"]["weights"]["sqnr"][1], fp16["rounding"]["weights"]["predicted"][1],
                                   delta=0.3)

    def test_the_law_that_a_format_breaks_is_an_answer_and_a_wrong_theory_a_failure(self):
        # Four bits without a stream of their own make modules' outputs larger: Pre-LN grows too fast, Peri-LN does not.
        many = ["--seeds", 400, "--set", "model.layers=4", "--set", 'formats.format=["int4"]',
                "--set", "formats.scale=tensor", "--set", "theory.replicates=800"]
        result, code = self.formats(*many)
        self.assertEqual(code, 0)
        for against in ("law", "drift"):
            verdicts = {c["placement"]: c["formats"]["int4"][against]["verdict"] for c in result["cells"]}
            self.assertEqual(verdicts["pre"], "disagrees", against)
        self.assertEqual(verdicts["peri"], "agrees")
        self.assertEqual({c["formats"]["fp64"]["law"]["verdict"] for c in result["cells"]}, {"agrees"})
        _, code = self.formats(*many, "--theory-set", "init.down_factor=2")
        self.assertEqual(code, 4)

    def test_threads_and_repetition_change_nothing(self):
        flags = ("--backward", "--set", "formats.rounding=stochastic")
        one, _ = self.formats(*flags, "--threads", 1)
        two, _ = self.formats(*flags, "--threads", 2)
        self.assertEqual(without_provenance(one), without_provenance(two))

    def test_what_is_refused(self):
        for setting, words in REFUSED:
            with self.subTest(setting=setting):
                done = run("formats", "--config", self.config, *FORMATS, "--set", setting)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_an_overflow_is_no_verdict(self):
        result, code = self.formats("--set", "model.gamma=1e5", "--set", "formats.certificates=true")
        self.assertEqual(code, 0)
        for cell in result["cells"]:
            fp16 = cell["formats"]["fp16"]
            self.assertEqual(fp16["law"]["verdict"], "not-checked")
            self.assertIn("diverged", fp16["law"]["reason"])
            self.assertEqual(fp16["plain"]["overflow"]["seeds"], 4)
            self.assertEqual(fp16["certificate"]["certified"], False)
            self.assertTrue(math.isfinite(cell["formats"]["fp64"]["plain"]["x_out"]["second_moment"][3]))


if __name__ == "__main__":
    unittest.main()

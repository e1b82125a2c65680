"""`periscope formats` as a user meets it: exit codes, JSON, keys, refusals. Usage: number_formats.py BINARY"""

import math
import unittest

from periscope_process import FolderTest, run_result

FORMATS = ["--set", 'formats.format=["fp16","int4"]', "--set", "formats.certificates=false"]


class NumberFormats(FolderTest):
    def formats(self, *flags):
        return run_result("formats", "--config", self.config, *FORMATS, "--quiet", *flags)

    def test_what_it_reports(self):
        result, code = self.formats("--backward", "--seeds", 8, "--set", "formats.massive=40", "--set",
                                    "formats.certificates=true", "--out", self.folder / "out")
        self.assertEqual(code, 0)
        self.assertTrue((self.folder / "out" / "formats.nc").exists())
        self.assertEqual((result["placement"], result["format"]), (["pre", "peri"], ["fp64", "fp16", "int4"]))
        for stack in result.each("stack"):
            self.assertNotEqual(stack.at(format="fp64")["verdict"], "disagrees")
            fp16, int4 = (stack.at(format=name) for name in ("fp16", "int4"))
            for site in ("x_out", "f_out", "grad x_out", "grad f_out"):
                errors = [f.at(features="plain", site=site)["error"] for f in (fp16, int4)]
                for fine, coarse in zip(*errors, strict=True):
                    self.assertTrue(fine is None or fine < coarse, site)
            self.assertEqual((fp16["certified"], int4["certified"]), (True, None))
            plain = fp16.at(features="plain")
            self.assertEqual(plain["overflow_seeds"], 0)
            self.assertIn(int4["massive_branch"], ("hurts", "no difference seen"))
            # A dB more or less at every depth; the curves of sites begin at the stack's input too.
            found = plain.at(site="x_out")["sqnr"]
            for predicted, measured in zip(plain["stream_sqnr_predicted"], found, strict=False):
                self.assertLess(abs(predicted - measured), 1.5)
            self.assertAlmostEqual(fp16.at(part="weights")["rounding_sqnr"][1], fp16["weights_sqnr_predicted"][1],
                                   delta=0.3)

    def test_the_law_that_a_format_breaks_is_an_answer_and_a_wrong_theory_a_failure(self):
        # Four bits without a stream of their own make modules' outputs larger: Pre-LN grows too fast, Peri-LN does not.
        many = ["--seeds", 400, "--set", "model.layers=4", "--set", 'formats.format=["int4"]',
                "--set", "formats.scale=tensor", "--set", "theory.replicates=800"]
        result, code = self.formats(*many)
        self.assertEqual(code, 0)
        int4 = result.at(format="int4")
        for verdict in ("verdict", "drift_verdict"):
            self.assertEqual(int4[verdict][0], "disagrees", verdict)
        self.assertEqual(int4["drift_verdict"][1], "agrees")
        self.assertEqual(result.at(format="fp64")["verdict"], ["agrees"] * 2)
        _, code = self.formats(*many, "--theory-set", "init.down_factor=2")
        self.assertEqual(code, 4)

    def test_an_overflow_is_no_verdict(self):
        result, code = self.formats("--set", "model.gamma=1e5", "--set", "formats.certificates=true")
        self.assertEqual(code, 0)
        for stack in result.each("stack"):
            fp16 = stack.at(format="fp16")
            self.assertEqual(fp16["verdict"], "not-checked")
            self.assertIn("diverged", fp16["verdict_reason"])
            self.assertEqual(fp16.at(features="plain")["overflow_seeds"], 4)
            self.assertEqual(fp16["certified"], False)
            exact = stack.at(format="fp64", features="plain", site="x_out")["second_moment"]
            self.assertTrue(math.isfinite(exact[3]))


if __name__ == "__main__":
    unittest.main()

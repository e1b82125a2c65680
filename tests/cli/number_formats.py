"""`periscope formats` as a user meets it: exit codes, JSON, keys, refusals. Usage: number_formats.py BINARY"""

import math
import unittest

from periscope_process import FolderTest, run_result

FORMATS = ["--set", 'formats.format=["fp16","int4"]', "--set", "formats.certificates=false"]


class NumberFormats(FolderTest):
    def formats(self, *flags):
        return run_result("formats", "--config", self.config, *FORMATS, "--quiet", *flags)

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

"""`regauge`: another size of the stream, the same function. Usage: regauge.py BINARY FIXTURES"""

import json
import pathlib
import sys
import unittest

import tiny_checkpoint
from periscope_process import FolderTest, contents, run, run_json, run_result

FIXTURES = pathlib.Path(sys.argv.pop(1))
SMALL = ["--set", "model.layers=2", "--set", "model.width=12", "--set", "model.heads=3", "--set", "model.mlp_width=10",
         "--set", "model.vocab=11"]
TOKENS = ["--tokens", "1,2,3,4,5", "--no-theory"]


class Regauge(FolderTest):
    def regauge(self, folder, out, *flags):
        result, code = run_json("regauge", folder, "--out", out, "--quiet", *flags)
        self.assertEqual(code, 0)
        return result

    def probe(self, folder):
        result, code = run_result("probe", folder, *TOKENS, "--quiet")
        self.assertEqual(code, 0)
        return result

    def refused(self, *command):
        done = run("regauge", *command)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        return done.stderr

    def stream(self, folder, factor, made):
        """The largest |x| at every depth is divided, the loss is the same."""
        before, after = self.probe(folder), self.probe(made)
        self.assertAlmostEqual(after["loss"] / before["loss"], 1, delta=1e-9)
        for a, b in zip(after["second_moment_measured"], before["second_moment_measured"], strict=True):
            self.assertAlmostEqual(a * factor**2 / b, 1, delta=1e-9)

    def test_a_written_checkpoint_computes_the_same_from_a_stream_an_eighth_as_large(self):
        model, made = self.folder / "model", self.folder / "made"
        run("write-checkpoint", "--family", "llama", "--out", model, "--quiet", *SMALL)
        result = self.regauge(model, made, "--factor", 8)
        self.assertEqual(result["factor"], 8)
        self.assertLess(result["logit_difference"], 1e-12)  # with eps, which is divided by 64
        self.assertEqual(json.loads((made / "config.json").read_text())["rms_norm_eps"] * 64,
                         json.loads((model / "config.json").read_text())["rms_norm_eps"])
        self.assertAlmostEqual(result["stream"]["before"]["largest"] / result["stream"]["after"]["largest"], 8,
                               delta=1e-6)
        self.stream(model, 8, made)
        self.assertEqual(*(run("generate", folder, "--tokens", "1,2", "--count", 8).stdout for folder in (model, made)))
        self.regauge(made, self.folder / "back", "--factor", 0.125)
        self.assertEqual(contents(model)["model.safetensors"], contents(self.folder / "back")["model.safetensors"],
                         "not one bit is lost on the way")

    def test_a_format_gets_the_least_power_of_two(self):
        tensors = tiny_checkpoint.random_tensors(256)
        for name, (_, values) in tensors.items():
            if "down_proj" in name:
                values[:] = [3000 * v for v in values]
        model, made, less = (self.folder / n for n in ("model", "made", "less"))
        tiny_checkpoint.write(model, tensors=tensors)
        result = self.regauge(model, made, "--format", "fp16")
        c = result["factor"]
        self.assertGreater(c, 1)
        self.assertFalse(result["stream"]["before"]["certified"])
        self.assertTrue(result["stream"]["after"]["certified"])
        self.assertLess(result["stream"]["after"]["largest"], 65504)
        self.regauge(model, less, "--factor", c / 2)
        for folder, code in ((model, 4), (made, 0), (less, 4)):
            self.assertEqual(run("certify", folder, "--require", "fp16", "--quiet").returncode, code)
        self.assertEqual(self.regauge(made, self.folder / "again", "--format", "fp16")["factor"], 1)
        advised, _ = run_result("certify", model, "--headroom", "fp16", "--quiet")
        self.assertEqual(advised["scaled_c"] * c, 1)


if __name__ == "__main__":
    unittest.main()

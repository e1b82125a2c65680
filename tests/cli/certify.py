"""`periscope certify` as a user meets it: verdicts, exit codes, JSON. Usage: certify.py BINARY"""

import math
import pathlib
import tempfile
import unittest

import tiny_checkpoint
from periscope_process import SMALL, run, run_json

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures"
STACK = SMALL.replace('["pre", "peri"]', '"peri"').replace("tokens = 6", 'tokens = 6\nkind = "tokens"')


class Certify(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "stack.toml"
        self.config.write_text(STACK)

    def certify(self, *arguments):
        return run_json("certify", *arguments, "--quiet")

    def test_checkpoint(self):
        result, code = self.certify(FIXTURES / "gemma2", "--tokens", "1,2,3", "--attack", 5, "--headroom", "fp16")
        self.assertEqual(code, 0)
        self.assertEqual((result["model"], result["family"], result["placement"]), ("gemma2", "gemma2", "peri"))
        self.assertEqual(set(result["verdicts"]), {"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"})
        depths = 2 * result["layers"] + 1
        self.assertEqual([len(result["stream"][k]) for k in ("bound", "feature", "measured")], [depths] * 3)
        self.assertIsNone(result["exceeded"])
        for signal in result["signals"]:
            self.assertLessEqual(signal["measured"], signal["bound"] * (1 + 1e-9), signal)
        largest = max(s["bound"] for s in result["signals"] if s["class"] == "stream")
        self.assertEqual(result["classes"]["stream"]["bound"], largest)
        self.assertTrue(all(a["ratio"] <= 1 for a in result["attack"]))
        headroom = result["headroom"]
        self.assertTrue(headroom["gains_alone"])
        self.assertEqual(headroom["divided"], [])
        self.assertLess(headroom["run"]["logit_difference_without_eps"], 1e-12)
        self.assertLessEqual(headroom["run"]["c"], headroom["formats"]["fp16"]["c_certified"])
        self.assertTrue(headroom["run"]["classes"]["stream"]["formats"]["fp16"]["certified"])
        self.assertEqual(result["provenance"]["checkpoint"], str(FIXTURES / "gemma2"))

    def test_random_stack(self):
        result, code = self.certify("--config", self.config, "--measure")
        self.assertEqual((code, result["input"], result["measured_tokens"]), (0, "tokens", 6))
        again, _ = self.certify("--config", self.config, "--measure", "--threads", 3)
        for key in ("signals", "stream", "classes", "headroom"):
            self.assertEqual(result[key], again[key], "bit for bit for any number of threads")
        gaussian = ["--config", self.config, "--set", "input.kind=gaussian"]
        result, code = self.certify(*gaussian, "--input-maximum", 4, "--measure", "--attack", 10)
        self.assertEqual((code, result["input_maximum"]), (0, 4.0))
        self.assertEqual(result["stream"]["bound"][0], 4.0)
        result, code = self.certify(*gaussian, "--set", "model.embedding_norm=true", "--attack", 40)
        self.assertEqual((code, result["input_maximum"]), (0, None))
        self.assertAlmostEqual(result["stream"]["bound"][0], 32**0.5, places=9)

    def test_requirements(self):
        # Gains of 3000 put the stream beyond FP16, not the inside of the modules.
        large = ["--config", self.config, "--set", "model.gamma=3000.0", "--set", "model.qk_norm=head"]
        for required, code in (("bf16", 0), ("fp16", 4), ("stream:fp16", 4), ("all:fp16", 4), ("scores:fp16", 0),
                               ("bf16,fp16", 4)):
            self.assertEqual(run("certify", *large, "--quiet", "--require", required).returncode, code, required)
        done = run("certify", *large)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("not certified for FP16: the residual stream may reach", done.stderr)
        self.assertIn("no input can overflow BF16 on the residual stream, nor anywhere else", done.stderr)
        result, _ = self.certify(*large, "--headroom", "fp16")
        scaled = result["headroom"]["run"]
        self.assertLess(scaled["c"], 1)
        self.assertTrue(scaled["classes"]["stream"]["formats"]["fp16"]["certified"])
        self.assertTrue(scaled["classes"]["branch"]["formats"]["fp16"]["certified"])

    def test_weights_that_are_not_finite_are_refused(self):
        for value, name in ((math.nan, "q_proj"), (math.inf, "down_proj")):
            tensors = tiny_checkpoint.random_tensors(256)
            _, values = tensors[next(n for n in tensors if name in n)]
            values[3] = value
            folder = self.folder / name
            tiny_checkpoint.write(folder, tensors=tensors)
            for command in (("certify", folder, "--require", "fp16"), ("certify", folder, "--headroom", "fp16")):
                done = run(*command)
                self.assertEqual((done.returncode, done.stdout), (3, ""), command)
                self.assertIn(f"entry 3 is {value}: expected finite weights", done.stderr)
        done = run("generate", self.folder / "q_proj", "--tokens", "1,2", "--count", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("logits are not numbers", done.stderr)

    def test_result_file(self):
        self.assertEqual(run("certify", FIXTURES / "olmo2", "--out", self.folder, "--quiet").returncode, 0)
        done = run("export", self.folder / "certify.nc", "--csv", "-")
        self.assertEqual(done.returncode, 0)
        for name in ("class_bound", "stream_bound", "bound_feature"):
            self.assertIn(name, done.stdout)

    def test_bad_input(self):
        cases = [
            (["--config", self.config, "--set", "input.kind=gaussian"], 2, ["--input-maximum", "embedding_norm"]),
            (["--config", self.config, "--tokens", "1"], 2, ["--measure"]),
            (["--config", self.config, "--format", "fp12"], 2, ["fp12", "fp8_e4m3"]),
            (["--config", self.config, "--require", "heart:fp16"], 2, ["heart:fp16", "stream, branch"]),
            (["--config", self.config, "--set", 'model.placement=["pre","peri"]'], 2, ["2 stacks"]),
            ([FIXTURES / "gemma2", "--measure"], 2, ["--measure", "--tokens"]),
            ([FIXTURES / "gemma2", "--set", "model.layers=3"], 2, ["model.layers", "not for a checkpoint"]),
            ([self.folder / "nowhere"], 3, ["nowhere"]),
        ]
        for arguments, code, words in cases:
            with self.subTest(arguments=arguments):
                done = run("certify", *arguments)
                self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()

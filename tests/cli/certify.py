"""`periscope certify` as a user meets it: verdicts, exit codes, JSON. Usage: certify.py BINARY"""

import hashlib
import math
import pathlib
import unittest

import tiny_checkpoint
from periscope_process import SMALL, FolderTest, run, run_json, run_result

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures"


class Certify(FolderTest):
    STACK = SMALL.replace('["pre", "peri"]', '"peri"').replace("tokens = 6", 'tokens = 6\nkind = "tokens"')

    def certify(self, *arguments):
        return run_result("certify", *arguments, "--quiet")

    def test_checkpoint(self):
        result, code = self.certify(FIXTURES / "gemma2", "--tokens", "1,2,3", "--attack", 5, "--headroom", "fp16")
        self.assertEqual((code, result["arithmetic"]), (0, "mixed"))
        weights = hashlib.sha256((FIXTURES / "gemma2" / "model.safetensors").read_bytes()).hexdigest()
        self.assertEqual((result["weights"], result["weights_sha256"]), (["model.safetensors"], [weights]))
        # The run was in f64 and is compared with the bounds of that arithmetic, without tolerance.
        signals = result.each("signal")
        pairs = [pair for s in signals for pair in zip(s["measured"], s["own_bound"], strict=True)
                 if pair[0] is not None]  # fmt: skip
        self.assertGreater(len(pairs), 20)
        self.assertTrue(all(measured <= bound for measured, bound in pairs))
        reached = zip(result["attack_reached"], result["attack_bound"], strict=True)
        self.assertTrue(all(value <= bound for value, bound in reached))
        for run_of_format in result.each("format"):
            if run_of_format["run_weights_rounded"] is False:
                for exact, rounded in zip(signals, run_of_format.each("signal"), strict=True):
                    for bound, larger in zip(exact["bound"], rounded["run_signal_bound"], strict=True):
                        self.assertTrue(None in (bound, larger) or larger >= bound)
        fp16 = result.at(format="fp16")
        self.assertLessEqual(result["scaled_c"], fp16["headroom_c_certified"])
        self.assertTrue(fp16.at(**{"class": "stream"})["scaled_run_certified"])

    def test_random_stack(self):
        gaussian = ["--config", self.config, "--set", "input.kind=gaussian"]
        result, code = self.certify(*gaussian, "--input-maximum", 4, "--measure", "--attack", 10)
        self.assertEqual((code, result["input_maximum"]), (0, 4.0))
        self.assertEqual(max(result["stream_bound"][0]), 4.0)
        result, code = self.certify(*gaussian, "--set", "model.embedding_norm=true", "--attack", 40)
        self.assertEqual((code, result["input_maximum"]), (0, math.inf))
        self.assertAlmostEqual(max(result["stream_bound"][0]), 32**0.5, places=9)
        # Any FP16 numbers have squares that fp32 can sum, not so any BF16 numbers.
        self.assertTrue(result.at(format="fp16")["stream_certified"])
        self.assertFalse(result.at(format="bf16")["stream_certified"])
        self.assertIn("squares", result.at(format="bf16")["stream_reason"])

    def test_a_norm_behind_a_stream_beyond_1e154_is_not_bounded_by_0(self):
        keys = ["model.placement=none", "model.final_norm=true", "model.layers=6", "model.width=32", "model.heads=2",
                "model.vocab=64", "init.scheme=lecun", "input.kind=tokens", "input.tokens=8"]  # fmt: skip
        result, code = self.certify(*(x for k in keys for x in ("--set", k)), "--measure")
        self.assertEqual((code, "exceeded" in result), (0, False))
        output = result.at(signal="output", place=12)
        self.assertGreater(output["measured"], 1)
        self.assertGreaterEqual(output["bound"], output["measured"])
        self.assertFalse(any(result["everywhere_certified"]))

    def test_a_run_that_overflows_its_own_format_violates_no_bound(self):
        keys = ["model.placement={beta = 1e30}", "model.layers=2", "init.scheme=lecun", "input.kind=tokens"]
        huge = ["--config", self.config, *(x for k in keys for x in ("--set", k)), "--measure"]
        result, code = self.certify(*huge, "--dtype", "f32")
        self.assertEqual((code, "exceeded" in result), (0, False))
        self.assertEqual(result["overflowed"], "hidden, layer 0 MLP, feature 2")
        self.assertIn("fp32 overflowed at hidden, layer 0 MLP, feature 2, as its certificate allows",
                      run("certify", *huge, "--dtype", "f32").stderr)
        result, code = self.certify(*huge, "--dtype", "f64")
        self.assertEqual((code, "exceeded" in result, "overflowed" in result), (0, False, False))

    def test_an_input_that_a_format_does_not_reach(self):
        gaussian = ["--config", self.config, "--set", "input.kind=gaussian", "--set", "model.embedding_norm=true"]
        for largest, certified in ((100, True), (65504, True), (65520, False), (1e150, False), (1e160, False)):
            result, code = self.certify(*gaussian, "--input-maximum", largest)
            self.assertEqual((code, result.at(format="fp16")["stream_certified"]), (0, certified), largest)

    def scaled_checkpoint(self, name, **factors):
        """Writes a checkpoint; each factor multiplies the first tensor whose name contains its key."""
        tensors = tiny_checkpoint.random_tensors(256)
        for part, factor in factors.items():
            _, values = tensors[next(n for n in tensors if part in n)]
            values[:] = [factor * v for v in values]
        tiny_checkpoint.write(self.folder / name, tensors=tensors)
        return self.folder / name

    def test_a_weight_that_a_format_does_not_hold_is_named(self):
        folder = self.scaled_checkpoint("heavy", up_proj=1e6, down_proj=1e-6)
        result, code = self.certify(folder, "--headroom", "fp16")
        self.assertEqual(code, 0)
        named = (r"^model\.layers\.0\.mlp\.up_proj\.weight: entry \d+ = -?\d\S+ exceeds the format's largest number "
                 "65504$")
        fp16 = result.at(format="fp16")
        self.assertRegex(fp16["stream_reason"], named)
        self.assertIsNone(fp16["headroom_c_certified"])
        self.assertRegex(fp16["headroom_reason"], named)
        self.assertNotIn("0x weights", run("certify", folder).stderr)
        done = run("regauge", folder, "--format", "fp16", "--out", self.folder / "made")
        self.assertEqual(done.returncode, 2)
        self.assertIn("model.layers.0.mlp.up_proj.weight: entry ", done.stderr)

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
                self.assertIn(f"{name}.weight: entry 3 = {value}: expected finite weights", done.stderr)
        for name, bad in (("q_proj", "model.layers.0.self_attn.q_proj.weight: entry 3 is nan"),
                          ("down_proj", "model.layers.0.mlp.down_proj.weight: entry 3 is inf")):
            info, code = run_json("info", self.folder / name, "--quiet")
            self.assertEqual((code, info["warnings"]), (0, [bad]))
            self.assertIn(f"warning: {bad}", run("info", self.folder / name).stdout)
        done = run("generate", self.folder / "q_proj", "--tokens", "1,2", "--count", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("logits contain NaN", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""periscope probe and generate: numbers of the public implementation. Usage: probe_references.py BINARY

Real checkpoints are looked for in ../shared beside the project; without them their tests are skipped."""

import json
import pathlib
import tempfile
import unittest

from periscope_process import run, run_json, run_result
from safetensors_file import read_tensors

SHARED = pathlib.Path(__file__).resolve().parents[2] / ".." / "shared"
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures"
STORIES = SHARED / "checkpoints" / "stories260K"


@unittest.skipUnless(STORIES.exists(), f"skipped: {STORIES} is not there")
class Stories260K(unittest.TestCase):
    def setUp(self):
        self.golden = json.loads((STORIES / "golden.json").read_text())

    def test_greedy_text(self):
        for dtype in ("f64", "f32"):
            r, code = run_json("generate", STORIES, "--tokens", "1", "--count", 64, "--dtype", dtype, "--quiet")
            self.assertEqual((code, r["ids"]), (0, self.golden["ids"]))
            self.assertTrue(r["text"].startswith("Once upon a time, there was a little girl named Lily."))

    def test_tokenizer_encodes_the_golden_text(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text"
            r, _ = run_json("generate", STORIES, "--tokens", "1", "--count", 64, "--quiet")
            text.write_text(r["text"])
            encoded, code = run_result("probe", STORIES, "--text", text, "--no-theory", "--quiet")
            self.assertEqual((code, encoded["token_id"]), (0, self.golden["ids"]))

    def test_statistics_of_the_golden_sequence(self):
        ids = ",".join(map(str, self.golden["ids"][: self.golden["n"]]))
        r, code = run_result("probe", STORIES, "--tokens", ids, "--quiet")
        self.assertEqual((code, r["growth_violated"]), (0, False))
        for name, values in (("resid_second_moment", r["second_moment_measured"]),
                             ("resid_max_abs", r["maximum_measured"]),
                             ("branch_second_moment", r.at(site="B_out")["site_second_moment_measured"])):
            self.assertEqual(len(values), len(self.golden[name]))
            for ours, golden in zip(values, self.golden[name], strict=True):
                self.assertAlmostEqual(ours, golden, delta=1e-10 * golden, msg=name)


class References(unittest.TestCase):
    """The command's own dump against the public implementation's numbers, every tensor."""

    def test_bidirectional_model_without_labels_has_no_loss(self):
        r, code = run_result("probe", FIXTURES / "bert-old", "--tokens", "1,2,3", "--quiet")
        self.assertEqual((code, r["loss"]), (0, None))
        self.assertIn("no loss: a bidirectional model needs --labels", r["notes"])
        done = run("probe", FIXTURES / "bert-old", "--tokens", "1,2,3", "--quiet", "--backward")
        self.assertEqual(done.returncode, 2)
        r, code = run_result("probe", FIXTURES / "bert-headless", "--tokens", "1,2,3", "--quiet")
        self.assertEqual((code, r["loss"]), (0, None))
        self.assertIn("no loss: the model has no head", r["notes"])
        done = run("generate", FIXTURES / "bert-old", "--tokens", "1", "--quiet")
        self.assertEqual((done.returncode, "causal" in done.stderr), (2, True))

    def test_gradients_through_berts_head_are_not_predicted(self):
        r, code = run_result("probe", FIXTURES / "bert-old", "--tokens", "1,2,3", "--labels", "2,3,1",
                           "--backward", "--quiet")
        self.assertEqual(code, 0)
        self.assertIn("BERT's head transform is not modelled", r["gradient_theory_unsupported"])
        self.assertIn("variance_at_init", r)
        self.assertNotIn("grad_sq_at_init", r)
        self.assertTrue(all(v > 0 for v in r["grad_sq_measured"]))

    def test_position_table(self):
        ids = ",".join(["1"] * 2000)
        done = run("probe", FIXTURES / "gpt2-bare", "--tokens", ids, "--quiet")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the model's positions", done.stderr)
        done = run("generate", FIXTURES / "gpt2-bare", "--tokens", "1", "--count", 2000, "--quiet")
        self.assertEqual(done.returncode, 2)
        self.assertIn("positions", done.stderr)

    def test_branches_of_peri_from_gains_alone(self):
        r, code = run_result("probe", FIXTURES / "gemma2", "--tokens", "1,2,3,4,5", "--quiet")
        self.assertEqual((code, r.config["stacks"][0]["model"]["placement"]), (0, "peri"))
        tensors = read_tensors(FIXTURES / "gemma2" / "model.safetensors")
        for l, size in enumerate(r["branch_from_gains"]):
            where = "post_attention_layernorm" if l % 2 == 0 else "post_feedforward_layernorm"
            gains = [1.0 + w for w in tensors[f"model.layers.{l // 2}.{where}.weight"]]
            self.assertAlmostEqual(size, sum(g * g for g in gains) / len(gains), delta=1e-12)
            # what the branch can be at most and at least, whatever it leans to
            self.assertLessEqual(r["growth_branch"][l], max(g * g for g in gains))
            self.assertGreater(r["growth_branch"][l], 0.5 * min(g * g for g in gains))


if __name__ == "__main__":
    unittest.main()

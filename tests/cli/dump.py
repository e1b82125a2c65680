"""propagate --backward and --dump: gradients in the results, and the files for outside programs.
Usage: dump.py BINARY"""

import json
import math
import statistics
import unittest

from periscope_process import FolderTest, run, run_result
from safetensors_file import read_safetensors

LAYERS, WIDTH, TOKENS = 2, 32, 6


class Dump(FolderTest):
    def dump(self, *settings, backward=True):
        """-> config, model, activations"""
        target = self.folder / "dump"
        flags = [f for s in settings for f in ("--set", s)] + (["--backward"] if backward else [])
        done = run("propagate", "--config", self.config, "--quiet", "--seeds", 1, "--dump", target, "--force",
                   *flags)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(sorted(p.name for p in target.iterdir()),
                         ["activations.safetensors", "config.json", "model.safetensors"])
        return (json.loads((target / "config.json").read_text()), read_safetensors(target / "model.safetensors"),
                read_safetensors(target / "activations.safetensors"))

    def test_names_and_shapes(self):
        config, model, activations = self.dump("model.placement=peri", "input.kind=tokens", "model.norm=layer",
                                               "model.qk_norm=head", "model.embedding_norm=true")
        self.assertEqual(list(config), ["model", "init", "input"])
        self.assertEqual((config["model"]["placement"], config["model"]["final_norm"]), ("peri", True))
        shapes = {name: shape for name, (shape, _) in model.items()}
        attention = {"q": [32, 32], "k": [16, 32], "v": [16, 32], "o": [32, 32]}
        mlp = {"gate": [48, 32], "up": [48, 32], "down": [32, 48]}
        expected = {"embedding.weight": [512, 32], "unembedding.weight": [512, 32]}
        for l in range(LAYERS):
            expected |= {f"layers.{l}.attention.{n}.weight": s for n, s in attention.items()}
            expected |= {f"layers.{l}.mlp.{n}.weight": s for n, s in mlp.items()}
            expected |= {f"layers.{l}.attention.{n}_norm.gain": [16] for n in "qk"}
            expected |= {f"layers.{l}.{m}.norm_{n}.{p}": [32] for m in ("attention", "mlp") for n in "ab"
                         for p in ("gain", "bias")}
        expected |= {f"{n}_norm.{p}": [32] for n in ("embedding", "final") for p in ("gain", "bias")}
        self.assertEqual(shapes, expected)
        shapes = {name: shape for name, (shape, _) in activations.items()}
        streams = {f"{g}stream.{i}": [TOKENS, WIDTH] for g in ("", "grad.") for i in range(2 * LAYERS + 1)}
        self.assertEqual(shapes, streams | {f"grad.weight.{n}": s for n, s in expected.items()} | {
            "input": [TOKENS, WIDTH], "tokens": [TOKENS], "labels": [TOKENS], "logits": [TOKENS, 512], "loss": [1]})

    def test_names_and_shapes_of_what_is_inside_modules(self):
        for gate, gates in (("head", 2), ("channel", 32)):
            _, model, activations = self.dump("model.placement=pre", "model.norm=layer", "model.v_norm=true",
                                              "model.inner_norm=both", f"model.attention_gate={gate}")
            inside = {"attention.v_norm.gain": [16], "attention.inner_norm.gain": [32],
                      "attention.gate.weight": [gates, 32], "mlp.inner_norm.gain": [48]}
            for l in range(LAYERS):
                for name, shape in inside.items():
                    self.assertEqual(model[f"layers.{l}.{name}"][0], shape)
                    self.assertEqual(activations[f"grad.weight.layers.{l}.{name}"][0], shape)
                    self.assertTrue(any(activations[f"grad.weight.layers.{l}.{name}"][1]), name)
                    self.assertEqual("gain" not in name, any(v != 1 for v in model[f"layers.{l}.{name}"][1]), name)
                self.assertNotIn(f"layers.{l}.attention.v_norm.bias", model)

    def test_input_is_what_the_embedding_table_says(self):
        _, model, activations = self.dump("model.placement=pre", "input.kind=tokens", "model.embedding_norm=true")
        table, tokens = model["embedding.weight"][1], activations["tokens"][1]
        rows = [table[t * WIDTH + j] for t in tokens for j in range(WIDTH)]
        self.assertEqual(rows, list(activations["input"][1]))
        self.assertNotEqual(rows, list(activations["stream.0"][1]), "input is before the embedding norm")

    def test_loss_and_unembedding_gradient_follow_from_the_logits(self):
        _, _, activations = self.dump("model.placement=post", "model.vocab=11")
        logits, labels = activations["logits"][1], activations["labels"][1]
        output = activations["stream.4"][1]  # Post-LN has no final norm
        loss, gradient = 0.0, [0.0] * (11 * WIDTH)
        for t in range(TOKENS):
            p = [math.exp(z) for z in logits[11 * t:11 * t + 11]]
            p = [v / sum(p) for v in p]
            loss -= math.log(p[labels[t]]) / TOKENS
            for v in range(11):
                for j in range(WIDTH):
                    gradient[v * WIDTH + j] += (p[v] - (v == labels[t])) / TOKENS * output[t * WIDTH + j]
        self.assertAlmostEqual(activations["loss"][1][0], loss, delta=1e-13)
        for ours, by_hand in zip(activations["grad.weight.unembedding.weight"][1], gradient, strict=True):
            self.assertAlmostEqual(ours, by_hand, delta=1e-13)

    def test_without_backward_there_are_no_gradients(self):
        _, _, activations = self.dump("model.placement=pre", backward=False)
        self.assertFalse([name for name in activations if name.startswith("grad")])
        self.assertIn("loss", activations)
        self.assertNotIn("tokens", activations)

    def test_labels(self):
        _, _, activations = self.dump("model.placement=pre", "model.vocab=7", "input.tokens=64")
        self.assertEqual(set(activations["labels"][1]), set(range(7)), "uniform random ids")
        _, _, activations = self.dump("model.placement=pre", "model.unembedding=false")
        self.assertTrue(all(0 <= v < WIDTH for v in activations["labels"][1]), "labels of the output itself")
        self.assertEqual(activations["logits"][0], [TOKENS, WIDTH])
        text = self.folder / "words.txt"
        text.write_bytes(b"periscope")
        _, _, activations = self.dump("model.placement=pre", "input.kind=text", f"input.path={text}")
        self.assertEqual(bytes(list(activations["tokens"][1])), b"perisc")
        self.assertEqual(bytes(list(activations["labels"][1])), b"erisco")

    def test_a_label_that_is_no_class(self):
        text = self.folder / "words.txt"
        text.write_bytes(b"periscope")
        done = run("propagate", "--config", self.config, "--backward", "--set", "input.kind=text", "--set",
                   f"input.path={text}", "--set", "model.unembedding=false")
        self.assertEqual(done.returncode, 2)
        self.assertIn("model.width = 32: expected more than 115", done.stderr)

    def test_one_stack_only(self):
        for setting in ('model.placement=["pre","peri"]', 'input.kind=["gaussian","tokens"]'):
            done = run("propagate", "--config", self.config, "--dump", self.folder / "dump", "--set",
                       "model.placement=pre", "--set", setting)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--dump", done.stderr)
            self.assertIn("one placement", done.stderr)
            self.assertFalse((self.folder / "dump").exists())

    def test_a_dump_is_repeatable_and_follows_the_seed(self):
        first = self.dump("model.placement=pre")
        self.assertEqual(first, self.dump("model.placement=pre"))
        self.assertNotEqual(first, self.dump("model.placement=pre", "run.seed=5"))

    def test_gradients_in_json(self):
        f64 = ("propagate", "--config", self.config, "--dtype", "f64", "--quiet")
        result, code = run_result(*f64, "--backward")
        self.assertEqual(code, 0)
        matrices = ["q", "k", "v", "o", "gate", "up", "down"]
        self.assertEqual(result["weight"], matrices)
        for stack in result.stacks():
            for name in ("grad_sq_measured", "grad_sq_stderr", "log_grad_sq_measured", "log_grad_sq_stderr"):
                self.assertEqual(len(stack[name]), 2 * LAYERS + 1)
                self.assertTrue(all(math.isfinite(v) for v in stack[name]), name)
            for name in ("weight_grad_sq_measured", "weight_log_grad_sq_measured"):
                self.assertTrue(all(math.isfinite(v) for matrix in stack[name] for v in matrix), name)
        gated, _ = run_result(*f64, "--backward", "--set", "model.attention_gate=head")
        self.assertEqual(gated["weight"], [*matrices, "attention_gate"])
        for stack in gated.stacks():
            self.assertTrue(all(v > 0 for v in stack.at(weight="attention_gate")["weight_grad_sq_predicted"]))
        forward, _ = run_result(*f64)
        # The limit is predicted from as many sampled patterns as the gradients' precision takes: another sample.
        for version in ("measured", "stderr", "predicted", "predicted_stderr"):
            self.assertEqual(forward[f"variance_{version}"], result[f"variance_{version}"])
        self.assertNotIn("grad_sq_measured", forward)

    def test_statistics_are_those_of_the_dump(self):
        result, _ = run_result("propagate", "--config", self.config, "--dtype", "f64", "--quiet", "--backward", "--set",
                               "model.placement=pre", "--seeds", 1)
        _, _, activations = self.dump("model.placement=pre")
        cell, = result.stacks()
        for depth in range(len(cell["variance_measured"])):
            stream = activations[f"stream.{depth}"][1]
            width = len(stream) // TOKENS
            tokens = [stream[t * width:(t + 1) * width] for t in range(TOKENS)]
            squares = sum(v * v for v in stream) / len(stream)
            variance = sum(statistics.pvariance(token) for token in tokens) / TOKENS
            self.assertNotEqual(variance, squares)
            for name, value in [("second_moment", squares), ("variance", variance)]:
                self.assertAlmostEqual(cell[f"{name}_measured"][depth], value, delta=1e-12 * value)
        for depth, value in enumerate(cell["grad_sq_measured"]):
            squares = sum(v * v for v in activations[f"grad.stream.{depth}"][1])
            self.assertAlmostEqual(value, squares / TOKENS, delta=1e-12 * value)
        for layer, value in enumerate(cell.at(weight="down")["weight_grad_sq_measured"]):
            squares = sum(v * v for v in activations[f"grad.weight.layers.{layer}.mlp.down.weight"][1])
            self.assertAlmostEqual(value, squares, delta=1e-12 * value)

    def test_threads_do_not_change_gradients(self):
        one, two = (run_result("propagate", "--config", self.config, "--quiet", "--backward", "--threads", threads)[0]
                    for threads in (1, 2))  # fmt: skip
        self.assertEqual(one.data(), two.data(), "bit for bit")


if __name__ == "__main__":
    unittest.main()

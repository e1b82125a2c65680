"""train --export: what is written computes what was trained. Usage: trained_models.py BINARY"""

import json
import unittest

from periscope_process import contents, run, run_json, run_result, sets
from small_training import TrainTest

TOKENS = 8
TEXT = b"The quick brown fox jumps over the lazy dog, twice a day; and the dog does not mind it so."
LAYOUTS = {"llama": ("pre", "none"), "qwen3": ("pre", "head"), "gemma2": ("peri", "none"), "gemma3": ("peri", "head"),
           "olmo2": ("b-only", "full")}


class TrainedModels(TrainTest):
    def setUp(self):
        super().setUp()
        self.assertEqual(len(TEXT), 90)  # so that the validation part, a tenth, is one window
        self.corpus = self.folder / "corpus"
        self.corpus.write_bytes(TEXT)

    def test_probe_of_an_export_sees_what_the_recorder_saw(self):
        """The stream at every depth, on the one held-out window: every weight, gain and rule counts in it."""
        ids = ",".join(str(byte) for byte in TEXT[-TOKENS - 1:-1])
        named = {"post": "post", "deepnorm": "deepnorm", "residual-dual": "residual-dual", "lns": "lns",
                 "mine": "{name='mine',B=true,C=true,alpha=0.5}"}
        own = [("periscope", name, placement, "head", "rms") for name, placement in named.items()]
        own += [("periscope", placement, placement, "none", norm) for placement, norm in
                (("pre", "dyt"), ("peri", "derf"), ("post", "l2"), ("parallel", "rms"), ("parallel-two", "layer"))]
        for layout, name, placement, qk_norm, norm in [(k, p, p, q, "rms") for k, (p, q) in LAYOUTS.items()] + own:
            with self.subTest(layout=layout, placement=placement, norm=norm):
                models = self.folder / (layout + name + norm)
                trained = self.result("--corpus", self.corpus, "--export", models, "--dtype", "f64",
                                      *sets("model.vocab=256", f"model.placement={placement}",
                                            f"model.qk_norm={qk_norm}", f"model.norm={norm}",
                                            f"input.tokens={TOKENS}", "train.lr=0.02", "train.record_sequences=1"))
                model = models / f"{name}-seed0"
                probed, code = run_result("probe", model, "--tokens", ids, "--quiet", "--dtype", "f64")
                self.assertEqual(code, 0)
                self.assertEqual(probed["family"], layout)
                for statistic in ("second_moment", "maximum"):
                    seen = trained[f"{statistic}_measured"][0][0][-1]
                    found = probed[f"{statistic}_measured"]
                    self.assertEqual(len(found), len(seen))
                    for a, b in zip(found, seen, strict=True):
                        self.assertAlmostEqual(a / b, 1.0, delta=1e-10)

    def test_other_commands_read_what_has_names_of_its_own(self):
        settings = sets("model.placement=post", "model.norm=layer", "model.mlp=gelu", "model.embedding_norm=true")
        self.assertEqual(run(*self.command("--quiet", "--export", self.folder / "models", *settings)).returncode, 0)
        model = self.folder / "models" / "post-seed0"
        info, code = run_json("info", model)
        self.assertEqual((code, info["family"], info["placement"]["name"]), (0, "periscope", "post"))
        for command in (("certify", model), ("generate", model, "--tokens", "1,2", "--count", "2"),
                        ("probe", model, "--tokens", "1,2", "--backward")):
            done = run(*command, "--quiet")
            self.assertEqual(done.returncode, 0, (command, done.stderr))
        config = json.loads((model / "config.json").read_text())
        for key, value, words in (("mlp", "gelus", "gelu, silu"), ("placement", "past", "one of none, post"),
                                  ("layers", 0, "from 1 to"), ("layers", 10**6, "from 1 to"), ("width", 7, "expected"),
                                  ("gamma", "x", "a number"), ("norm_eps", None, "null: expected a number"),
                                  ("strange", 1, '"model.strange"')):
            with self.subTest(key=key, value=value):
                changed = config | {"model": config["model"] | {key: value}}
                (model / "config.json").write_text(json.dumps(changed))
                done = run("info", model)
                self.assertEqual(done.returncode, 3)
                self.assertIn(words, done.stderr)

    def test_info_says_that_layers_differ_and_names_what_one_has(self):
        for inside, name in (('qk_norm="head"', "attention.q_norm.gain"), ("v_norm=true", ""),  # which has no gain
                             ('inner_norm="o"', "attention.inner_norm.gain"),
                             ('attention_gate="head"', "attention.gate.weight")):  # fmt: skip
            with self.subTest(inside=inside):
                models = self.folder / inside[:5]
                done = run(*self.command("--quiet", "--export", models,
                                         *sets(f'model.layer_placement=[{{layers="1",{inside}}}]')))  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stderr)
                for model in models.iterdir():
                    text = run("info", model).stdout
                    self.assertRegex(text, r"others\s+differ")
                    self.assertIn(name, text)

    def test_a_model_that_is_there_is_refused_before_anything_is_trained(self):
        models = self.folder / "models"
        flags = ("--quiet", "--export", models, "--out", self.folder / "out")
        self.assertEqual(run(*self.command(*flags)).returncode, 0)
        before = contents(models / "pre-seed0")
        done = run(*self.command(*flags))
        self.assertEqual(done.returncode, 2)
        self.assertIn("pre-seed0 exists; --force", done.stderr)
        self.assertEqual(contents(models / "pre-seed0"), before)


if __name__ == "__main__":
    unittest.main()

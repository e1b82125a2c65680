"""Every gradient experiment once, small: exit codes, JSON, result files. Usage: gradients.py BINARY"""

import unittest

from periscope_process import SMALL, SWEEPS, FolderTest, run, run_result


class Gradients(FolderTest):
    STACK = SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]') + SWEEPS

    def experiment(self, name, *flags):
        return run_result("gradients", name, "--config", self.config, "--quiet", "--dtype", "f64", *flags)

    def test_a_theory_that_is_wrong_is_rejected(self):
        # Width 4 without a finite-width term: the limit of infinite width is wrong. (How the verdicts on slopes and
        # paths fail is tested in tests/agreement: at this width their spread over seeds allows almost anything.)
        narrow = ["--set", "model.width=4", "--set", "model.heads=1", "--set", "model.kv_heads=1", "--set",
                  "model.head_dim=4", "--set", "model.mlp_width=4", "--set", "init.scheme=he", "--set",
                  "agreement.finite_width_gradient=0.0", "--set", "model.layers=6", "--set", "init.qk_factor=2.0",
                  "--set", "theory.gradient_tolerance=0.1", "--seeds", 80]
        # There the score path's gradients fluctuate too much over seeds for any verdict; at width 8 they do not.
        wider = [*narrow[:-1], 200, "--set", "model.width=8", "--set", "model.head_dim=8", "--set", "model.mlp_width=8",
                 "--set", "init.scheme=lecun", "--set", "model.layers=2"]  # fmt: skip
        for name, settings, wanted in (("score-path", wider, 4), ("score-path", narrow, 0), ("crossover", narrow, 4)):
            with self.subTest(experiment=name, settings=settings):
                result, code = self.experiment(name, *settings)
                self.assertEqual(code, wanted)
                if wanted == 0:
                    self.assertIn("fluctuate too much over seeds", "".join(result["verdict_reason"]))

    def test_theory_is_told_something_else_than_is_measured(self):
        told = {"depth": "init.down_factor=3", "attenuation": "theory.fault=no-score-path",
                "identity-path": "theory.fault=no-score-path", "score-path": "init.qk_factor=3",
                "crossover": "theory.fault=beta0"}
        few = ["--set", 'model.placement=["pre", "peri"]', "--set", "gradients.qk_factors=[1.0]", "--set",
               "gradients.down_factors=[0.05, 5.0]", "--set", "theory.gradient_tolerance=0.5"]
        for name in told:
            with self.subTest(experiment=name):
                truth = self.experiment(name, *few)[0].data()
                told_wrong, code = self.experiment(name, *few, "--theory-set", told[name])
                self.assertEqual(code, 0)
                wrong = told_wrong.data()
                changed = {k for k in truth.keys() | wrong.keys() if truth.get(k) != wrong.get(k)}
                self.assertTrue(any(k.endswith("_predicted") for k in changed), changed)
                for key in changed:
                    self.assertNotRegex(key, "(_measured|(?<!_predicted)_stderr)$|^placement$",
                                        "what is measured stays")

    def test_a_wrong_theory_told_to_it_is_rejected(self):
        wide = ["--set", "model.placement=pre", "--set", "model.width=64", "--set", "gradients.layers=[2,4,8]",
                "--seeds", 24]
        self.assertEqual(self.experiment("depth", *wide)[1], 0)
        result, code = self.experiment("depth", *wide, "--theory-set", "model.placement=post")
        self.assertEqual(code, 4)
        self.assertEqual(result.fact("theory_override")["differences"][0]["model.placement"],
                         {"measured": "pre", "assumed": "post"})
        done = run("gradients", "depth", "--config", self.config, "--set", "gradients.layers=[1,2,3]", "--theory-set",
                   "model.placement=post")
        self.assertIn("THEORY OVERRIDE: ", done.stderr)

    def test_identity_and_its_bound(self):
        result, _ = self.experiment("identity-path")
        for error, bound in zip(result["identity_error"], result["identity_bound"], strict=True):
            self.assertLess(error, bound)
            self.assertLess(bound, 1e-9)
        self.assertEqual(result["skip_share_measured"][1][-1], 1.0)

    def test_uniform_attention_has_no_score_path(self):
        result, code = self.experiment("score-path", "--set", "init.qk_factor=0.0")
        self.assertEqual(code, 0)
        for version in ("measured", "predicted"):
            self.assertEqual({v for row in result[f"score_share_{version}"] for v in row}, {0.0})
        self.assertEqual(result["log_grad_sq_predicted"], result["log_grad_sq_without_scores_predicted"])


if __name__ == "__main__":
    unittest.main()

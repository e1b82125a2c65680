"""Every gradient experiment once, small: exit codes, JSON, result files. Usage: gradients.py BINARY"""

import unittest

from periscope_process import SMALL, SWEEPS, FolderTest, run, run_result

FILES = {"depth": "gradient_depth", "attenuation": "gradient_attenuation", "identity-path": "identity_path",
         "score-path": "score_path", "crossover": "gradient_crossover"}


class Gradients(FolderTest):
    STACK = SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]') + SWEEPS

    def experiment(self, name, *flags):
        return run_result("gradients", name, "--config", self.config, "--quiet", "--dtype", "f64", *flags)

    def test_every_experiment_agrees_and_writes_its_file(self):
        for name, file in FILES.items():
            with self.subTest(experiment=name):
                out = self.folder / name
                result, code = self.experiment(name, "--out", out)
                self.assertEqual(code, 0)
                self.assertEqual(sorted(p.name for p in out.iterdir()), ["cache", f"{file}.nc"])
                placements = {"crossover": ["post", "peri"], "attenuation": ["post", "pre", "peri"] * 2}
                self.assertEqual(result["placement"], placements.get(name, ["post", "pre", "peri"]))

    def test_tables_go_to_stderr(self):
        for name in FILES:
            done = run("gradients", name, "--config", self.config)
            self.assertEqual((done.returncode, done.stdout), (0, ""), name)
            for word in ("placement", "peri"):
                self.assertIn(word, done.stderr)
            self.assertRegex(done.stderr, "agrees|inconclusive")
            layers = "1 to 4 layers" if name == "depth" else "2 layers"
            self.assertIn(f"in the regime σ√D 1, {layers}, width 32, 6 tokens.", done.stderr)

    def test_threads_do_not_change_results(self):
        for name in FILES:
            one, two = (self.experiment(name, "--threads", threads)[0].data() for threads in (1, 2))
            self.assertEqual(one, two, name)

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
        for name in FILES:
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
        self.assertEqual(result.fact("theory_told")["differences"][0]["model.placement"],
                         {"measured": "pre", "told": "post"})
        done = run("gradients", "depth", "--config", self.config, "--set", "gradients.layers=[1,2,3]", "--theory-set",
                   "model.placement=post")
        self.assertIn("THEORY WAS TOLD: ", done.stderr)

    def test_what_theory_cannot_be_told_is_refused(self):
        for name, setting, words in (("depth", "model.layers=3", ["model.layers = 3", "expected 2"]),
                                     ("depth", "gradients.layers=[1,2,3]", ["model, init, input or theory"]),
                                     ("attenuation", "init.qk_factor=2", ["init.qk_factor", "gradients.qk_factors"]),
                                     ("crossover", "init.down_factor=2",
                                      ["init.down_factor", "gradients.down_factors"]),
                                     ("identity-path", "model.placement=residual-dual",
                                      ["residual-dual", "one stream"]),
                                     ("depth", "theory.fault=query-gradient", ["query-gradient", "depth"]),
                                     ("crossover", "theory.fault=no-score-path", ["no-score-path", "crossover"])):
            with self.subTest(experiment=name, setting=setting):
                done = run("gradients", name, "--config", self.config, "--theory-set", setting)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

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

    def test_what_cannot_be_run_is_refused(self):
        for name, setting, words in (("depth", "gradients.layers=[1,2]", ["gradients.layers", "at least 3"]),
                                     ("depth", "gradients.layers=[4,2,1]", ["gradients.layers", "rising"]),
                                     ("crossover", "model.placement=peri", ["model.placement", "pre"]),
                                     ("crossover", "gradients.down_factors=[0.0,1.0]", ["gradients.down_factors"]),
                                     ("attenuation", "gradients.qk_factors=[-1.0]", ["init.qk_factor = -1"]),
                                     ("identity-path", "model.placement=residual-dual",
                                      ["residual-dual", "one stream"])):
            done = run("gradients", name, "--config", self.config, "--set", setting)
            self.assertEqual(done.returncode, 2, name)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            for word in words:
                self.assertIn(word, done.stderr)
        self.assertEqual(run("gradients").returncode, 2)

    def test_a_theory_that_overflows_is_no_verdict(self):
        # Each layer multiplies squares by about 1e100: the fourth sublayer is beyond all numbers.
        blow_up = ["--set", 'model.placement=["none","pre"]', "--set", "model.layers=4", "--set", "init.scheme=scaled",
                   "--set", "init.factor=1e20", "--set", "gradients.layers=[2,3,4]"]
        for name in FILES:
            with self.subTest(experiment=name):
                result, code = self.experiment(name, *blow_up)
                self.assertEqual(code, 0)
                self.assertIn("overflows", result["refusal"][0])

    def test_a_theory_that_overflows_only_beyond_the_measured_depths(self):
        result, code = self.experiment("depth", "--set", "model.placement=none", "--set", "init.scheme=he",
                                          "--set", "gradients.layers=[1,2,4]")
        self.assertEqual((code, result["refusal"][0]), (0, ""))
        predicted = result["log_gradient_predicted"][0]
        self.assertNotIn(None, predicted[:3])
        self.assertEqual(set(predicted[3:]), {None})
        self.assertEqual(result["limit_exponent"], [None], "the exponent's limit is unknown")


if __name__ == "__main__":
    unittest.main()

"""A theory that is told something wrong, or has a mistake planted in it. Usage: wrong_theories.py BINARY"""

import math
import pathlib
import unittest

from periscope_process import FolderTest, run, run_result, sets

CLUSTERING = pathlib.Path(__file__).parents[2] / "experiments/configs/attention_clustering.toml"


# Settings of an initialisation, and a wrong override of the theory.
INITIALISATIONS = [
    (("init.residual=1/sqrt(2L)",), "init.residual=1"),
    (("init.residual=1/(l+1)",), "init.residual=1/sqrt(2L)"),
    (("init.o_factor=2",), "init.o_factor=1"),
    (("init.scheme=mitchell",), "init.scheme=lecun"),
    (("init.truncation=1",), "init.truncation=0"),
    (("init.embedding_std=2", "input.kind=tokens"), "init.embedding_std=1"),
    (("init.head_std=0.5",), "init.head_std=0.1"),
    (("init.residual=1/sqrt(2L)", "init.embedding_std=0.5", "init.position_std=0.3", "init.head_std=0.5",
      "init.truncation=2", "input.kind=tokens"), "init.position_std=1"),
]  # fmt: skip


class Confront(FolderTest):
    def propagate(self, *flags):
        return run_result("propagate", "--config", self.config, "--quiet", *flags)

    def test_initialisations_agree_and_wrong_ones_do_not(self):
        for settings, wrong in INITIALISATIONS:
            with self.subTest(settings=settings):
                words = sets(*settings, "model.placement=pre", "run.seeds=16")
                result, code = self.propagate("--backward", *words)
                self.assertEqual(code, 0, result["worst_test"])
                self.assertNotEqual(result["verdict"], [["disagrees"]])
                result, code = self.propagate("--backward", *words, "--theory-set", wrong)
                self.assertEqual((code, result["verdict"]), (4, [["disagrees"]]))

    def test_residual_is_o_factor_and_down_factor_together(self):
        words = ("--backward", "--set", "model.layers=3", "--set", "model.placement=pre")
        factor = repr(1.0 / math.sqrt(6.0))
        one, _ = self.propagate(*words, "--set", "init.residual=1/sqrt(2L)")
        two, _ = self.propagate(*words, "--set", f"init.o_factor={factor}", "--set", f"init.down_factor={factor}")
        self.assertEqual(one.data(), two.data())
        plain, _ = self.propagate(*words)
        self.assertNotEqual(one.data(), plain.data())

    def test_tokens_cluster_at_the_speed_that_the_place_of_the_norm_sets(self):
        words = ["--config", CLUSTERING, "--set", "model.layers=32"]
        four = 'model.placement=["post","pre","peri","lns"]'
        stacks = run_result("theory", *words, "--set", four, "--quiet")[0].stacks()
        apart = {s["placement"]: [1 - s["token_cosine_predicted"][2 * layer] for layer in range(33)] for s in stacks}
        for layer in range(14, 20):
            rate = math.log(apart["post"][layer] / apart["post"][layer + 1])
            self.assertAlmostEqual(rate, math.log(2), delta=1e-3)

        def power(placement):
            return math.log(apart[placement][16] / apart[placement][32]) / math.log(2)

        self.assertAlmostEqual(power("pre"), 1.16, delta=0.05)  # 1.09 from 32 to 64 layers
        self.assertAlmostEqual(power("peri"), 0.95, delta=0.05)
        self.assertLess(power("lns"), 0.3)
        self.assertLess(apart["peri"][1], apart["pre"][1] - 0.1)
        words += ["--set", "model.placement=pre", "--set", "model.layers=6"]
        result, code = run_result("propagate", *words, "--quiet")
        self.assertEqual(code, 0, result["worst_test"])
        (stack,) = result.stacks()
        measured, predicted = (1 - stack[f"token_cosine_{kind}"][-1] for kind in ("measured", "predicted"))
        self.assertAlmostEqual(measured, predicted, delta=5 * stack["token_cosine_stderr"][-1])

    def test_an_alpha_that_is_5_percent_off_is_rejected(self):
        """DyT and Derf have no exact chain: the limit's allowance has to be small enough to notice it."""
        for norm in ("dyt", "derf"):
            settings = (f"model.norm={norm}", "model.placement=pre", "model.layers=2", "model.width=1024",
                        "model.heads=16", "model.mlp_width=2048", "init.scheme=lecun", "input.tokens=16",
                        "input.correlation=0.1", "run.seeds=16", "run.weights=matrix-free")  # fmt: skip
            stack = sets(*settings)
            self.assertEqual(run("propagate", *stack, "--quiet").returncode, 0, norm)
            wrong = run("propagate", *stack, "--quiet", "--theory-set", "model.norm_alpha=0.525")
            self.assertEqual(wrong.returncode, 4, norm)


if __name__ == "__main__":
    unittest.main()

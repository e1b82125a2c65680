"""A theory that is told something wrong, or has a mistake planted in it. Usage: confront.py BINARY"""

import json
import math
import os
import pathlib
import signal
import subprocess
import time
import unittest

from periscope_process import BINARY, FolderTest, Result, cached, run, run_result, sets, start_program

CLUSTERING = pathlib.Path(__file__).parents[2] / "experiments/configs/attention_clustering.toml"
# A list of two wrong theories, one of which nobody could reject, and a configuration for master seeds.
LIST = """
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=16", "agreement.familywise_error=0.01"]
master_seeds = true

[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
placements = ["pre"]
"""
UNSEEN = """
[[theory]]
name = "W_down a millionth off"
set = ["init.down_factor=1.000001"]
config = "small"
"""
LADDER = ["--set", "ladder.widths=[16,24,32,48,64]", "--set", "ladder.seeds=32", "--set", "model.width=16",
          "--set", "model.heads=2", "--set", "model.kv_heads=2", "--set", "model.head_dim=8", "--set",
          "model.mlp_width=32", "--quiet"]

REFUSED = [
    ("run.seeds=3", ["--theory-set run.seeds=3", "model, init, input or theory"]),
    ("model.layers=3", ["model.layers = 3", "expected 2"]),
    ("input.tokens=4", ["input.tokens = 4", "expected 6"]),
    ("input.kind=tokens", ["input.kind = tokens", "expected gaussian"]),
    ('model.placement=["pre","peri","post"]', ["model.placement", "3 values", "2"]),
    ("model.rpe=false", ["unknown key model.rpe", "nearest is model.rope"]),
    ("model.rope=3", ["model.rope = 3", "true or false"]),
    ("model.rope", ["--theory-set model.rope", "key=value"]),
    ("theory.fault=beta", ["theory.fault", "beta0", "depth-constant"]),
    ("theory.fault=query-gradient", ["theory.fault", "run.backward"]),
    ("theory.fault=depth-constant", ["theory.fault", "lns"]),
    ("theory.fault=without-v-norm", ["theory.fault", "model.v_norm"]),
    ("theory.fault=without-gate", ["theory.fault", "model.attention_gate"]),
    ("theory.fault=norm-alpha", ["theory.fault", "dyt", "derf"]),
]


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
                self.assertEqual(code, 0, result["rejected_by"])
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
        self.assertEqual(code, 0, result["rejected_by"])
        (stack,) = result.stacks()
        measured, predicted = (1 - stack[f"token_cosine_{kind}"][-1] for kind in ("measured", "predicted"))
        self.assertAlmostEqual(measured, predicted, delta=5 * stack["token_cosine_stderr"][-1])

    def test_theory_is_told_something_else_than_is_measured(self):
        truth, _ = self.propagate()
        told, code = self.propagate("--theory-set", "init.down_factor=3", "--theory-set", "model.rope=false")
        self.assertEqual(code, 4)
        self.assertEqual(truth["second_moment_measured"], told["second_moment_measured"], "what is measured stays")
        pre = [r.stacks()[0].at(site="f_out")["site_second_moment_predicted"] for r in (truth, told)]
        self.assertAlmostEqual(pre[1][1] / pre[0][1], 9.0, delta=0.5)
        self.assertNotIn("theory_told", truth.attrs)
        self.assertEqual(told.fact("theory_told")["set"], ["init.down_factor=3", "model.rope=false"])
        self.assertEqual(told.fact("theory_told")["differences"][1],
                         {"model.rope": {"measured": True, "told": False},
                          "init.down_factor": {"measured": 1.0, "told": 3.0}})
        self.assertNotEqual(truth.attrs["config_sha256"], told.attrs["config_sha256"])

    def test_one_placement_is_told_of_all(self):
        told, _ = self.propagate("--theory-set", "model.placement=post")
        for stack in told.stacks():
            self.assertAlmostEqual(stack["second_moment_predicted"][-1], 1.0, delta=1e-5)

    def test_the_table_and_the_file_say_so(self):
        done = run("propagate", "--config", self.config, "--set", "theory.fault=attention-output", "--out", self.folder)
        self.assertIn("PLANTED FAULT", done.stderr)
        self.assertIn("attention-output", done.stderr)
        done = run("propagate", "--config", self.config, "--theory-set", "model.gamma=2.0")
        self.assertIn("THEORY WAS TOLD: model.gamma = 2.0 (measured: 1.0)", done.stderr)
        self.assertNotIn("PLANTED", done.stderr)
        result, _ = self.propagate("--set", "theory.fault=beta0")
        self.assertEqual(result.fact("theory_told")["fault"], "beta0")
        self.assertIn(b"attention-output", (self.folder / "propagate.nc").read_bytes())

    def test_theory_costs_no_more_than_the_measurement_and_says_what_was_left_out(self):
        flags = ["--set", "model.placement=pre", "--set", "input.tokens=2400", "--set", "model.layers=1", "--set",
                 "init.qk_factor=0.0", "--set", "run.seeds=4"]
        done = run("propagate", "--config", self.config, "--json", *flags)
        stack = Result(json.loads(done.stdout)).stacks()[0]
        self.assertIn("signals are predicted at infinite width", stack["theory_left_out"])
        self.assertIsNone(stack.get("theory_finite_width_replicates"))
        self.assertIn("left out: pre, gaussian: ", done.stderr)
        small, _ = self.propagate()
        self.assertNotIn("theory_left_out", small)
        self.assertGreaterEqual(small["theory_finite_width_replicates"][0][0], 32)

    def test_a_ladder_is_told_too(self):
        flags = ["--quiet", "--set", "ladder.widths=[32,64,96,128]", "--set", "ladder.seeds=16"]
        truth, _ = run_result("ladder", "--config", self.config, *flags)
        told, _ = run_result("ladder", "--config", self.config, *flags, "--theory-set", "init.down_factor=3")
        self.assertLess(told["bias"][0][-1], truth["bias"][0][-1] - 0.1)

    def test_what_cannot_be_compared_is_refused(self):
        for setting, words in REFUSED:
            with self.subTest(setting=setting):
                done = run("propagate", "--config", self.config, "--theory-set", setting)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, "one line")
                for word in words:
                    self.assertIn(word, done.stderr)

    def power(self, text, *flags):
        (self.folder / "list.toml").write_text(text)
        return run_result("power", "--config", self.folder / "list.toml", "--quiet", *flags)

    def test_power_says_which_stack_rejects_what(self):
        result, code = self.power(LIST, "--out", self.folder)
        self.assertEqual(code, 0)
        right, wrong = result.each("row")
        self.assertEqual([right[name] for name in ("theory", "theory_is_true", "theory_rejected")],
                         ["true", True, False])
        self.assertEqual([wrong[name] for name in ("theory", "configuration", "theory_rejected")],
                         ["strong W_down", "small", True])
        self.assertEqual([name for name in wrong["stack_placement"] if name], ["pre"], "told to this stack alone")
        self.assertTrue(wrong["by"].startswith("pre gaussian: second_moment f_out"), wrong["by"])
        self.assertGreater(wrong["margin"], 1.0)
        self.assertTrue((self.folder / "power.nc").exists())

    def test_an_alpha_that_is_5_percent_off_is_rejected(self):
        """DyT and Derf have no exact chain: the limit's allowance has to be small enough to notice it."""
        for norm in ("dyt", "derf"):
            settings = (f"model.norm={norm}", "model.placement=pre", "model.layers=2", "model.width=1024",
                        "model.heads=16", "model.mlp_width=2048", "init.scheme=lecun", "input.tokens=16",
                        "input.correlation=0.1", "run.seeds=16", "run.weights=matrix-free")  # fmt: skip
            stack = sets(*settings)
            self.assertEqual(run("propagate", *stack, "--quiet").returncode, 0, norm)
            wrong = run("propagate", *stack, "--quiet", "--set", "theory.fault=norm-alpha")
            self.assertEqual(wrong.returncode, 4, norm)

    def test_power_fails_where_a_wrong_theory_passes(self):
        result, code = self.power(LIST + UNSEEN)
        self.assertEqual(code, 4)
        self.assertEqual(result["theory_rejected"], [False, True, False])
        self.assertIn("PASSES", run("power", "--config", self.folder / "list.toml").stderr)

    def test_power_fails_where_the_right_theory_is_rejected(self):
        # The limit of infinite width with nothing allowed, at width 16: not the truth that is measured.
        spoiled = ["--set", "theory.finite_width=false", "--set", "agreement.finite_width=0.0", "--set",
                   "agreement.finite_width_cosine=0.0", "--set", "init.qk_factor=4.0"]
        result, code = self.power(LIST, "--seeds", 300, *spoiled)
        self.assertEqual((code, result["theory_rejected"][0]), (4, True))

    def test_lists_that_cannot_be_used(self):
        for text, words in [("", ["no [[config]]"]), (LIST.replace("small.toml", "none.toml"), ["none.toml"]),
                            (LIST.replace('config = "small"', 'config = "big"'), ["strong W_down", '"big"']),
                            (LIST.replace("init.down_factor=2", "init.down=2"), ["unknown key init.down"]),
                            (LIST.replace("placements =", "placement ="), ["unknown key theory.placement"]),
                            (LIST.replace('["pre"]', '["post"]'), ["strong W_down", "no stack"])]:
            with self.subTest(words=words):
                (self.folder / "list.toml").write_text(text)
                done = run("power", "--config", self.folder / "list.toml", "--quiet")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def master_seeds(self, count, out, *flags):
        (self.folder / "list.toml").write_text(LIST)
        return [str(BINARY), "power", "--config", str(self.folder / "list.toml"), "--master-seeds", str(count),
                "--json", "--quiet", "--out", str(out), *map(str, flags)]

    def test_master_seeds_survive_interruption(self):
        whole = subprocess.run(self.master_seeds(12, self.folder / "a", "--threads", 1), capture_output=True, text=True)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        expected = json.loads(whole.stdout)
        self.assertEqual(expected["master_seeds"][0]["runs"], 12)
        self.assertEqual(len({r["seed"] for r in expected["runs"]}), 12)
        out = self.folder / "b"
        for kill in (signal.SIGKILL, signal.SIGTERM):
            before = len(cached(out))
            process = start_program(*self.master_seeds(1000, out, "--threads", 2)[1:], stdout=subprocess.DEVNULL)
            deadline = time.monotonic() + 120
            while len(cached(out)) < before + 2:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(kill)
            self.assertEqual(process.wait(120), -kill if kill == signal.SIGKILL else 75)
        torn = cached(out)[0]
        os.truncate(torn, torn.stat().st_size - 3)
        again = subprocess.run(self.master_seeds(12, out, "--threads", 2), capture_output=True, text=True)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads(again.stdout), expected, "neither interruption nor threads change a result")

    def test_the_ladder_agrees_and_rejects_a_wrong_theory(self):
        result, code = run_result("ladder", "--config", self.config, *LADDER, "--out", self.folder)
        self.assertEqual((code, result["stack_placement"]), (0, ["pre", "peri"]))
        mean = result.at(quantity="second_moment f_out mean over mlp")
        self.assertEqual((len(mean["ladder_measured"]), mean["limit_predicted"]), (5, 1.0))
        self.assertIn("second_moment x_out[4]", result["quantity"])
        self.assertTrue((self.folder / "ladder.nc").exists())
        wrong, code = run_result("ladder", "--config", self.config, *LADDER, "--theory-set", "init.down_factor=2")
        self.assertEqual((code, wrong["stack_verdict"][0]), (4, "disagrees"))
        self.assertEqual(wrong.fact("theory_told")["set"], ["init.down_factor=2"])

    def test_ladders_that_have_no_limit(self):
        for flags, words in [(["ladder.widths=[16,32,64]"], ["ladder.widths", "at least 4"]),
                             (["ladder.widths=[16,64,32,48]"], ["ladder.widths", "grow"]),
                             (["ladder.widths=[16,24,36,48]"], ["ladder.widths", "36"]),
                             (["ladder.widths=[16,32,64,262144]"], ["ladder.widths", "8 times the width 262144"]),
                             (["ladder.seeds=3"], ["ladder.seeds = 3"]),
                             (["init.scheme=normal"], ["init.scheme", "no limit"]),
                             (["run.backward=true", "model.unembedding=false"], ["model.unembedding"])]:
            with self.subTest(flags=flags):
                extra = sets(*flags)
                done = run("ladder", "--config", self.config, *LADDER, *extra)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()

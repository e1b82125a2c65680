"""first-steps: its JSON, exit codes, dumps, and what it goes on from. Usage: first_steps.py BINARY"""

import json
import math
import random
import subprocess
import unittest

from periscope_process import BINARY, FolderTest, contents, run, run_result, start_program
from safetensors_file import read_safetensors

LAYERS, TOKENS, STEPS, BATCH, WINDOWS = 2, 8, 3, 4, 3
SMALL = f"""
[model]
layers = {LAYERS}
width = 16
heads = 2
mlp_width = 24
vocab = 256
placement = ["pre", "peri"]
[input]
tokens = {TOKENS}
second_moment = 4e-4
[train]
steps = {STEPS}
batch = {BATCH}
lr = 3e-4
record_sequences = {WINDOWS}
[first_steps]
neurons = 16
[run]
seeds = 4
"""


class FirstSteps(FolderTest):
    STACK = SMALL

    def command(self, *flags):
        return ["first-steps", "--config", str(self.config), *map(str, flags)]

    def result(self, *flags):
        return run_result(*self.command("--quiet", *flags))

    def refused(self, words, *flags):
        done = run(*self.command(*flags))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def check_exit(self, result, code):
        self.assertEqual(code, 4 if "disagrees" in result["verdict"] else 0, result["verdict"])

    def test_json(self):
        result, code = self.result()
        self.check_exit(result, code)
        self.assertEqual(result["placement"], ["pre", "peri"])
        for stack in result.stacks():
            self.assertIn(stack["verdict"], ("agrees", "disagrees", "inconclusive", "not-checked"))
            # Behind the step at which theory stops there may be no prediction.
            for name in ("second_moment", "branch_cosine", "branch_second_moment"):
                for version in ("measured", "stderr", "predicted", "predicted_stderr"):
                    steps = stack[f"{name}_{version}"]
                    known = steps if version in ("measured", "stderr") else steps[:stack["holds_until"] + 1]
                    self.assertTrue(all(math.isfinite(v) for step in known for v in step), (name, version))
            self.assertEqual(len(stack["loss_measured"]), STEPS + 1)
            self.assertTrue(all(abs(loss - math.log(256)) < 1.5 for loss in stack["loss_measured"]))
            for weight in ("q", "k", "v", "o", "gate", "up", "down"):
                update = stack.at(weight=weight)["update_measured"]
                self.assertEqual(update[0], [0.0] * LAYERS, "before training")
                self.assertTrue(all(v > 0 for step in update[1:] for v in step), weight)
            self.assertGreaterEqual(stack["holds_until"], 0)
            self.assertEqual(stack.get("stopped_by", "") != "", stack["holds_until"] < STEPS)
        first = result["second_moment_measured"][0]
        self.assertGreater(first[-1][-1], first[0][-1], "Pre-LN's stream grows")

    def test_a_wrong_theory_is_rejected(self):
        """Theory of Post-LN, whose stream its norm holds at 1, against Pre-LN's, which surges with its branches."""
        flags = ("--set", "model.placement=pre", "--set", "model.width=64", "--seeds", 32, "--set", "train.steps=2",
                 "--set", "train.warmup=0", "--theory-set", "model.placement=post")
        result, code = self.result(*flags)
        self.assertEqual((code, result["verdict"]), (4, ["disagrees"]))
        self.assertGreater(result["rejected"][0], 0)
        differences, = result.fact("theory_told")["differences"]
        self.assertEqual(differences["model.placement"], {"measured": "pre", "told": "post"})
        self.assertNotIn("input.kind", differences)
        self.assertIn("THEORY WAS TOLD: model.placement", run(*self.command(*flags)).stderr)

    def test_rates_in_a_list(self):
        """Every stack at every rate is as in a run at that rate alone, whose verdict alone knows of fewer cells."""
        result, _ = self.result("--vary", "train.lr=[3e-4,1e-3]")
        self.assertEqual(result["placement"], ["pre, lr 0.0003", "peri, lr 0.0003", "pre, lr 0.001", "peri, lr 0.001"])
        self.assertEqual(result.config["train"]["lr"], [3e-4, 1e-3])
        for first, rate in enumerate((3e-4, 1e-3)):
            alone, _ = self.result("--set", f"train.lr={rate}")
            for name in ("second_moment_measured", "loss_change_predicted", "update_measured", "holds_until"):
                self.assertEqual(result[name][2 * first:2 * first + 2], alone[name])

    def test_the_defaults_fit_4_gb(self):
        # Too little for it, so that it says how much it needs.
        done = subprocess.run(["prlimit", f"--as={200 << 20}", BINARY, "first-steps", "--threads", "2"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"needs about \d+ MB")
        result, _ = run_result("first-steps", "--quiet", "--set", "first_steps.predict_only=true", "--set",
                               "train.steps=1", "--set", "first_steps.neurons=8", "--set", "first_steps.chains=2")
        config = result.config
        self.assertEqual([config["stacks"][0]["model"][key] for key in ("layers", "width", "heads")], [4, 384, 6])
        self.assertEqual(config["stacks"][0]["input"]["tokens"], 32)
        self.assertEqual([config["train"][key] for key in ("batch", "steps", "lr")], [4, 1, 4e-5])

    def test_a_planted_fault_is_told(self):
        result, code = self.result("--set", "first_steps.fault=no-noise")
        self.check_exit(result, code)
        self.assertEqual(result.fact("theory_told")["fault"], "no-noise")
        right, _ = self.result()
        self.assertNotIn("theory_told", right.attrs)
        self.assertEqual(result["second_moment_measured"], right["second_moment_measured"])
        for a, b in zip(result["second_moment_predicted"], right["second_moment_predicted"], strict=True):
            self.assertNotEqual(a, b)
        self.assertIn("PLANTED FAULT", run(*self.command("--set", "first_steps.fault=no-noise")).stderr)

    def test_what_is_refused(self):
        self.refused(["--theory-set run.seeds=3", "model, init, input or theory"], "--theory-set", "run.seeds=3")
        self.refused(["theory.fault", "first_steps.fault"], "--theory-set", "theory.fault=beta0")
        self.refused(["--theory-set init.factor=2", "first-steps compares"], "--theory-set", "init.factor=2")
        self.refused(["train.record_every = 2", "expected 1"], "--set", "train.record_every=2")
        self.refused(["train.frozen"], "--set", 'train.frozen=["q"]')
        self.refused(["input.kind", "train.corpus"], "--set", "input.kind=gaussian")
        self.refused(["--theory-set model.vocab = 2", "at least 256"], "--theory-set", "model.vocab=2")
        self.refused(["first_steps.chains = 3", "at least run.seeds = 4", "raise it"], "--set", "first_steps.chains=3")
        self.refused(["train.lr", "-1"], "--vary", "train.lr=[1e-4,-1.0]")
        self.refused(["--dump", "2 placements and 4 seeds"], "--dump", self.folder / "dump")

    def test_what_cannot_fit_is_refused_before_batches_are_drawn(self):
        for key, value, named in (("train.steps", 100_000_000, "train.steps"), ("train.batch", 1 << 20, "train.batch"),
                                  ("train.record_sequences", 4096, "train.record_sequences"),
                                  ("model.vocab", 1 << 24, "model.vocab"),
                                  ("first_steps.neurons", 1 << 20, "first_steps.neurons")):
            for predict_only in ("true", "false"):
                with self.subTest(key=key, predict_only=predict_only):
                    # No more rows are drawn of a matrix than it has.
                    wide = ("--set", f"model.mlp_width={1 << 20}") if key == "first_steps.neurons" else ()
                    command = self.command("--quiet", "--set", f"{key}={value}", *wide,
                                           "--set", f"first_steps.predict_only={predict_only}")
                    done = subprocess.run(["prlimit", f"--as={6 << 30}", BINARY, *command], capture_output=True,
                                          text=True, timeout=60, check=False)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn("there is", done.stderr)
                    # Training, which goes before, may name a key of its own.
                    if predict_only == "true":
                        self.assertIn(f"by a lower {named}", done.stderr)

    def test_a_vocabulary_of_one_token(self):
        corpus = self.folder / "zeros"
        corpus.write_bytes(bytes(10000))
        result, code = self.result("--set", "model.vocab=1", "--corpus", corpus)
        self.check_exit(result, code)
        self.assertEqual(result["loss_predicted"], [[0.0] * (STEPS + 1)] * 2)

    def test_seeds_steps_and_threads(self):
        result, code = self.result("--seeds", 2)
        self.assertEqual(code, 0)
        self.assertEqual(result["verdict"], ["not-checked"] * 2)
        self.assertIn("4 seeds", result["verdict_reason"][0])
        self.config.write_text(SMALL.replace(f"steps = {STEPS}\n", "").replace("seeds = 4\n", ""))
        result, _ = self.result()
        config = result.config
        self.assertEqual((config["train"]["steps"], config["run"]["seeds"], config["train"]["record_every"]), (5, 8, 1))
        self.assertEqual(config["first_steps"]["chains"], 8)
        self.config.write_text(SMALL)
        one, _ = self.result("--threads", 1)
        three, _ = self.result("--threads", 3)
        self.assertEqual(one.data(), three.data(), "bit for bit")

    def test_a_run_that_diverges_has_no_verdict(self):
        result, code = self.result("--set", "train.lr=1e30", "--set", "train.clip=0", "--set", "model.placement=pre")
        self.assertEqual((code, result["verdict"]), (0, ["not-checked"]))
        self.assertIn("a seed diverged at step", result["verdict_reason"][0])

    def test_dump(self):
        folder, one = self.folder / "dump", ("--set", "model.placement=peri", "--seeds", 1, "--seed", 7)
        result, code = self.result(*one, "--dump", folder)
        self.assertEqual(code, 0)
        names = ("initial", "final", "batches", "steps", "windows")
        self.assertEqual(sorted(contents(folder)), sorted([f"{n}.safetensors" for n in names] + ["config.json"]))
        windows = read_safetensors(folder / "windows.safetensors")
        batches = read_safetensors(folder / "batches.safetensors")
        self.assertEqual(windows["tokens"][0], [WINDOWS, TOKENS + 1])
        self.assertEqual(batches["tokens"][0], [STEPS, BATCH, TOKENS + 1])
        self.assertEqual(result.config["run"]["dtype"], "f64")
        self.assertEqual(json.loads((folder / "config.json").read_text())["train"]["steps"], STEPS)
        trained = self.folder / "trained"
        self.config.write_text(SMALL.partition("[first_steps]")[0])
        done = run("train", "--config", self.config, "--quiet", *one, "--dump", trained)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({n: c for n, c in contents(folder).items() if n not in ("windows.safetensors", "config.json")},
                         {n: c for n, c in contents(trained).items() if n != "config.json"}, "as train's")

    def test_a_run_that_is_killed_goes_on_to_the_same_bits(self):
        many = ("--seeds", 60, "--set", "first_steps.neurons=8", "--threads", 1)
        expected, code = self.result(*many, "--out", self.folder / "whole")
        out, draw, killed = self.folder / "out", random.Random(1), 0
        for _ in range(6):
            command = self.command(*many, "--out", out, "--quiet", "--json")
            with start_program(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                try:
                    _, errors = process.communicate(timeout=draw.uniform(0.1, 0.5))
                    self.assertEqual(process.returncode, code, errors)
                    break
                except subprocess.TimeoutExpired:
                    process.kill()
                    self.assertEqual(process.communicate()[0], "", "no half results")
                    killed += 1
        self.assertGreater(killed, 1)
        again, code_again = self.result(*many, "--out", out)
        self.assertEqual((again.data(), code_again), (expected.data(), code))
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["cache", "first_steps.nc"],
                         "what is finished needs nothing else")

    def test_a_dump_does_not_go_on_from_states_without_weights(self):
        """The states of a run without --dump have no weights at their end."""
        out, dump = self.folder / "out", self.folder / "dump"
        one = ("--set", "model.placement=pre", "--seeds", 1, "--set", "train.steps=4", "--dtype", "f64")
        command = self.command(*one, "--out", out, "--quiet", "--json")
        with start_program(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                process.communicate(timeout=0.6)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        done = run(*self.command(*one, "--out", out, "--quiet", "--force", "--dump", dump))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(read_safetensors(dump / "final.safetensors")),
                         set(read_safetensors(dump / "initial.safetensors")))


if __name__ == "__main__":
    unittest.main()

"""first-steps: its JSON, exit codes, dumps, and what it goes on from. Usage: first_steps.py BINARY"""

import json
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

    def check_exit(self, result, code):
        self.assertEqual(code, 4 if "disagrees" in result["verdict"] else 0, result["verdict"])

    def test_a_wrong_theory_is_rejected(self):
        """Theory of Post-LN, whose stream its norm holds at 1, against Pre-LN's, which surges with its branches."""
        flags = ("--set", "model.placement=pre", "--set", "model.width=64", "--seeds", 32, "--set", "train.steps=2",
                 "--set", "train.warmup=0", "--theory-set", "model.placement=post")
        result, code = self.result(*flags)
        self.assertEqual((code, result["verdict"]), (4, ["disagrees"]))
        self.assertGreater(result["rejected"][0], 0)
        differences, = result.fact("theory_override")["differences"]
        self.assertEqual(differences["model.placement"], {"measured": "pre", "assumed": "post"})
        self.assertNotIn("input.kind", differences)
        self.assertIn("THEORY OVERRIDE: model.placement", run(*self.command(*flags)).stderr)

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
                        self.assertIn(f"lower {named}", done.stderr)

    def test_a_vocabulary_of_one_token(self):
        corpus = self.folder / "zeros"
        corpus.write_bytes(bytes(10000))
        result, code = self.result("--set", "model.vocab=1", "--corpus", corpus)
        self.check_exit(result, code)
        self.assertEqual(result["loss_predicted"], [[0.0] * (STEPS + 1)] * 2)

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
        first, other = ({n: c for n, c in contents(f).items() if n != "config.json"} for f in (folder, trained))
        self.assertEqual(first, other, "as train's")

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

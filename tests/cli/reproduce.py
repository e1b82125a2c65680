"""reproduce: runs are kept, and taken from there by whatever asks for them next. Usage: reproduce.py BINARY"""

import os
import signal
import subprocess
import time
import unittest

from periscope_process import FolderTest, run, run_result, sets, start_program

TINY = sets("model.layers=3", "model.width=16", "model.heads=2", "model.mlp_width=24", "model.vocab=40",
            "input.tokens=8", "train.steps=20", "train.batch=2", "train.record_every=10", "train.record_sequences=2")


class Reproduce(FolderTest):
    def made(self, out, *flags):
        result, code = run_result("reproduce", *TINY, "--seeds", 2, "--quiet", "--out", out, *flags)
        self.assertEqual(code, 0)
        return result

    def runs(self, out):
        return {path.name: path.stat().st_mtime_ns for path in (out / "cache" / "runs").glob("*.safetensors")}

    def test_a_killed_run_goes_on_to_the_same_bits(self):
        whole = self.made(self.folder / "whole", "--figure", "1").data()
        out = self.folder / "killed"
        process = start_program("reproduce", *TINY, "--seeds", 2, "--quiet", "--out", out, "--figure", 1,
                                stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (out / "cache" / "runs").is_dir() or len(self.runs(out)) < 3:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertFalse((out / "reproduce.nc").exists())
        kept = self.runs(out)
        self.assertEqual(self.made(out, "--figure", "1").data(), whole, "bit for bit")
        after = self.runs(out)
        self.assertEqual(len(after), 10)
        finished = [name for name, when in kept.items() if after[name] == when]
        self.assertGreaterEqual(len(finished), 2, "what was over is not done again")

    def test_later_commands_take_what_is_there(self):
        out = self.folder / "out"
        first = self.made(out, "--figure", "1")
        before = self.runs(out)
        second = self.made(out, "--figure", "8")
        self.assertEqual(second["group"], first["group"] + ["peri, output gains frozen"])
        for name in ("loss", "variance_measured", "second_moment_predicted", "scaled_second_moment"):
            self.assertEqual(second[name][:5], first[name])
        after = self.runs(out)
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(len(after), len(before) + 2)
        self.assertNotEqual(second.at(claim="R6a")["claim_verdict"], "not-run")
        self.assertEqual(second.at(claim="R7b")["claim_verdict"], "not-run")

    def test_a_corpus_is_known_by_its_bytes_and_a_backend_by_its_name(self):
        out = self.folder / "out"
        corpus = self.folder / "corpus"
        corpus.write_bytes(bytes(i * i % 37 for i in range(2000)))
        few = ("--figure", "1", "--dtype", "f64", *sets("train.steps=3"))
        self.made(out, *few, "--corpus", corpus)
        before = self.runs(out)
        moved = self.folder / "moved"
        os.replace(corpus, moved)
        self.made(out, *few, "--corpus", moved)
        self.assertEqual(self.runs(out), before)
        self.made(out, *few, "--corpus", moved, "--device", "reference")
        self.assertEqual(len(self.runs(out)), 2 * len(before))

    def test_settings_that_cannot_be(self):
        for flags, words in ((("--figure", "table6"), ("--figure table6", "expected one of 1, 3")),
                             (sets("train.accumulate=3"), ("train.accumulate",)),
                             (sets("model.placement=pre"), ("model.placement", "figures say which")),
                             (sets("train.lr=0"), ("train.lr = 0", "a rate at which")),
                             (sets("model.causal=false"), ("model.causal = false", "expected true")),
                             (("--figure", 19, *sets("model.norm=layer")), ('model.norm = "layer"', "figure 19")),
                             (("--figure", 20, *sets("model.embedding_norm=true")), ("model.embedding_norm = true",)),
                             (("--figure", 8, *sets('train.frozen=["norm_b"]')), ('train.frozen = ["norm_b"]',)),
                             (("--figure", 35, *sets("train.optimizer=adamw")), ('train.optimizer = "adamw"',)),
                             (("--figure", "warmup", *sets("train.warmup=0")), ("train.warmup = 0",)),
                             (("--figure", "warmup", *sets("train.steps=10")), ("train.warmup = 0", "train.steps = 10",
                                                                                "post, no warm-up, rate x 1"))):
            done = run("reproduce", *TINY, "--quick", *flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_one_seed_is_said_to_test_nothing_before_anything_is_trained(self):
        flags = (*TINY, "--figure", "1", *sets("train.steps=1"))
        words = "run.seeds = 1: figures only; no claim can be tested with fewer than 2 seeds"
        told = run("reproduce", *flags, "--seeds", 1).stderr.splitlines()
        self.assertIn(words, told)
        self.assertLess(told.index(words), next(i for i, line in enumerate(told) if "post" in line))
        self.assertNotIn(words, run("reproduce", *flags, "--seeds", 2).stderr)
        self.assertEqual(run("reproduce", *flags, "--seeds", 1, "--quiet").stderr, "")

    def test_a_preset_keeps_its_layers(self):
        done = run("reproduce", "--quick", "--set", "model.preset=3.2B")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("memory", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""reproduce: runs are kept, and taken from there by whatever asks for them next. Usage: reproduce.py BINARY"""

import os
import unittest

from periscope_process import FolderTest, run, run_result, sets

TINY = sets("model.layers=3", "model.width=16", "model.heads=2", "model.mlp_width=24", "model.vocab=40",
            "input.tokens=8", "train.steps=20", "train.batch=2", "train.record_every=10", "train.record_sequences=2")


class Reproduce(FolderTest):
    def made(self, out, *flags):
        result, code = run_result("reproduce", *TINY, "--seeds", 2, "--quiet", "--out", out, *flags)
        self.assertEqual(code, 0)
        return result

    def runs(self, out):
        return {path.name: path.stat().st_mtime_ns for path in (out / "cache" / "runs").glob("*.safetensors")}

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

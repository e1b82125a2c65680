"""train: the numbers it prints and dumps, corpora and settings that cannot be. Usage: train.py BINARY"""

import json
import math
import statistics
import unittest

from periscope_process import contents, run, run_result, sets
from safetensors_file import read_safetensors
from small_training import LAYERS, ONE, SMALL, TOKENS, VOCAB, TrainTest


def rms(x):
    return math.sqrt(sum(v * v for v in x) / len(x))


class Numbers(TrainTest):

    def test_threads_change_nothing(self):
        # 16 sequences of 64 are passed in parts beside each other.
        large = sets("input.tokens=64", "train.batch=16", "train.steps=4")
        for flags in ((), large, (*large, *sets("train.accumulate=2"))):
            with self.subTest(flags=flags):
                one = self.data("--threads", 1, *flags)
                for threads in (2, 3):
                    self.assertEqual(self.data("--threads", threads, *flags), one, "bit for bit")

    def test_a_run_does_not_depend_on_those_beside_it(self):
        both = self.result("--seeds", 2).at(placement="peri", seed=1)
        alone, = self.result(*ONE, "--seed", 1).stacks()
        for name, values in alone.data().items():
            if "_predicted" not in name:  # theory samples the windows of all runs
                self.assertEqual(both[name], values, name)

    def test_learning(self):
        cell, = self.result(*ONE, *sets("train.lr=0.02", "train.steps=200", "train.batch=16")).stacks()
        self.assertLess(cell["final_loss"], math.log(32) - 0.3)
        self.assertLess(cell["validation_loss"][-1], math.log(32) - 0.3)

    def test_the_last_record_is_of_the_final_weights(self):
        folder = self.folder / "dump"
        cell, = self.result(*ONE, "--dump", folder, *sets("train.lr=0.05")).stacks()
        record = cell.each("record")[-1]
        final = {name: values for name, (_, values) in read_safetensors(folder / "final.safetensors").items()}
        for layer in range(LAYERS):
            for weight, module in (("q", "attention"), ("k", "attention"), ("gate", "mlp"), ("down", "mlp")):
                self.assertAlmostEqual(record.at(weight=weight)["weight_root_mean_square"][layer],
                                       rms(final[f"layers.{layer}.{module}.{weight}.weight"]), delta=1e-14)
            for place, module in enumerate(("attention", "mlp")):
                for norm in "ab":
                    gain = final[f"layers.{layer}.{module}.norm_{norm}.gain"]
                    at = 2 * layer + place
                    self.assertAlmostEqual(record[f"gain_rms_norm_{norm}"][at], rms(gain), delta=1e-14)
                    self.assertAlmostEqual(record[f"gain_mean_norm_{norm}"][at], statistics.fmean(gain), delta=1e-14)


class Dumps(TrainTest):
    def dump(self, *settings, flags=()):
        """config.json and the tensors of every other file."""
        folder = self.folder / "dump"
        done = run(*self.command("--quiet", *ONE, "--dump", folder, "--force", *sets(*settings), *flags))
        self.assertEqual(done.returncode, 0, done.stderr)
        names = ("initial", "final", "batches", "steps", "windows")
        self.assertEqual(sorted(contents(folder)), sorted([f"{n}.safetensors" for n in names] + ["config.json"]))
        return json.loads((folder / "config.json").read_text()), *(read_safetensors(folder / f"{n}.safetensors")
                                                                   for n in names)

    def test_weights_begin_as_those_of_propagate(self):
        _, initial, *_ = self.dump("train.steps=1", flags=("--seed", 7))
        done = run("propagate", "--quiet", "--dump", self.folder / "other", "--seed", 7, *ONE,
                   *sets("model.layers=2", "model.width=16", "model.heads=2", "model.kv_heads=1", "model.mlp_width=24",
                         f"model.vocab={VOCAB}", "init.scheme=lecun", "input.tokens=8", "input.kind=tokens"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(initial, read_safetensors(self.folder / "other" / "model.safetensors"))

    def test_batches_are_windows_of_the_training_part(self):
        corpus = self.folder / "corpus"
        corpus.write_bytes(bytes(range(200)))
        flags = ("--corpus", corpus)
        settings = ("model.vocab=256", "train.validation=0.25", "train.steps=50")
        _, _, _, batches, *_ = self.dump(*settings, flags=flags)
        tokens = list(batches["tokens"][1])
        windows = [tokens[i:i + TOKENS + 1] for i in range(0, len(tokens), TOKENS + 1)]
        for window in windows:
            self.assertEqual(window, list(range(window[0], window[0] + TOKENS + 1)))
            self.assertLess(window[-1], 150, "the last quarter is never trained on")
        self.assertGreater(len({window[0] for window in windows}), 80)
        _, _, _, twin, *_ = self.dump(*settings, "model.placement=pre", flags=flags)
        self.assertEqual(twin, batches, "twins read the same")
        _, _, _, other, *_ = self.dump(*settings, flags=(*flags, "--seed", 1))
        self.assertNotEqual(other, batches)


class Corpora(TrainTest):
    BYTES = bytes((i * i + 3 * i) % 251 for i in range(1500))

    def trained(self, *flags):
        return self.data(*ONE, *sets("model.vocab=256", "train.steps=5"), *flags)

    def test_a_file_and_a_folder_of_the_same_bytes_give_the_same(self):
        whole = self.folder / "whole"
        whole.write_bytes(self.BYTES)
        parts = self.folder / "parts"
        (parts / "b").mkdir(parents=True)
        (parts / "a").write_bytes(self.BYTES[:100])
        (parts / "b" / "x").write_bytes(self.BYTES[100:700])
        (parts / "c").write_bytes(self.BYTES[700:])
        expected = self.trained("--corpus", whole)
        self.assertEqual(self.trained("--corpus", parts), expected)
        self.assertEqual(self.trained("--set", f"train.corpus={whole}"), expected)
        # Relative to where the command is given, or to the file that says it.
        beside = self.folder / "elsewhere"
        beside.mkdir()
        flags = ("--quiet", *ONE, *sets("model.vocab=256", "train.steps=5"))
        self.assertEqual(run_result(*self.command(*flags, "--corpus", "whole"), cwd=self.folder)[0].data(), expected)
        self.config.write_text(SMALL + 'corpus = "whole"\n')
        self.assertEqual(run_result(*self.command(*flags), cwd=beside)[0].data(), expected)
        self.assertNotEqual(self.trained("--corpus", "synthetic"), expected)

    def test_the_last_bytes_count_for_validation_only(self):
        corpus = self.folder / "corpus"
        corpus.write_bytes(self.BYTES)
        before = self.trained("--corpus", corpus)
        corpus.write_bytes(self.BYTES[:1350] + bytes(150))
        after = self.trained("--corpus", corpus)
        self.assertEqual(after["loss"], before["loss"])
        self.assertNotEqual(after["validation_loss"], before["validation_loss"])


if __name__ == "__main__":
    unittest.main()

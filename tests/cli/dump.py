"""propagate --backward and --dump: gradients in the results, and the files for outside programs.
Usage: dump.py BINARY"""

import json
import unittest

from periscope_process import FolderTest, run
from safetensors_file import read_safetensors

WIDTH, TOKENS = 32, 6


class Dump(FolderTest):
    def dump(self, *settings, backward=True):
        """-> config, model, activations"""
        target = self.folder / "dump"
        flags = [f for s in settings for f in ("--set", s)] + (["--backward"] if backward else [])
        done = run("propagate", "--config", self.config, "--quiet", "--seeds", 1, "--dump", target, "--force",
                   *flags)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(sorted(p.name for p in target.iterdir()),
                         ["activations.safetensors", "config.json", "model.safetensors"])
        return (json.loads((target / "config.json").read_text()), read_safetensors(target / "model.safetensors"),
                read_safetensors(target / "activations.safetensors"))

    def test_input_is_what_the_embedding_table_says(self):
        _, model, activations = self.dump("model.placement=pre", "input.kind=tokens", "model.embedding_norm=true")
        table, tokens = model["embedding.weight"][1], activations["tokens"][1]
        rows = [table[t * WIDTH + j] for t in tokens for j in range(WIDTH)]
        self.assertEqual(rows, list(activations["input"][1]))
        self.assertNotEqual(rows, list(activations["stream.0"][1]), "input is before the embedding norm")

    def test_without_backward_there_are_no_gradients(self):
        _, _, activations = self.dump("model.placement=pre", backward=False)
        self.assertFalse([name for name in activations if name.startswith("grad")])
        self.assertIn("loss", activations)
        self.assertNotIn("tokens", activations)

    def test_labels(self):
        _, _, activations = self.dump("model.placement=pre", "model.vocab=7", "input.tokens=64")
        self.assertEqual(set(activations["labels"][1]), set(range(7)), "uniform random ids")
        _, _, activations = self.dump("model.placement=pre", "model.unembedding=false")
        self.assertTrue(all(0 <= v < WIDTH for v in activations["labels"][1]), "labels of the output itself")
        self.assertEqual(activations["logits"][0], [TOKENS, WIDTH])
        text = self.folder / "words.txt"
        text.write_bytes(b"periscope")
        _, _, activations = self.dump("model.placement=pre", "input.kind=text", f"input.path={text}")
        self.assertEqual(bytes(list(activations["tokens"][1])), b"perisc")
        self.assertEqual(bytes(list(activations["labels"][1])), b"erisco")

    def test_a_dump_is_repeatable_and_follows_the_seed(self):
        first = self.dump("model.placement=pre")
        self.assertEqual(first, self.dump("model.placement=pre"))
        self.assertNotEqual(first, self.dump("model.placement=pre", "run.seed=5"))


if __name__ == "__main__":
    unittest.main()

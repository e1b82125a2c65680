"""`info` and `write-checkpoint`. Usage: checkpoints.py BINARY FIXTURES"""

import json
import math
import pathlib
import shutil
import sys
import unittest

from periscope_process import FolderTest, run, run_json, run_result, sets
from safetensors_file import read_safetensors

FIXTURES = pathlib.Path(sys.argv.pop(1))

SMALL = ["--set", "model.layers=2", "--set", "model.width=12", "--set", "model.heads=3", "--set", "model.mlp_width=10",
         "--set", "model.vocab=11"]
PLAIN = ["--set", "model.norm=layer", "--set", "model.norm_eps=1e-5", "--set", "model.rope=false",
         "--set", "model.mlp=gelu"]
STACKS = {"llama": ["pre"], "mistral": ["pre"], "qwen2": ["pre"], "qwen3": ["pre", "--set", "model.qk_norm=head"],
          "gpt2": ["pre", *PLAIN], "olmo2": ["b-only", "--set", "model.qk_norm=full"],
          "opt": ["post", *PLAIN],
          "bert": ["post", *PLAIN, "--set", "model.embedding_norm=true", "--set", "model.causal=false"]}


class Info(FolderTest):

    def test_every_matrix_and_table_has_its_standard_deviation(self):
        folder, large = self.folder / "gpt2", ["model.layers=2", "model.width=64", "model.heads=2", "model.vocab=256"]
        own = sets(*large, "init.position_std=0.01", "init.head_std=0.1", "input.tokens=64")
        _, code = run_json("write-checkpoint", "--family", "gpt2", "--out", folder, "--dtype", "f64", "--quiet", *own)
        self.assertEqual(code, 0)
        tensors = read_safetensors(folder / "model.safetensors")

        def std(name):
            return math.sqrt(sum(v * v for v in tensors[name][1]) / len(tensors[name][1]))

        for name, expected in (("transformer.wte.weight", 0.02), ("transformer.wpe.weight", 0.01),
                               ("lm_head.weight", 0.1), ("transformer.h.1.attn.c_attn.weight", 0.02),
                               ("transformer.h.1.attn.c_proj.weight", 0.01),  # the recipe's 1/sqrt(2L) = 1/2
                               ("transformer.h.1.mlp.c_fc.weight", 0.02),
                               ("transformer.h.1.mlp.c_proj.weight", 0.01)):
            with self.subTest(name):
                self.assertAlmostEqual(std(name) / expected, 1.0, delta=0.06)
        settings = sets("init.embedding_std=0.02", "init.position_std=0.01", "init.head_std=0.1",
                        "init.residual=1/sqrt(2L)")  # fmt: skip
        result, _ = run_result("probe", folder, "--tokens", ",".join(map(str, range(32))), "--quiet", "--draws", "2",
                               *settings)
        self.assertAlmostEqual(result["second_moment_at_init"][0], 5e-4, delta=1e-12)
        self.assertAlmostEqual(result["second_moment_measured"][0] / 5e-4, 1.0, delta=0.2)

    def edited(self, name, fixture="llama", **changes):
        """A copy of a fixture with keys of its config.json set."""
        shutil.copytree(FIXTURES / fixture, self.folder / name)
        path = self.folder / name / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return path.parent

    def test_a_stack_is_written_in_a_familys_layout(self):
        for family, (placement, *settings) in STACKS.items():
            folder = self.folder / family
            written, code = run_json("write-checkpoint", "--family", family, "--out", folder, "--quiet", *SMALL,
                                     "--set", f"model.placement={placement}", *settings)
            self.assertEqual(code, 0)
            info, code = run_json("info", folder)
            self.assertEqual(code, 0)
            self.assertEqual(info, written)
            self.assertEqual(info["family"], family)
            self.assertEqual(info["placement"]["name"], placement)
            self.assertEqual(sorted(p.name for p in folder.iterdir()), ["config.json", "model.safetensors"])

    def test_a_familys_kind_needs_no_keys(self):
        """Placement, norms and MLP are the family's, and the input of a fresh model is as large as its recipe says."""
        letters = {"llama": "A", "mistral": "A", "qwen2": "A", "qwen3": "A", "gpt2": "A", "gemma2": "A B",
                   "gemma3": "A B", "olmo2": "B", "opt": "A", "bert": "C"}
        sizes = {r["name"]: r["sets"]["second_moment"] for r in json.loads(run("list", "--json").stdout)["recipes"]}
        self.assertEqual(set(letters), set(sizes))
        tokens = ",".join(map(str, range(1000)))
        large = [*SMALL, "--set", "model.width=48", "--set", "model.vocab=1000"]
        for family, letter in letters.items():
            with self.subTest(family=family):
                folder = self.folder / family
                written, code = run_json("write-checkpoint", "--family", family, "--out", folder, "--quiet", *large)
                self.assertEqual((code, written["family"], written["placement"]["letters"]), (0, family, letter))
                probed, code = run_result("probe", folder, "--tokens", tokens, "--no-theory", "--quiet")
                self.assertEqual(code, 0)
                if family != "bert":  # whose embedding norm hides the size of its input
                    size = eval(sizes[family], {"width": 48})
                    self.assertAlmostEqual(probed["second_moment_measured"][0] / size, 1, delta=0.05)


if __name__ == "__main__":
    unittest.main()

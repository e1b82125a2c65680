"""A pass that another program made is measured as probe's own, without torch: what probe dumps is replayed. Usage:
replay_test.py"""

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from models_test import in_memory, tensors_of
from studies import FIXTURES, rejected

import periscope as ps
from periscope import _periscope, dataset

FOLDER = FIXTURES / "llama"
IDS = [1, 2, 3, 7, 5]
LAYERS = 2


class Replay(unittest.TestCase):
    def setUp(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            dump = Path(folder) / "dump"
            self.expected = ps.probe(FOLDER, tokens=IDS, backward=True, no_theory=True, dump=dump)
            self.dumped = tensors_of(dump / "activations.safetensors")
        self.model = in_memory(FOLDER)._compiled
        self.layout = json.loads(_periscope.layout(self.model))

    def signals(self) -> list[tuple[int, str, bool, np.ndarray]]:
        found = [(-1, "x_out", False, self.dumped["stream.0"])]
        for s in range(2 * LAYERS):
            found.append((s, "x_in", False, self.dumped[f"stream.{s}"]))
            found.append((s, "x_out", False, self.dumped[f"stream.{s + 1}"]))
        for s in range(2 * LAYERS - 1, -2, -1):
            found.append((s, "x_out", True, self.dumped[f"grad.stream.{s + 1}"]))
        return found

    def gradients(self) -> list[tuple[int, str, float]]:
        found = []
        for part in self.layout["parameters"]:
            if part["weight"] in ("q", "k", "v", "o", "gate", "up", "down"):
                gradient = self.dumped["grad.weight." + part["tensor"]]
                found.append((part["sublayer"] // 2, part["weight"], float((gradient**2).sum())))
        return found

    def replay(self, **words: Any) -> xr.Dataset:
        given = {"sequences": 1, "ids": IDS, "labels": [*IDS[1:], -1], "signals": self.signals(), "dtype": "f64",
                 "unit_roundoff": 2.0**-53,
                 "gradients": self.gradients(), "logits": self.dumped["logits"], "top": 10, **words}  # fmt: skip
        return dataset.of_result(_periscope.replay(self.model, **given), [])

    def test_it_is_what_probe_measures(self) -> None:
        ds = self.replay()
        for name in ("second_moment_measured", "variance_measured", "token_cosine_measured", "kurtosis_measured",
                     "angular_distance_measured", "grad_sq_measured", "log_grad_sq_measured", "weight_grad_sq_measured",
                     "weight_log_grad_sq_measured"):  # fmt: skip
            np.testing.assert_allclose(ds[name].values, self.expected[name].values, rtol=1e-13, err_msg=name)
        for name in ("loss", "token_loss"):
            if name in self.expected:
                np.testing.assert_allclose(ds[name].values, self.expected[name].values, rtol=1e-13, err_msg=name)

    def test_the_layout_names_every_matrix_and_norm(self) -> None:
        parts = {(part["sublayer"], part["weight"]): part for part in self.layout["parameters"]}
        self.assertEqual(parts[(0, "q")]["tensor"], "model.layers.0.self_attn.q_proj.weight")
        self.assertEqual(parts[(3, "norm_a")]["tensor"], "model.layers.1.post_attention_layernorm.weight")
        self.assertEqual(self.layout["layers"], LAYERS)
        self.assertEqual([rule["norm_a"] for rule in self.layout["rules"]], [True] * 4)

    def test_two_sequences_are_of_the_length_of_one(self) -> None:
        twice = [(*where, np.concatenate([values, values])) for *where, values in self.signals()]
        logits = self.dumped["logits"]
        ds = self.replay(sequences=2, ids=2 * IDS, labels=2 * [*IDS[1:], -1], signals=twice,
                         logits=np.concatenate([logits, logits]))  # fmt: skip
        self.assertEqual(json.loads(ds.attrs["config"])["stacks"][0]["input"]["tokens"], len(IDS))
        self.assertEqual(ds.sizes["token"], 2 * len(IDS))

    def test_without_logits_there_are_no_losses(self) -> None:
        for logits in (None, self.dumped["logits"][-1:]):
            ds = self.replay(logits=logits)
            self.assertTrue(np.isnan(ds.loss.values).all())
            self.assertTrue(np.isfinite(ds.second_moment_measured.values).all())

    def test_sums_may_be_rounded_to_the_format_of_the_pass(self) -> None:
        """bf16 and its like: the growth identity holds to the rounding of that format, and no better."""
        rng = np.random.default_rng(0)
        x, b = (np.ldexp(np.round(np.ldexp(rng.normal(size=(5, 8)), 6)), -6) for _ in range(2))
        for bits, unit_roundoff, is_violated in ((6, 2.0**-8, False), (6, 2.0**-24, True), (1, 2.0**-8, True)):
            total = np.ldexp(np.round(np.ldexp(x + 0.3 * b, bits)), -bits)
            signals = [*self.signals(), (0, "x_in", False, x), (0, "B_out", False, 0.3 * b), (0, "sum", False, total)]
            for dtype in ("f32", "f64"):
                ds = self.replay(signals=signals, gradients=[], dtype=dtype, unit_roundoff=unit_roundoff)
                self.assertEqual(bool(ds.growth_violated), is_violated, ds.growth_residual.values)

    def test_what_does_not_fit_is_refused(self) -> None:
        short = [(0, "x_in", False, self.dumped["stream.0"][:2])]
        narrow = [(0, "x_in", False, np.ascontiguousarray(self.dumped["stream.0"][:, :3]))]
        for words, said in (({"signals": short}, "x_in of sublayer 0"), ({"signals": narrow}, "x_in of sublayer 0"),
                            ({"signals": [(9, "x_in", False, self.dumped["stream.0"])]}, "sublayer 9"),
                            ({"signals": [(0, "x", False, self.dumped["stream.0"])]}, "signal x"),
                            ({"sequences": 2}, "2 sequences"), ({"labels": [1]}, "1 labels"),
                            ({"labels": [99] * 5}, "label 99"), ({"dtype": "f8"}, "f8")):  # fmt: skip
            with self.subTest(said=said), rejected(said, ps.Error):
                self.replay(**words)


if __name__ == "__main__":
    unittest.main()

"""Models in memory are what the same weights in files are. Usage: models_test.py"""

import json
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from studies import FIXTURES, rejected

import periscope as ps
from periscope import model

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}
STACK = {"model": {"layers": 2, "width": 16, "heads": 2, "vocab": 24, "mlp_width": 24, "placement": "peri"}}


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    found = {}
    for name, view in header.items():
        if name != "__metadata__":
            first, last = view["data_offsets"]
            part = raw[8 + length + first : 8 + length + last]
            found[name] = np.frombuffer(part, TYPES[view["dtype"]]).reshape(view["shape"]).copy()
    return found


def of_config(config: str, weights: dict[str, np.ndarray], *ignore_keys: str) -> ps.Model:
    """The model of the text of a config.json, as ``from_torch`` makes it."""
    made = ps.Model.__new__(ps.Model)
    made._compiled = model.compiled("llama", config, weights, True, ignore_keys)
    return made


def in_memory(folder: Path) -> ps.Model:
    weights = tensors_of(folder / "model.safetensors")
    return of_config((folder / "config.json").read_text(), weights)


def random_weights(seed: int = 0, dtype: str = "f8") -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    shapes = ps.Config(STACK).parameters()
    return {name: (draw.normal(size=shape) * (1 if "norm" in name else 0.2)).astype(dtype)
            for name, shape in shapes.items()}  # fmt: skip


def probed(checkpoint: Any) -> xr.Dataset:
    return ps.probe(checkpoint, tokens=[5, 9, 2, 1, 7], backward=True, no_theory=True)


class Models(unittest.TestCase):
    def same(self, a: xr.Dataset, b: xr.Dataset) -> None:
        xr.testing.assert_identical(a.drop_attrs(deep=False), b.drop_attrs(deep=False))

    def test_a_model_in_memory_is_that_of_its_files(self) -> None:
        folder = FIXTURES / "llama"
        files = ps.probe(folder, tokens=[1, 2, 3], backward=True, draws=2)
        memory = ps.probe(in_memory(folder), tokens=[1, 2, 3], backward=True, draws=2)
        self.same(memory, files)
        self.assertEqual(memory.attrs["checkpoint"], "llama")
        certified = [ps.certify(one, format=["fp16"]) for one in (in_memory(folder), folder)]
        self.assertNotEqual(*(list(ds.weights.values) for ds in certified))  # what was hashed
        self.same(*(ds.drop_dims("weights") for ds in certified))

    def test_the_layout_and_type_of_arrays_do_not_matter(self) -> None:
        plain = random_weights()
        expected = probed(ps.Model(STACK, plain))
        fortran = {name: np.asfortranarray(w) for name, w in plain.items()}
        self.same(probed(ps.Model(STACK, fortran)), expected)
        odd = {}
        for name, w in plain.items():
            memory = np.zeros(w.nbytes + 4, np.uint8)
            odd[name] = memory[4:].view(w.dtype).reshape(w.shape)
            odd[name][...] = w
        self.same(probed(ps.Model(STACK, odd)), expected)
        self.same(probed(ps.Model(STACK, odd, copy=False)), expected)
        every_other = {name: np.repeat(w, 2, axis=0)[::2] for name, w in plain.items()}
        self.same(probed(ps.Model(STACK, every_other)), expected)
        single = random_weights(dtype="f4")
        double = {name: w.astype("f8") for name, w in single.items()}
        self.same(probed(ps.Model(STACK, single)), probed(ps.Model(STACK, double)))

    def test_copies_are_the_models_own(self) -> None:
        weights = random_weights()
        kept = {name: w.copy() for name, w in weights.items()}
        copied, shared = ps.Model(STACK, weights), ps.Model(STACK, weights, copy=False)
        expected = probed(copied)
        self.same(probed(shared), expected)
        for name, w in weights.items():
            np.testing.assert_array_equal(w, kept[name])  # no run has written into them
            w *= 2
        self.same(probed(copied), expected)
        self.assertFalse(probed(shared).second_moment_measured.equals(expected.second_moment_measured))
        del weights, w
        self.assertTrue(np.isfinite(probed(shared).second_moment_measured.values).all())  # and holds on to them

    def test_the_hash_covers_weights_and_tokens_and_labels(self) -> None:
        a, b, c = (ps.Model(STACK, random_weights(seed)) for seed in (0, 0, 1))

        def hash_of(model: ps.Model, *labels: int, tokens: tuple[int, ...] = (5, 9, 2)) -> str:
            ds = ps.probe(model, tokens=tokens, labels=labels or None, no_theory=True)
            return str(ds.attrs["config_sha256"])

        self.assertEqual(hash_of(a), hash_of(b))
        self.assertEqual(hash_of(a), hash_of(a, 9, 2, -1))
        others = [hash_of(a), hash_of(c), hash_of(a, 9, 2, 1), hash_of(a, 9, -1, -1), hash_of(a, tokens=(5, 9, 1))]
        self.assertEqual(len(set(others)), len(others))

    def test_what_is_no_model_is_refused(self) -> None:
        weights = random_weights()
        name = next(iter(weights))
        for wrong, words in (
            ({k: w for k, w in weights.items() if k != name}, f'no tensor "{name}"'),
            ({**weights, name: weights[name][:-1]}, name),
            ({**weights, "layers.7.nothing": weights[name]}, "layers.7.nothing"),
        ):
            with rejected(words):
                probed(ps.Model(STACK, wrong))
        for odd in (weights[name].astype(object), weights[name].astype(">f8"), weights[name].astype("c16"),
                    np.ma.masked_less(weights[name], 0.0)):  # fmt: skip
            with rejected(name):
                ps.Model(STACK, {**weights, name: odd})
        with self.assertRaises(ps.ConfigError):
            ps.Model({"model": {"placement": ["pre", "peri"]}}, weights)
        with self.assertRaises(ps.ConfigError):
            ps.probe(3, tokens=[1])  # type: ignore[arg-type]

    def test_unknown_keys_are_ignored_on_demand(self) -> None:
        folder = FIXTURES / "llama"
        config = json.dumps({**json.loads((folder / "config.json").read_text()), "strange": 1, "other": 2})
        weights = tensors_of(folder / "model.safetensors")
        made = of_config(config, weights, "strange")
        with rejected('"other" = 2: unknown'):
            ps.probe(made, tokens=[1, 2, 3], no_theory=True)
        ds = ps.probe(made, tokens=[1, 2, 3], no_theory=True, ignore_key=["other"])
        self.assertEqual(ds.attrs["ignored_keys"], "other, strange")
        self.same(ds.drop_vars("notes"), ps.probe(folder, tokens=[1, 2, 3], no_theory=True))
        with self.assertRaises(ps.ConfigError) as refused:
            ps.certify(made, ignore_key=["other", "rms_norm_eps"])
        self.assertIn('ignore_key "rms_norm_eps"', str(refused.exception))

    def test_a_broken_configuration_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "llama"
            shutil.copytree(FIXTURES / "llama", copy)
            (copy / "config.json").write_text('{"model_type": "llama", "model_type": "gpt2"}')
            with rejected("llama: configuration"):
                ps.probe(in_memory(copy), tokens=[1])


if __name__ == "__main__":
    unittest.main()

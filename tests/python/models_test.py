"""Models in memory equal models in files; passes recorded by other programs give the results of probe."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from checkpoint_files import read_tensors
from module import ps, rejected
from periscope import _periscope, dataset, model
from program import FIXTURES

STACK = {"model": {"layers": 2, "width": 16, "heads": 2, "vocab": 24, "mlp_width": 24, "placement": "peri"}}
LLAMA, LAYERS, IDS = FIXTURES / "llama", 2, [1, 2, 3, 7, 5]


def of_config(config, weights, *ignore_keys):
    """Returns a model from the text of config.json and weights, as ``from_torch`` does."""
    made = ps.Model.__new__(ps.Model)
    made._compiled = model.compiled("llama", config, weights, True, ignore_keys)
    return made


def in_memory():
    return of_config((LLAMA / "config.json").read_text(), read_tensors(LLAMA / "model.safetensors"))


def random_weights(seed=0, dtype="f8"):
    draw = np.random.default_rng(seed)
    return {name: (draw.normal(size=shape) * (1 if "norm" in name else 0.2)).astype(dtype)
            for name, shape in ps.Config(STACK).parameters().items()}


def probed(checkpoint):
    return ps.probe(checkpoint, tokens=[5, 9, 2, 1, 7], backward=True, no_theory=True)


def same(a, b):
    xr.testing.assert_identical(a.drop_attrs(deep=False), b.drop_attrs(deep=False))


def test_a_model_in_memory_equals_its_files():
    files, memory = (ps.probe(one, tokens=[1, 2, 3], backward=True, draws=2) for one in (LLAMA, in_memory()))
    same(memory, files)
    assert memory.attrs["checkpoint"] == "llama"
    files, memory = (ps.certify(one, format=["fp16"]) for one in (LLAMA, in_memory()))
    assert list(files.weights) != list(memory.weights), "names of hashed weights"
    same(memory.drop_dims("weights"), files.drop_dims("weights"))
    same(*(ps.formats(one, tokens=[1, 2, 3], backward=True) for one in (in_memory(), LLAMA)))


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def in_mxfp4(w, block):
    """Rounds rows [n, m] to MXFP4 with blocks of any length; ties are absent from random numbers."""
    rounded = np.empty_like(w)
    for first in range(0, w.shape[1], block):
        part = w[:, first:first + block]
        scale = 2.0 ** (np.floor(np.log2(np.abs(part).max(axis=1, keepdims=True))) - 2)
        number = FP4[np.abs(np.abs(part / scale)[..., None] - FP4).argmin(-1)]
        rounded[:, first:first + block] = np.sign(part) * number * scale
    return rounded


def decibels(x, exact):
    return 10 * np.log10((exact**2).sum() / ((x - exact) ** 2).sum())


@pytest.mark.parametrize("block", [5, 16])
def test_formats_of_a_checkpoint_equal_an_emulation(block):
    ds = ps.formats(LLAMA, tokens=IDS, formats={"format": ["mxfp4"], "block": block})
    found = ds.isel(stack=0, features=0).sel(format="mxfp4")
    for name, w in read_tensors(LLAMA / "model.safetensors").items():
        words = name.removesuffix("_proj.weight").split(".")
        if not name.endswith("_proj.weight"):
            continue
        own = found.sel(matrix=words[-1], layer=int(words[-3]))
        w = np.asarray(w, float)
        assert own.weight_sqnr == pytest.approx(decibels(in_mxfp4(w, block), w), rel=1e-9), name
        assert own.weight_underflow == np.mean(in_mxfp4(w, block)[w != 0] == 0), name
        assert 1 < own.product_sqnr < 30 and abs(own.weight_sqnr - own.weight_sqnr_predicted) < 6


def test_arrays_of_any_layout_and_type_are_equivalent():
    plain, odd = random_weights(), {}
    for name, w in plain.items():
        odd[name] = np.zeros(w.nbytes + 4, np.uint8)[4:].view(w.dtype).reshape(w.shape)  # at an unaligned address
        odd[name][...] = w
    expected = probed(ps.Model(STACK, plain))
    for other in (ps.Model(STACK, {name: np.asfortranarray(w) for name, w in plain.items()}), ps.Model(STACK, odd),
                  ps.Model(STACK, odd, copy=False),
                  ps.Model(STACK, {name: np.repeat(w, 2, axis=0)[::2] for name, w in plain.items()})):
        same(probed(other), expected)
    single = random_weights(dtype="f4")
    same(*(probed(ps.Model(STACK, {n: w.astype(dtype) for n, w in single.items()})) for dtype in ("f4", "f8")))


def test_weights_are_copied_unless_shared():
    weights = random_weights()
    before = {name: w.copy() for name, w in weights.items()}
    copied, shared = ps.Model(STACK, weights), ps.Model(STACK, weights, copy=False)
    expected = probed(copied)
    same(probed(shared), expected)
    for name, w in weights.items():
        np.testing.assert_array_equal(w, before[name])  # runs do not change it
        w *= 2
    same(probed(copied), expected)
    assert not probed(shared).second_moment_measured.equals(expected.second_moment_measured)
    del weights, w
    assert np.isfinite(probed(shared).second_moment_measured).all(), "the model keeps the arrays alive"


def test_the_hash_covers_weights_tokens_and_labels():
    a, b, c = (ps.Model(STACK, random_weights(seed)) for seed in (0, 0, 1))

    def hash_of(model, *labels, tokens=(5, 9, 2)):
        return ps.probe(model, tokens=tokens, labels=labels or None, no_theory=True).attrs["config_sha256"]

    assert hash_of(a) == hash_of(b) == hash_of(a, 9, 2, -1)
    assert len({hash_of(a), hash_of(c), hash_of(a, 9, 2, 1), hash_of(a, 9, -1, -1), hash_of(a, tokens=(5, 9, 1))}) == 5


def test_invalid_models_are_rejected():
    weights = random_weights()
    name, values = next(iter(weights.items()))
    for wrong, named in (({k: w for k, w in weights.items() if k != name}, name),
                         ({**weights, name: values[:-1]}, name),
                         ({**weights, "layers.7.nothing": values}, "layers.7.nothing")):
        with rejected(named):
            probed(ps.Model(STACK, wrong))
    for odd in (values.astype(object), values.astype(">f8"), values.astype("c16"), np.ma.masked_less(values, 0.0)):
        with rejected(name):
            ps.Model(STACK, {**weights, name: odd})
    with pytest.raises(ps.ConfigError):
        ps.Model({"model": {"placement": ["pre", "peri"]}}, weights)
    with pytest.raises(ps.ConfigError):
        ps.probe(3, tokens=[1])
    with rejected("llama"):
        ps.probe(of_config('{"model_type": "llama", "model_type": "gpt2"}', weights), tokens=[1])


def test_unknown_keys_are_ignored_on_request():
    config = json.dumps({**json.loads((LLAMA / "config.json").read_text()), "strange": 1, "other": 2})
    words = {"tokens": [1, 2, 3], "no_theory": True}
    made = of_config(config, read_tensors(LLAMA / "model.safetensors"), "strange")
    with rejected('"other"'):
        ps.probe(made, **words)
    ds = ps.probe(made, **words, ignore_key=["other"])
    assert ds.attrs["ignored_keys"] == "other, strange"
    same(ds.drop_vars("notes"), ps.probe(LLAMA, **words))
    with rejected("rms_norm_eps", ps.ConfigError):
        ps.certify(made, ignore_key=["other", "rms_norm_eps"])


class Pass:
    """A pass of probe in the form of a recorded pass of another program."""

    def __init__(self):
        self.expected = ps.probe(LLAMA, tokens=IDS, backward=True, no_theory=True, dump="dump", force=True)
        self.dumped = read_tensors(Path("dump/activations.safetensors"))
        self.model = in_memory()._compiled
        self.layout = json.loads(_periscope.layout(self.model))

    def signals(self):
        found = [(-1, "x_out", False, self.dumped["stream.0"])]
        for s in range(2 * LAYERS):
            found += [(s, "x_in", False, self.dumped[f"stream.{s}"])]
            found += [(s, "x_out", False, self.dumped[f"stream.{s + 1}"])]
        return found + [(s, "x_out", True, self.dumped[f"grad.stream.{s + 1}"]) for s in range(2 * LAYERS - 1, -2, -1)]

    def gradients(self):
        matrices = [p for p in self.layout["parameters"] if p["weight"] in ("q", "k", "v", "o", "gate", "up", "down")]
        return [(p["sublayer"] // 2, p["weight"], float((self.dumped[f"grad.weight.{p['tensor']}"] ** 2).sum()))
                for p in matrices]

    def replay(self, **words):
        given = {"lengths": [len(IDS)], "ids": IDS, "labels": [*IDS[1:], -1], "signals": self.signals(), "dtype": "f64",
                 "unit_roundoff": 2.0**-53, "gradients": self.gradients(), "logits": self.dumped["logits"], "top": 10}
        return dataset.of_result(_periscope.replay(self.model, **given | words), [])


@pytest.fixture
def made(folder):
    return Pass()


def test_a_replay_equals_probe(made):
    ds = made.replay()
    for name in ("second_moment_measured", "variance_measured", "token_cosine_measured", "kurtosis_measured",
                 "angular_distance_measured", "grad_sq_measured", "log_grad_sq_measured", "weight_grad_sq_measured",
                 "weight_log_grad_sq_measured", "loss", "token_loss"):
        np.testing.assert_allclose(ds[name], made.expected[name], rtol=1e-13, err_msg=name)
    parts = {(part["sublayer"], part["weight"]): part["tensor"] for part in made.layout["parameters"]}
    assert parts[0, "q"] == "model.layers.0.self_attn.q_proj.weight"
    assert parts[3, "norm_a"] == "model.layers.1.post_attention_layernorm.weight"
    assert (len(made.layout["scores"]), [rule["norm_a"] for rule in made.layout["rules"]]) == (LAYERS, [True] * 4)


def test_a_replay_may_have_two_sequences(made):
    twice = [(*where, np.concatenate([values, values])) for *where, values in made.signals()]
    ds = made.replay(lengths=2 * [len(IDS)], ids=2 * IDS, labels=2 * [*IDS[1:], -1], signals=twice,
                     logits=np.concatenate([made.dumped["logits"]] * 2))
    assert json.loads(ds.attrs["config"])["stacks"][0]["input"]["tokens"] == len(IDS)
    assert ds.sizes["token"] == 2 * len(IDS)


def test_without_logits_there_are_no_losses(made):
    for logits in (None, made.dumped["logits"][-1:]):
        ds = made.replay(logits=logits)
        assert np.isnan(ds.loss) and np.isfinite(ds.second_moment_measured).all()


def test_the_growth_identity_holds_to_the_rounding_of_the_format(made):
    rng = np.random.default_rng(0)
    x, b = (np.ldexp(np.round(np.ldexp(rng.normal(size=(5, 8)), 6)), -6) for _ in range(2))
    for bits, unit_roundoff, is_violated in ((6, 2.0**-8, False), (6, 2.0**-24, True), (1, 2.0**-8, True)):
        total = np.ldexp(np.round(np.ldexp(x + 0.3 * b, bits)), -bits)
        signals = [*made.signals(), (0, "x_in", False, x), (0, "B_out", False, 0.3 * b), (0, "sum", False, total)]
        for dtype in ("f32", "f64"):
            ds = made.replay(signals=signals, gradients=[], dtype=dtype, unit_roundoff=unit_roundoff)
            assert bool(ds.growth_violated) == is_violated, ds.growth_residual.values


def test_inconsistent_passes_are_rejected(made):
    x = made.dumped["stream.0"]
    for words, name in (({"signals": [(0, "x_in", False, x[:2])]}, "x_in of sublayer 0"),
                        ({"signals": [(0, "x_in", False, x[:, :3].copy())]}, "x_in of sublayer 0"),
                        ({"signals": [(9, "x_in", False, x)]}, "sublayer 9"), ({"lengths": [4]}, "4 tokens"),
                        ({"signals": [(0, "x", False, x)]}, "signal x"), ({"labels": [1]}, "1 labels"),
                        ({"labels": [99] * 5}, "label 99"), ({"dtype": "f8"}, "f8")):
        with rejected(name, ps.Error):
            made.replay(**words)


def test_check_finds_faults_of_models_in_memory_and_in_files():
    weights = random_weights()
    weights = {name: np.abs(w) if "norm" in name else w for name, w in weights.items()}
    assert ps.check(ps.Model(STACK, weights)) == ps.check(LLAMA) == []
    ps.assert_healthy(LLAMA)
    weights["layers.0.mlp.up.weight"][1, 2] = np.nan
    bad = ps.Model(STACK, weights)
    [found] = ps.check(bad, ignore=["eps"])
    assert (found.kind, found.tensor, found.expected) == ("non-finite", "layers.0.mlp.up.weight", "finite numbers")
    assert "[1, 2] = nan" in found.found
    assert ps.check(bad, ignore="non-finite") == []
    with pytest.raises(ps.WeightsError, match="up.weight") as caught:
        ps.assert_healthy(bad)
    assert (caught.value.findings, caught.value.exit_code) == ([found], 4)
    assert pickle.loads(pickle.dumps(caught.value)).findings == [found]
    with rejected("ignore nan: expected one of non-finite", ps.ConfigError):
        ps.check(bad, ignore="nan")
    with rejected("expected a folder", ps.ConfigError):
        ps.check(None)

"""`info`, `write-checkpoint`, `regauge` and `certify`."""

import hashlib
import json
import math
import shutil

import numpy as np
import pytest

from checkpoint_files import WIDTH, metadata_of, read_tensors, write_checkpoint, write_tensors
from program import CONFIG, FIXTURES, ROOT, contents, rejected, result, run, sets

SMALL = sets("model.layers=2", "model.width=12", "model.heads=3", "model.mlp_width=10", "model.vocab=11")
LETTERS = {"llama": "A", "mistral": "A", "qwen2": "A", "qwen3": "A", "gpt2": "A", "gemma2": "A B", "gemma3": "A B",
           "gemma4": "A B", "olmo2": "B", "opt": "A", "bert": "C", "gpt_neox": "A", "granite": "A", "phi3": "A",
           "glm4": "A B", "olmo3": "B", "smollm3": "A"}


def test_every_matrix_and_table_has_its_standard_deviation(folder):
    run("write-checkpoint", "--family", "gpt2", "--out", "gpt2", "--dtype", "f64", "model.layers=2", "model.width=64",
        "model.heads=2", "model.vocab=256", "init.position_std=0.01", "init.head_std=0.1", "input.tokens=64")
    tensors = read_tensors(folder / "gpt2" / "model.safetensors")
    for name, std in (("transformer.wte", 0.02), ("transformer.wpe", 0.01), ("lm_head", 0.1),
                      ("transformer.h.1.attn.c_attn", 0.02), ("transformer.h.1.mlp.c_fc", 0.02),
                      ("transformer.h.1.attn.c_proj", 0.01),  # 0.02/sqrt(2L) for L = 2 layers
                      ("transformer.h.1.mlp.c_proj", 0.01)):
        assert np.sqrt((tensors[f"{name}.weight"] ** 2).mean()) == pytest.approx(std, rel=0.06), name
    ds = result("probe", "gpt2", "--tokens", ",".join(map(str, range(32))), "--draws", "2", "init.embedding_std=0.02",
                "init.position_std=0.01", "init.head_std=0.1", "init.residual=1/sqrt(2L)")
    assert ds.second_moment_at_init[0] == pytest.approx(5e-4, abs=1e-12)
    assert ds.second_moment_measured[0] == pytest.approx(5e-4, rel=0.2)


@pytest.mark.parametrize("family", LETTERS)
def test_a_family_sets_its_placement_and_input_size(family, folder):
    sizes = {r["name"]: r["sets"]["second_moment"] for r in run("list", "--json").json["recipes"]}
    assert set(LETTERS) == set(sizes)
    written = run("write-checkpoint", "--family", family, "--out", family, "--json", "--quiet", SMALL, "model.width=48",
                  "model.vocab=1000").json
    assert (written["family"], written["placement"]["letters"]) == (family, LETTERS[family])
    assert run("info", family, "--json").json == written
    assert sorted(contents(folder / family)) == ["config.json", "model.safetensors"]
    probed = result("probe", family, "--tokens", ",".join(map(str, range(1000))), "--no-theory")
    if family != "bert":  # the embedding norm of BERT hides the size of the input
        assert probed.second_moment_measured[0] == pytest.approx(eval(sizes[family], {"width": 48}), rel=0.05)


def regauge(folder, out, *flags):
    return run("regauge", folder, "--out", out, "--json", "--quiet", *flags).json


def test_regauge_preserves_the_function_and_divides_the_stream_by_8(folder):
    run("write-checkpoint", "--family", "llama", "--out", "model", SMALL)
    made = regauge("model", "made", "--factor", 8)
    assert made["factor"] == 8
    assert made["logit_difference"] < 1e-12
    eps = [json.loads((folder / name / "config.json").read_text())["rms_norm_eps"] for name in ("model", "made")]
    assert eps[0] == 64 * eps[1]
    assert made["stream"]["before"]["largest"] / made["stream"]["after"]["largest"] == pytest.approx(8, abs=1e-6)
    before, after = (result("probe", name, "--tokens", "1,2,3,4,5", "--no-theory") for name in ("model", "made"))
    assert after.loss == pytest.approx(before.loss.item(), rel=1e-9)
    np.testing.assert_allclose(64 * after.second_moment_measured, before.second_moment_measured, rtol=1e-9)
    texts = [run("generate", name, "--tokens", "1,2", "--count", 8).out for name in ("model", "made")]
    assert texts[0] == texts[1]
    regauge("made", "back", "--factor", 0.125)
    assert contents(folder / "model")["model.safetensors"] == contents(folder / "back")["model.safetensors"]


def test_regauge_counts_rounded_numbers_and_scales_copies_of_a_tied_table(folder):
    tensors = write_checkpoint(folder / "model", changes={"o_proj": (0, 5e-324), "mlp.down_proj": (3, 15e-324)})
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    write_tensors(folder / "model" / "model.safetensors", tensors)
    made = regauge("model", "made", "--factor", 8)
    assert made["tensors"]["numbers_rounded"] == 4  # the two changed entries in each of two layers
    written = read_tensors(folder / "made" / "model.safetensors")
    np.testing.assert_array_equal(written["lm_head.weight"], tensors["lm_head.weight"] / 8)
    np.testing.assert_array_equal(written["model.embed_tokens.weight"], written["lm_head.weight"])


def test_regauge_keeps_aliases_of_tensors(folder):
    tensors = write_checkpoint(folder / "model", tie_word_embeddings=False)
    alias = {"lm_head.weight": "model.embed_tokens.weight"}
    write_tensors(folder / "model" / "model.safetensors", tensors, alias)
    assert regauge("model", "made", "--factor", 8)["logit_difference"] < 1e-12
    assert metadata_of(folder / "made" / "model.safetensors") == {"format": "pt", **alias}


def test_regauge_finds_the_least_power_of_two_for_a_format(folder):
    write_checkpoint(folder / "model", changes={"down_proj": 3000})
    made = regauge("model", "made", "--format", "fp16")
    assert made["factor"] > 1
    assert [made["stream"][when]["certified"] for when in ("before", "after")] == [False, True]
    assert made["stream"]["after"]["largest"] < 65504
    regauge("model", "less", "--factor", made["factor"] / 2)
    for name, code in (("model", 4), ("made", 0), ("less", 4)):
        run("certify", name, "--require", "fp16", "--quiet", code=code)
    assert regauge("made", "again", "--format", "fp16")["factor"] == 1
    assert result("certify", "model", "--headroom", "fp16").scaled_c * made["factor"] == 1


EMBEDDING, GAIN, DOWN = "model.embed_tokens.weight", "model.layers.1.input_layernorm.weight", "layers.0.mlp.down_proj"


def row_rms(w):
    return np.median(np.sqrt((w**2).mean(axis=1)))


def checked(folder, edit, *flags, code=4, **config):
    """Writes a small checkpoint after edit(tensors) and returns (kind, tensor, found) of the findings of --check."""
    tensors = write_checkpoint(folder / "model", **config)
    edit(tensors)
    write_tensors(folder / "model" / "model.safetensors", tensors)
    answer = run("info", "model", "--check", "--json", "--quiet", *flags, code=code).json
    assert answer["tensors"] == 20
    return [(found["kind"], found["tensor"], found["found"]) for found in answer["findings"]]


def put(tensor, at, value):
    def edit(tensors):
        w = next(w for name, w in tensors.items() if tensor in name)
        w[at] = value(w) if callable(value) else value
    return edit


def shift_gains(by):
    def edit(tensors):
        for name in (name for name in tensors if "norm" in name):
            tensors[name] += by
    return edit


# Every fault just above its limit, and the same change just below.
FAULTS = {
    "nan": (put(DOWN, (0, 5), math.nan), put(DOWN, (0, 5), 1.0), "non-finite", DOWN,
            "1 of 384 entries are not finite, the first is [0, 5] = nan"),
    "inf": (put(GAIN, slice(3, 5), -math.inf), None, "non-finite", GAIN,
            "2 of 16 entries are not finite, the first is [3] = -inf"),
    "row": (put(EMBEDDING, slice(7, 9), 0.0), put(EMBEDDING, (7, slice(15)), 0.0), "zeros", EMBEDDING,
            "2 of 256 rows are zero, the first is 7"),
    "column": (put(DOWN, (slice(None), 3), 0.0), None, "zeros", DOWN, "1 of 24 columns are zero, the first is 3"),
    "repeated": (put(EMBEDDING, 9, lambda w: w[4]), put(EMBEDDING, (9, slice(15)), lambda w: w[4, :15]),
                 "repeated-rows", EMBEDDING, "1 of 256 rows equal an earlier row, the first is 9"),
    "mean": (put(EMBEDDING, slice(200, 256), lambda w: w[:200].mean(axis=0) + 5e-4 * w[200:]),
             put(EMBEDDING, slice(200, 256), lambda w: w[:200].mean(axis=0) + 5e-3 * w[200:]),
             "mean-rows", EMBEDDING, "56 of 256 rows are near the mean row, the first is 200"),
    "entry": (put(DOWN, (2, 5), lambda w: -1100 * row_rms(w)), put(DOWN, (2, 5), lambda w: -300 * row_rms(w)),
              "outliers", DOWN, "1 of 16 rows have a far larger entry, the first is [2, 5] = -408.5"),
    "large row": (put(EMBEDDING, 7, lambda w: 110 * row_rms(w)), put(EMBEDDING, 7, lambda w: 90 * row_rms(w)),
                  "outliers", EMBEDDING, "1 of 256 rows are far larger than the others, the first is 7"),
    "gain": (put(GAIN, 6, lambda w: 1100 * np.median(w)), put(GAIN, 6, lambda w: 900 * np.median(w)),
             "outliers", GAIN, "1 of 16 entries are far larger, the first is [6] = "),
    "zero gains": (put(GAIN, ..., 0.0), put(GAIN, slice(15), 0.0), "zeros", GAIN, "all gains of a norm are zero"),
    "added": (shift_gains(1.0), shift_gains(0.4), "gains", "model.layers.0.input_layernorm.weight",
              "mean gain 1.94 in the median of 5 norms, 0 % of gains below 0.95"),
    "subtracted": (shift_gains(-1.0), shift_gains(-0.8), "gains", "model.layers.0.input_layernorm.weight",
                   "mean gain -0.0557 in the median of 5 norms, 40 % of gains below -0.1"),
    "eps": (put(EMBEDDING, ..., lambda w: w * 0.021), put(EMBEDDING, ..., lambda w: w * 0.024), "eps", EMBEDDING,
            "median mean square 6."),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_every_fault_above_its_limit_and_none_below(fault, folder):
    above, below, kind, tensor, found = FAULTS[fault]
    [(found_kind, found_tensor, text)] = checked(folder, above)
    assert found_kind == kind and tensor in found_tensor and text.startswith(found)
    assert f"{kind:15}{found_tensor}: {text}"[:60] in run("info", "model", "--check", code=4).out
    assert checked(folder, above, "--ignore", kind, code=0) == []
    if below is not None:
        assert checked(folder, below, code=0) == []


def test_check_continues_after_tied_copies_that_differ(folder):
    def edit(tensors):
        tensors["lm_head.weight"] = tensors[EMBEDDING] * 1.0
        tensors["lm_head.weight"][3, 3] += 1e-9
        tensors[GAIN][2] = math.nan
    assert [found[:2] for found in checked(folder, edit)] == [("non-finite", GAIN), ("tied-copies", "lm_head.weight")]
    rejected("info", "model", code=3, names="expected equal tensors")


@pytest.mark.parametrize(("scale", "kind"), [(math.nan, "non-finite"), (0.0, "zeros"), (-2.0, None)])
def test_check_reports_invalid_factors_of_layers(scale, kind, folder):
    shutil.copytree(FIXTURES / "gemma4", folder / "model")
    path, name = folder / "model" / "model.safetensors", "model.layers.1.layer_scalar"
    write_tensors(path, read_tensors(path) | {name: np.array([scale], np.float32)})
    found = run("info", "model", "--check", "--json", "--quiet", code=None).json["findings"]
    assert [one["kind"] for one in found if one["tensor"] == name] == [kind] * (kind is not None)
    if kind is not None:
        rejected("info", "model", code=3, names=(name, "expected a finite number other than 0"))


def test_bounds_of_caches_belong_to_the_heads_of_their_layer():
    ds = result("certify", FIXTURES / "gemma4")  # two key heads, then one
    assert np.isfinite(ds.cache_bound).sum("kv_head").values.tolist() == [[2, 1], [2, 1]]
    for cached in ("k", "v"):
        found = ds.cache_bound.sel(cached=cached).max("kv_head")
        np.testing.assert_allclose(found, ds.bound.sel(signal=cached, place=[0, 2]), rtol=1e-12)


def test_regauge_rejects_models_with_images(folder):
    shutil.copytree(FIXTURES / "gemma3-nested", folder / "model")
    path, name = folder / "model" / "model.safetensors", "model.vision_tower.post_layernorm.bias"
    text = {key: w for key, w in read_tensors(path).items() if key.startswith("language_model.")}
    write_tensors(path, text | {name: np.ones(3, np.float32)})
    rejected("regauge", "model", "--out", "out", "--factor", "2", names=(name, "a model of text alone"))
    write_tensors(path, text)
    assert regauge("model", "made", "--factor", 2)["factor"] == 2


def test_the_padding_tokens_row_may_be_zero(folder):
    pad = put(EMBEDDING, 5, 0.0)
    assert checked(folder, pad, code=0, pad_token_id=5) == []
    assert len(checked(folder, pad, pad_token_id=6)) == 1
    rejected("info", "model", "--check", "--ignore", "zero", names=("--ignore zero", "repeated-rows"))
    rejected("info", "model", "--ignore", "zeros", names="--check")


@pytest.mark.parametrize("family", LETTERS)
def test_check_finds_nothing_in_random_checkpoints(family, folder):
    for seed in range(3):
        run("write-checkpoint", "--family", family, "--out", f"m{seed}", "--quiet", SMALL, f"run.seed={seed}")
        assert run("info", f"m{seed}", "--check").out.startswith("0 findings in ")


@pytest.mark.parametrize("name", ["gemma2", "gemma3-nested"])
def test_check_finds_gains_to_which_one_was_added_twice(name, folder):
    shutil.copytree(FIXTURES / name, folder / "model")
    tensors = read_tensors(folder / "model" / "model.safetensors")
    assert "gains" not in run("info", "model", "--check", "--json", "--quiet", code=None).out
    write_tensors(folder / "model" / "model.safetensors",
                  {key: np.abs(w) + 0.5 if "norm" in key else w for key, w in tensors.items()})
    assert "was 1 added twice?" in run("info", "model", "--check", "--json", "--quiet", code=4).out


LLAMA = ROOT / "tests" / "checkpoint" / "fixtures" / "llama"


def test_folders_without_a_readable_checkpoint_are_rejected(folder):
    def check_rejected(place, *names):
        rejected("info", place, code=3, names=names)

    (folder / "circle").symlink_to("circle")
    check_rejected("circle", "circle: Too many levels of symbolic links")
    check_rejected("x" * 300, "x: File name too long")
    cache = folder / "models--org--name"
    for name in ("0a1b", "9f3e"):
        (cache / "snapshots" / name).mkdir(parents=True)
    (cache / "refs").mkdir()
    for main, snapshot in ((None, "0a1b"), ("9f3e", "9f3e"), ("../../elsewhere", "0a1b")):
        if main:
            (cache / "refs" / "main").write_text(main)
        check_rejected(cache, f"{cache}/snapshots/{snapshot}\n")
    for name in ("pytorch_model.bin", "model.gguf"):
        place = folder / name.replace(".", "-")
        place.mkdir()
        (place / name).write_bytes(b"PK")
        check_rejected(place, f'"{name}"')
        (place / "config.json").write_bytes((LLAMA / "config.json").read_bytes())
        check_rejected(place, f'"{name}"')
        check_rejected(place / name, place)


PERI = (*CONFIG, "model.placement=peri")
TOKENS, GAUSSIAN = (*PERI, "input.kind=tokens"), (*PERI, "input.kind=gaussian")
UP = "model.layers.0.mlp.up_proj.weight"


def largest(values):
    return float(np.nanmax(values))


def test_measured_and_attacked_checkpoints_stay_within_their_bounds():
    ds = result("certify", FIXTURES / "gemma2", "--tokens", "1,2,3", "--attack", 5, "--headroom", "fp16")
    weights = hashlib.sha256((FIXTURES / "gemma2" / "model.safetensors").read_bytes()).hexdigest()
    assert (ds.arithmetic, list(ds.weights), list(ds.weights_sha256)) == ("mixed", ["model.safetensors"], [weights])
    known = np.isfinite(ds.measured)
    assert known.sum() > 20
    assert (ds.measured <= ds.own_bound).where(known, True).all()  # bounds of f64 hold without a tolerance
    assert (ds.attack_reached <= ds.attack_bound).all()
    fp16 = ds.sel(format="fp16")
    assert ds.scaled_c <= fp16.headroom_c_certified
    assert fp16.scaled_run_certified.sel({"class": "stream"})


def test_a_random_stack_is_bounded_by_its_input_or_by_its_embedding_norm():
    ds = result("certify", GAUSSIAN, "--input-maximum", 4, "--measure", "--attack", 10)
    assert (ds.input_maximum, largest(ds.stream_bound[0])) == (4.0, 4.0)
    ds = result("certify", GAUSSIAN, "model.embedding_norm=true", "--attack", 40)
    assert ds.input_maximum == math.inf
    assert largest(ds.stream_bound[0]) == pytest.approx(32**0.5, abs=1e-9)
    # Norms sum squares in FP32, where squares of large BF16 numbers overflow, but squares of FP16 numbers do not.
    assert ds.stream_certified.sel(format="fp16")
    assert not ds.stream_certified.sel(format="bf16")
    assert "squares" in ds.stream_reason.sel(format="bf16").item()


@pytest.mark.parametrize(("maximum", "certified"), [(100, 1), (65504, 1), (65520, 0), (1e150, 0), (1e160, 0)])
def test_inputs_are_certified_up_to_the_range_of_the_format(maximum, certified):
    ds = result("certify", GAUSSIAN, "model.embedding_norm=true", "--input-maximum", maximum)
    assert ds.stream_certified.sel(format="fp16") == certified


def test_bounds_of_norms_of_streams_beyond_1e154_are_not_0():
    ds = result("certify", CONFIG, "model.placement=none", "model.final_norm=true", "model.layers=6", "model.vocab=64",
                "input.kind=tokens", "input.tokens=8", "model.mlp_width=128", "--measure")
    assert "exceeded" not in ds
    output = ds.sel(signal="output", place=12)
    assert 1 < output.measured <= output.bound
    assert not (ds.everywhere_certified == 1).any()


def test_a_run_that_overflows_its_dtype_violates_no_bound():
    huge = (*CONFIG, "model.placement={beta = 1e30}", "input.kind=tokens", "--measure")
    ds = result("certify", huge, "--dtype", "f32")
    assert "exceeded" not in ds
    assert ds.overflowed.item().startswith("hidden, layer 0 MLP")
    assert ds.overflowed.item() in run("certify", huge, "--dtype", "f32").err
    ds = result("certify", huge, "--dtype", "f64")
    assert "exceeded" not in ds and "overflowed" not in ds


def test_a_weight_beyond_the_range_of_a_format_is_named(folder):
    write_checkpoint(folder / "heavy", changes={"layers.0.mlp.up_proj": 1e6, "layers.0.mlp.down_proj": 1e-6})
    fp16 = result("certify", "heavy", "--headroom", "fp16").sel(format="fp16")
    for reason in (fp16.stream_reason, fp16.headroom_reason):
        assert reason.item().startswith(f"{UP}: entry ") and "65504" in reason.item()
    assert np.isnan(fp16.headroom_c_certified)
    assert "0x weights" not in run("certify", "heavy").err
    rejected("regauge", "heavy", "--format", "fp16", "--out", "made", names=f"{UP}: entry ")


def test_a_cache_in_8_bits_is_judged_without_the_rest_of_the_run(folder):
    run("write-checkpoint", "--family", "qwen3", "--out", "model", "--quiet", SMALL)
    tensors = read_tensors(folder / "model" / "model.safetensors")
    for name in tensors:
        tensors[name] *= 1e5 if "k_proj" in name else 1.0
    write_tensors(folder / "model" / "model.safetensors", tensors)
    run("certify", "model", "--require", "cache:fp8_e4m3", "--quiet")  # the QK-norm limits keys
    run("certify", "model", "--require", "attention:fp8_e4m3", "--quiet", code=4)
    tensors["model.layers.1.self_attn.k_norm.weight"][0] = 500.0
    write_tensors(folder / "model" / "model.safetensors", tensors)
    run("certify", "model", "--require", "cache:fp8_e5m2", "--quiet")
    answer = run("certify", "model", "--require", "cache:fp8_e4m3", code=4)
    assert "k of layer 1, head 0" in answer.err and "cache" in answer.err
    ds = result("certify", "model")
    keys = ds.cache_bound.sel(cached="k", layer=1)
    assert (keys >= 500).all() and (ds.cache_bound.sel(layer=0) < 448).all()
    assert keys.max() == pytest.approx(ds.bound.sel(signal="k", place=2).item(), rel=1e-12)


def test_products_that_overflow_accumulators_in_fp16_have_a_remedy(folder):
    write_checkpoint(folder / "model", changes={"layers.1.mlp.up_proj": 3e4, "layers.1.mlp.down_proj": 1e-4})
    ds = result("certify", "model", "--format", "fp16")
    over = ds.fp16_partial_sums > 65504
    assert [(ds["product"].values[i], ds.place.values[j]) for i, j in np.argwhere(over.values)] == [("up", 3)]
    assert ((ds.fp16_curing_shift > 0) == over).all()
    shift = ds.fp16_curing_shift.sel(product="up", place=3).item()
    assert f"multiply the input by 2^-{shift:.0f}" in run("certify", "model", "--format", "fp16").err
    assert "no partial sum can overflow" in run("certify", FIXTURES / "llama", "--format", "fp16").err
    assert "fp16_partial_sums" not in result("certify", "model", "--format", "bf16")


def test_a_non_finite_weight_far_into_a_large_tensor_is_named_by_its_index(folder):
    write_checkpoint(folder / "model", vocab=40000, changes={"embed_tokens": (600_000, math.nan)})
    assert "model.embed_tokens.weight: entry 600000 is nan" in run("info", "model").out


@pytest.mark.parametrize(("value", "part"), [(math.nan, "self_attn.q_proj"), (math.inf, "mlp.down_proj")])
def test_non_finite_weights_are_rejected_by_name(value, part, folder):
    name = f"model.layers.0.{part}.weight"
    write_checkpoint(folder / "model", changes={name: (3, value)})
    for flag in ("--require", "--headroom"):
        rejected("certify", "model", flag, "fp16", code=3, names=f"{name}: entry 3 ")
    assert run("info", "model", "--json", "--quiet").json["warnings"] == [f"{name}: entry 3 is {value}"]
    assert f"{name}: entry 3 is {value}" in run("info", "model").out
    run("generate", "model", "--tokens", "1,2", "--count", 1, code=1 if math.isnan(value) else None)


def test_the_measured_headroom_is_proportional_to_the_range_of_a_format():
    ds = result("certify", FIXTURES / "llama", "--tokens", "1,2,3", "--format", "bf16", "--headroom", "fp16")
    share = (ds.headroom_c_measured / ds.format_largest).values
    share = share[np.isfinite(share)]
    assert len(share) == 2
    np.testing.assert_allclose(share[0], share[1], rtol=1e-12)


def test_only_certify_and_info_read_mixtures_of_experts(folder):
    tensors = write_checkpoint(folder / "model", model_type="mixtral", architectures=["MixtralForCausalLM"],
                               num_local_experts=2, num_experts_per_tok=2)
    for name in [name for name in tensors if ".mlp." in name]:
        stem, matrix = name.split(".mlp.")
        dense, short = tensors.pop(name), {"g": "w1", "u": "w3", "d": "w2"}[matrix[0]]
        tensors |= {f"{stem}.block_sparse_moe.experts.{e}.{short}.weight": (1 + e) * dense for e in range(2)}
        tensors[f"{stem}.block_sparse_moe.gate.weight"] = np.ones([2, WIDTH])
    write_tensors(folder / "model" / "model.safetensors", tensors)
    info = run("info", "model", "--json").json
    assert {"experts": 2, "experts_per_token": 2, "normalised_expert_weights": True}.items() <= info["shape"].items()
    rows = [row["tensor"] for row in info["names"] if "experts" in row["parameter"]]
    assert rows == [f"model.layers.{{i}}.block_sparse_moe.experts.{{e}}.{w}.weight" for w in ("w1", "w3", "w2")]
    assert "MLP, expert 1, feature" in run("certify", "model", "--format", "fp16").err
    for words in (["probe", "--tokens", "1"], ["generate", "--tokens", "1"], ["formats", "--tokens", "1"],
                  ["regauge", "--out", "out", "--factor", "2"]):
        rejected(words[0], "model", *words[1:], code=3, names="key \"model_type\" = \"mixtral\": expected a family "
                 "without mixtures of experts; only certify and info read them, from a folder")
    for words in (["--tokens", "1,2"], ["--attack", "3"], ["--headroom", "fp16"]):
        rejected("certify", "model", *words, names="expected a checkpoint without mixtures of experts")
    broken = "model.layers.1.block_sparse_moe.experts.1.w2.weight"
    tensors[broken][0, 3] = math.nan
    write_tensors(folder / "model" / "model.safetensors", tensors)
    assert [found["tensor"] for found in run("info", "model", "--check", "--json", code=4).json["findings"]] == [broken]
    rejected("certify", "model", code=3, names=f"{broken}: entry 3 = nan")

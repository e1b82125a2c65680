"""`info`, `write-checkpoint`, `regauge` and `certify`."""

import hashlib
import json
import math

import numpy as np
import pytest

from checkpoint_files import metadata_of, read_tensors, write_checkpoint, write_tensors
from program import CONFIG, FIXTURES, ROOT, contents, rejected, result, run, sets

SMALL = sets("model.layers=2", "model.width=12", "model.heads=3", "model.mlp_width=10", "model.vocab=11")
LETTERS = {"llama": "A", "mistral": "A", "qwen2": "A", "qwen3": "A", "gpt2": "A", "gemma2": "A B", "gemma3": "A B",
           "olmo2": "B", "opt": "A", "bert": "C"}


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

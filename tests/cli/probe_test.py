"""`probe` and `generate`."""

import json
import math
import struct

import numpy as np
import pytest

from checkpoint_files import LAYERS, WIDTH, read_tensors, write_checkpoint, write_tensors
from program import CONFIG, FIXTURES, SHARED, differing, fact, rejected, result, run, unavailable

STORIES = SHARED / "checkpoints" / "stories260K"
IDS = [5, 9, 2, 250, 9, 17]
TOKENS = ("--tokens", "5,9,2,250,9,17")


@pytest.fixture
def tensors(folder):
    """The tensors of the checkpoint in the folder "tiny"."""
    return write_checkpoint(folder / "tiny")


def probe(*words, **options):
    return result("probe", "tiny", "--no-theory", *words, **options)


def test_columns_satisfy_their_identities(tensors):
    ds = result("probe", "tiny", TOKENS, "--backward")
    assert list(ds.label) == [9, 2, 250, 9, 17, -1], "the next token; none after the last"
    assert ds.loss == pytest.approx(ds.token_loss[:-1].mean().item(), abs=1e-13)
    measured, at_init, at_scales, at_profiles = (ds[f"second_moment_{v}"].values for v in (
        "measured", "at_init", "at_scales", "at_profiles"))
    assert at_scales[0] == pytest.approx(measured[0], abs=1e-12), "embedding rows of the tokens"
    parts = {part: ds[f"log_growth_from_{part}"].values for part in ("scales", "sizes_inside", "alignment")}
    np.testing.assert_allclose(parts["scales"], np.log(at_scales / at_init), atol=1e-12)
    np.testing.assert_allclose(parts["sizes_inside"], np.log(at_profiles / at_scales), atol=1e-12)
    np.testing.assert_allclose(sum(parts.values()), np.log(measured / at_init), atol=1e-12)
    np.testing.assert_allclose(ds.growth_stream + ds.growth_branch + ds.growth_cross, measured[1:], atol=1e-13)
    np.testing.assert_array_equal(abs(ds.extreme_value.isel(rank=0)), ds.maximum_measured)
    for name, limit in (("fp16", 65504.0), ("fp8_e4m3", 448.0), ("fp8_e5m2", 57344.0)):
        margins = ds.margin.sel(format=name, signal="x_out")
        np.testing.assert_array_equal(margins, limit / ds.maximum_measured.values[1:])


def test_all_forms_of_tokens_are_equivalent(tensors, folder):
    expected = probe(TOKENS)
    for text in ("5 9 2\n250, 9\t17\n", "[5, 9, 2, 250, 9, 17]"):
        (folder / "ids").write_text(text)
        assert differing(probe("--tokens", "ids"), expected) == set()
    (folder / "ids").write_bytes(bytes(IDS))
    by_text = probe("--text", "ids")
    assert (list(by_text.token_id), by_text.tokenizer) == (IDS, "bytes")
    cut = probe("--text", "ids", "--max-tokens", 3)
    assert (list(cut.token_id), list(cut.label)) == ([5, 9, 2], [9, 2, -1])
    assert any("--max-tokens" in note for note in cut.notes.values)


def test_the_loss_is_the_mean_over_labeled_tokens(tensors):
    assert probe(TOKENS, "--labels", "9,2,250,9,17,-1").loss == probe(TOKENS).loss
    some = probe(TOKENS, "--labels", "-1,-1,0,-1,255,-1")
    assert list(np.isfinite(some.token_loss)) == [False, False, True, False, True, False]
    assert some.loss == pytest.approx(some.token_loss.mean().item(), abs=1e-14)


def test_a_llama2c_tokenizer_is_found(folder):
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % b for b in range(256)] + [b" ", b"a", b" a"]
    entries = b"".join(struct.pack("<fi", -i, len(p)) + p for i, p in enumerate(pieces))
    write_checkpoint(folder / "tiny", vocab=len(pieces))
    (folder / "tiny" / "tok262.bin").write_bytes(struct.pack("<i", 6) + entries)
    (folder / "words").write_text("aab")
    ds = probe("--text", "words")
    assert list(ds.token_id) == [1, 261, 260, 3 + ord("b")]
    assert ds.tokenizer.item().endswith("tok262.bin")
    assert list(ds.token_text) == ["\\x0a<s>\\x0a", " a", "a", "b"]


def test_a_dump_has_signals_and_gradients(tensors, folder):
    ds = probe(TOKENS, "--backward", "--dump", "dump")
    assert [p.name for p in (folder / "dump").iterdir()] == ["activations.safetensors"]
    dumped = read_tensors(folder / "dump" / "activations.safetensors")
    expected = {"input": (6, WIDTH), "tokens": (6,), "labels": (6,), "logits": (6, 256), "loss": (1,)}
    expected |= {f"{g}stream.{i}": (6, WIDTH) for g in ("", "grad.") for i in range(2 * LAYERS + 1)}
    expected |= {f"grad.weight.{name}": tensor.shape for name, tensor in tensors.items()}
    assert {name: tensor.shape for name, tensor in dumped.items()} == expected
    assert [dumped[n].tolist() for n in ("tokens", "labels", "loss")] == [IDS, list(ds.label), [ds.loss]]
    np.testing.assert_array_equal(dumped["input"], tensors["model.embed_tokens.weight"][IDS])
    moments = [(dumped[f"stream.{i}"] ** 2).mean() for i in range(2 * LAYERS + 1)]
    np.testing.assert_allclose(moments, ds.second_moment_measured, atol=1e-13)
    losses = np.log(np.exp(dumped["logits"]).sum(-1)) - dumped["logits"][range(6), dumped["labels"]]
    np.testing.assert_allclose(ds.token_loss[:-1], losses[:-1], atol=1e-12)
    probe(TOKENS, "--dump", "forward")
    alone = read_tensors(folder / "forward" / "activations.safetensors")
    assert set(alone) == {name for name in dumped if not name.startswith("grad.")}
    assert all(np.array_equal(alone[name], dumped[name]) for name in alone)


def test_dtypes_and_devices_agree_and_threads_change_nothing(tensors):
    one, two, reference, single = (probe(TOKENS, "--backward", *flags) for flags in (
        ["--threads", 1], ["--threads", 2], ["--device", "reference"], ["--dtype", "f32"]))
    assert differing(one, two) == set()
    assert (fact(single)["run"]["dtype"], single.growth_violated) == ("f32", False)
    for other, tolerance in ((reference, 1e-12), (single, 1e-5)):
        np.testing.assert_allclose(other.variance_measured, one.variance_measured, rtol=tolerance)
        assert differing(one, other) >= {"variance_measured"}


def test_small_passes_use_one_thread():
    """OMP_DISPLAY_AFFINITY prints a line for every thread of a team."""
    def threads(*words):
        return run(*words, "--threads", 2, "--quiet", env={"OMP_DISPLAY_AFFINITY": "true"}).err.count("affinity")

    if threads("propagate", CONFIG, "model.mlp_width=4096") == 0:
        pytest.skip("this OpenMP does not print its threads")
    run("write-checkpoint", "--family", "llama", "model.width=96", "model.heads=4", "model.layers=2", "model.vocab=256",
        "--out", "small")
    assert threads("probe", "small", "--tokens", ",".join(map(str, range(64))), "--no-theory") == 0


def test_an_overflowing_stream_is_a_divergence(folder):
    write_checkpoint(folder / "tiny", changes={"layers.0.mlp.down_proj": (slice(0, WIDTH), 1e38)})
    assert "diverged_at" not in probe(TOKENS)
    ds = probe(TOKENS, "--dtype", "f32")
    assert (ds.diverged_at, np.isnan(ds.loss), ds.growth_violated) == (1, True, False)
    probe(TOKENS, "--dtype", "f32", "--fail-on-divergence", code=5)


@pytest.mark.parametrize(("name", "place", "value", "where"), [
    ("model.norm.weight", 0, math.nan, "output"), ("model.norm.weight", WIDTH - 1, math.inf, "output"),
    ("model.layers.1.mlp.down_proj.weight", 3, math.nan, "f_out of sublayer 3"),
])
def test_non_finite_weights_are_named(name, place, value, where, folder):
    write_checkpoint(folder / "tiny", changes={name: (place, value)})
    ds = probe(TOKENS)
    assert (ds.not_finite, np.isnan(ds.loss)) == (where, True)
    assert f"{name}: entry {place} is {value}" in list(ds.notes)
    table = run("probe", "tiny", TOKENS, "--no-theory", "--fail-on-divergence", code=5).err
    assert f"{name}: entry {place} is {value}\n" in table and where in table


def test_nan_in_an_unused_embedding_row_has_no_effect(folder):
    unread = 7 * WIDTH + 1
    tensors = write_checkpoint(folder / "tiny", tie_word_embeddings=False)
    head = tensors["model.embed_tokens.weight"].copy()
    tensors["model.embed_tokens.weight"].flat[unread] = math.nan
    write_tensors(folder / "tiny" / "model.safetensors", tensors | {"lm_head.weight": head})
    ds = result("probe", "tiny", TOKENS, "--draws", "1")
    assert "not_finite" not in ds and "is nan" not in str(ds.get("notes"))
    assert run("info", "tiny", "--json").json["warnings"] == [f"model.embed_tokens.weight: entry {unread} is nan"]
    assert probe("--tokens", "5,7").not_finite == "embedding"


def test_generation_is_greedy_and_written_to_a_file(tensors, folder):
    found = run("generate", "tiny", "--tokens", "5,9", "--count", 4, "--json", "--quiet").json
    ids = found["ids"]
    assert (len(ids), ids[:2], found["prompt_tokens"]) == (6, [5, 9], 2)
    for n in range(2, 6):
        probe("--tokens", ",".join(map(str, ids[:n])), "--dump", ".", "--force")
        assert read_tensors(folder / "activations.safetensors")["logits"][-1].argmax() == ids[n]
    again = run("generate", "tiny", "--tokens", "5,9,", "--count", 4, "--json", "--quiet", "--out", ".").json
    assert again == found == json.loads((folder / "generate.json").read_text())


def test_bert_without_labels_has_no_loss():
    bert, headless, words = FIXTURES / "bert-old", FIXTURES / "bert-headless", ("--tokens", "1,2,3")
    for model in (bert, headless):
        ds = result("probe", model, words)
        assert np.isnan(ds.loss) and any(note.startswith("no loss: ") for note in ds.notes.values)
    rejected("probe", bert, words, "--backward", "--quiet", names="--labels")
    rejected("generate", bert, "--tokens", "1", "--quiet", names="causal")
    ds = result("probe", bert, words, "--labels", "2,3,1", "--backward")
    assert "gradient_theory_unsupported" in ds and "variance_at_init" in ds and "grad_sq_at_init" not in ds
    assert (ds.grad_sq_measured > 0).all()


def test_texts_beyond_the_position_table_are_rejected():
    gpt2 = FIXTURES / "gpt2-bare"
    rejected("probe", gpt2, "--tokens", ",".join(["1"] * 2000), "--quiet", names="longest input")
    rejected("generate", gpt2, "--tokens", "1", "--count", 2000, "--quiet", names="longest input")


def test_gains_of_norm_b_give_the_branch_sizes_of_peri():
    ds = result("probe", FIXTURES / "gemma2", "--tokens", "1,2,3,4,5")
    assert fact(ds)["stacks"][0]["model"]["placement"] == "peri"
    tensors = read_tensors(FIXTURES / "gemma2" / "model.safetensors")
    for s, size in enumerate(ds.branch_from_gains.values):
        where = "post_feedforward_layernorm" if s % 2 else "post_attention_layernorm"
        squares = (1.0 + tensors[f"model.layers.{s // 2}.{where}.weight"].astype(float)) ** 2
        assert size == pytest.approx(squares.mean(), abs=1e-12)
        # These bounds hold for any direction of the branch.
        assert 0.5 * squares.min() < ds.growth_branch[s] <= squares.max()


@pytest.fixture
def golden():
    if not STORIES.exists():
        unavailable(f"{STORIES} does not exist")
    return json.loads((STORIES / "golden.json").read_text())


def test_stories260k_writes_and_reads_the_golden_text(golden, folder):
    for dtype in ("f64", "f32"):
        words = ("generate", STORIES, "--tokens", "1", "--count", 64, "--dtype", dtype, "--json", "--quiet")
        found = run(*words).json
        assert found["ids"] == golden["ids"]
        assert found["text"].startswith("Once upon a time, there was a little girl named Lily.")
    (folder / "text").write_text(found["text"])
    assert list(result("probe", STORIES, "--text", "text", "--no-theory").token_id) == golden["ids"]


def test_stories260k_has_the_golden_statistics(golden):
    ds = result("probe", STORIES, "--tokens", ",".join(map(str, golden["ids"][:golden["n"]])), "--no-theory")
    assert not ds.growth_violated
    for name, values in (("resid_second_moment", ds.second_moment_measured), ("resid_max_abs", ds.maximum_measured),
                         ("branch_second_moment", ds.site_second_moment_measured.sel(site="B_out"))):
        np.testing.assert_allclose(values, golden[name], rtol=1e-10, err_msg=name)

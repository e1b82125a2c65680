"""Random transformers models of every family, compared with the program on saved files and with records.
PERISCOPE_COUNT and PERISCOPE_SEED set the number of checkpoints and the first seed."""

import os
from contextlib import nullcontext

import numpy as np
import pytest
import xarray as xr

from module import ps
from program import run
from torch_models import FAMILIES, all_in_double, model_of, safetensors, torch

COUNT, SEED = (int(os.environ.get(f"PERISCOPE_{name}", usual)) for name, usual in (("COUNT", 3), ("SEED", 1)))
TOLERANCE = 1e-9  # relative to the largest entry
every_family = pytest.mark.parametrize("family", FAMILIES)


def loss_of(model, ids):
    batch, is_bert = torch.tensor([ids]), model.config.model_type == "bert"
    logits = model(input_ids=batch).logits[0]
    labels = batch[0] if is_bert else batch[0, 1:]
    torch.nn.functional.cross_entropy(logits[: len(labels)], labels).backward()
    return logits.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
@every_family
def test_logits_and_gradients_of_random_checkpoints_equal_transformers(family, seed, folder):
    with all_in_double():
        model, ids = model_of(family, seed)
        model.save_pretrained(folder / "model")
        logits, expected = loss_of(model, ids)
    words = ",".join(map(str, ids))
    run("probe", "model", "--tokens", words, ["--labels", words] if family == "bert" else [], "--backward",
        "--no-theory", "--dump", "dump", "--quiet", "--threads", "1")
    dumped = safetensors.load_file(folder / "dump" / "activations.safetensors")
    found = {name.removeprefix("grad.weight."): x for name, x in dumped.items() if name.startswith("grad.weight.")}
    if "embed_out.weight" in found:  # the stored name of GPT-NeoX's head
        found["lm_head.weight"] = found.pop("embed_out.weight")
    assert float((dumped["logits"] - logits).abs().max()) <= TOLERANCE * float(logits.abs().max())
    largest = max(float(g.abs().max()) for g in expected.values())
    # Gradients that vanish exactly, such as those of key biases, are rounding noise in transformers.
    missing = {name for name, g in expected.items() if name not in found and float(g.abs().max()) > TOLERANCE * largest}
    assert (missing, set(found) - set(expected)) == (set(), set())
    for name, g in found.items():
        scale = max(float(expected[name].abs().max()), 1e-3 * largest)
        assert float((g - expected[name]).abs().max()) <= TOLERANCE * scale, name


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "bert"])
def test_greedy_tokens_equal_transformers(family, seed, folder):
    count = 4  # longrope limits some sequences to 16 tokens
    with all_in_double(), torch.no_grad():
        model, ids = model_of(family, seed)
        model.save_pretrained(folder / "model")
        tokens = list(ids)
        for _ in range(count):
            tokens.append(int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()))
    written = run("generate", "model", "--tokens", ",".join(map(str, ids)), "--count", count, "--threads", "1")
    assert list(map(int, written.out.replace(",", " ").split())) == tokens


def size_of(theirs, name):
    """Returns the scale of differences in a column: 1 for cosines and logarithms, the root mean square for means, else
    the value itself."""
    if "cosine" in name or "log_" in name or "share" in name:
        return 1.0
    if name == "token_grad_sq_measured":  # the error of a token's gradient scales with the largest token's gradient
        return np.sqrt(theirs[name] * theirs[name].max("token")).values
    if name.endswith("mean_measured"):
        return np.sqrt(theirs[name.replace("mean_measured", "second_moment_measured")].values)
    return np.abs(theirs[name].values)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-4)], ids=["f64", "f32"])
@every_family
def test_a_record_equals_probe_of_the_saved_model(family, dtype, tolerance, folder):
    with all_in_double() if dtype == torch.float64 else nullcontext():
        model, ids = model_of(family, SEED, dtype, _remove_final_layer_norm=False)
        model.save_pretrained(folder / "model")
        with ps.record(model) as recorder:
            model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.backward()
            with torch.no_grad():  # an optimizer changes the model before the step ends
                for parameter in model.parameters():
                    parameter.mul_(2)
    ours = recorder.datasets[0]
    words = {"labels": ids} if family == "bert" else {}
    theirs = ps.probe("model", tokens=ids, backward=True, no_theory=True, **words)
    for name in (n for n, v in theirs.data_vars.items() if n.endswith("_measured") and v.dtype.kind == "f"):
        a, b = ours[name].values, theirs[name].values
        assert not (np.isfinite(b) & ~np.isfinite(a)).any(), f"{name} is missing"
        both = np.isfinite(a) & np.isfinite(b) & (a != b)
        gap = (np.abs(a[both] - b[both]) / np.broadcast_to(size_of(theirs, name), b.shape)[both]).max(initial=0.0)
        assert gap < tolerance, name
    maxima, expected = xr.align(ours.signal_maximum, theirs.signal_maximum)
    np.testing.assert_allclose(maxima, expected, rtol=tolerance)
    for name in ("branch_from_gains", "loss", "token_loss", "attention_logit_maximum", "qk_clip_factor"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=10 * tolerance, err_msg=name)


@every_family
def test_from_torch_equals_the_saved_model(family, folder):
    model, ids = model_of(family, SEED, torch.float32)
    model.save_pretrained(folder / "model")
    a, b = (ps.probe(one, tokens=ids, no_theory=True) for one in (ps.from_torch(model), "model"))
    assert a.model == type(model).__name__
    a["model"] = b["model"]
    xr.testing.assert_identical(a.drop_attrs(deep=False), b.drop_attrs(deep=False))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@every_family
def test_half_precision_violates_no_identity(family, dtype):
    model, ids = model_of(family, SEED, dtype, _remove_final_layer_norm=False)
    with ps.record(model) as recorder:
        model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.backward()
    ds = recorder.datasets[0]
    assert not ds.growth_violated and np.isfinite(ds.growth_residual).all()


@every_family
def test_check_finds_the_faults_of_a_live_model(family):
    model, _ = model_of(family, SEED)
    gain = next(p for name, p in model.named_parameters() if "norm" in name.lower() or "ln_" in name)
    before = {found.kind for found in ps.check(ps.from_torch(model))}
    with torch.no_grad():
        gain[0] = float("inf")
    assert {found.kind for found in ps.check(model)} - before == {"non-finite"}


def test_a_frozen_matrix_of_keys_that_are_values_has_no_gradient():
    model, ids = model_of("gemma4", SEED, attention_k_eq_v=True)
    model.model.layers[-1].self_attn.k_proj.weight.requires_grad_(False)  # the last layer has no window
    with ps.record(model) as recorder:
        model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.backward()
    last = recorder.datasets[0].weight_grad_sq_measured.sel(weight=["q", "k", "v"]).isel(layer=-1)
    assert np.isnan(last).values.tolist() == [False, True, True]

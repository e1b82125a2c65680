"""Certificates of mixtures of experts, compared with transformers on random inputs and the worst inputs of experts."""

import json

import numpy as np
import pytest

from module import ps, rejected
from torch_models import MIXTURES, all_in_double, model_of, safetensors, torch

SIZE = {"mixtral": "num_local_experts", "qwen3_moe": "num_experts"}
every_mixture = pytest.mark.parametrize("family", MIXTURES)
seeds = pytest.mark.parametrize("seed", range(1, 6))


def mixture_of(family, seed, **given):
    """Returns a model and token ids. Every entry of the embedding occurs with both signs, so that the certified set of
    every stream contains all short vectors."""
    model, ids = model_of(family, seed, rms_norm_eps=1e-9, attention_bias=False, **given)
    table = model.model.embed_tokens.weight.detach()
    table[len(table) // 2 :][: len(table) // 2] = -table[: len(table) // 2]
    table[-1] = -table[0]
    return model, ids


def inside(layer, a):
    """Returns the signals of a layer's experts for the inputs ``a`` [tokens, width] of its MLP."""
    experts = layer.mlp.experts
    gate, up = (a @ experts.gate_up_proj.transpose(1, 2)).chunk(2, dim=-1)
    return {"router": layer.mlp.gate(a)[0], "gate": gate, "up": up, "hidden": experts.act_fn(gate) * up,
            "f_out": layer.mlp(a[None])[0]}  # fmt: skip


def worst_inputs(layer, length):
    """Returns streams of this length that attain the largest gate and up entries of every expert after norm A, and
    results of gradient ascent on the entries of the MLP's output."""
    gain = layer.post_attention_layernorm.weight.detach()
    rows = layer.mlp.experts.gate_up_proj.detach().flatten(0, 1) * gain
    x = torch.cat([rows, torch.randn(64, rows.shape[1], dtype=rows.dtype)])
    climbed = x.clone().requires_grad_(True)
    for _ in range(30):
        out = layer.mlp(layer.post_attention_layernorm(climbed)[None])[0]
        (gradient,) = torch.autograd.grad(out.abs().max(dim=-1).values.sum(), climbed)
        unit = torch.nn.functional.normalize(climbed.detach(), dim=-1)
        climbed = unit + 0.1 * torch.nn.functional.normalize(gradient, dim=-1)
        climbed = climbed.detach().requires_grad_(True)
    return length * torch.nn.functional.normalize(torch.cat([x, -x, climbed.detach()]), dim=-1)


def measured(model, ids):
    """Returns the largest magnitude of every signal by {(signal, place)}, over the tokens and the worst inputs."""
    found, hooks, inputs = {}, [], {}

    def see(place, **signals):
        for signal, x in signals.items():
            found[signal, place] = max(found.get((signal, place), 0.0), float(x.detach().abs().max()))

    for number, layer in enumerate(model.model.layers):
        place = 2 * number + 1
        hooks += [
            layer.mlp.register_forward_pre_hook(lambda m, x, n=number: inputs.update({n: x[0].detach()[0]})),
            layer.mlp.register_forward_hook(lambda m, x, y, p=place, l=layer: see(p, f_out=y)),
            layer.register_forward_hook(lambda m, x, y, p=place: see(p, x_out=y)),
        ]
    with torch.no_grad():
        see(2 * len(model.model.layers), logits=model(input_ids=torch.tensor([ids])).logits)
    for hook in hooks:
        hook.remove()
    length = 0.9 * float(model.model.embed_tokens.weight.detach().abs().max(dim=0).values.min())
    for number, layer in enumerate(model.model.layers):
        with torch.no_grad():
            see(2 * number + 1, A_out=inputs[number], **inside(layer, inputs[number]))
        x = worst_inputs(layer, length)
        with torch.no_grad():
            see(2 * number + 1, **inside(layer, layer.post_attention_layernorm(x)))
    return found


def excess(found, bounds):
    """Returns the largest ratio of a measured magnitude to its bound, by signal."""
    ratios = {}
    for (signal, place), value in found.items():
        ratio = value / float(bounds.sel(signal=signal, place=place))
        ratios[signal] = max(ratios.get(signal, 0.0), ratio)
    return ratios


@seeds
@every_mixture
def test_no_input_exceeds_a_certificate_which_the_worst_inputs_of_the_experts_attain(family, seed, folder):
    with all_in_double():
        model, ids = mixture_of(family, seed)
        model.save_pretrained(folder / "model")
        ratios = excess(measured(model, ids), ps.certify("model", format=["fp16"]).bound)
    assert max(ratios.values()) <= 1.0, ratios
    assert min(ratios["gate"], ratios["up"]) > 0.999, ratios  # attained up to eps


@seeds
@every_mixture
def test_a_run_in_half_precision_stays_within_its_certificate(family, seed, folder):
    model, ids = mixture_of(family, seed)
    model.save_pretrained(folder / "model")
    ds = ps.certify("model", format=["fp16", "bf16"])
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        ratios = excess(measured(model.to(dtype), ids), ds.run_signal_bound.sel(format=name))
        assert max(ratios.values()) <= 1.0, (name, ratios)


@every_mixture
def test_a_certificate_without_one_expert_is_exceeded(family, folder):
    """Removes the expert of the largest gate entry from the files: the certificate then misses it."""
    with all_in_double():
        model, ids = mixture_of(family, 1, **{SIZE[family]: 3, "num_experts_per_tok": 1})
        with torch.no_grad():
            for layer in model.model.layers:
                layer.mlp.experts.gate_up_proj[2] *= 3
        found = measured(model, ids)
        model.save_pretrained(folder / "model")
    config = json.loads((folder / "model" / "config.json").read_text())
    tensors = safetensors.load_file(folder / "model" / "model.safetensors")
    tensors = {name: x for name, x in tensors.items() if ".experts.2." not in name}
    for name in (name for name in tensors if name.endswith((".mlp.gate.weight", ".block_sparse_moe.gate.weight"))):
        tensors[name] = tensors[name][:2].clone()
    config["num_local_experts"] = 2
    (folder / "fewer").mkdir()
    (folder / "fewer" / "config.json").write_text(json.dumps(config))
    safetensors.save_file(tensors, folder / "fewer" / "model.safetensors")
    for name, is_missed in (("model", False), ("fewer", True)):
        ratios = excess(found, ps.certify(name, format=["fp16"]).bound)
        assert (ratios["gate"] > 1.0) == (ratios["up"] > 1.0) == is_missed, (name, ratios)


@every_mixture
def test_other_functions_reject_mixtures(family, folder):
    model, ids = model_of(family, 1)
    model.save_pretrained(folder / "model")
    message = "only certify and info read them"
    assert ps.check("model") == []
    live = ps.from_torch(model)
    for call in (lambda: ps.probe("model", tokens=ids), lambda: ps.formats("model", tokens=ids),
                 lambda: ps.probe(live, tokens=ids), lambda: ps.certify(live), lambda: ps.check(live)):  # fmt: skip
        with rejected(message):
            call()
    with rejected(message), ps.record(model):
        pass
    assert np.isfinite(ps.certify("model", format=["fp16"]).bound.sel(signal="router").max())

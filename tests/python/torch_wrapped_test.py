"""Records of padded batches, and of models with adapters, checkpointed activations, compilation and processes."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from module import ps, python, rejected
from program import imported
from torch_models import all_in_double, torch
from torch_recording import DROPOUT, TOKENS, llama, passed, recorded, same


@pytest.fixture(scope="module")
def expected():
    return recorded()


def padded(lengths, side):
    """Returns a batch of TOKENS with these lengths, padded to 15 tokens."""
    mask = torch.stack([(torch.arange(15) < n) if side == "right" else (torch.arange(15) >= 15 - n) for n in lengths])
    ids = torch.zeros(len(lengths), 15, dtype=torch.long)
    ids[mask] = torch.cat([tokens[:n] for tokens, n in zip(TOKENS, lengths, strict=True)])
    return {"input_ids": ids, "attention_mask": mask.long(), "position_ids": (mask.cumsum(1) - 1).clip(min=0)}


def summed_loss(batch):
    """Returns a call whose gradient is a sum over real tokens."""
    def call(model):
        logits = model(**batch).logits
        logits[batch["attention_mask"] == 1].square().sum().backward()
    return call


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_not_measured(side):
    with all_in_double():
        model = llama().double()
        plain = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}
        ours, theirs = (recorded(model, summed_loss(batch)) for batch in (padded([12, 12], side), plain))
        for name in (name for name, values in theirs.data_vars.items() if values.dtype.kind == "f"):
            if name != "growth_residual":
                np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-12, err_msg=name)
        ours = recorded(model, summed_loss(padded([12, 9], side)))
        pair = [recorded(model, summed_loss({key: x[:1, :n] for key, x in batch.items()}))
                for n, batch in ((12, plain), (9, {key: x[1:] for key, x in plain.items()}))]
    assert not ours.growth_violated
    assert list(ours.token_id.values) == [*TOKENS[0].tolist(), *TOKENS[1, :9].tolist()]
    assert list(ours.label.values) == [*TOKENS[0, 1:].tolist(), -1, *TOKENS[1, 1:9].tolist(), -1]
    for name, weights in (("second_moment", [12 / 21, 9 / 21]), ("grad_sq", [12 / 21, 9 / 21]),
                          ("kurtosis", [12 / 21, 9 / 21]), ("token_cosine", [0.5, 0.5])):
        expected = sum(weight * ds[f"{name}_measured"] for weight, ds in zip(weights, pair, strict=True))
        np.testing.assert_allclose(ours[f"{name}_measured"], expected, rtol=1e-9, err_msg=name)
    logits = [ds.attention_logit_maximum for ds in pair]
    np.testing.assert_allclose(ours.attention_logit_maximum, np.maximum(*logits), rtol=1e-9)


def test_packed_batches_have_no_attention_logits(expected):
    """The masks of such batches are unknown."""
    positions = torch.tensor([[*range(5), *range(7)]] * 2)
    whole = torch.ones(12, 12).tril().log().expand(2, 1, 12, 12)
    for words in ({"position_ids": positions}, {"attention_mask": whole}):
        ds = recorded(call=lambda model, w=words: model(input_ids=TOKENS, labels=TOKENS, **w).loss.backward())
        assert "attention_logit_maximum" in expected and "attention_logit_maximum" not in ds
        assert np.isfinite(ds.token_grad_sq_measured).all()


def with_lora(model, peft, **given):
    """Returns a PeftModel in f64 whose LoRA adapters change the function of `model`."""
    targets = ["c_attn", "c_proj"] if "GPT2" in type(model).__name__ else ["q_proj", "v_proj", "down_proj"]
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=targets, **given)).double()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.05)
    return adapted


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_lora_adapters_are_recorded_as_the_merged_model(family):
    peft = imported("peft", "python/requirements-torch.txt")
    with all_in_double():
        torch.manual_seed(1)
        adapted = with_lora(llama() if family == "llama" else DROPOUT["gpt2"](), peft,
                            fan_in_fan_out=family == "gpt2").eval()
        ours, model = recorded(adapted), ps.from_torch(adapted)
        layer = adapted.get_base_model()
        layer = layer.transformer.h[0].mlp.c_proj if family == "gpt2" else layer.model.layers[0].mlp.down_proj
        of_down = sum(float(p.grad.square().sum()) for name, p in layer.named_parameters() if "lora" in name)
        merged = copy.deepcopy(adapted).merge_and_unload()
        merged.requires_grad_(True)
        theirs = recorded(merged)
        pair = [ps.probe(one, tokens=TOKENS[0], no_theory=True).loss for one in (model, ps.from_torch(merged))]
    assert float(pair[0]) == pytest.approx(float(pair[1]), rel=1e-12)
    for name in ("second_moment_measured", "grad_sq_measured", "site_score_share_measured", "loss"):
        known = np.isfinite(ours[name])  # the frozen embedding has no gradient
        np.testing.assert_allclose(ours[name].where(known), theirs[name].where(known), rtol=1e-9, err_msg=name)
        assert known.sum() >= np.isfinite(theirs[name]).sum() - 1
    gradients = ours.weight_grad_sq_measured.isel(layer=0)
    assert float(gradients.sel(weight="down")) == pytest.approx(of_down, rel=1e-12)
    assert np.isnan(gradients.sel(weight="up" if family == "llama" else "q"))  # frozen; a part of an adapted matrix


def test_unsupported_adapters_are_rejected():
    peft = imported("peft", "python/requirements-torch.txt")
    several = with_lora(llama(), peft)
    several.add_adapter("other", peft.LoraConfig(r=2, target_modules=["q_proj"]))
    several.base_model.set_adapter(["default", "other"])
    cases = {"several": several, "DoRA": with_lora(llama(), peft, use_dora=True),
             "ModulesToSaveWrapper": with_lora(llama(), peft, modules_to_save=["lm_head"]),
             "ia3": peft.get_peft_model(llama(), peft.IA3Config(target_modules=["v_proj"], feedforward_modules=[])),
             "prompt": peft.get_peft_model(llama(), peft.PromptTuningConfig("CAUSAL_LM", num_virtual_tokens=2))}
    for name, model in cases.items():
        for use in (ps.record, ps.from_torch):
            with rejected(name):
                use(model)
    dropping = with_lora(llama(), peft, lora_dropout=0.1)
    with rejected("lora_dropout"):
        ps.record(dropping)
    assert ps.from_torch(dropping) and ps.record(dropping, gradients=False)


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_checkpointed_activations_are_recorded_once(is_reentrant, expected):
    model, calls = llama(), []
    model.model.layers[1].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    model.activation_checkpointing_enable({"use_reentrant": is_reentrant})
    if is_reentrant:
        with rejected("use_reentrant=False"):
            ps.record(model)
        with ps.record(model, gradients=False) as recorder:
            passed(model)
        signals = recorder.datasets[0]
        same(signals, expected[list(signals.data_vars)])
    else:
        same(recorded(model), expected)
    assert len(calls) == 2  # the backward pass computes the layer again


def test_compiled_models_run_eagerly_in_recorded_steps(expected):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    def compiled_layer(model):
        model.model.layers[1].compile(backend=backend)
        return model

    def replaced_layer(model):
        model.model.layers[1] = torch.compile(model.model.layers[1], backend=backend)
        return model

    for make in (lambda model: torch.compile(model, backend=backend), compiled_layer, replaced_layer):
        torch.compiler.reset()
        model = llama()
        compiled = make(model)
        passed(compiled)
        count = len(graphs)
        for recorded_part in (compiled, model):
            with ps.record(recorded_part, every=2) as recorder:
                for _ in range(2):
                    model.zero_grad()
                    passed(compiled)
                    recorder.step()
            same(recorder.datasets[0], expected)
        assert len(graphs) == count > 0, "the second step reuses the graph of the first call"


DISTRIBUTED = """
import sys, numpy as np, torch, transformers as t
rank = int(sys.argv[2])
torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
torch.manual_seed(1)
model = t.LlamaForCausalLM(t.LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=64,
                                         intermediate_size=64))
ids = torch.arange(24).reshape(2, 12) + rank
found = []
for one in (model, torch.nn.parallel.DistributedDataParallel(model)):
    model.zero_grad()
    with ps.record(one) as recorder:
        one(input_ids=ids, labels=ids).loss.backward()
    found.append(recorder.datasets)
assert [list(records) for records in found] == [[0] * (rank == 0)] * 2
for ds in found[1].values():
    for name in ds.data_vars:
        np.testing.assert_array_equal(ds[name], found[0][0][name])
torch.distributed.destroy_process_group()
"""


def test_rank_0_of_distributed_training_records_its_batches(tmp_path):
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda rank: python(DISTRIBUTED, str(tmp_path / "store"), str(rank)), (0, 1)))

"""Records of passes of transformers models: training, copies, threads, compiled and unsupported models."""

import copy
import gc
import io
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest

from module import ps, python, rejected
from program import imported
from torch_models import all_in_double, t, torch

TOKENS = torch.randint(0, 64, (2, 12), generator=torch.Generator().manual_seed(3))
OTHERS = torch.randint(0, 64, (2, 12), generator=torch.Generator().manual_seed(4))
modeling_llama = t.models.llama.modeling_llama
ROTATE = modeling_llama.apply_rotary_pos_emb


def llama():
    torch.manual_seed(1)
    config = t.LlamaConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, vocab_size=64,
                           intermediate_size=64, max_position_embeddings=256, pad_token_id=0)
    config._attn_implementation = "eager"
    return t.LlamaForCausalLM(config)


def passed(model, tokens=TOKENS):
    output = model(input_ids=tokens, labels=tokens)
    output.loss.backward()
    return output


def recorded(model=None, call=passed, before=()):
    """Returns the record of a pass after the calls in `before`."""
    model = model or llama()
    with ps.record(model) as recorder:
        for step in before:
            step(model)
        call(model)
    return recorder.datasets[0]


def same(one, other):
    assert set(one.data_vars) == set(other.data_vars)
    for name in one.data_vars:
        np.testing.assert_array_equal(one[name].values, other[name].values, str(name))


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.fixture(scope="module")
def expected():
    return recorded()


@pytest.fixture(autouse=True)
def no_patch_stays():
    yield
    assert modeling_llama.apply_rotary_pos_emb is ROTATE


def train(model, steps, recorder=None, micro=1, tokens=TOKENS):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(steps):
        for part in tokens.roll(step, 1).chunk(micro):
            passed(model, part)
        optimizer.step()
        optimizer.zero_grad()
        if recorder is not None:
            recorder.step()
    return model


def test_recording_steps_does_not_change_training():
    plain, model = train(llama(), 5), llama()
    with ps.record(model, every=2) as recorder:
        train(model, 5, recorder)
    moments = recorder.dataset.second_moment_measured
    assert (list(recorder.dataset.step), moments.dims) == ([0, 2, 4], ("step", "depth"))
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters(), strict=True))
    assert not moments.isel(step=0).equals(moments.isel(step=2))


def test_hooks_are_removed():
    model = llama()
    with pytest.raises(RuntimeError), ps.record(model, steps=[0]) as recorder:
        train(model, 1, recorder)
        assert hooks(model) == 0  # no hooks outside the chosen steps
        raise RuntimeError
    with pytest.raises(IndexError), ps.record(model):
        model(input_ids=torch.tensor([[1000]]))  # fails within the pass
    recorder = ps.record(model, every=1)
    for _ in range(2):  # before the context and after it
        recorder.step()
        assert hooks(model) == 0
        with recorder:
            watched = weakref.ref(recorder._hooks)
            passed(model)
            recorder.step()
            gc.collect()
            assert watched() is None, "no reference to a step remains"
    assert list(recorder.datasets) == [1, 3]


def test_the_first_micro_batch_is_recorded():
    found = []
    for micro, tokens in ((2, torch.cat([TOKENS, OTHERS])), (1, TOKENS)):
        model = llama()
        with ps.record(model) as recorder:
            train(model, 1, recorder, micro, tokens)
        found.append(recorder.datasets[0])
    same(*found)


def validate(model):
    with torch.no_grad():
        model(input_ids=OTHERS)


def leave_gradients(model):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)


def interrupted(kind):
    def call(model):
        with mock.patch.object(modeling_llama.LlamaMLP, "forward", side_effect=kind), pytest.raises(kind):
            model(input_ids=OTHERS)
    return call


@pytest.mark.parametrize("step", [validate, leave_gradients, interrupted(KeyboardInterrupt), interrupted(RuntimeError)])
def test_earlier_passes_are_not_recorded(step, expected):
    same(recorded(before=[step]), expected)


@pytest.mark.parametrize("halfway", [True, False])
def test_recorded_gradients_come_from_one_backward_pass(halfway, expected):
    """The next backward pass does not complete an incomplete one."""
    model = llama()
    with ps.record(model) as recorder:
        output = model(input_ids=TOKENS, labels=TOKENS, output_hidden_states=True)
        if halfway:
            weight = model.model.layers[1].mlp.down_proj.weight
            handle = weight.register_hook(mock.Mock(side_effect=MemoryError))
            with pytest.raises(MemoryError):
                output.loss.backward()
            handle.remove()
        else:
            output.hidden_states[1].square().mean().backward(retain_graph=True)
            output.loss.backward()
        passed(model, OTHERS)
    found, whole = (ds.weight_grad_sq_measured.values for ds in (recorder.datasets[0], expected))
    known = np.isfinite(found)
    assert known.any() and not known.all()
    assert not halfway or (found[known] == whole[known]).all()


def test_a_step_whose_record_fails_is_counted(expected):
    model = llama()
    with ps.record(model, every=1) as recorder:
        with mock.patch.object(model.model.layers[1], "forward", side_effect=lambda x, **_: x):
            passed(model)
        with pytest.raises(ps.InputError):
            recorder.step()
        model.zero_grad()
        passed(model)
    assert list(recorder.datasets) == [1]
    same(recorder.datasets[1], expected)


def test_masked_labels_and_partial_logits_are_supported(expected):
    losses = expected.token_loss.values
    labels = TOKENS.clone()
    labels[0, 5] = -100
    found = recorded(call=lambda model: model(input_ids=TOKENS, labels=labels).loss.backward()).token_loss.values
    assert np.isnan(found).sum() == np.isnan(losses).sum() + 1
    known = np.isfinite(found)
    np.testing.assert_array_equal(found[known], losses[known])
    for call in (lambda model: model(input_ids=TOKENS, logits_to_keep=1).logits.sum().backward(),
                 lambda model: model(input_ids=TOKENS, return_dict=False)[0].sum().backward()):
        ds = recorded(call=call)
        assert "not_finite" not in ds and np.isfinite(ds.grad_sq_measured).all(), "the loss is unknown"


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


def test_two_threads_record_models_of_one_family(expected):
    """The passes overlap; a pass of the same model in another thread is not recorded."""
    begins, is_over = ([threading.Event(), threading.Event()] for _ in range(2))
    found = {}

    def run(number, until):
        def wait(*_):
            begins[number].set()
            assert until.wait(60)

        model = llama()
        model.model.embed_tokens.register_forward_pre_hook(wait)
        found[number] = recorded(model)
        is_over[number].set()

    threads = [threading.Thread(target=run, args=pair) for pair in ((0, begins[1]), (1, is_over[0]))]
    for thread, event in zip(threads, begins, strict=True):
        thread.start()
        assert event.wait(60)
    for thread in threads:
        thread.join()
    for number in (0, 1):
        same(found[number], expected)
    model, others = llama(), []

    def validate_in_thread(*_):
        if not others:
            others.append(threading.Thread(target=validate, args=(model,)))
            others[0].start()
            others[0].join()

    model.model.layers[0].self_attn.q_proj.register_forward_pre_hook(validate_in_thread)
    same(recorded(model), expected)
    assert len(others) == 1


DROPOUT = {  # OPT calls functional dropout; the others have modules
    "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=64, resid_pdrop=0.25, embd_pdrop=0.0, attn_pdrop=0.0)),
    "bert": lambda: t.BertForMaskedLM(t.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=64, intermediate_size=64,
        hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.0)),
    "opt": lambda: t.OPTForCausalLM(t.OPTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=64, ffn_dim=64, word_embed_proj_dim=32,
        dropout=0.25, attention_dropout=0.0)),
}


@pytest.mark.parametrize("family", DROPOUT)
def test_branches_are_measured_after_dropout(family):
    torch.manual_seed(1)
    model = DROPOUT[family]()
    if family == "bert":
        model.bert.embeddings.dropout.p = 0.0  # so that the first branch has the same input
    whole, ds = recorded(model.eval()), recorded(model.train())
    assert not ds.growth_violated and ds.growth_residual.max() < 1.0
    branch, before = (d.site_second_moment_measured for d in (ds, whole))
    np.testing.assert_allclose(branch.sel(site="B_out"), ds.growth_branch, rtol=1e-6)
    assert branch.sel(site="B_out")[0] > 1.01 * before.sel(site="B_out")[0]
    assert branch.sel(site="f_out")[0] == before.sel(site="f_out")[0]


def test_a_later_patch_of_the_same_function_is_preserved(expected):
    over = []

    def patch(*_):
        ours = modeling_llama.apply_rotary_pos_emb
        over.append(lambda *arguments, **words: ours(*arguments, **words))
        modeling_llama.apply_rotary_pos_emb = over[0]

    model = llama()
    model.model.embed_tokens.register_forward_pre_hook(patch)
    same(recorded(model), expected)
    assert modeling_llama.apply_rotary_pos_emb is over[0]
    modeling_llama.apply_rotary_pos_emb = ROTATE


def test_copies_of_a_recorded_model_are_not_recorded(expected):
    model, file, copies, forward = llama(), io.BytesIO(), [], modeling_llama.LlamaMLP.forward

    def saved_within(mlp, x):
        copies.append(pickle.loads(pickle.dumps(model)))
        return forward(mlp, x)

    with ps.record(model, steps=[0]) as recorder:
        copies.append(copy.deepcopy(model))
        with mock.patch.object(modeling_llama.LlamaMLP, "forward", saved_within):
            passed(model)
        model.zero_grad()
        copies.append(copy.deepcopy(model))
        torch.save(model, file)
    copies.append(torch.load(io.BytesIO(file.getvalue()), weights_only=False))
    for one in (recorder.datasets[0], *(recorded(one) for one in copies)):
        same(one, expected)


def test_unsupported_passes_are_rejected():
    with rejected("two passes"):
        recorded(before=[lambda model: model(input_ids=OTHERS)])
    model = llama()
    with rejected("in place"), ps.record(model):
        output = passed(model)
        with torch.no_grad():
            output.logits.mul_(0)
    with ps.record(model), rejected("already recorded"), ps.record(model):
        pass
    for mask in (torch.zeros_like(TOKENS), torch.zeros(2, 13)):
        with rejected("attention_mask"), ps.record(model):
            model(TOKENS, mask)


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
        assert len(graphs) == count > 0, "the graph of the second step is that of the first call"


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


class LoraLayer(torch.nn.Module):
    pass


LoraLayer.__module__ = "peft.tuners"


def test_missing_skipped_and_foreign_modules_are_named():
    model = llama()
    with rejected("model.layers.1.mlp.up_proj"), ps.record(model):
        del model.model.layers[1].mlp.up_proj
        passed(model)
    model = llama()
    model.model.layers[1].forward = lambda x, **_: x
    with rejected("layer 1"):
        recorded(model)
    model = llama()
    norm, call = model.model.layers[1].post_attention_layernorm, torch.nn.Module.__call__

    def fused(module, *arguments, **named):
        return norm.forward(*arguments) if module is norm else call(module, *arguments, **named)

    with mock.patch.object(torch.nn.Module, "__call__", fused), rejected("layer 1"):
        recorded(model)
    model = llama()
    model.model.layers[0].adapter = LoraLayer()
    with torch.device("meta"):
        empty = llama()
    for use, name in ((lambda: ps.from_torch(model), "merge_and_unload()"), (lambda: ps.from_torch(empty), "meta"),
                      (lambda: ps.record(model), "merge_and_unload()"),
                      (lambda: ps.from_torch(torch.nn.DataParallel(llama())), "DataParallel"),
                      (lambda: ps.record(torch.nn.Linear(2, 2)), "Linear")):
        with rejected(name):
            use()


def test_torch_may_be_imported_before_or_after():
    """One process then has two OpenMP runtimes."""
    found = [python(f"import {order}; a = torch.ones(64, 64) @ torch.ones(64, 64); "
                    "ds = ps.propagate({'model.layers': 4, 'model.width': 128}, seeds=8, threads=2); "
                    "b = a @ a; print(float(b.sum()), float(ds.second_moment_measured.sum()))")
             for order in ("torch, periscope as ps", "periscope as ps, torch")]
    assert found[0].stdout == found[1].stdout and found[0].stderr == found[1].stderr == ""

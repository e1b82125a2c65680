"""Records of passes of transformers models: training, copies, threads, dropout, unsupported passes."""

import copy
import gc
import io
import pickle
import threading
import weakref
from unittest import mock

import numpy as np
import pytest

from module import ps, python, rejected
from torch_models import t, torch
from torch_recording import DROPOUT, OTHERS, TOKENS, llama, passed, recorded, same

modeling_llama = t.models.llama.modeling_llama
ROTATE = modeling_llama.apply_rotary_pos_emb


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.fixture(scope="module")
def expected():
    return recorded()


@pytest.fixture(autouse=True)
def no_patch_stays():
    yield
    gc.enable()
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
    gc.disable()
    for _ in range(2):  # before the context and after it
        recorder.step()
        assert hooks(model) == 0
        with recorder:
            watched = weakref.ref(recorder._hooks)
            passed(model)
            recorder.step()
            assert watched() is None, "no reference to a step remains, not even in a cycle"
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

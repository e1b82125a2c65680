"""Recorders, with a stand-in for torch: copies, threads, dropout, compiled models. Usage: recorder_test.py"""

import copy
import pickle
import threading
import unittest
from typing import Any
from unittest import mock

import numpy as np
import torch_stand_in as torch
import xarray as xr
from models_test import tensors_of
from studies import FIXTURES, rejected

torch.install()

import periscope as ps  # noqa: E402
from periscope import _patches  # noqa: E402

FOLDER = FIXTURES / "llama"
IDS = [1, 2, 3, 7, 5]


def llama() -> Any:
    return torch.LlamaForCausalLM(FOLDER, tensors_of(FOLDER / "model.safetensors"))


def recorded(model: Any, call: Any = None) -> xr.Dataset:
    with ps.record(model, gradients=False) as recorder:
        (call or model)(input_ids=torch.tensor([IDS]))
    return recorder.datasets[0]


class Records(unittest.TestCase):
    def setUp(self) -> None:
        self.rotate = torch.apply_rotary_pos_emb
        self.expected = recorded(llama())

    def tearDown(self) -> None:
        self.assertIs(torch.apply_rotary_pos_emb, self.rotate)
        self.assertEqual((_patches._ROTATIONS, torch._MODES.stack), ({}, []))

    def same(self, a: xr.Dataset, b: xr.Dataset) -> None:
        xr.testing.assert_identical(a.drop_attrs(deep=False), b.drop_attrs(deep=False))

    def test_a_record_is_what_probe_measures(self) -> None:
        theirs = ps.probe(FOLDER, tokens=IDS, no_theory=True, dtype="f64")
        for name in ("second_moment_measured", "token_cosine_measured", "signal_maximum", "growth_branch"):
            a, b = self.expected[name].values, theirs[name].values
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=name)

    def test_labels_are_those_of_the_batch(self) -> None:
        expected = self.expected.token_loss.values
        for of_batch, missing in ((IDS, []), ([1, 2, -100, 7, 5], [1]), ([9, 2, 3, 7, -100], [3])):
            model = llama()
            with ps.record(model, gradients=False, top=3) as recorder:
                model(input_ids=torch.tensor([IDS]), labels=torch.tensor([of_batch]))
            ds = recorder.datasets[0]
            found = np.delete(ds.token_loss.values, [*missing, len(IDS) - 1])
            np.testing.assert_allclose(found, np.delete(expected, [*missing, len(IDS) - 1]), rtol=1e-13)
            self.assertTrue(np.isnan(ds.token_loss.values[[*missing, -1]]).all())
            self.assertEqual(ds.sizes["rank"], 3)

    def test_two_threads_record_models_of_one_family(self) -> None:
        """One begins while the other's pass runs, and still runs when that has ended."""
        begins, is_over = ([threading.Event(), threading.Event()] for _ in range(2))
        found: dict[int, xr.Dataset] = {}

        def run(number: int, until: threading.Event) -> None:
            def wait(*_: object) -> None:
                begins[number].set()
                self.assertTrue(until.wait(30))

            model = llama()
            model.model.register_forward_pre_hook(wait)
            found[number] = recorded(model)
            is_over[number].set()

        untils = (begins[1], is_over[0])
        threads = [threading.Thread(target=run, args=(number, untils[number])) for number in (0, 1)]
        for thread, event in zip(threads, begins, strict=True):
            thread.start()
            self.assertTrue(event.wait(30))
        for thread in threads:
            thread.join()
        for number in (0, 1):
            self.same(found[number], self.expected)

    def test_a_pass_of_another_thread_is_not_recorded(self) -> None:
        model = llama()
        others: list[threading.Thread] = []

        def beside(*_: object) -> None:
            if not others:
                others.append(threading.Thread(target=lambda: model(input_ids=torch.tensor([IDS[::-1]]))))
                others[0].start()
                others[0].join()

        vars(model.model.layers)["0"].self_attn.q_proj.register_forward_pre_hook(beside)
        self.same(recorded(model), self.expected)
        self.assertEqual(len(others), 1)

    def test_padding_is_found_however_it_is_given(self) -> None:
        mask = torch.tensor([[0, 1, 1, 1, 1]])
        for arguments, named in (((), {"attention_mask": mask}), ((mask,), {})):
            with rejected("padding"):
                recorded(model := llama(), lambda input_ids: model(input_ids, *arguments, **named))  # noqa: B023
        whole = torch.tensor([[1] * 5])
        self.same(recorded(model := llama(), lambda input_ids: model(input_ids, whole)), self.expected)

    def test_steps_are_counted_where_a_record_fails(self) -> None:
        model = llama()
        layer = vars(model.model.layers)["1"]
        with ps.record(model, gradients=False, every=1) as recorder:
            with mock.patch.object(layer, "forward", side_effect=lambda x: x):
                model(input_ids=torch.tensor([IDS]))
            with self.assertRaises(ps.InputError):
                recorder.step()
            model(input_ids=torch.tensor([IDS]))
        self.assertEqual(list(recorder.datasets), [1])
        self.same(recorder.datasets[1], self.expected)

    def test_outside_of_the_context_nothing_is_recorded(self) -> None:
        model = llama()
        recorder = ps.record(model, gradients=False, every=1)
        for _ in range(2):  # before it and after it
            recorder.step()
            self.assertEqual((model._before, model._after), ({}, {}))
            with recorder:
                model(input_ids=torch.tensor([IDS]))
        self.assertEqual(list(recorder.datasets), [1, 2])

    def test_modules_that_are_gone_or_compiled_meanwhile_are_named(self) -> None:
        model = llama()
        with rejected("module model.layers.1.mlp.up_proj no longer exists"), ps.record(model, gradients=False):
            del vars(model.model.layers)["1"].mlp.up_proj
            model(input_ids=torch.tensor([IDS]))
        model = llama()
        with rejected("Linear is compiled"), ps.record(model, steps=[1]) as recorder:
            model.model.layers._compiled_call_impl = torch.compile(model)
            recorder.step()

    def test_a_tuple_of_outputs_has_the_logits(self) -> None:
        model = llama()
        forward = model.forward
        model.forward = lambda input_ids: (np.float64(1.0), forward(input_ids).logits)
        self.same(recorded(model), self.expected)
        model.forward = lambda input_ids: forward(input_ids) and ()
        ds = recorded(model)
        self.assertNotIn("not_finite", ds)  # the loss is not infinite, it is not known
        self.assertTrue(np.isnan(ds.loss))

    def test_after_an_interrupted_pass_the_next_one_is_recorded(self) -> None:
        for kind in (KeyboardInterrupt, RuntimeError):
            model = llama()
            with ps.record(model, gradients=False) as recorder:
                with mock.patch.object(torch.Mlp, "forward", side_effect=kind), self.assertRaises(kind):
                    model(input_ids=torch.tensor([IDS[::-1]]))
                model(input_ids=torch.tensor([IDS]))
            self.same(recorder.datasets[0], self.expected)

    def test_a_patch_that_somebody_has_put_over_ours_stays(self) -> None:
        over = []

        def patch(*_: object) -> None:
            ours = torch.apply_rotary_pos_emb
            over.append(lambda *arguments: ours(*arguments))
            torch.apply_rotary_pos_emb = over[0]

        model = llama()
        model.model.register_forward_pre_hook(patch)
        self.same(recorded(model), self.expected)
        self.assertIs(torch.apply_rotary_pos_emb, over[0])
        torch.apply_rotary_pos_emb = self.rotate

    def test_copies_of_a_recorded_model_are_plain(self) -> None:
        model = llama()
        copies = []
        forward = torch.Mlp.forward

        def saved_within(mlp: Any, x: Any) -> Any:
            copies.append(pickle.loads(pickle.dumps(model)))
            return forward(mlp, x)

        with ps.record(model, gradients=False, steps=[0, 1]) as recorder:
            for _ in range(2):  # before a pass and after it
                copies += [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
                with mock.patch.object(torch.Mlp, "forward", saved_within):
                    model(input_ids=torch.tensor([IDS]))
            copies += [copy.deepcopy(copies[0])]
            for one in copies:
                self.same(recorded(one), self.expected)
        self.same(recorder.datasets[0], self.expected)
        with ps.record(model, gradients=False), rejected("already recorded"), ps.record(model):
            pass

    def test_the_branch_is_what_dropout_leaves(self) -> None:
        model = llama()
        for module in model.modules():
            if hasattr(module, "dropped"):
                module.dropped = 0.25
        ds = recorded(model)
        self.assertFalse(ds.growth_violated.item())
        self.assertLess(ds.growth_residual.values.max(), 1.0)
        branch, whole = (d.site_second_moment_measured.sel(site="B_out") for d in (ds, self.expected))
        np.testing.assert_allclose(branch, ds.growth_branch, rtol=1e-12)
        self.assertGreater(branch[0], 1.01 * whole[0])
        self.assertEqual(float(ds.site_second_moment_measured.sel(site="f_out")[0]),
                         float(self.expected.site_second_moment_measured.sel(site="f_out")[0]))  # fmt: skip

    def test_compiled_models_are_rejected_with_what_to_do(self) -> None:
        model = llama()
        compiled = torch.compile(model)
        with rejected("expected a call of the original module"):
            recorded(model, compiled)
        self.same(recorded(model), self.expected)
        self.same(recorded(model, torch._DYNAMO["DisableContext"]()(model)), self.expected)
        model.model.layers._compiled_call_impl = compiled
        with rejected("Linear is compiled"):
            ps.record(model)
        model = llama()
        model.model.forward = torch.compile(model.model.forward)
        with rejected("Stack is compiled"):
            ps.record(model)

    def test_a_layer_that_was_left_out_is_named(self) -> None:
        model = llama()
        vars(model.model.layers)["1"].forward = lambda x: x
        with rejected("layer 1 was skipped"):
            recorded(model)
        model = llama()
        norm = vars(model.model.layers)["1"].post_attention_layernorm
        call = torch.Module.__call__

        def fused(module: Any, *arguments: Any, **named: Any) -> Any:
            return norm.forward(*arguments) if module is norm else call(module, *arguments, **named)

        with mock.patch.object(torch.Module, "__call__", fused), rejected("layer 1 was skipped, or fused code"):
            recorded(model)

    def test_adapters_are_rejected_with_what_to_do(self) -> None:
        model = llama()
        model.model.layers.__dict__["0"].adapter = type("LoraLayer", (torch.Module,), {"__module__": "peft.tuners"})()
        for call in (ps.from_torch, ps.record):
            with rejected("merge_and_unload()"):
                call(model)


if __name__ == "__main__":
    unittest.main()

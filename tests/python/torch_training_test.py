"""Records while a model of transformers trains. Skipped (exit code 77) without torch and transformers. Usage:
torch_training_test.py"""

import copy
import gc
import io
import subprocess
import sys
import time
import unittest
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import xarray as xr

try:
    import torch
    import transformers as t
    from torch_models import models
except ImportError:
    print("skipped: the packages of python/requirements-torch.txt are not installed")
    sys.exit(77)

import periscope as ps


def llama(layers: int = 3, width: int = 32, attention: str = "eager", vocab: int = 64) -> Any:
    torch.manual_seed(1)
    config = t.LlamaConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=4, vocab_size=vocab,
                           intermediate_size=2 * width, max_position_embeddings=256, pad_token_id=0)  # fmt: skip
    config._attn_implementation = attention
    return t.LlamaForCausalLM(config)


def batches(count: int, sequences: int = 2, tokens: int = 12, vocab: int = 64) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    return [torch.randint(0, vocab, (sequences, tokens), generator=draw) for _ in range(count)]


def train(model: Any, all_batches: list[torch.Tensor], recorder: Any = None, micro: int = 1) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for batch in all_batches:
        for part in batch.chunk(micro):
            model(input_ids=part, labels=part).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if recorder is not None:
            recorder.step()
    return model


class Training(unittest.TestCase):
    def test_steps_are_recorded_and_training_is_what_it_was(self) -> None:
        plain = train(llama(), batches(5))
        model = llama()
        with ps.record(model, every=2) as recorder:
            train(model, batches(5), recorder)
        ds = recorder.dataset
        self.assertEqual(list(ds.step.values), [0, 2, 4])
        self.assertEqual(ds.second_moment_measured.dims, ("step", "depth"))
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            self.assertTrue(torch.equal(a, b))
        self.assertFalse(ds.second_moment_measured.isel(step=0).equals(ds.second_moment_measured.isel(step=2)))

    def test_no_hook_stays(self) -> None:
        from transformers.models.llama import modeling_llama

        before = modeling_llama.apply_rotary_pos_emb
        model = llama()
        with self.assertRaises(RuntimeError), ps.record(model, steps=[0]) as recorder:
            train(model, batches(1), recorder)
            self.assertEqual(self.hooks(model), 0)  # none between the chosen steps
            raise RuntimeError
        self.assertIs(modeling_llama.apply_rotary_pos_emb, before)
        with self.assertRaises(IndexError), ps.record(model):
            model(input_ids=torch.tensor([[1000]]))  # fails within the pass
        self.assertEqual(self.hooks(model), 0)
        self.assertIs(modeling_llama.apply_rotary_pos_emb, before)

    def hooks(self, model: Any) -> int:
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())

    def test_an_optimizer_ends_the_steps(self) -> None:
        model = llama()
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        with ps.record(model, every=2, optimizer=optimizer) as recorder:
            for batch in batches(4):
                model(input_ids=batch, labels=batch).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        self.assertEqual(list(recorder.datasets), [0, 2])

    def test_of_several_micro_batches_the_first_counts(self) -> None:
        batch = batches(1, sequences=4)[0]
        recorders = []
        for micro, given in ((2, batch), (1, batch[:2])):
            model = llama()
            with ps.record(model) as recorder:
                train(model, [given], recorder, micro)
            recorders.append(recorder.datasets[0])
        for name in recorders[0].data_vars:
            np.testing.assert_array_equal(recorders[0][name].values, recorders[1][name].values, str(name))

    def recorded(self, *steps: Callable[[Any, torch.Tensor], object]) -> xr.Dataset:
        """The record of a step of training, in which these are done before it."""
        model, batch = llama(), batches(2)[1]
        with ps.record(model) as recorder:
            for step in steps:
                step(model, batches(2)[0])
            model(input_ids=batch, labels=batch).loss.backward()
        return recorder.datasets[0]

    def test_a_validation_in_between_does_not_count(self) -> None:
        def validate(model: Any, batch: torch.Tensor) -> None:
            with torch.no_grad():
                model(input_ids=batch)

        for name, values in self.recorded(validate).data_vars.items():
            np.testing.assert_array_equal(values.values, self.recorded()[name].values, str(name))

    def test_gradients_from_before_do_not_count(self) -> None:
        def leave_gradients(model: Any, batch: torch.Tensor) -> None:
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)

        for name, values in self.recorded(leave_gradients).data_vars.items():
            np.testing.assert_array_equal(values.values, self.recorded()[name].values, str(name))

    def test_what_mixes_or_changes_a_record_is_refused(self) -> None:
        with self.assertRaises(ps.InputError) as raised:
            self.recorded(lambda model, batch: model(input_ids=batch))
        self.assertIn("two passes", str(raised.exception))
        model, batch = llama(), batches(1)[0]
        with self.assertRaises(ps.InputError) as raised, ps.record(model):
            output = model(input_ids=batch, labels=batch)
            output.loss.backward()
            with torch.no_grad():
                output.logits.mul_(0)
        self.assertIn("changed in place", str(raised.exception))
        with ps.record(model) as recorder:
            model(input_ids=batch, logits_to_keep=1).logits.sum().backward()
        self.assertTrue(np.isnan(recorder.datasets[0].loss.values).all())
        self.assertTrue(np.isfinite(recorder.datasets[0].grad_sq_measured.values).all())

    def test_gradients_are_those_of_one_backward_pass(self) -> None:
        """One that fails halfway, or leads to some layers only, is not completed by the next."""
        whole = self.recorded().weight_grad_sq_measured.values
        first, second = batches(2)
        for halfway in (True, False):
            model = llama()
            with ps.record(model) as recorder:
                output = model(input_ids=second, labels=second, output_hidden_states=True)
                if halfway:
                    weight = model.model.layers[1].mlp.down_proj.weight
                    handle = weight.register_hook(mock.Mock(side_effect=MemoryError))
                    with self.assertRaises(MemoryError):
                        output.loss.backward()
                    handle.remove()
                else:
                    output.hidden_states[1].square().mean().backward(retain_graph=True)
                    output.loss.backward()
                model(input_ids=first, labels=first).loss.backward()
            found = recorder.datasets[0].weight_grad_sq_measured.values
            self.assertTrue(np.isnan(found).any() and np.isfinite(found).any())
            if halfway:
                np.testing.assert_array_equal(found[np.isfinite(found)], whole[np.isfinite(found)])

    def test_nothing_is_left_of_a_step(self) -> None:
        model, batch = llama(), batches(1)[0]
        with ps.record(model, every=1) as recorder:
            watched = weakref.ref(recorder._watched)
            model(input_ids=batch, labels=batch).loss.backward()
            recorder.step()
            gc.collect()
            self.assertIsNone(watched())

    def test_half_precision_violates_no_identity(self) -> None:
        for dtype in (torch.bfloat16, torch.float16):
            for name, model in models(dtype):
                batch = batches(1)[0]
                with self.subTest(family=name, dtype=dtype), ps.record(model) as recorder:
                    model(input_ids=batch, labels=batch).loss.backward()
                ds = recorder.datasets[0]
                self.assertFalse(ds.growth_violated.item(), ds.growth_residual.values)
                self.assertTrue(np.isfinite(ds.growth_residual.values).all())

    def test_arrays_that_have_no_values_are_rejected(self) -> None:
        config = {"model.width": 8, "model.heads": 2, "model.layers": 1}
        for odd in (torch.ones(2, 2).to_sparse(), torch.ones(2, 2).to_sparse_csr(), torch.ones(2, device="meta"),
                    torch.nested.nested_tensor([torch.ones(2)])):  # fmt: skip
            with self.assertRaises(ps.InputError) as raised:
                ps.Model(config, {"here": odd})
            self.assertIn("here is sparse, nested or without values", str(raised.exception))
        ps.Model(config, {"here": torch._neg_view(torch.ones(2))})

    def test_sequences_beside_each_other(self) -> None:
        model = llama().double()
        batch = batches(1)[0]
        with ps.record(model) as recorder:
            model(input_ids=batch, labels=batch).loss.backward()
        both = recorder.datasets[0]
        each = [ps.probe(model, tokens=ids, backward=True, no_theory=True) for ids in batch]
        mean = sum(ds.second_moment_measured for ds in each) / 2
        np.testing.assert_allclose(both.second_moment_measured, mean, rtol=1e-6)
        gradients = sum(ds.grad_sq_measured for ds in each) / 8  # the loss is the mean over both
        np.testing.assert_allclose(both.grad_sq_measured, gradients, rtol=1e-5)

    def test_dropout_is_a_part_of_the_branch(self) -> None:
        for name, model in models(torch.float64):
            if name not in ("gpt2", "opt", "bert"):  # the others have none
                continue
            batch = batches(1)[0]
            with self.subTest(family=name), ps.record(model.train()) as recorder:
                model(input_ids=batch, labels=batch).loss.backward()
            ds = recorder.datasets[0]
            self.assertFalse(ds.growth_violated.item(), ds.growth_residual.values)
            branch, output = (ds.site_second_moment_measured.sel(site=site).values for site in ("B_out", "f_out"))
            self.assertFalse(np.allclose(branch, output, rtol=1e-3))
            self.assertTrue(np.isfinite(ds.site_grad_sq_measured.sel(site="B_out").values).all())

    def test_copies_of_a_recorded_model_are_plain(self) -> None:
        model, batch = llama(), batches(1)[0]
        with ps.record(model, steps=[0]) as recorder:
            copies = [copy.deepcopy(model)]
            model(input_ids=batch, labels=batch).loss.backward()
            copies.append(copy.deepcopy(model))
            file = io.BytesIO()
            torch.save(model, file)
        copies.append(torch.load(io.BytesIO(file.getvalue()), weights_only=False))
        for one in copies:
            with ps.record(one) as again:
                one(input_ids=batch, labels=batch).loss.backward()
            np.testing.assert_array_equal(again.datasets[0].grad_sq_measured, recorder.datasets[0].grad_sq_measured)

    def test_attention_that_has_no_scores(self) -> None:
        for attention in ("eager", "sdpa"):
            model = llama(attention=attention)
            with ps.record(model, gradients=False) as recorder:
                with torch.no_grad():
                    model(input_ids=batches(1)[0])
            ds = recorder.datasets[0]
            self.assertTrue(np.isfinite(ds.second_moment_measured.values).all())
            self.assertFalse("log_grad_sq_measured" in ds and np.isfinite(ds.log_grad_sq_measured.values).any())

    def test_theory_beside_a_live_model(self) -> None:
        model = llama(layers=4, width=256)
        ids = batches(1, 1, 32)[0][0]
        with ps.record(model) as recorder:
            model(input_ids=ids[None], labels=ids[None]).loss.backward()
        theory = ps.at_init(model, ids, backward=True)
        measured = recorder.datasets[0].second_moment_measured
        np.testing.assert_allclose(measured, theory.second_moment_predicted, rtol=0.25)  # one draw of this width
        self.assertEqual(ps.certify(model, format=["fp16"]).attrs["study"], "certify")

    def test_what_cannot_be_recorded_is_refused_by_name(self) -> None:
        model = llama()
        with self.assertRaises(ps.InputError) as raised:
            ps.record(torch.compile(model))
        self.assertIn("torch.compile", str(raised.exception))
        compiled = torch.compile(model, backend="eager")
        for _ in range(2):  # before and after it was compiled
            with self.assertRaises(ps.InputError) as raised, ps.record(model):
                compiled(input_ids=batches(1)[0])
            self.assertIn("expected one of the plain module", str(raised.exception))
            compiled(input_ids=batches(1)[0])
        inside = llama()
        inside.model.layers[1].compile(backend="eager")
        with self.assertRaises(ps.InputError) as raised:
            ps.record(inside)
        self.assertIn("LlamaDecoderLayer is compiled", str(raised.exception))
        with self.assertRaises(ps.InputError) as raised:
            ps.from_torch(torch.nn.DataParallel(model))
        self.assertIn("DataParallel", str(raised.exception))
        with self.assertRaises(ps.InputError) as raised:
            ps.record(torch.nn.Linear(2, 2))
        self.assertIn("Linear", str(raised.exception))
        with torch.device("meta"):
            empty = llama()
        with self.assertRaises(ps.InputError) as raised:
            ps.from_torch(empty)
        self.assertIn("meta", str(raised.exception))
        mask = torch.ones(2, 12)
        mask[0, 0] = 0
        with self.assertRaises(ps.InputError) as raised, ps.record(model):
            model(input_ids=batches(1)[0], attention_mask=mask)
        self.assertIn("padding", str(raised.exception))
        model.gradient_checkpointing_enable()
        with self.assertRaises(ps.InputError) as raised:
            ps.record(model)
        self.assertIn("gradient checkpointing", str(raised.exception))
        self.assertIn("Olmo2", str([type(m).__name__ for _, m in models(torch.float32)]))

    def test_torch_may_be_imported_before_or_after(self) -> None:
        """Two OpenMP runtimes may be in one process; both compute, in either order."""
        found = []
        for order in ("torch, periscope as ps", "periscope as ps, torch"):
            code = f"import {order}; a = torch.ones(64, 64) @ torch.ones(64, 64); "
            code += "ds = ps.propagate({'model.layers': 4, 'model.width': 128}, seeds=8, threads=2); "
            code += "b = a @ a; print(float(b.sum()), float(ds.second_moment_measured.sum()))"
            start = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
            print(f"import {order}: {time.perf_counter() - start:.1f} s")
            self.assertEqual(done.stderr, "")
            found.append(done.stdout)
        self.assertEqual(found[0], found[1])

    def test_the_price_is_printed(self) -> None:
        """Seconds a step with no record, and what one record costs: at one in 50 steps, the share of the time."""
        model = llama(layers=12, width=256, attention="sdpa", vocab=256)
        given = batches(6, 8, 128, 256)
        train(model, given[:2])
        start = time.perf_counter()
        train(model, given)
        plain = (time.perf_counter() - start) / len(given)
        with ps.record(model, every=1) as recorder:
            start = time.perf_counter()
            train(model, given, recorder)
            each = (time.perf_counter() - start) / len(given)
        print(f"a step {plain:.3f} s, with a record {each:.3f} s: {(each - plain) / plain / 50:.1%} at one in 50")


if __name__ == "__main__":
    unittest.main()

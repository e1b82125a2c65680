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
    from studies import rejected
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
        with rejected("two passes"):
            self.recorded(lambda model, batch: model(input_ids=batch))
        model, batch = llama(), batches(1)[0]
        with rejected("changed in place"), ps.record(model):
            output = model(input_ids=batch, labels=batch)
            output.loss.backward()
            with torch.no_grad():
                output.logits.mul_(0)
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

    def test_what_cannot_be_recorded_is_refused_by_name(self) -> None:
        model = llama()
        with rejected("torch.compile"):
            ps.record(torch.compile(model))
        compiled = torch.compile(model, backend="eager")
        for _ in range(2):  # before and after it was compiled
            with rejected("expected a call of the original module"), ps.record(model):
                compiled(input_ids=batches(1)[0])
            compiled(input_ids=batches(1)[0])
        inside = llama()
        inside.model.layers[1].compile(backend="eager")
        with rejected("LlamaDecoderLayer is compiled"):
            ps.record(inside)
        with rejected("DataParallel"):
            ps.from_torch(torch.nn.DataParallel(model))
        with rejected("Linear"):
            ps.record(torch.nn.Linear(2, 2))
        with torch.device("meta"):
            empty = llama()
        with rejected("meta"):
            ps.from_torch(empty)
        mask = torch.ones(2, 12)
        mask[0, 0] = 0
        with rejected("padding"), ps.record(model):
            model(input_ids=batches(1)[0], attention_mask=mask)
        model.gradient_checkpointing_enable()
        with rejected("gradient checkpointing"):
            ps.record(model)
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


if __name__ == "__main__":
    unittest.main()

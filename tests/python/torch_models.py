"""Small models of transformers of every family that Periscope reads."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers as t

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 64,
                         "intermediate_size": 48, "max_position_embeddings": 64}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@contextmanager
def all_in_double() -> Iterator[None]:
    """transformers computes norms, softmaxes and rotations of a model in f64 in f32; here they are in f64."""
    with ExitStack() as stack:
        for name in ("float32", "float"):
            stack.enter_context(mock.patch.object(torch, name, torch.float64))
        stack.enter_context(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        stack.callback(torch.set_default_dtype, default)
        yield


def models(dtype: torch.dtype, attention: str = "eager") -> Iterator[tuple[str, Any]]:
    """Name and model, with gains that are not 1, in evaluation mode: nothing is dropped."""
    plain = {key: value for key, value in GROUPED.items() if key != "head_dim"}
    made: list[tuple[str, Any, Any]] = [
        ("llama", t.LlamaConfig(**GROUPED), t.LlamaForCausalLM),
        ("mistral", t.MistralConfig(**GROUPED), t.MistralForCausalLM),
        ("qwen2", t.Qwen2Config(**plain), t.Qwen2ForCausalLM),
        ("qwen3", t.Qwen3Config(**GROUPED), t.Qwen3ForCausalLM),
        ("gemma2", t.Gemma2Config(**GROUPED, query_pre_attn_scalar=8), t.Gemma2ForCausalLM),
        ("gemma3", t.Gemma3TextConfig(**GROUPED, query_pre_attn_scalar=8), t.Gemma3ForCausalLM),
        ("olmo2", t.Olmo2Config(**plain), t.Olmo2ForCausalLM),
        ("gpt2", t.GPT2Config(n_embd=32, n_layer=3, n_head=4, vocab_size=64, n_positions=64), t.GPT2LMHeadModel),
        ("opt", t.OPTConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, ffn_dim=48, vocab_size=64,
                            max_position_embeddings=64, word_embed_proj_dim=32), t.OPTForCausalLM),
        ("bert", t.BertConfig(**SIZES), t.BertForMaskedLM),
    ]  # fmt: skip
    for name, config, kind in made:
        torch.manual_seed(1)
        config._attn_implementation = attention
        model = kind(config).to(dtype).eval()
        with torch.no_grad():
            for _, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.1 * torch.randn_like(parameter))
                else:
                    parameter.mul_(3.0)
            for key, buffer in model.named_buffers():
                if key.endswith("embed_scale"):  # transformers keeps it in f32
                    buffer.fill_(float(np.float32(buffer.item())))
        yield name, model

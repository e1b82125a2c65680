"""Small transformers models and their records, for the tests of recording."""

import numpy as np

from module import ps
from torch_models import t, torch

TOKENS = torch.randint(0, 64, (2, 12), generator=torch.Generator().manual_seed(3))
OTHERS = torch.randint(0, 64, (2, 12), generator=torch.Generator().manual_seed(4))


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

"""Small checkpoints of the llama family with random weights."""

import json

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

LAYERS, WIDTH, HEADS, KV_HEADS, MLP = 2, 16, 4, 2, 24
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": WIDTH,
    "intermediate_size": MLP, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "rope_scaling": None, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
    "bos_token_id": 1, "eos_token_id": 2,
}
read_tensors, write_tensors = load_file, lambda path, tensors, metadata=None: save_file(tensors, path, metadata)


def metadata_of(path):
    with safe_open(path, "np") as file:
        return file.metadata()


def random_tensors(vocab=256):
    kv = KV_HEADS * WIDTH // HEADS
    layer = {
        "input_layernorm": [WIDTH], "post_attention_layernorm": [WIDTH], "self_attn.q_proj": [WIDTH, WIDTH],
        "self_attn.k_proj": [kv, WIDTH], "self_attn.v_proj": [kv, WIDTH], "self_attn.o_proj": [WIDTH, WIDTH],
        "mlp.gate_proj": [MLP, WIDTH], "mlp.up_proj": [MLP, WIDTH], "mlp.down_proj": [WIDTH, MLP],
    }
    shapes = {"embed_tokens": [vocab, WIDTH], "norm": [WIDTH]}
    shapes |= {f"layers.{l}.{name}": shape for l in range(LAYERS) for name, shape in layer.items()}
    draw = np.random.default_rng(1)
    return {f"model.{name}.weight": draw.normal(*(1.0, 0.2) if len(shape) == 1 else (0.0, 0.4), shape)
            for name, shape in shapes.items()}


def write_checkpoint(folder, vocab=256, changes=None, **config):
    """Writes a small checkpoint and returns its tensors. `changes` maps a substring of tensor names to a factor, or
    to the flat index of an entry and its value; `config` has further keys of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = random_tensors(vocab)
    for part, change in (changes or {}).items():
        for tensor in (t for name, t in tensors.items() if part in name):
            if isinstance(change, tuple):
                tensor.flat[change[0]] = change[1]
            else:
                tensor *= change
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": vocab} | config))
    write_tensors(folder / "model.safetensors", tensors)
    return tensors

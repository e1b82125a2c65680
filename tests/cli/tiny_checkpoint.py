"""A small checkpoint of the llama family with random weights, written without any package."""

import array
import json
import math
import random

from safetensors_file import write_raw

LAYERS, WIDTH, HEADS, KV_HEADS, MLP = 2, 16, 4, 2, 24
HEAD_DIM = WIDTH // HEADS

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": WIDTH,
    "intermediate_size": MLP, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "rope_scaling": None, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def shapes(vocab):
    layer = {
        "input_layernorm.weight": [WIDTH], "post_attention_layernorm.weight": [WIDTH],
        "self_attn.q_proj.weight": [WIDTH, WIDTH], "self_attn.k_proj.weight": [KV_HEADS * HEAD_DIM, WIDTH],
        "self_attn.v_proj.weight": [KV_HEADS * HEAD_DIM, WIDTH], "self_attn.o_proj.weight": [WIDTH, WIDTH],
        "mlp.gate_proj.weight": [MLP, WIDTH], "mlp.up_proj.weight": [MLP, WIDTH], "mlp.down_proj.weight": [WIDTH, MLP],
    }  # fmt: skip
    names = {"model.embed_tokens.weight": [vocab, WIDTH], "model.norm.weight": [WIDTH]}
    for l in range(LAYERS):
        names |= {f"model.layers.{l}.{name}": shape for name, shape in layer.items()}
    return names


def random_tensors(vocab, seed=1):
    draw = random.Random(seed)
    tensors = {}
    for name, shape in shapes(vocab).items():
        gain = len(shape) == 1
        values = [draw.gauss(1.0, 0.2) if gain else draw.gauss(0.0, 0.4) for _ in range(math.prod(shape))]
        tensors[name] = (shape, values)
    return tensors


def write(folder, vocab=256, tensors=None):
    """-> the tensors, {name: (shape, values)}"""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensors or random_tensors(vocab)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": vocab}))
    write_raw(folder / "model.safetensors", {name: ("F64", shape, array.array("d", values).tobytes())
                                             for name, (shape, values) in tensors.items()})
    return tensors

"""Small random transformers models of every supported family."""

import random
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from program import imported

torch = imported("torch", "python/requirements-torch.txt")
safetensors = imported("safetensors.torch", "python/requirements-torch.txt")  # before torch.float32 is patched
t = imported("transformers", "python/requirements-torch.txt")

torch.set_num_threads(1)
t.logging.set_verbosity_error()
t.logging.disable_progress_bar()


@contextmanager
def all_in_double():
    """Makes transformers compute norms, softmaxes and rotations of f64 models in f64 instead of f32."""
    with ExitStack() as stack:
        for name in ("float32", "float"):
            stack.enter_context(mock.patch.object(torch, name, torch.float64))
        stack.enter_context(mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        stack.callback(torch.set_default_dtype, default)
        yield


def ropes(draw, types=("default", "linear", "llama3", "yarn", "longrope")):
    """Returns random RoPE parameters in the form of transformers 5, without the lists of longrope."""
    rope = {"rope_type": draw.choice(types), "rope_theta": draw.choice([50.0, 10000.0, 1e6])}
    if rope["rope_type"] in ("linear", "llama3", "yarn"):
        rope["factor"] = draw.choice([1.5, 4.0, 32.0])
    if rope["rope_type"] == "llama3":
        low = draw.choice([0.5, 1.0])
        rope |= {"low_freq_factor": low, "high_freq_factor": low * draw.choice([2.0, 4.0]),
                 "original_max_position_embeddings": draw.choice([4, 16, 64])}
    if rope["rope_type"] == "yarn":
        more = [{}, {"attention_factor": 1.3}, {"mscale": 0.7, "mscale_all_dim": 1.2}, {"beta_fast": 4, "beta_slow": 2}]
        rope |= {"original_max_position_embeddings": draw.choice([16, 64]), **draw.choice(more)}
    if rope["rope_type"] == "longrope":
        rope |= {"original_max_position_embeddings": draw.choice([16, 64])}
        rope |= draw.choice([{}, {"factor": 4.0}, {"attention_factor": 1.3}])
    return rope


def partial_ropes(draw):
    """Returns random RoPE parameters of a family in which a part of every head may rotate."""
    return ropes(draw) | {"partial_rotary_factor": draw.choice([0.25, 0.5, 0.75, 1.0])}


def gemma4_ropes(draw):
    """Returns random RoPE parameters without longrope, which transformers rejects for heads of several widths."""
    if draw.random() < 0.5:
        return ropes(draw, ["default", "linear", "llama3", "yarn"])
    rope = {"rope_type": "proportional", "rope_theta": 100.0, "partial_rotary_factor": draw.choice([0.25, 0.6, 1.0])}
    return rope | draw.choice([{}, {"factor": 4.0}])


def complete(rope, head_dim, original, draw):
    """Adds the lists of longrope. `original` replaces the original context length. The tests' sequences are shorter."""
    rotated = int(head_dim * rope.get("partial_rotary_factor", 1))
    if rotated == 0 or (rotated % 2 == 1 and rope["rope_type"] in ("yarn", "longrope")):
        rope["partial_rotary_factor"], rotated = 1.0, head_dim  # transformers needs an even number for these types
    if rope["rope_type"] == "longrope":
        for kind in ("short", "long"):
            rope[f"{kind}_factor"] = [draw.choice([1.0, 1.5, 7.0]) for _ in range(rotated // 2)]
        rope |= {} if original is None else {"original_max_position_embeddings": original}


COIN = [False, True]
# Choices for families with grouped key/value heads, and (PLAIN) with one key/value head per head.
GROUPED = {"num_hidden_layers": range(1, 5), "intermediate_size": range(1, 30), "vocab_size": range(5, 62),
           "rms_norm_eps": [1e-6, 1e-5, 1e-2], "max_position_embeddings": [32, 4096], "tie_word_embeddings": COIN,
           "hidden_act": ["silu", "silu", "gelu", "gelu_pytorch_tanh"], "rope_parameters": [ropes]}
DIM = {"head_dim": [2, 4, 6, 8]}  # may differ from width / heads
TYPES = {"layer_types": [lambda draw: ["full_attention", "sliding_attention"]]}  # one is drawn for every layer
WINDOW = {"use_sliding_window": COIN, "sliding_window": [1, 3], "max_window_layers": range(5)}
GEMMA = {**GROUPED, **DIM, **TYPES, "attention_bias": COIN, "sliding_window": [1, 3, 50],
         "final_logit_softcapping": [None, 3.0], "hidden_activation": GROUPED["hidden_act"]}
del GEMMA["hidden_act"]
SCALAR = {"query_pre_attn_scalar": [1, 5, 16]}
PLAIN = {"num_hidden_layers": range(1, 5), "vocab_size": range(5, 62), "max_position_embeddings": [24],
         "tie_word_embeddings": COIN}
FAMILIES = {
    "llama": (t.LlamaConfig, t.LlamaForCausalLM, {**GROUPED, **DIM, "attention_bias": COIN, "mlp_bias": COIN}),
    "mistral": (t.MistralConfig, t.MistralForCausalLM, {**GROUPED, **DIM, "sliding_window": [None, 1, 3, 50]}),
    "qwen2": (t.Qwen2Config, t.Qwen2ForCausalLM, {**GROUPED, **WINDOW}),
    "qwen3": (t.Qwen3Config, t.Qwen3ForCausalLM, {**GROUPED, **DIM, **WINDOW, "attention_bias": COIN}),
    "gemma2": (t.Gemma2Config, t.Gemma2ForCausalLM, {**GEMMA, **SCALAR, "attn_logit_softcapping": [None, 2.0]}),
    "gemma3": (t.Gemma3TextConfig, t.Gemma3ForCausalLM, {**GEMMA, **SCALAR, "rope_parameters": [
        lambda draw: {"full_attention": ropes(draw), "sliding_attention": ropes(draw)}]}),
    "gemma4": (t.Gemma4TextConfig, t.Gemma4ForCausalLM, {
        **GEMMA, "global_head_dim": [4, 8, 12], "num_global_key_value_heads": [None, 1], "attention_k_eq_v": COIN,
        "hidden_size_per_layer_input": [0], "rope_parameters": [None, *3 * [
            lambda draw: {"full_attention": gemma4_ropes(draw), "sliding_attention": gemma4_ropes(draw)}]]}),
    "olmo2": (t.Olmo2Config, t.Olmo2ForCausalLM, {**GROUPED, "attention_bias": COIN}),
    "gpt2": (t.GPT2Config, t.GPT2LMHeadModel, {
        "n_layer": range(1, 5), "n_positions": [24], "n_inner": [None, 7], "vocab_size": range(5, 62),
        "layer_norm_epsilon": [1e-5, 1e-2], "activation_function": ["gelu_new", "gelu", "relu", "silu"],
        "scale_attn_weights": COIN, "scale_attn_by_inverse_layer_idx": COIN, "tie_word_embeddings": COIN,
        "bos_token_id": [0], "eos_token_id": [1]}),
    "opt": (t.OPTConfig, t.OPTForCausalLM, {
        **PLAIN, "ffn_dim": range(1, 30), "word_embed_proj_dim": [None, 3], "do_layer_norm_before": COIN,
        "enable_bias": COIN, "layer_norm_elementwise_affine": COIN, "activation_function": ["relu", "gelu"],
        "_remove_final_layer_norm": COIN, "pad_token_id": [1], "bos_token_id": [0], "eos_token_id": [1]}),
    "bert": (t.BertConfig, t.BertForMaskedLM, {
        **PLAIN, "intermediate_size": range(1, 30), "type_vocab_size": [1, 2], "layer_norm_eps": [1e-12, 1e-2],
        "pad_token_id": [0], "hidden_act": ["gelu", "relu", "gelu_new"]}),
    "gpt_neox": (t.GPTNeoXConfig, t.GPTNeoXForCausalLM, {
        **PLAIN, "intermediate_size": range(1, 30), "layer_norm_eps": [1e-5, 1e-2], "use_parallel_residual": COIN,
        "attention_bias": COIN, "hidden_act": ["gelu", "gelu_new", "relu"], "rope_parameters": [partial_ropes]}),
    "granite": (t.GraniteConfig, t.GraniteForCausalLM, {
        **GROUPED, "attention_bias": COIN, "mlp_bias": COIN, "embedding_multiplier": [1.0, 12.0],
        "residual_multiplier": [1.0, 0.22, 1.5], "attention_multiplier": [0.0625, 1.0], "logits_scaling": [1.0, 8.0]}),
    "phi3": (t.Phi3Config, t.Phi3ForCausalLM, {
        **GROUPED, "vocab_size": range(20, 62), "sliding_window": [None, 3, 50], "pad_token_id": [None],
        "bos_token_id": [None], "eos_token_id": [None], "original_max_position_embeddings": [16, 64],
        "rope_parameters": [
            lambda draw: ropes(draw, ["default", "longrope"]) | {"partial_rotary_factor": draw.choice([0.5, 0.75, 1.0])}
        ]}),
    "glm4": (t.Glm4Config, t.Glm4ForCausalLM, {
        **GROUPED, **DIM, "attention_bias": COIN, "pad_token_id": [None], "eos_token_id": [[2]],
        "rope_parameters": [partial_ropes]}),
    "olmo3": (t.Olmo3Config, t.Olmo3ForCausalLM, {
        **GROUPED, **TYPES, "attention_bias": COIN, "sliding_window": [1, 3, 50], "eos_token_id": [2],
        "rope_parameters": [lambda draw: {"full_attention": ropes(draw), "sliding_attention": ropes(draw)}]}),
    "smollm3": (t.SmolLM3Config, t.SmolLM3ForCausalLM, {
        **GROUPED, "attention_bias": COIN, "mlp_bias": COIN, "use_sliding_window": COIN, "sliding_window": [None, 1, 3],
        "no_rope_layer_interval": [1, 2, 4], "pad_token_id": [None], "bos_token_id": [None], "eos_token_id": [None]}),
}

# Families that only `certify` and `info` read.
MIXTURES = {
    "mixtral": (t.MixtralConfig, t.MixtralForCausalLM, {
        **GROUPED, **DIM, "sliding_window": [None, 1, 3, 50], "num_local_experts": [2, 3, 5],
        "num_experts_per_tok": [1, 2]}),
    "qwen3_moe": (t.Qwen3MoeConfig, t.Qwen3MoeForCausalLM, {
        **GROUPED, **DIM, "attention_bias": COIN, "use_sliding_window": COIN, "sliding_window": [1, 3],
        "num_experts": [2, 3, 5], "num_experts_per_tok": [1, 2], "norm_topk_prob": COIN,
        "moe_intermediate_size": range(1, 30)}),
}


def config_of(family, draw, **given):
    kind, _, choices = (FAMILIES | MIXTURES)[family]
    keys = {key: given.get(key, draw.choice(values)) for key, values in choices.items()}
    keys = {key: value(draw) if callable(value) else value for key, value in keys.items()}
    if "rope_parameters" in keys:
        kv = draw.choice([1, 1, 2, 3])
        heads = kv * draw.choice([1, 1, 2, 3])
        keys |= {"num_attention_heads": heads, "num_key_value_heads": kv, "hidden_size": heads * draw.choice([2, 4, 6])}
        if family == "gpt_neox":
            del keys["num_key_value_heads"]
        head_dim = keys.get("head_dim", keys["hidden_size"] // heads)
        rope = keys["rope_parameters"] or {}
        for layers, each in rope.items() if "full_attention" in rope else [("", rope)] if rope else []:
            dim = keys.get("global_head_dim", head_dim) if layers == "full_attention" else head_dim
            complete(each, dim, keys.get("original_max_position_embeddings"), draw)
    else:
        heads = draw.choice([1, 2, 3])
        width = heads * draw.choice([2, 3, 5])
        keys |= {"n_head": heads, "n_embd": width} if family == "gpt2" else {
            "num_attention_heads": heads, "hidden_size": width}
    if "layer_types" in keys:
        keys["layer_types"] = draw.choices(keys["layer_types"], k=keys["num_hidden_layers"])
        if family == "gemma4":  # whose last layer never has a window
            keys["layer_types"][0] = "sliding_attention"
    return kind(**keys)


def model_of(family, seed, dtype=None, **given):
    """Returns a model without dropout and token ids; `given` fixes keys of the configuration. Gains and biases differ
    from their initial values."""
    draw = random.Random(f"{family} {seed}")
    config, kind = config_of(family, draw, **given), (FAMILIES | MIXTURES)[family][1]
    config._attn_implementation = config._experts_implementation = "eager"
    torch.manual_seed(seed)
    model = kind(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            normal = torch.randn_like(parameter)
            scale = 1.3 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.3
            parameter.copy_(scale * normal + (parameter if parameter.dim() == 1 else 0.0))
        for key, buffer in model.named_buffers():
            if key.endswith("embed_scale"):  # transformers stores it in f32
                buffer.fill_(float(np.float32(buffer.item())))
            if key.endswith("layer_scalar"):
                buffer.uniform_(0.5, 1.5)
    words = [word for word in range(config.vocab_size) if word != config.pad_token_id]  # padding has no gradient
    return model.to(dtype or torch.float64), [draw.choice(words) for _ in range(draw.randint(2, 12))]

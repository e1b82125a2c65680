"""Random checkpoints of all ten families against transformers: logits and gradients of every tensor, in f64. Not a part
of the gate; in an environment with python/requirements-torch.txt:

    python tests/python/torch_differential.py build/periscope --count 500 [--seed 1]

Checkpoint number i has the seed SEED + i, which decides its configuration, weights and tokens. Every difference is
printed with its seed and configuration, to be repeated with `--count 1 --seed N`; then the exit code is 1.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers as t
from torch_models import all_in_double

TOLERANCE = 1e-9  # of the largest number of a tensor


def ropes(draw, kinds=("default", "linear", "llama3")):
    """Returns RoPE's parameters in the form of transformers 5."""
    rope = {"rope_type": draw.choice(kinds), "rope_theta": draw.choice([50.0, 10000.0, 1e6])}
    if rope["rope_type"] != "default":
        rope["factor"] = draw.choice([1.5, 4.0, 32.0])
    if rope["rope_type"] == "llama3":
        low = draw.choice([0.5, 1.0])
        rope |= {"low_freq_factor": low, "high_freq_factor": low * draw.choice([2.0, 4.0]),
                 "original_max_position_embeddings": draw.choice([4, 16, 64])}
    return rope


def sizes(draw, dim=None):
    """Returns sizes of a stack with grouped heads; with `dim`, head_dim may differ from width / heads."""
    kv = draw.choice([1, 1, 2, 3])
    heads = kv * draw.choice([1, 1, 2, 3])
    head = draw.choice([2, 4, 6])
    keys = {"num_attention_heads": heads, "num_key_value_heads": kv, "num_hidden_layers": draw.randint(1, 4),
            "hidden_size": heads * head, "intermediate_size": draw.randint(1, 29), "vocab_size": draw.randint(5, 61),
            "rms_norm_eps": draw.choice([1e-6, 1e-5, 1e-2]), "max_position_embeddings": draw.choice([32, 4096]),
            "tie_word_embeddings": draw.random() < 0.5}  # fmt: skip
    if dim:
        keys["head_dim"] = draw.choice([head, 2, 8])
    return keys | {"hidden_act": draw.choice(["silu", "silu", "gelu", "gelu_pytorch_tanh"])}


def coin(draw):
    return draw.random() < 0.5


def llama(draw):
    biases = {"attention_bias": coin(draw), "mlp_bias": coin(draw)}
    return t.LlamaConfig(**sizes(draw, dim=True), rope_parameters=ropes(draw), **biases)


def mistral(draw):
    window = draw.choice([None, 1, 3, 50])
    return t.MistralConfig(**sizes(draw, dim=True), rope_parameters=ropes(draw), sliding_window=window)


def qwen(draw, kind, **more):
    keys = sizes(draw, dim=kind is t.Qwen3Config)
    if coin(draw):
        keys |= {"use_sliding_window": True, "sliding_window": draw.choice([1, 3])}
        keys["max_window_layers"] = draw.randint(0, 4)
    return kind(**keys, **more, rope_parameters=ropes(draw))


def gemma(draw, kind, **more):
    keys = sizes(draw, dim=True)
    keys["hidden_activation"] = keys.pop("hidden_act")
    kinds = [draw.choice(["full_attention", "sliding_attention"]) for _ in range(keys["num_hidden_layers"])]
    return kind(**keys, **more, attention_bias=coin(draw), sliding_window=draw.choice([1, 3, 50]),
                query_pre_attn_scalar=draw.choice([1, 5, 16]), layer_types=kinds,
                final_logit_softcapping=draw.choice([None, 3.0]))  # fmt: skip


def gpt2(draw):
    heads = draw.choice([1, 2, 3])
    return t.GPT2Config(
        n_embd=heads * draw.choice([2, 3, 5]), n_head=heads, n_layer=draw.randint(1, 4), n_positions=24,
        n_inner=draw.choice([None, 7]), vocab_size=draw.randint(5, 61), layer_norm_epsilon=draw.choice([1e-5, 1e-2]),
        activation_function=draw.choice(["gelu_new", "gelu", "relu", "silu"]), scale_attn_weights=coin(draw),
        scale_attn_by_inverse_layer_idx=coin(draw), tie_word_embeddings=coin(draw), bos_token_id=0, eos_token_id=1,
    )  # fmt: skip


def opt(draw):
    heads = draw.choice([1, 2, 3])
    width = heads * draw.choice([2, 3, 5])
    return t.OPTConfig(
        hidden_size=width, num_attention_heads=heads, num_hidden_layers=draw.randint(1, 4), ffn_dim=draw.randint(1, 29),
        vocab_size=draw.randint(5, 61), max_position_embeddings=24, word_embed_proj_dim=draw.choice([width, 3]),
        do_layer_norm_before=coin(draw), enable_bias=coin(draw), layer_norm_elementwise_affine=coin(draw),
        activation_function=draw.choice(["relu", "gelu"]), tie_word_embeddings=coin(draw),
        _remove_final_layer_norm=coin(draw), pad_token_id=1, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip


def bert(draw):
    heads = draw.choice([1, 2, 3])
    return t.BertConfig(
        hidden_size=heads * draw.choice([2, 3, 5]), num_attention_heads=heads, num_hidden_layers=draw.randint(1, 4),
        intermediate_size=draw.randint(1, 29), vocab_size=draw.randint(5, 61), max_position_embeddings=24,
        type_vocab_size=draw.choice([1, 2]), layer_norm_eps=draw.choice([1e-12, 1e-2]), pad_token_id=0,
        hidden_act=draw.choice(["gelu", "relu", "gelu_new"]), tie_word_embeddings=coin(draw),
    )  # fmt: skip


def gemma3(draw):
    pair = {"full_attention": ropes(draw), "sliding_attention": ropes(draw)}
    return gemma(draw, t.Gemma3TextConfig, rope_parameters=pair)


FAMILIES = {
    "llama": (llama, t.LlamaForCausalLM),
    "mistral": (mistral, t.MistralForCausalLM),
    "qwen2": (lambda draw: qwen(draw, t.Qwen2Config), t.Qwen2ForCausalLM),
    "qwen3": (lambda draw: qwen(draw, t.Qwen3Config, attention_bias=coin(draw)), t.Qwen3ForCausalLM),
    "gemma2": (lambda draw: gemma(draw, t.Gemma2Config, rope_parameters=ropes(draw),
                                  attn_logit_softcapping=draw.choice([None, 2.0])), t.Gemma2ForCausalLM),
    "gemma3": (gemma3, t.Gemma3ForCausalLM),
    "olmo2": (lambda draw: t.Olmo2Config(**sizes(draw), rope_parameters=ropes(draw), attention_bias=coin(draw)),
              t.Olmo2ForCausalLM),
    "gpt2": (gpt2, t.GPT2LMHeadModel),
    "opt": (opt, t.OPTForCausalLM),
    "bert": (bert, t.BertForMaskedLM),
}  # fmt: skip


def model_of(seed):
    """Returns family, model and tokens. Gains and biases differ from their initial values."""
    draw = random.Random(seed)
    family = draw.choice(sorted(FAMILIES))
    make, kind = FAMILIES[family]
    config = make(draw)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = kind(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            normal = torch.randn_like(parameter)
            scale = 1.3 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.3
            parameter.copy_(scale * normal + (parameter if parameter.dim() == 1 else 0.0))
        for key, buffer in model.named_buffers():
            if key.endswith("embed_scale"):  # transformers keeps it in f32
                buffer.fill_(float(np.float32(buffer.item())))
    words = [word for word in range(config.vocab_size) if word != config.pad_token_id]  # whose row gets no gradient
    return family, model, [draw.choice(words) for _ in range(draw.randint(2, 12))]


def theirs(model, ids):
    """Returns logits, and gradients by name."""
    batch = torch.tensor([ids])
    output = model(input_ids=batch)
    causal = model.config.model_type != "bert"
    logits = output.logits[0]
    labels = batch[0, 1:] if causal else batch[0]
    torch.nn.functional.cross_entropy(logits[: len(labels)], labels).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), gradients


def periscope(program, *words):
    done = subprocess.run([program, *map(str, words), "--quiet", "--threads", "1"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return done.stdout


def ours(program, folder, model, ids):
    words = ",".join(map(str, ids))
    labels = ("--labels", words) if model.config.model_type == "bert" else ()
    asked = ("--backward", "--no-theory", "--dump", folder / "dump")
    periscope(program, "probe", folder, "--tokens", words, *labels, *asked)
    tensors = safetensors.torch.load_file(folder / "dump" / "activations.safetensors")
    prefix = "grad.weight."
    gradients = {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
    return tensors["logits"], gradients


def differences(program, model, ids):
    """Returns the differences in words."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model.save_pretrained(folder)
        try:
            logits, gradients = ours(program, folder, model, ids)
        except RuntimeError as error:
            return [str(error)]
    expected_logits, expected_gradients = theirs(model, ids)
    found = []

    def compare(what, a, b, scale):
        worst = float((a - b).abs().max() / max(scale, 1e-300)) if a.shape == b.shape else float("inf")
        if not worst <= TOLERANCE:
            found.append(f"{what}: {worst:.1e}")

    compare("logits", logits, expected_logits, float(expected_logits.abs().max()))
    largest = max(float(g.abs().max()) for g in expected_gradients.values())
    for tensor, gradient in gradients.items():
        # A gradient that is exactly 0, as of a key's bias, is rounding noise of the others.
        other = expected_gradients.get(tensor)
        if other is None:
            found.append(f"gradient of {tensor}: transformers has none")
        else:
            compare(f"gradient of {tensor}", gradient, other, max(float(other.abs().max()), 1e-3 * largest))
    for tensor, gradient in expected_gradients.items():
        if tensor not in gradients and float(gradient.abs().max()) > TOLERANCE * largest:
            found.append(f"gradient of {tensor}: periscope has none")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    t.logging.set_verbosity_error()
    t.logging.disable_progress_bar()
    torch.set_num_threads(1)
    equal, wrong = collections.Counter(), 0
    with all_in_double():
        for seed in range(args.seed, args.seed + args.count):
            family, model, ids = model_of(seed)
            found = differences(args.program, model, ids)
            if found:
                wrong += 1
                print(f"seed {seed}, {family}: {'; '.join(found)}\n  {json.dumps(model.config.to_diff_dict())}")
            equal[family] += not found
    print(", ".join(f"{family} {equal[family]}" for family in FAMILIES), f"of {args.count} equal; {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

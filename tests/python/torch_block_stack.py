"""A Transformer stack in PyTorch, float64, from the weights of a dump: streams, logits, loss, and autograd's gradients.

Independent of Periscope: what a module computes is written from its equation, and which norms a sublayer has comes
from torch_block_recipes.py. Parts inside a module (QK-norm, V-norm, inner norms, the attention's gate) are there where
the dump has their tensors; `unused` says which tensors of the dump no equation asked for.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_block_recipes import Recipe, recipe, shape

ROPE_BASE = 10000.0


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """gain x / sqrt(mean(x^2) + eps) over the last axis."""
    return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def rotate(x: Tensor) -> Tensor:
    """Rotary position embedding of x [T, heads, e]: pairs are (j, j + e/2), angles t / base^(2j/e)."""
    tokens, _, e = x.shape
    frequency = ROPE_BASE ** (-torch.arange(0, e, 2, dtype=x.dtype) / e)
    angle = torch.arange(tokens, dtype=x.dtype)[:, None, None] * frequency
    first, second = x[..., : e // 2], x[..., e // 2 :]
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


class Reference:
    """One stack and its weights; `run` computes it and keeps every stream for its gradient."""

    def __init__(self, model: dict[str, Any], weights: dict[str, Tensor], placement: Any,
                 by_layer: dict[int, Any] | None = None) -> None:  # fmt: skip
        """`model` is [model] of the dump's config.json. `placement` is a name or a table as in a configuration file;
        `by_layer` replaces it in single layers."""
        self.model = model
        self.weights = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
        self.shape = shape(placement)
        layers = model["layers"]
        self.recipes = [recipe((by_layer or {}).get(i // 2, placement), i, layers) for i in range(2 * layers)]
        self.used: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self.weights

    def take(self, name: str) -> Tensor:
        """A tensor of the dump, marked as used. Raises KeyError with its name if the dump lacks it."""
        self.used.add(name)
        return self.weights[name]

    def unused(self) -> list[str]:
        return sorted(set(self.weights) - self.used)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """The stack's kind of norm, with the dump's tensors NAME.gain, NAME.bias, NAME.alpha."""
        kind, eps, gain = self.model["norm"], self.model["norm_eps"], self.take(f"{name}.gain")
        if kind == "rms":
            return rms_norm(x, gain, eps)
        if kind == "l2":
            return gain * x / torch.sqrt((x * x).sum(-1, keepdim=True) + eps)
        bias = self.take(f"{name}.bias")
        if kind == "layer":
            centred = x - x.mean(-1, keepdim=True)
            return gain * centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + eps) + bias
        pointwise = {"dyt": torch.tanh, "derf": torch.erf}[kind]
        return gain * pointwise(self.take(f"{name}.alpha").reshape(()) * x) + bias

    def inner(self, name: str, x: Tensor) -> Tensor:
        """An RMSNorm inside a module over x's last axis, where the dump has it."""
        return rms_norm(x, self.take(f"{name}.gain"), self.model["norm_eps"]) if self.has(f"{name}.gain") else x

    def projected(self, prefix: str, part: str, x: Tensor, heads: int) -> Tensor:
        """Queries, keys or values [T, heads, e], normalised per head or over all heads, as the norm's gain is long."""
        flat = x @ self.take(f"{prefix}.{part}.weight").T
        by_head = flat.reshape(len(x), heads, -1)
        name = f"{prefix}.{part}_norm"
        whole = self.has(f"{name}.gain") and self.weights[f"{name}.gain"].numel() != by_head.shape[-1]
        return self.inner(name, flat).reshape(by_head.shape) if whole else self.inner(name, by_head)

    def attention(self, layer: int, x: Tensor) -> Tensor:
        """Softmax attention with grouped keys and values; the gate comes before the inner norm and W_o."""
        prefix, heads, kv_heads = f"layers.{layer}.attention", self.model["heads"], self.model["kv_heads"]
        q = self.projected(prefix, "q", x, heads)
        k = self.projected(prefix, "k", x, kv_heads)
        v = self.projected(prefix, "v", x, kv_heads)
        if self.model["rope"]:
            q, k = rotate(q), rotate(k)
        k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
        scores = torch.einsum("the,she->hts", q, k) / math.sqrt(q.shape[-1])
        if self.model["causal"]:
            later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        mixed = torch.einsum("hts,she->the", torch.softmax(scores, -1), v)
        if self.has(f"{prefix}.gate.weight"):
            gate = torch.sigmoid(x @ self.take(f"{prefix}.gate.weight").T)
            mixed = mixed * gate.reshape(len(x), heads, -1)
        return self.inner(f"{prefix}.inner_norm", mixed.flatten(1)) @ self.take(f"{prefix}.o.weight").T

    def mlp(self, layer: int, x: Tensor) -> Tensor:
        """The MLP, gated where the activation's name says so; the inner norm comes before W_down."""
        prefix, kind = f"layers.{layer}.mlp", self.model["mlp"]
        up = x @ self.take(f"{prefix}.up.weight").T
        if "glu" in kind:
            hidden = ACTIVATIONS[kind](x @ self.take(f"{prefix}.gate.weight").T) * up
        else:
            hidden = ACTIVATIONS[kind](up)
        return self.inner(f"{prefix}.inner_norm", hidden) @ self.take(f"{prefix}.down.weight").T

    def branch(self, sublayer: int, x: Tensor, norm_a: str | None = None) -> Tensor:
        """B(f(s A(x))) of a sublayer. `norm_a` names the norm A if it is not the sublayer's own."""
        own, rule = self.prefix(sublayer), self.recipes[sublayer]
        if rule.a or (rule.optional_a and self.has(f"{own}.norm_a.gain")):
            x = self.norm(norm_a or f"{own}.norm_a", x)
        module = self.mlp if sublayer % 2 else self.attention
        out = module(sublayer // 2, rule.gain * x)
        if rule.layer_scale:
            return self.take(f"{own}.branch_scale.gain") * out
        return self.norm(f"{own}.norm_b", out) if rule.b else out

    def added(self, sublayer: int, skip: Tensor, branch: Tensor) -> Tensor:
        """C(alpha skip + beta branch) of a sublayer."""
        rule: Recipe = self.recipes[sublayer]
        x = rule.alpha * skip + rule.beta * branch
        return self.norm(f"{self.prefix(sublayer)}.norm_c", x) if rule.c else x

    def prefix(self, sublayer: int) -> str:
        return f"layers.{sublayer // 2}.{'mlp' if sublayer % 2 else 'attention'}"

    def stack(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """All streams, from the input to the last sublayer's output, and what the final norm reads."""
        streams, count = [x], len(self.recipes)
        dual = start = x  # ResiDual's second stream; the layer's input, which SpanNorm's MLP skips from
        for i in range(count):
            x, layer, last = streams[-1], i // 2, max(count // 2 - 1, 1)
            if self.shape.startswith("parallel"):
                if i % 2 == 0:
                    shared = f"{self.prefix(i)}.norm_a" if self.shape == "parallel" else None
                    branches = self.branch(i, x) + self.branch(i + 1, x, shared)
                    streams.append(self.added(i, x, branches))
                continue
            if self.shape == "hyper":
                pre, post, mix = (self.take(f"{self.prefix(i)}.{part}") for part in ("pre", "post", "mix"))
                read = torch.einsum("n,tnd->td", pre.flatten(), x)
                written = torch.einsum("n,td->tnd", post.flatten(), self.branch(i, read))
                streams.append(torch.einsum("mn,tnd->tmd", mix, x) + written)
                continue
            if self.shape == "x0" and i % 2 == 0:  # nanochat: once a layer, interpolated linearly over the layers
                x = (1.15 - 0.10 * layer / last) * x + (0.20 - 0.15 * layer / last) * streams[0]
            start = x if i % 2 == 0 else start
            branch = self.branch(i, x)
            dual = dual + branch
            streams.append(self.added(i, start if self.shape == "span" else x, branch))
        if self.shape == "residual-dual":
            return streams, dual
        return streams, streams[-1].sum(1) if self.shape == "hyper" else streams[-1]

    def run(self, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Everything that a dump's activations.safetensors has, under the same names."""
        embedded = self.take("embedding.weight")[tokens]
        x = self.norm("embedding_norm", embedded) if self.has("embedding_norm.gain") else embedded
        if self.shape == "hyper":
            x = x[:, None, :].expand(-1, self.weights["layers.0.attention.mix"].shape[-1], -1)
        streams, end = self.stack(x)
        for stream in streams:
            stream.retain_grad()
        out = self.norm("final_norm", end) if self.has("final_norm.gain") else end
        if self.shape == "residual-dual":
            out = streams[-1] + out
        logits = out @ self.take("unembedding.weight").T
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        values = {"input": embedded, "logits": logits, "loss": loss.reshape(1)}
        values |= {f"stream.{i}": stream for i, stream in enumerate(streams)}
        values |= {f"grad.stream.{i}": _gradient(stream) for i, stream in enumerate(streams)}
        values |= {f"grad.weight.{name}": _gradient(weight) for name, weight in self.weights.items()}
        return {name: value.detach() for name, value in values.items()}


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad

"""A Transformer stack in PyTorch (float64) with the weights of a dump: signals, logits, loss and gradients.

Independent of Periscope: modules follow from their equations, and the norms and scales of a sublayer from the equation
of its placement. A sublayer is x+ = C(alpha x + beta B(f(s A(x)))). Sublayer i = 0 ... 2L - 1 of a stack
of L layers is the attention of layer i // 2 if i is even, else its MLP. Parts inside a module (QK-norm, V-norm, inner
norms, the attention's gate) exist if the dump has their tensors; `unused` returns the tensors without an equation.
"""

import json
import math
from dataclasses import dataclass, replace

from program import imported

torch = imported("torch", "python/requirements-torch.txt")
safetensors = imported("safetensors.torch", "python/requirements-torch.txt")

from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(1)
ROPE_BASE = 10000.0
# Placements whose stack is not a plain sequence of sublayers; see `stack`.
SHAPED = ("residual-dual", "parallel", "parallel-two", "span", "x0", "hyper")


def load(path):
    return safetensors.load_file(path)


@dataclass(frozen=True)
class Recipe:
    """Norms and scales of one sublayer.

    `layer_scale`: a factor per channel after the module. `optional_a`: norm A if the dump has its tensors. Descriptions
    of SpanNorm disagree on whether the first sublayer has one.
    """

    a: bool = False
    b: bool = False
    c: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    gain: float = 1.0
    layer_scale: bool = False
    optional_a: bool = False


def named(name, sublayer, layers):
    """Returns the recipe of a named placement at one sublayer. Raises KeyError for an unknown name."""
    layer, pre, post, peri = sublayer // 2, Recipe(a=True), Recipe(c=True), Recipe(a=True, b=True)
    addition = sublayer + 2  # Beam counts the embedding as the first term
    # u-muP (appendix G) with both ratios 1: tau^2 = 1/(depth/2 + attentions and MLPs before this sublayer)
    tau = 1 / math.sqrt(layers + (sublayer + 1) // 2 + sublayer // 2)
    return {
        "none": Recipe(), "post": post, "pre": pre, "peri": peri,
        "b-only": Recipe(b=True), "a+c": Recipe(a=True, c=True),
        "deepnorm": replace(post, alpha=(2 * layers) ** 0.25),
        "deepnorm-glm": replace(post, alpha=(2 * layers) ** 0.5),
        "mix": post if layer < layers // 4 else pre,
        "lns": replace(pre, gain=1 / math.sqrt(layer + 1)),
        "depth-scaled": replace(pre, beta=1 / math.sqrt(2 * layers)),
        "residual-dual": post,
        "keel": pre if layer == 0 else Recipe(a=True, c=True, alpha=2.0 * layers),
        "beam": replace(peri, alpha=math.sqrt((addition - 1) / addition), beta=math.sqrt(1 / addition)),
        "u-mup": replace(pre, alpha=1 / math.sqrt(1 + tau**2), beta=tau / math.sqrt(1 + tau**2)),
        "hybridnorm": post if sublayer % 2 == 0 else Recipe(),
        "sub-ln": pre,
        "muse-spark": replace(peri, alpha=math.sqrt(0.75), beta=0.5),
        "ngpt": Recipe(b=True, c=True, alpha=0.95, beta=0.05),
        "layer-scale": Recipe(a=True, layer_scale=True),
        "parallel": pre, "parallel-two": pre, "x0": pre, "hyper": pre,
        "span": replace(post, optional_a=sublayer == 0),
    }[name]


def scale(value, sublayer, layers):
    """Returns a scale: a number, or an expression in the number of layers L and the sublayer index l."""
    return float({"2L": 2.0 * layers, "1/sqrt(l+1)": 1 / math.sqrt(sublayer + 1)}.get(value, value))


def recipe(placement, sublayer, layers):
    """Returns the recipe of a placement: a name, a table of norms and scales, or one of these per kind of module."""
    if isinstance(placement, str):
        return named(placement, sublayer, layers)
    if {"attention", "mlp"} & set(placement):
        return recipe(placement["mlp" if sublayer % 2 else "attention"], sublayer, layers)
    a, b, c = (bool(placement.get(key, False)) for key in "ABC")
    return Recipe(a, b, c, *(scale(placement.get(key, 1.0), sublayer, layers) for key in ("alpha", "beta")))


def rms_norm(x, gain, eps):
    """Returns gain x / sqrt(mean(x^2) + eps) over the last axis."""
    return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def rotate(x):
    """Applies the rotary position embedding to x [T, heads, e]: pairs are (j, j + e/2), angles t / base^(2j/e)."""
    tokens, _, e = x.shape
    frequency = ROPE_BASE ** (-torch.arange(0, e, 2, dtype=x.dtype) / e)
    angle = torch.arange(tokens, dtype=x.dtype)[:, None, None] * frequency
    first, second = x[..., : e // 2], x[..., e // 2 :]
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu, "swiglu": F.silu,
               "geglu": F.gelu, "geglu_tanh": gelu_tanh}


class Stack:
    """A stack and its weights. `run` stores signals with their gradients in `seen`, by sublayer and name: x_in, A_out,
    f_out, B_out, x_out; scored and valued (A_out as the input of queries and keys, and of values); inner (the input of
    the last matrix)."""

    def __init__(self, model, weights, placement=None, by_layer=None):
        """`model`: [model] of the dump's config.json. `placement`: a name or table as in a configuration file; default:
        the placement of config.json. `by_layer`: placements of single layers."""
        placement = model["placement"] if placement is None else placement
        self.model, self.used, self.seen = model, set(), {}
        self.weights = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
        self.shape = placement if placement in SHAPED else "single"
        layers = model["layers"]
        self.recipes = [recipe((by_layer or {}).get(i // 2, placement), i, layers) for i in range(2 * layers)]

    def has(self, name):
        return name in self.weights

    def take(self, name):
        """Returns a tensor of the dump and marks it as used. Raises KeyError if the dump lacks it."""
        self.used.add(name)
        return self.weights[name]

    def unused(self):
        return sorted(set(self.weights) - self.used)

    def note(self, sublayer, name, x):
        """Stores a copy of a signal and returns it, so that its gradient comes only from later uses of the copy."""
        self.seen[sublayer, name] = x = x.clone()
        if x.requires_grad:
            x.retain_grad()
        return x

    def norm(self, name, x):
        """Applies the stack's kind of norm, with the dump's tensors NAME.gain, NAME.bias, NAME.alpha."""
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

    def inner(self, name, x):
        """Applies an RMSNorm inside a module to the last axis of x, if the dump has its gain."""
        return rms_norm(x, self.take(f"{name}.gain"), self.model["norm_eps"]) if self.has(f"{name}.gain") else x

    def projected(self, prefix, part, x, heads):
        """Returns queries, keys or values [T, heads, e]. A gain's size tells whether its norm is per head."""
        flat = x @ self.take(f"{prefix}.{part}.weight").T
        by_head, name = flat.reshape(len(x), heads, -1), f"{prefix}.{part}_norm"
        whole = self.has(f"{name}.gain") and self.weights[f"{name}.gain"].numel() != by_head.shape[-1]
        return self.inner(name, flat).reshape(by_head.shape) if whole else self.inner(name, by_head)

    def attention(self, sublayer, x):
        """Softmax attention with grouped keys and values; the gate comes before the inner norm and W_o."""
        prefix, heads, kv_heads = self.prefix(sublayer), self.model["heads"], self.model["kv_heads"]
        scored, valued = (self.note(sublayer, name, x) for name in ("scored", "valued"))
        q, k, v = (self.projected(prefix, part, of, count) for part, of, count in (
            ("q", scored, heads), ("k", scored, kv_heads), ("v", valued, kv_heads)))
        if self.model["rope"]:
            q, k = rotate(q), rotate(k)
        k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
        scores = torch.einsum("the,she->hts", q, k) / math.sqrt(q.shape[-1])
        if self.model["causal"]:
            scores = scores.masked_fill(torch.ones(len(x), len(x), dtype=torch.bool).triu(1), -math.inf)
        mixed = torch.einsum("hts,she->the", torch.softmax(scores, -1), v)
        if self.has(f"{prefix}.gate.weight"):
            gate = torch.sigmoid(x @ self.take(f"{prefix}.gate.weight").T)
            mixed = mixed * gate.reshape(len(x), heads, -1)
        mixed = self.note(sublayer, "inner", self.inner(f"{prefix}.inner_norm", mixed.flatten(1)))
        return mixed @ self.take(f"{prefix}.o.weight").T

    def mlp(self, sublayer, x):
        """The MLP, gated if the activation's name contains "glu"; the inner norm comes before W_down."""
        prefix, kind = self.prefix(sublayer), self.model["mlp"]
        up = x @ self.take(f"{prefix}.up.weight").T
        gated = "glu" in kind
        hidden = ACTIVATIONS[kind](x @ self.take(f"{prefix}.gate.weight").T) * up if gated else ACTIVATIONS[kind](up)
        hidden = self.note(sublayer, "inner", self.inner(f"{prefix}.inner_norm", hidden))
        return hidden @ self.take(f"{prefix}.down.weight").T

    def branch(self, sublayer, x, norm_a=None):
        """Returns B(f(s A(x))) of a sublayer. `norm_a`: name of a shared norm A."""
        own, rule = self.prefix(sublayer), self.recipes[sublayer]
        if rule.a or (rule.optional_a and self.has(f"{own}.norm_a.gain")):
            x = self.norm(norm_a or f"{own}.norm_a", x)
        x = self.note(sublayer, "A_out", rule.gain * x)
        out = self.note(sublayer, "f_out", (self.mlp if sublayer % 2 else self.attention)(sublayer, x))
        if rule.layer_scale:
            return self.take(f"{own}.branch_scale.gain") * out
        return self.note(sublayer, "B_out", self.norm(f"{own}.norm_b", out) if rule.b else out)

    def added(self, sublayer, skip, branch):
        """Returns C(alpha skip + beta branch) of a sublayer."""
        rule = self.recipes[sublayer]
        x = rule.alpha * skip + rule.beta * branch
        return self.norm(f"{self.prefix(sublayer)}.norm_c", x) if rule.c else x

    def prefix(self, sublayer):
        return f"layers.{sublayer // 2}.{'mlp' if sublayer % 2 else 'attention'}"

    def stack(self, x):
        """Returns all streams, from the input to the last sublayer's output, and the input of the final norm."""
        streams, count = [x], len(self.recipes)
        dual = start = x  # ResiDual's second stream; the layer's input, where the skip of SpanNorm's MLP starts
        for i in range(count):
            x, layer, last = streams[-1], i // 2, max(count // 2 - 1, 1)
            if self.shape.startswith("parallel"):
                if i % 2 == 0:
                    shared = f"{self.prefix(i)}.norm_a" if self.shape == "parallel" else None
                    streams.append(self.added(i, x, self.branch(i, x) + self.branch(i + 1, x, shared)))
                continue
            if self.shape == "hyper":
                pre, post, mix = (self.take(f"{self.prefix(i)}.{part}") for part in ("pre", "post", "mix"))
                read = torch.einsum("n,tnd->td", pre.flatten(), x)
                written = torch.einsum("n,td->tnd", post.flatten(), self.branch(i, read))
                streams.append(torch.einsum("mn,tnd->tmd", mix, x) + written)
                continue
            if self.shape == "x0" and i % 2 == 0:  # nanochat: once per layer, with factors linear in the layer
                x = (1.15 - 0.10 * layer / last) * x + (0.20 - 0.15 * layer / last) * streams[0]
            x = self.note(i, "x_in", x)
            start = x if i % 2 == 0 else start
            branch = self.branch(i, x)
            dual = dual + branch
            streams.append(self.note(i, "x_out", self.added(i, start if self.shape == "span" else x, branch)))
        if self.shape == "residual-dual":
            return streams, dual
        return streams, streams[-1].sum(1) if self.shape == "hyper" else streams[-1]

    def run(self, tokens, labels, embedded=None):
        """Returns the tensors of a dump's activations.safetensors by name. `embedded`: the input of a stack without an
        embedding."""
        embedded = self.take("embedding.weight")[tokens] if embedded is None else embedded
        x = self.norm("embedding_norm", embedded) if self.has("embedding_norm.gain") else embedded
        if not x.requires_grad:
            x = x.clone().requires_grad_()
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
        values |= {f"grad.stream.{i}": gradient(stream) for i, stream in enumerate(streams)}
        values |= {f"grad.weight.{name}": gradient(weight) for name, weight in self.weights.items()}
        return {name: value.detach() for name, value in values.items()}


def gradient(tensor):
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


def difference(found, expected):
    """Returns the largest deviation, relative to the largest expected magnitude; 0 for two zero tensors."""
    deviation = (found - expected).abs().max().item()
    return deviation / max(expected.abs().max().item(), 1e-300) if deviation else 0.0


def of_dump(folder, weights="model", placement=None, by_layer=None):
    """Returns the stack of a dump and its configuration."""
    config = json.loads((folder / "config.json").read_text())
    return Stack(config["model"], load(folder / f"{weights}.safetensors"), placement, by_layer), config

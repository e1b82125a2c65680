"""A stack as numpy computes it from what --dump wrote: every signal that is measured, and its gradient. Decoder stacks
with SwiGLU, RMSNorm, RoPE and any of the norms A, B and C. It shares no line with the program."""

import json

import numpy as np

from safetensors_file import read_safetensors

STREAMS = ("x_in", "A_out", "f_out", "B_out", "x_out")
# A complex step has no difference of near numbers, so it may be far below the last digit (Squire and Trapp 1998).
STEP = 1e-30


class Stack:
    """placement: (A, B, C, alpha, beta), which the dump's config.json names."""

    def __init__(self, folder, placement):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights, self.seen = (
            {n: np.array(v).reshape(s) for n, (s, v) in read_safetensors(folder / f"{file}.safetensors").items()}
            for file in ("model", "activations"))  # fmt: skip
        self.model = self.config["model"]
        self.norms, (self.alpha, self.beta) = dict(zip("abc", placement[:3], strict=True)), placement[3:]
        self.sublayers = 2 * self.model["layers"]

    def norm(self, x, name):
        mean_square = (x * x).mean(-1, keepdims=True)  # no abs: of complex steps the analytic continuation
        return self.weights[f"{name}.gain"] * x / np.sqrt(mean_square + self.model["norm_eps"])

    def rope(self, x):
        tokens, _, e = x.shape
        angle = np.arange(tokens)[:, None] * 10000.0 ** (-2.0 * np.arange(e // 2) / e)
        cos, sin = (np.concatenate([f(angle)] * 2, -1)[:, None, :] for f in (np.cos, np.sin))
        return x * cos + np.concatenate([-x[..., e // 2:], x[..., : e // 2]], -1) * sin

    def attention(self, a, stem, scored=None):
        """`scored`: what queries and keys read, if not the same as values."""
        scored = a if scored is None else scored
        heads, kv, e = self.model["heads"], self.model["kv_heads"], self.model["head_dim"]
        q, k, v = (x @ self.weights[f"{stem}.{n}.weight"].T for n, x in (("q", scored), ("k", scored), ("v", a)))
        q, k, v = (x.reshape(len(a), h, e) for x, h in ((q, heads), (k, kv), (v, kv)))
        k, v = (np.repeat(x, heads // kv, axis=1) for x in (self.rope(k), v))
        scores = np.einsum("the,she->hts", self.rope(q), k) / np.sqrt(e)
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -1e300)
        weights = np.exp(scores - scores.real.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        return np.einsum("hts,she->the", weights, v).reshape(len(a), -1) @ self.weights[f"{stem}.o.weight"].T

    def mlp(self, a, stem):
        gate, up = (a @ self.weights[f"{stem}.{n}.weight"].T for n in ("gate", "up"))
        return (gate / (1.0 + np.exp(-gate)) * up) @ self.weights[f"{stem}.down.weight"].T

    def sublayer(self, s, x, at="", step=0.0):
        """Every signal of sublayer s, `step` being added to the one that is called `at`. "scored" and "valued" are
        A_out as queries and keys, and as values, read it."""
        module = "mlp" if s % 2 else "attention"
        stem = f"layers.{s // 2}.{module}"

        def bumped(name, value):
            return value + step if at == name else value

        seen = {"x_in": bumped("x_in", x)}
        a = self.norm(seen["x_in"], f"{stem}.norm_a") if self.norms["a"] else seen["x_in"]
        seen["A_out"] = bumped("A_out", a)
        f = (self.mlp(seen["A_out"], stem) if s % 2
             else self.attention(bumped("valued", seen["A_out"]), stem, bumped("scored", seen["A_out"])))
        seen["f_out"] = bumped("f_out", f)
        seen["B_out"] = bumped("B_out", self.norm(seen["f_out"], f"{stem}.norm_b") if self.norms["b"]
                               else seen["f_out"])
        total = self.alpha * seen["x_in"] + self.beta * seen["B_out"]
        seen["x_out"] = bumped("x_out", self.norm(total, f"{stem}.norm_c") if self.norms["c"] else total)
        return seen

    def forward(self):
        """-> per sublayer {signal: [T, D]}, from the input on."""
        x, every = self.seen["input"], []
        for s in range(self.sublayers):
            every.append(self.sublayer(s, x))
            x = every[-1]["x_out"]
        return every

    def loss(self, x):
        y = self.norm(x, "final_norm") if self.model["final_norm"] else x
        logits = y @ self.weights["unembedding.weight"].T
        logits = logits - logits.real.max(-1, keepdims=True)
        picked = logits[np.arange(len(x)), self.seen["labels"]]
        return -(picked - np.log(np.exp(logits).sum(-1))).mean()

    def gradient(self, signals, s, name):
        """of the loss with respect to signal `name` of sublayer s [T, D], by complex steps, one per entry."""
        x = signals[s]["x_in"]
        gradient = np.zeros(x.shape)
        for place in np.ndindex(*x.shape):
            step = np.zeros(x.shape, complex)
            step[place] = 1j * STEP
            stream = self.sublayer(s, x, name, step)["x_out"]
            for later in range(s + 1, self.sublayers):
                stream = self.sublayer(later, stream)["x_out"]
            gradient[place] = self.loss(stream).imag / STEP
        return gradient


def statistics(x):
    """Every statistic of a signal [T, D] by its definition in sim/spec/profile.h."""
    centred = x - x.mean(-1, keepdims=True)
    unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
    cosines = unit @ unit.T
    tokens = len(x)
    return {
        "second_moment": (x**2).mean(), "variance": x.var(-1).mean(), "mean": x.mean(),
        "kurtosis": ((centred**4).mean(-1) / x.var(-1)**2).mean(), "maximum": np.abs(x).max(),
        "token_cosine": (cosines.sum() - np.trace(cosines)) / (tokens * (tokens - 1)),
    }  # fmt: skip


def angle(a, b):
    """arccos(cosine)/pi of two streams [T, D], mean over tokens."""
    cosine = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    return np.arccos(np.clip(cosine, -1, 1)).mean() / np.pi

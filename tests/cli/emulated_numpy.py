"""Certificates of runs in FP16 against such runs by numpy, which shares nothing with the program: a Llama, mixed and
pure. Usage: emulated_numpy.py BINARY"""

import pathlib
import tempfile
import unittest

import numpy as np

import tiny_checkpoint as tiny
from periscope_process import run_result

H, S = np.float16, np.float32
ACCUMULATED = ("sums", "deviations", "squares", "reciprocals", "denominators")


class Run:
    """A batch of sequences [B, T] through the checkpoint; `seen` has the largest |value| of every signal."""

    def __init__(self, tensors, mixed):
        self.w = {name: np.array(values).reshape(shape).astype(H) for name, (shape, values) in tensors.items()}
        self.wide = S if mixed else H  # of sums and norms
        self.seen = {}

    def note(self, signal, sublayer, x):
        largest = float(np.abs(x.astype(np.float64)).max())
        self.seen[signal, sublayer] = max(self.seen.get((signal, sublayer), 0.0),
                                          largest if largest == largest else np.inf)
        return x

    def total(self, terms, sublayer, signal="sums"):
        """Sum over the last axis, one term after the other, every addition rounded."""
        acc = terms[..., 0]
        for k in range(1, terms.shape[-1]):
            acc = acc + terms[..., k]
            self.note(signal, sublayer, acc)
        assert acc.dtype == terms.dtype
        return acc

    def linear(self, x, name, sublayer):
        x, w = x.astype(self.wide), self.w[name].astype(self.wide)
        return self.total(x[..., None, :] * w, sublayer).astype(H)

    def norm(self, x, name, sublayer):
        x = x.astype(self.wide)
        square = self.total(x * x, sublayer, "squares")
        rms = np.sqrt(square / self.wide(x.shape[-1]) + self.wide(tiny.CONFIG["rms_norm_eps"]))
        return self.w[name] * self.note("normalised", sublayer, (x / rms[..., None]).astype(H))

    def rope(self, x):
        batch, tokens, heads, e = x.shape
        frequency = 10000.0 ** (-2.0 * np.arange(e // 2) / e)
        angle = np.arange(tokens)[:, None] * frequency
        cos, sin = (np.concatenate([f(angle)] * 2, -1).astype(H)[:, None, :] for f in (np.cos, np.sin))
        turned = np.concatenate([-x[..., e // 2 :], x[..., : e // 2]], -1)
        return x * cos + turned * sin

    def attention(self, a, l):
        s, stem = 2 * l, f"model.layers.{l}.self_attn."
        batch, tokens, _ = a.shape

        def split(x, heads):
            return x.reshape(batch, tokens, heads, tiny.HEAD_DIM)

        q = self.rope(split(self.linear(a, stem + "q_proj.weight", s), tiny.HEADS))
        k = self.rope(split(self.linear(a, stem + "k_proj.weight", s), tiny.KV_HEADS))
        v = split(self.linear(a, stem + "v_proj.weight", s), tiny.KV_HEADS)
        for name, x in (("q", q), ("k", k), ("v", v)):
            self.note(name, s, x)
        k, v = (np.repeat(x, tiny.HEADS // tiny.KV_HEADS, axis=2) for x in (k, v))
        q, k, v = (x.transpose(0, 2, 1, 3).astype(self.wide) for x in (q, k, v))
        dots = self.note("dots", s, self.total(q[:, :, :, None, :] * k[:, :, None, :, :], s).astype(H))
        scores = self.note("scores", s, dots * H(tiny.HEAD_DIM**-0.5))
        mixed = np.zeros_like(q)
        for t in range(tokens):
            z = scores[:, :, t, : t + 1].astype(self.wide)
            e = np.exp(z - z.max(-1, keepdims=True))
            weights = (e / self.total(e, s, "denominators")[..., None]).astype(H).astype(self.wide)
            mixed[:, :, t] = self.total(weights[:, :, None, :] * v[:, :, : t + 1].swapaxes(2, 3), s).astype(H)
        mixed = self.note("mixed", s, mixed.astype(H)).transpose(0, 2, 1, 3).reshape(batch, tokens, -1)
        return self.linear(mixed, stem + "o_proj.weight", s)

    def mlp(self, a, l):
        s, stem = 2 * l + 1, f"model.layers.{l}.mlp."
        gate = self.note("gate", s, self.linear(a, stem + "gate_proj.weight", s))
        up = self.note("up", s, self.linear(a, stem + "up_proj.weight", s))
        wide = gate.astype(self.wide)
        gated = self.note("gated", s, (wide / (self.wide(1) + np.exp(-wide))).astype(H))
        return self.linear(self.note("hidden", s, gated * up), stem + "down_proj.weight", s)

    def __call__(self, ids):
        x = self.note("x_out", -1, self.w["model.embed_tokens.weight"][ids])
        for l in range(tiny.LAYERS):
            for half, name in enumerate(("input_layernorm", "post_attention_layernorm")):
                s = 2 * l + half
                a = self.note("A_out", s, self.norm(x, f"model.layers.{l}.{name}.weight", s))
                f = self.note("f_out", s, (self.mlp if half else self.attention)(a, l))
                x = self.note("x_out", s, x + f)
        end = 2 * tiny.LAYERS
        y = self.note("output", end, self.norm(x, "model.norm.weight", end))
        self.note("logits", end, self.linear(y, "model.embed_tokens.weight", end))


def fits(bound, kind):
    largest = 3.4e38 if kind == "mixed" and bound["signal"] in ACCUMULATED else 65504.0
    return bound["bound"] is not None and bound["bound"] <= largest


class EmulatedByNumpy(unittest.TestCase):
    VOCAB = 24

    def certified_and_run(self, factor, kind):
        tensors = tiny.random_tensors(self.VOCAB, seed=4)
        tensors = {n: (s, [v * factor for v in w] if "down_proj" in n else w) for n, (s, w) in tensors.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model"
            tiny.write(path, self.VOCAB, tensors)
            result, code = run_result("certify", path, "--arithmetic", kind, "--format", "fp16", "--quiet")
        self.assertEqual(code, 0)
        run = Run(tensors, kind == "mixed")
        draw = np.random.default_rng(1)
        with np.errstate(all="ignore"):
            run(np.repeat(np.arange(self.VOCAB)[:, None], 5, 1))
            run(draw.integers(0, self.VOCAB, (200, 5)))
        fp16 = result.at(format="fp16")
        bounds = [{"signal": signal, "sublayer": place, "bound": bound}
                  for signal, of, features in zip(result["signal"], fp16["run_signal_bound"],
                                                  fp16["run_signal_bound_feature"], strict=True)
                  for place, bound, feature in zip(result["place"], of, features, strict=True)
                  if feature is not None]  # fmt: skip
        return bounds, fp16["everywhere_certified"], run.seen

    def test_no_bound_is_passed(self):
        # The last factors bring W_down, and with it the stream, to where a certificate is just given or refused.
        held, refused = 0, 0
        for kind in ("mixed", "pure"):
            for factor in (1.0, 30.0, 300.0, 3000.0):
                bounds, certified, seen = self.certified_and_run(factor, kind)
                # Nothing is claimed from the first sublayer on in which something does not fit.
                end = min((b["sublayer"] for b in bounds if not fits(b, kind)), default=np.inf)
                refused += end < np.inf
                for bound in bounds:
                    key = bound["signal"], bound["sublayer"]
                    if key in seen and bound["sublayer"] < end:
                        held += 1
                        self.assertLessEqual(seen[key], bound["bound"], (kind, factor, key))
                if certified:
                    self.assertTrue(all(np.isfinite(v) for v in seen.values()), (kind, factor))
        self.assertGreater(held, 100)
        self.assertGreater(refused, 0)

    def test_the_bounds_are_near(self):
        bounds, _, seen = self.certified_and_run(1.0, "mixed")
        ratios = {(b["signal"], b["sublayer"]): seen[b["signal"], b["sublayer"]] / b["bound"]
                  for b in bounds if (b["signal"], b["sublayer"]) in seen}
        self.assertGreater(ratios["x_out", -1], 0.99)
        self.assertGreater(ratios["A_out", 0], 0.4)
        self.assertGreater(ratios["v", 0], 0.2)


if __name__ == "__main__":
    unittest.main()

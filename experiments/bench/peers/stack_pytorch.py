"""The stack of stack_seconds.cpp in PyTorch. Prints time, memory and the rate of a matrix product as one JSON line.

Usage: python stack_pytorch.py SHAPE

SHAPE is JSON with width, heads, kv_heads, head_dim, mlp_width, vocab, layers, tokens, threads and direction, as printed
by stack_seconds. Peri-LN, f32; weights are generated for every layer. Statistics at x_in, A_out, f_out, B_out and
x_out: second moment, variance, mean, kurtosis, maximum, token cosine and the 100 largest magnitudes. With direction
`backward`, every layer is recomputed in the backward pass from its stored input, like torch.utils.checkpoint. Then the
mean squares of the gradients at the same five sites and the norms of all matrices' gradients are computed as well.
Needs PyTorch, which neither ./lab nor the tests install.
"""

import json
import math
import sys
import time

import torch
from torch.nn.functional import linear, scaled_dot_product_attention, silu


def read(x):
    """Returns the statistics of one site, accumulated in double precision as in Periscope."""
    d = x.detach().double()
    mean = d.mean(1, keepdim=True)
    square = (d - mean).square()
    variance = square.mean(1)
    unit = d / d.norm(dim=1, keepdim=True)
    tokens = d.shape[0]
    return (d.square().mean(), variance.mean(), mean.mean(), (square.square().mean(1) / variance.square()).mean(),
            d.abs().max(), (unit.sum(0).square().sum() - tokens) / (tokens * (tokens - 1)),
            x.detach().abs().flatten().topk(100).values)


def squares(x):
    return x.double().square().sum(1).mean()


def rms_norm(x):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)


def rotary(tokens, size):
    """Returns cosine and sine of RoPE's angles, each [tokens, size / 2]."""
    angle = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(size // 2) / (size // 2))
    return angle.cos(), angle.sin()


def rope(y, cos, sin):
    a, b = y.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Layer:
    """One layer. Its matrices are generated from a seed, so that the backward pass can regenerate them."""

    def __init__(self, seed, shape):
        self.seed, self.shape, self.backward = seed, shape, shape["direction"] == "backward"
        self.angles = rotary(shape["tokens"], shape["head_dim"])

    def draw(self, rows, cols):
        w = torch.randn(rows, cols, generator=self.generator) * 0.02
        if self.backward and torch.is_grad_enabled():
            w.requires_grad_()
            self.matrices.append(w)
        return w

    def attention(self, y):
        width, count, groups, size = (self.shape[key] for key in ("width", "heads", "kv_heads", "head_dim"))

        def heads(n):
            return linear(y, self.draw(n * size, width)).view(-1, n, size).transpose(0, 1)
        q, k, v = rope(heads(count), *self.angles), rope(heads(groups), *self.angles), heads(groups)
        out = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
        return linear(out.transpose(0, 1).reshape(-1, count * size), self.draw(width, count * size))

    def mlp(self, y):
        width, hidden = self.shape["width"], self.shape["mlp_width"]
        gate = silu(linear(y, self.draw(hidden, width)))
        return linear(gate * linear(y, self.draw(hidden, width)), self.draw(width, hidden))

    def forward(self, x, on_site):
        self.generator = torch.Generator().manual_seed(self.seed)
        self.matrices = []
        for module in (self.attention, self.mlp):
            on_site(x)
            a = rms_norm(x)
            on_site(a)
            f = module(a)
            on_site(f)
            b = rms_norm(f)
            on_site(b)
            x = x + b
            on_site(x)
        return x

    def backward_pass(self, x, dx_out):
        """Returns the gradient of the input x for the output gradient `dx_out`, and squared norms of all gradients."""
        x = x.detach().requires_grad_()
        sites = []
        out = self.forward(x, sites.append)
        sites = [site for site in sites if site.requires_grad]
        gradients = torch.autograd.grad(out, sites + self.matrices, dx_out)
        sizes = [squares(g) for g in gradients[:len(sites)]] + [g.double().square().sum() if g.numel() < 1 << 20 else
                                                                g.norm().double() ** 2
                                                                for g in gradients[len(sites):]]
        return gradients[0], sizes


def run(shape):
    tokens, width, layers = shape["tokens"], shape["width"], shape["layers"]
    x = torch.randn(tokens, width)
    stack = [Layer(layer, shape) for layer in range(layers)]
    inputs, results = [], []
    with torch.no_grad():
        for layer in stack:
            inputs.append(x)
            x = layer.forward(x, lambda p: results.append(read(p)))
    if shape["direction"] == "backward":
        x = x.requires_grad_()
        logits = linear(rms_norm(x), torch.randn(shape["vocab"], width) * 0.02)
        loss = torch.nn.functional.cross_entropy(logits, torch.randint(shape["vocab"], (tokens,)))
        (d,) = torch.autograd.grad(loss, x)
        for layer in reversed(stack):
            d, sizes = layer.backward_pass(inputs.pop(), d)
            results.append(sizes)
    assert all(math.isfinite(float(v)) for r in results for v in r if v.numel() == 1)


def product_rate(shape):
    """Returns the highest rate [GFLOP/s] of 10 products of a 1024-row matrix and an MLP matrix in PyTorch."""
    x, w = torch.randn(1024, shape["width"]), torch.randn(shape["mlp_width"], shape["width"])
    times = []
    for _ in range(10):
        start = time.perf_counter()
        linear(x, w)
        times.append(time.perf_counter() - start)
    return 2e-9 * 1024 * w.numel() / min(times)


def peak_bytes():
    """Returns this process's peak resident memory. getrusage would include the memory of the parent process."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main():
    shape = json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    start, before = time.perf_counter(), time.process_time()
    run(shape)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - before
    print(json.dumps({"seconds": [seconds], "processor_seconds": [processor_seconds], "peak_bytes": peak_bytes(),
                      "product_gflops": product_rate(shape)}))  # fmt: skip


if __name__ == "__main__":
    main()

"""The stack of stack_seconds.cpp in PyTorch. Prints time, memory and the rate of a matrix product as one JSON line.

Usage: python stack_pytorch.py SHAPE

SHAPE is JSON with width, heads, kv_heads, head_dim, mlp_width, vocab, layers, tokens, threads and direction, as printed
by stack_seconds, and optionally:
  device   cpu, cuda or cuda-tf32 (f32 products in TF32); default cpu
  dtype    bf16, f16, f32 or f64; default f32
  mode     eager or compiled; default eager. With compiled, torch.compile compiles the statistics, norms, RoPE and the
           gate, one function each; random numbers, products, attention and the loss call the same libraries.
  repeats  number of timed repeats; if there are several, or the mode is compiled, a warm-up precedes them; default 1

Peri-LN; weights are generated for every layer. Statistics at x_in, A_out, f_out, B_out and x_out: second moment,
variance, mean, kurtosis, maximum, token cosine and the 100 largest magnitudes. With direction `backward`, every layer
is recomputed in the backward pass from its stored input, like torch.utils.checkpoint. Then the mean squares of the
gradients at the same five sites and the norms of all matrices' gradients are computed as well. The peak memory is that
of the process, or of tensors on a GPU. Needs PyTorch, which neither ./lab nor the tests install.
"""

import json
import sys
import time

import torch
from torch.nn.functional import linear, scaled_dot_product_attention, silu

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}
DEFAULTS = {"device": "cpu", "dtype": "f32", "mode": "eager", "repeats": 1}


def computed(dtype):
    """Returns the dtype of sums and norms of tensors of `dtype`."""
    return torch.promote_types(dtype, torch.float32)


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
    y = x.to(computed(x.dtype))
    return (y * torch.rsqrt(y.square().mean(1, keepdim=True) + 1e-6)).to(x.dtype)


def rotary(tokens, size, device, dtype):
    """Returns cosine and sine of RoPE's angles, each [tokens, size / 2]."""
    pair = torch.arange(size // 2, device=device, dtype=computed(dtype))
    angle = torch.arange(tokens, device=device)[:, None] * 10000.0 ** (-pair / (size // 2))
    return angle.cos(), angle.sin()


def rope(y, cos, sin):
    a, b = y.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(y.dtype)


def gated(gate, y):
    return silu(gate) * y


class Layer:
    """One layer. Its matrices are generated from a seed, so that the backward pass can regenerate them."""

    def __init__(self, seed, shape, to):
        self.seed, self.shape, self.to, self.backward = seed, shape, to, shape["direction"] == "backward"
        self.angles = rotary(shape["tokens"], shape["head_dim"], **to)

    def draw(self, rows, cols):
        w = torch.randn(rows, cols, generator=self.generator, **self.to) * 0.02
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
        gate = linear(y, self.draw(hidden, width))
        return linear(gated(gate, linear(y, self.draw(hidden, width))), self.draw(width, hidden))

    def forward(self, x, on_site):
        self.generator = torch.Generator(self.to["device"]).manual_seed(self.seed)
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
                                                                g.norm(dtype=computed(g.dtype)).double() ** 2
                                                                for g in gradients[len(sites):]]
        return gradients[0], sizes


def run(shape, to):
    tokens, width, layers = shape["tokens"], shape["width"], shape["layers"]
    x = torch.randn(tokens, width, **to)
    stack = [Layer(layer, shape, to) for layer in range(layers)]
    inputs, results = [], []
    with torch.no_grad():
        for layer in stack:
            inputs.append(x)
            x = layer.forward(x, lambda p: results.append(read(p)))
    if shape["direction"] == "backward":
        x = x.requires_grad_()
        logits = linear(rms_norm(x), torch.randn(shape["vocab"], width, **to) * 0.02)
        labels = torch.randint(shape["vocab"], (tokens,), device=to["device"])
        loss = torch.nn.functional.cross_entropy(logits, labels)
        (d,) = torch.autograd.grad(loss, x)
        for layer in reversed(stack):
            d, sizes = layer.backward_pass(inputs.pop(), d)
            results.append(sizes)
    assert torch.stack([v for r in results for v in r if v.numel() == 1]).isfinite().all()


def seconds_of(f, device):
    """Returns the wall-clock and processor seconds of a call."""
    start, before = time.perf_counter(), time.process_time()
    f()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, time.process_time() - before


def product_rate(shape, to):
    """Returns the highest rate [GFLOP/s] of 10 products of a matrix with many rows and an MLP matrix in PyTorch."""
    rows = 8192 if to["device"] == "cuda" else 1024
    x, w = torch.randn(rows, shape["width"], **to), torch.randn(shape["mlp_width"], shape["width"], **to)
    times = [seconds_of(lambda: linear(x, w), to["device"])[0] for _ in range(10)]
    return 2e-9 * rows * w.numel() / min(times)


def peak_bytes(device):
    """Returns the peak of the tensors on a GPU, else this process's peak resident memory. getrusage would include the
    memory of the parent process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main():
    shape = DEFAULTS | json.loads(sys.argv[1])
    torch.set_num_threads(shape["threads"])
    if shape["device"] == "cuda-tf32":
        torch.set_float32_matmul_precision("high")
    to = {"device": shape["device"].removesuffix("-tf32"), "dtype": DTYPES[shape["dtype"]]}
    if shape["mode"] == "compiled":
        for function in (read, squares, rms_norm, rope, gated):
            globals()[function.__name__] = torch.compile(function)
    if shape["repeats"] > 1 or shape["mode"] == "compiled":
        run(shape, to)
    times = [seconds_of(lambda: run(shape, to), to["device"]) for _ in range(shape["repeats"])]
    wall, processor = zip(*times, strict=True)
    print(json.dumps({"seconds": wall, "processor_seconds": processor, "peak_bytes": peak_bytes(to["device"]),
                      "product_gflops": product_rate(shape, to)}))  # fmt: skip


if __name__ == "__main__":
    main()

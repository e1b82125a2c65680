"""Time per layer of a forward pass with statistics at every site: Periscope against PyTorch, in one run.

Usage: python forward_vs_pytorch.py BINARY [--width 1024 --heads 8 --tokens 512 --layers 4 --repeats 5 --threads 2]

Both draw every weight afresh, run a Peri-LN stack (SwiGLU, RoPE, causal softmax, f32) and read second moment,
variance, mean, kurtosis, maximum, token cosine and the 100 largest magnitudes at x_in, A_out, f_out, B_out and x_out.
Periscope's time is the difference between runs of 3 seeds and of 1, so that start-up and theory cancel. Needs PyTorch,
which neither ./lab nor the tests install.
"""

import argparse
import math
import resource
import statistics
import subprocess
import time

import torch


def read(x):
    """The statistics of one site, in double as Periscope has them."""
    d = x.double()
    mean = d.mean(1, keepdim=True)
    square = (d - mean).square()
    variance = square.mean(1)
    unit = d / d.norm(dim=1, keepdim=True)
    tokens = d.shape[0]
    return (d.square().mean(), variance.mean(), mean.mean(), (square.square().mean(1) / variance.square()).mean(),
            d.abs().max(), (unit.sum(0).square().sum() - tokens) / (tokens * (tokens - 1)),
            x.abs().flatten().topk(100).values)


def rms_norm(x):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)


def torch_layer(x, args, cos, sin, read_site):
    width, hidden, heads = args.width, 4 * args.width, args.heads
    e = width // heads

    def draw(rows, cols):
        return torch.randn(rows, cols) / math.sqrt(cols)

    def rope(y):
        a, b = y[..., : e // 2], y[..., e // 2:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attention(y):
        q, k, v = (torch.nn.functional.linear(y, draw(width, width)).view(-1, heads, e).transpose(0, 1)
                   for _ in range(3))
        out = torch.nn.functional.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        return torch.nn.functional.linear(out.transpose(0, 1).reshape(-1, width), draw(width, width))

    def mlp(y):
        gate = torch.nn.functional.silu(torch.nn.functional.linear(y, draw(hidden, width)))
        return torch.nn.functional.linear(gate * torch.nn.functional.linear(y, draw(hidden, width)),
                                          draw(width, hidden))

    for module in (attention, mlp):
        read_site(x)
        a = rms_norm(x)
        read_site(a)
        f = module(a)
        read_site(f)
        b = rms_norm(f)
        read_site(b)
        x = x + b
        read_site(x)
    return x


def torch_seconds(args):
    half = args.width // args.heads // 2
    angle = torch.arange(args.tokens)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    x = torch.randn(args.tokens, args.width)
    start = time.perf_counter()
    for _ in range(args.layers):
        x = torch_layer(x, args, angle.cos(), angle.sin(), read)
    return (time.perf_counter() - start) / args.layers


def periscope_run(args, seeds):
    command = [args.binary, "propagate", "--quiet", "--seeds", str(seeds), "--threads", str(args.threads)]
    for setting in (f"model.width={args.width}", f"model.heads={args.heads}", f"model.layers={args.layers}",
                    "init.scheme=lecun", f"input.tokens={args.tokens}", "theory.tolerance=0.5"):
        command += ["--set", setting]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def periscope_seconds(args):
    return (periscope_run(args, 3) - periscope_run(args, 1)) / (2 * args.layers)


def matrix_product_rate(args):
    """GFLOP/s of PyTorch's own product of this shape: the machine's rate."""
    x, w = torch.randn(args.tokens, args.width), torch.randn(4 * args.width, args.width)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        torch.nn.functional.linear(x, w)
        times.append(time.perf_counter() - start)
    return 2 * args.tokens * args.width * 4 * args.width / statistics.median(times) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    for name, value in (("width", 1024), ("heads", 8), ("tokens", 512), ("layers", 4), ("repeats", 5), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch_seconds(args)
    pairs = [(periscope_seconds(args), torch_seconds(args)) for _ in range(args.repeats)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    flops = 2 * args.tokens * args.width * args.width * (4 + 3 * 4)
    print(f"width {args.width}, tokens {args.tokens}, {args.threads} threads, median of {args.repeats}")
    print(f"Periscope {ours:.3f} s/layer ({flops / ours / 1e9:.0f} GFLOP/s of matrix products, drawing and statistics "
          f"included), PyTorch {torch.__version__} {theirs:.3f} s/layer")
    print(f"ratio Periscope/PyTorch {statistics.median(a / b for a, b in pairs):.2f}; "
          f"the machine's own product: {matrix_product_rate(args):.0f} GFLOP/s")
    print(f"peak memory of Periscope {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

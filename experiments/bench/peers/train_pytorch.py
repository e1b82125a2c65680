"""Training a byte-level decoder in PyTorch: tokens per second and memory, one line of JSON.

Usage: python train_pytorch.py [--layers 12] [--width 96] [--heads 6] [--batch 16] [--tokens 64] [--mode eager|compiled]
                               [--steps 60] [--warmup 10] [--threads 0] [--product]

Peri-LN, f32: x + norm(f(norm(x))) with RMSNorm, SwiGLU of four times the width, RoPE, causal attention, 256 bytes of
vocabulary, a final norm and an unembedding of its own; AdamW (the fused one) with decay on the matrices, gradients
clipped to norm 1, batches of random bytes. A step is all that training repeats: batch, forward, backward, clipping,
update. `compiled` compiles the network and its loss with torch.compile, which needs a C++ compiler (CXX names it) and
Python's headers.
Needs PyTorch, which neither ./lab nor the tests install.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

VOCAB = 256


class Attention(nn.Module):
    def __init__(self, width, heads, tokens):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        half = self.size // 2
        angle = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rope(self, y):
        a, b = y.chunk(2, -1)
        return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1)

    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        mixed = scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate_up = nn.Linear(width, 8 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(silu(gate) * up)


class Sublayer(nn.Module):
    """x + norm(f(norm(x)))"""

    def __init__(self, width, module):
        super().__init__()
        self.before, self.module, self.after = nn.RMSNorm(width, 1e-6), module, nn.RMSNorm(width, 1e-6)

    def forward(self, x):
        return x + self.after(self.module(self.before(x)))


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, tokens):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, width)
        self.stack = nn.Sequential(*(Sublayer(width, module) for _ in range(layers)
                                     for module in (Attention(width, heads, tokens), Mlp(width))))
        self.norm = nn.RMSNorm(width, 1e-6)
        self.unembedding = nn.Linear(width, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, bytes_in, bytes_next):
        logits = self.unembedding(self.norm(self.stack(self.embedding(bytes_in))))
        return cross_entropy(logits.flatten(0, 1), bytes_next.flatten())


class Training:
    def __init__(self, args):
        self.batch, self.tokens = args.batch, args.tokens
        self.model = Decoder(args.layers, args.width, args.heads, args.tokens)
        self.parameters = list(self.model.parameters())
        self.loss = torch.compile(self.model) if args.mode == "compiled" else self.model
        matrices = [p for p in self.parameters if p.dim() == 2]
        gains = [p for p in self.parameters if p.dim() < 2]
        self.optimizer = torch.optim.AdamW([{"params": matrices}, {"params": gains, "weight_decay": 0.0}], lr=2e-3,
                                           betas=(0.9, 0.95), weight_decay=0.033, fused=True)

    def step(self):
        data = torch.randint(VOCAB, (self.batch, self.tokens + 1))
        loss = self.loss(data[:, :-1].contiguous(), data[:, 1:].contiguous())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss.item()


def product_rate():
    """GFLOP/s of torch.mm on 1024 × 1024 × 1024, f32: median and best of 30."""
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    times = []
    for _ in range(35):
        start = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - start)
    rates = [2e-9 * 1024**3 / t for t in times[5:]]
    return {"median": statistics.median(rates), "best": max(rates)}


def peak_bytes():
    """The most memory that this process had resident. getrusage's figure would include its parent's."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("width", 96), ("heads", 6), ("batch", 16), ("tokens", 64), ("steps", 60),
                          ("warmup", 10), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager")
    parser.add_argument("--product", action="store_true", help="measure a product's rate too, before and after")
    args = parser.parse_args()
    if args.width % (2 * args.heads) != 0:
        parser.error("--width must be heads times an even size")
    if args.steps < 2 or args.warmup < 1:
        parser.error("--steps must be at least 2, --warmup at least 1")
    if args.threads > 0:
        torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    training = Training(args)
    start = time.perf_counter()
    for _ in range(args.warmup):
        training.step()
    warmup_seconds = time.perf_counter() - start
    products = [product_rate()] if args.product else []
    seconds, losses = [], []
    processor = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        losses.append(training.step())
        seconds.append(time.perf_counter() - start)
    processor = time.process_time() - processor
    peak = peak_bytes()
    products += [product_rate()] if args.product else []
    lower, median, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    line = {"mode": args.mode, "version": torch.__version__, "threads": torch.get_num_threads(), "layers": args.layers,
            "width": args.width, "heads": args.heads, "batch": args.batch, "tokens": args.tokens, "steps": args.steps,
            "parameters": sum(p.numel() for p in training.parameters),
            "tokens_per_second": args.batch * args.tokens / median,
            "seconds_per_step": {"median": median, "quartiles": [lower, upper], "best": min(seconds)},
            "processor_seconds_per_step": processor / args.steps,
            "warmup_seconds": warmup_seconds, "peak_bytes": peak, "loss": statistics.mean(losses)}
    if products:
        line["product_gflops"] = products
    print(json.dumps(line))


if __name__ == "__main__":
    main()

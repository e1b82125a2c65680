"""Trains a byte-level decoder in PyTorch. Prints tokens per second and memory as one line of JSON.

Usage: python train_pytorch.py [--layers 12] [--width 96] [--heads 6] [--mode eager|compiled] [--threads 0]

Peri-LN, f32: x + norm(f(norm(x))) with RMSNorm, SwiGLU of four times the width, RoPE, causal attention, 256 bytes of
vocabulary, a final norm and an untied unembedding; fused AdamW with decay on the matrices, gradients clipped to norm 1,
batches of random bytes. A timed step consists of batch, forward, backward, clipping and update. `compiled` uses
torch.compile for the network and the loss, which needs a C++ compiler (set by CXX) and Python's headers.
Needs PyTorch, which neither ./lab nor the tests install.
"""

import argparse
import json
import statistics
import time

import torch
from stack_pytorch import peak_bytes, rope, rotary
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

VOCAB = 256
BATCH, TOKENS, STEPS, WARM_UP = 16, 64, 40, 10


class Attention(nn.Module):
    def __init__(self, width, heads, tokens):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.angles = rotary(tokens, self.size)

    def forward(self, x):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        mixed = scaled_dot_product_attention(rope(q, *self.angles), rope(k, *self.angles), v, is_causal=True)
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
        self.model = Decoder(args.layers, args.width, args.heads, TOKENS)
        self.parameters = list(self.model.parameters())
        self.loss = torch.compile(self.model) if args.mode == "compiled" else self.model
        matrices = [p for p in self.parameters if p.dim() == 2]
        gains = [p for p in self.parameters if p.dim() < 2]
        self.optimizer = torch.optim.AdamW([{"params": matrices}, {"params": gains, "weight_decay": 0.0}], lr=2e-3,
                                           betas=(0.9, 0.95), weight_decay=0.033, fused=True)

    def step(self):
        data = torch.randint(VOCAB, (BATCH, TOKENS + 1))
        loss = self.loss(data[:, :-1].contiguous(), data[:, 1:].contiguous())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("width", 96), ("heads", 6), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager")
    args = parser.parse_args()
    if args.threads > 0:
        torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    training = Training(args)
    for _ in range(WARM_UP):
        training.step()
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        training.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"tokens_per_second": BATCH * TOKENS / statistics.median(seconds), "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main()

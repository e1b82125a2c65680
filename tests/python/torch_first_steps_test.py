"""What `first-steps` measures, against the same training in PyTorch.

Usage: torch_first_steps_test.py PROGRAM [--tolerance 1e-10]

Runs `PROGRAM first-steps --dump` on small stacks, trains each again from the dumped weights and batches
(torch_block_stack.py, AdamW or SGD written from its equation), and compares after every step, on the dumped windows:
the stream's second moment, the cosine of branch and stream, the branch's second moment, the loss, and what every matrix
has added to its product. Prints a line per case; exits with 1 if one failed, with 77 if torch is not installed.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    import torch
    from safetensors.torch import load_file
    from torch import Tensor
    from torch_block_stack import Reference
except ImportError:
    print("skipped: the packages of python/requirements-torch.txt are not installed")
    sys.exit(77)

LAYERS, STEPS = 2, 4
SHARED = {"model.layers": LAYERS, "model.width": 24, "model.heads": 4, "model.kv_heads": 2, "model.mlp_width": 40,
          "model.vocab": 256, "model.gamma": 1.25, "model.norm_eps": 1e-4, "init.scheme": "lecun", "input.tokens": 7,
          "train.corpus": "synthetic", "train.steps": STEPS, "train.batch": 4, "train.lr": 3e-3, "train.warmup": 0.5,
          "train.record_sequences": 3, "run.seed": 5, "first_steps.neurons": 16, "first_steps.replicates": 2}  # fmt: skip
CASES = {
    "pre": {"model.placement": "pre"},
    "peri": {"model.placement": "peri", "train.clip": 0.1, "model.mlp": "geglu"},
    "post": {"model.placement": "post", "train.schedule": "constant", "train.accumulate": 2, "model.mlp": "gelu"},
    "deepnorm": {"model.placement": "deepnorm", "train.weight_decay": 0.5},
    "inner": {"model.placement": "pre", "model.inner_norm": "both", "model.attention_gate": "head",
              "model.qk_norm": "head"},
    "sgd": {"model.placement": "pre", "train.optimizer": "sgd", "train.lr": 0.5, "train.clip": 0.0},
}  # fmt: skip


class Measured(Reference):
    """A stack that keeps what branches add and what matrices read."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.forget()

    def forget(self) -> None:
        self.sums: dict[int, Tensor] = {}  # x², b² and xb, summed over tokens and features, of every sublayer
        self.reads: dict[str, list[Tensor]] = {}  # by the matrix's name

    def read(self, prefix: str, parts: tuple[str, ...], x: Tensor) -> None:
        for part in parts:
            self.reads.setdefault(f"{prefix}.{part}.weight", []).append(x.detach())

    def attention(self, layer: int, x: Tensor) -> Tensor:
        self.read(f"layers.{layer}.attention", ("q", "k", "v", "gate"), x)
        return super().attention(layer, x)

    def mlp(self, layer: int, x: Tensor) -> Tensor:
        self.read(f"layers.{layer}.mlp", ("gate", "up"), x)
        return super().mlp(layer, x)

    def inner(self, name: str, x: Tensor) -> Tensor:
        out = super().inner(name, x)
        prefix, _, norm = name.rpartition(".")
        if norm == "inner_norm":  # called where there is none too
            self.read(prefix, ("o" if prefix.endswith("attention") else "down",), out)
        return out

    def added(self, sublayer: int, skip: Tensor, branch: Tensor) -> Tensor:
        x, b = skip.detach(), branch.detach()
        sums = torch.stack([(x * x).sum(), (b * b).sum(), (x * b).sum()])
        self.sums[sublayer] = self.sums.get(sublayer, torch.zeros(3)) + sums
        return super().added(sublayer, skip, branch)


def rate(train: dict[str, Any], step: int) -> float:
    rising = max(1, round(train["warmup"] * train["steps"]))
    if step <= rising:
        return train["lr"] * step / rising
    if train["schedule"] == "constant":
        return train["lr"]
    share = (step - rising) / (train["steps"] - rising)
    return train["lr"] * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


class Optimizer:
    """AdamW, or SGD with momentum, both with decoupled decay of matrices and tables."""

    def __init__(self, train: dict[str, Any], weights: dict[str, Tensor]) -> None:
        self.train, self.weights, self.number = train, weights, 0
        self.mean = {name: torch.zeros_like(w) for name, w in weights.items()}
        self.square = {name: torch.zeros_like(w) for name, w in weights.items()}

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor]) -> None:
        t, self.number = self.train, self.number + 1
        norm = math.sqrt(sum((g * g).sum().item() for g in gradients.values()))
        scale = t["clip"] / norm if 0 < t["clip"] < norm else 1.0
        eta = rate(t, self.number)
        for name, weight in self.weights.items():
            g, decay = scale * gradients[name], t["weight_decay"] if name.endswith("weight") else 0.0
            weight.mul_(1 - eta * decay)
            if t["optimizer"] == "sgd":
                self.mean[name].mul_(t["momentum"]).add_(g)
                weight.sub_(eta * self.mean[name])
                continue
            self.mean[name].mul_(t["beta1"]).add_((1 - t["beta1"]) * g)
            self.square[name].mul_(t["beta2"]).add_((1 - t["beta2"]) * g * g)
            mean = self.mean[name] / (1 - t["beta1"] ** self.number)
            square = self.square[name] / (1 - t["beta2"] ** self.number)
            weight.sub_(eta * mean / (square.sqrt() + t["eps"]))


def passed(stack: Measured, windows: Tensor) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
    """What a pass over every window shows, and the gradients of the mean loss."""
    stack.forget()
    for weight in stack.weights.values():
        weight.grad = None
    values = [stack.run(window[:-1], window[1:]) for window in windows]
    gradients = {name: torch.zeros_like(w) if w.grad is None else w.grad / len(windows)
                 for name, w in stack.weights.items()}  # fmt: skip
    return values, gradients


def measured(stack: Measured, windows: Tensor, initial: dict[str, Tensor]) -> dict[str, Any]:
    values, _ = passed(stack, windows)
    depths = range(2 * LAYERS + 1)
    sums = [stack.sums[i] for i in range(2 * LAYERS)]
    entries = windows[:, :-1].numel() * stack.model["width"]
    found: dict[str, Any] = {
        "second_moment": [torch.stack([(v[f"stream.{i}"] ** 2).mean() for v in values]).mean().item() for i in depths],
        "branch_cosine": [(xb / torch.sqrt(xx * bb)).item() for xx, bb, xb in sums],
        "branch_second_moment": [(bb / entries).item() for _, bb, _ in sums],
        "loss": torch.stack([v["loss"] for v in values]).mean().item(),
        "update": {},
    }
    for name, inputs in stack.reads.items():
        if name not in stack.weights:
            continue
        _, layer, module, part, _ = name.split(".")
        key = "attention_gate" if (module, part) == ("attention", "gate") else part
        change = stack.weights[name].detach() - initial[name]
        square = (torch.cat(inputs) @ change.T).pow(2).mean().item()
        found["update"].setdefault(key, [0.0] * LAYERS)[int(layer)] = square
    return found


def deviation(found: Any, expected: Any) -> float:
    """The largest deviation, relative to the largest expected magnitude."""
    a, b = torch.tensor(found), torch.tensor(expected)
    assert a.shape == b.shape, (a.shape, b.shape)
    gap = (a - b).abs().max().item()
    return gap / max(b.abs().max().item(), 1e-300) if gap else 0.0


def compare(result: dict[str, Any], folder: Path, tolerance: float) -> tuple[list[str], float]:
    """What is wrong, a line each, and the largest relative difference."""
    config = json.loads((folder / "config.json").read_text())
    initial = load_file(folder / "initial.safetensors")
    batches = load_file(folder / "batches.safetensors")["tokens"]
    windows = load_file(folder / "windows.safetensors")["tokens"]
    stack = Measured(config["model"], initial, config["model"]["placement"])
    optimizer = Optimizer(config["train"], stack.weights)
    columns = {name: column["data"][0] for name, column in result["data_vars"].items()}
    rows = {weight: row for row, weight in enumerate(result["coords"]["weight"]["data"])}
    wrong, worst = [], 0.0
    for step in range(STEPS + 1):
        if step:
            _, gradients = passed(stack, batches[step - 1])
            optimizer.step(gradients)
        expected = measured(stack, windows, initial)
        found = {name: columns[f"{name}_measured"][step] for name in expected if name != "update"}
        for key in expected["update"]:
            found[f"update.{key}"] = columns["update_measured"][step][rows[key]]
            expected[f"update.{key}"] = expected["update"][key]
        del expected["update"]
        for name, value in expected.items():
            gap = deviation(found[name], value)
            worst = max(worst, gap)
            if not gap <= tolerance:
                wrong.append(f"step {step}: {name}: relative difference {gap:.3g}: {found[name]}, expected {value}")
    final = load_file(folder / "final.safetensors")
    for name, weight in stack.weights.items():
        gap = deviation(final[name].tolist(), weight.tolist())
        if not gap <= tolerance:
            wrong.append(f"final weights: {name}: relative difference {gap:.3g}")
    return wrong, worst


def check(program: str, name: str, tolerance: float) -> bool:
    """Runs one case and prints its line; whether it passed."""
    settings = SHARED | CASES[name]
    with tempfile.TemporaryDirectory() as place:
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run = subprocess.run([program, "first-steps", *words, "--seeds", "1", "--dump", "dump", "--json", "--quiet"],
                             capture_output=True, text=True, cwd=place)  # fmt: skip
        if run.returncode != 0:
            print(f"FAIL {name}: exit code {run.returncode}: {run.stderr.strip()}", flush=True)
            return False
        wrong, worst = compare(json.loads(run.stdout), Path(place) / "dump", tolerance)
    for line in wrong[:3]:
        print(f"FAIL {name}: {line}", flush=True)
    if not wrong:
        print(f"PASS {name}: largest relative difference {worst:.1e}", flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Measured first steps against the same training in PyTorch.")
    parser.add_argument("program")
    parser.add_argument("--tolerance", type=float, default=1e-10)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    results = [check(str(Path(given.program).resolve()), name, given.tolerance) for name in CASES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

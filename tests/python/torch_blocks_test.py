"""Every placement, norm kind and part of a module against an independent stack in PyTorch, forward and backward.

Usage: torch_blocks_test.py PROGRAM [NAME ...] [--tolerance 1e-10]

Runs `PROGRAM propagate --backward --dump` on small stacks, computes each again from the dumped weights
(torch_block_stack.py), and compares streams, logits, loss and all gradients. Prints a line per case: PASS with the
largest relative difference, or FAIL with the tensor and both values. Exits with 1 if a case failed, with 77 if torch is
not installed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import torch
    from safetensors.torch import load_file
    from torch_block_stack import Reference
except ImportError:
    print("skipped: the packages of python/requirements-torch.txt are not installed")
    sys.exit(77)

LAYERS = 4
PLACEMENTS = ("none", "post", "pre", "peri", "b-only", "a+c", "deepnorm", "deepnorm-glm", "mix", "lns",
              "depth-scaled", "residual-dual", "keel", "beam", "u-mup", "sub-ln", "muse-spark", "span", "x0", "ngpt",
              "layer-scale", "parallel", "parallel-two")  # fmt: skip
INNER_O, INNER_DOWN = "attention.inner_norm.gain", "mlp.inner_norm.gain"


@dataclass
class Case:
    """One configuration. `model` adds keys to [model]; `by_layer` is [[model.layer_placement]]: ranges "first-last" and
    their placements; `parts` are tensors that every layer must have."""

    name: str
    placement: Any
    model: dict[str, Any] = field(default_factory=dict)
    by_layer: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    def layer_placements(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for text, placement in self.by_layer.items():
            first, last = (int(part) for part in text.split("-"))
            found |= dict.fromkeys(range(first, last + 1), placement)
        return found


def cases() -> list[Case]:
    """All cases, each with a gated MLP and with a plain one."""
    made = []

    def add(name: str, placement: Any, *, parts: tuple[str, ...] = (),
            by_layer: dict[str, Any] | None = None, **model: Any) -> None:  # fmt: skip
        for mlp in ("swiglu", "gelu"):
            keys = {"mlp": mlp, **model}
            made.append(Case(f"{name}/{mlp}", placement, keys, by_layer or {}, parts))

    for name in PLACEMENTS:
        add(name, name, parts=(INNER_O, INNER_DOWN) if name == "sub-ln" else ())
    add("post+embedding", "post", embedding_norm=True)
    add("pre+layer", "pre", norm="layer")
    add("peri+qk-head", "peri", qk_norm="head")
    add("b-only+qk-full", "b-only", qk_norm="full")
    add("pre-bidirectional", "pre", rope=False, causal=False)
    add("table", {"A": True, "C": True, "alpha": 1.5, "beta": 0.5})
    add("hyper", "hyper", streams=4)
    for mixing in ("uniform", "random"):
        add(f"hyper+{mixing}", "hyper", streams=3, stream_mixing=mixing, stream_write="one")
    qkv = tuple(f"attention.{part}_norm.gain" for part in "qkv")
    add("hybridnorm", "hybridnorm", parts=qkv, qk_norm="head", v_norm=True)
    add("ngpt+embedding", "ngpt", embedding_norm=True, qk_norm="head")
    for kind in ("dyt", "derf", "l2"):
        for placement in ("pre", "peri", "post", "parallel"):
            add(f"{placement}+{kind}", placement, norm=kind, embedding_norm=placement == "post")
    add("pre+dyt+alpha", "pre", norm="dyt", norm_alpha=0.8)
    add("pre+v-norm", "pre", parts=("attention.v_norm.gain",), v_norm=True)
    for inner, parts in (("o", (INNER_O,)), ("down", (INNER_DOWN,)), ("both", (INNER_O, INNER_DOWN))):
        add(f"pre+inner-{inner}", "pre", parts=parts, inner_norm=inner)
    for gate in ("head", "channel"):
        add(f"peri+gate-{gate}", "peri", parts=("attention.gate.weight",), attention_gate=gate)
        add(f"peri+gate-{gate}+all", "peri", parts=("attention.gate.weight", INNER_O, "attention.v_norm.gain"),
            attention_gate=gate, inner_norm="both", v_norm=True, qk_norm="head")  # fmt: skip
    add("per-kind", {"attention": "post", "mlp": "pre"})
    add("per-kind-tables", {"attention": {"A": True, "B": True, "beta": 0.5}, "mlp": {"C": True, "alpha": 2.0}})
    add("per-layer", "pre", by_layer={"0-1": "post", "3-3": "peri"})
    add("per-layer+kind", "pre", by_layer={"1-2": {"attention": "peri", "mlp": "b-only"}})
    add("alpha-2L", {"A": True, "C": True, "alpha": "2L"})
    add("beta-of-l", {"A": True, "beta": "1/sqrt(l+1)"})
    return made


def toml(value: Any) -> str:
    """A value as TOML text; a table becomes an inline table."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)


def configuration(case: Case) -> str:
    """The case's configuration file. Gains and the norms' epsilon are chosen so that a wrong place of either shows."""
    model = {"layers": LAYERS, "width": 32, "heads": 4, "kv_heads": 2, "mlp_width": 48, "vocab": 23, "gamma": 1.25,
             "norm_eps": 1e-3, "placement": case.placement, **case.model}  # fmt: skip
    lines = ["[model]", *(f"{key} = {toml(value)}" for key, value in model.items())]
    for layers, placement in case.by_layer.items():
        lines += ["[[model.layer_placement]]", f'layers = "{layers}"', f"placement = {toml(placement)}"]
    lines += ["[init]", 'scheme = "lecun"', "[input]", 'kind = "tokens"', "tokens = 7"]
    return "\n".join(lines) + "\n"


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest deviation, relative to the largest expected magnitude; 0 for two zero tensors."""
    deviation = (found - expected).abs().max().item()
    return deviation / max(expected.abs().max().item(), 1e-300) if deviation else 0.0


def missing_parts(case: Case, model: dict[str, Any], weights: dict[str, torch.Tensor]) -> list[str]:
    """Tensors that a layer lacks of `case.parts`, or that config.json promises outside the layers."""
    wanted = [f"layers.{layer}.{part}" for layer in range(LAYERS) for part in case.parts]
    wanted += [f"{name}.gain" for name in ("embedding_norm", "final_norm") if model[name]]
    return [name for name in wanted if name not in weights]


def initial_values(model: dict[str, Any], weights: dict[str, torch.Tensor]) -> list[str]:
    """Norms' tensors that do not start as they should: gains at gamma, 1 inside modules, alpha as configured, bias 0,
    and LayerScale's factors at model.layer_scale."""
    wrong = []
    for name, tensor in weights.items():
        *_, norm, part = name.split(".")
        inside = norm in ("q_norm", "k_norm", "v_norm", "inner_norm")
        gain = model["layer_scale"] if norm == "branch_scale" else model["gamma"]
        start = {"gain": 1.0 if inside else gain, "alpha": model.get("norm_alpha"), "bias": 0.0}.get(part)
        if start is not None and not bool((tensor == start).all()):
            wrong.append(f"{name} starts at {tensor.flatten()[0].item():g}, expected {start:g}")
    return wrong


def order(name: str) -> tuple[bool, bool, int]:
    """Sorts tensors as they are computed, so that the first wrong one says where: streams forward, then backward."""
    backward, index = name.startswith("grad."), name.rsplit(".", 1)[-1]
    depth = int(index) if index.isdigit() else 0
    return backward, "stream." not in name, -depth if backward else depth


def compare(case: Case, folder: Path, tolerance: float) -> tuple[list[str], float]:
    """What is wrong with a dump, a line each, and the largest relative difference."""
    model = json.loads((folder / "config.json").read_text())["model"]
    weights = load_file(folder / "model.safetensors")
    dumped = load_file(folder / "activations.safetensors")
    if lacking := missing_parts(case, model, weights):
        return [f"model.safetensors lacks {lacking[0]}"], 0.0
    reference = Reference(model, weights, case.placement, case.layer_placements())
    try:
        expected = reference.run(dumped.pop("tokens"), dumped.pop("labels"))
    except KeyError as error:
        return [f"model.safetensors lacks {error}"], 0.0
    mixing = {f"grad.weight.{name}" for name in weights if name.rsplit(".", 1)[-1] in ("pre", "post", "mix")}
    wrong = [f"model.safetensors has {name}, which the equation does not use" for name in reference.unused()]
    wrong += initial_values(model, weights)
    wrong += [f"activations.safetensors lacks {name}" for name in sorted(set(expected) - set(dumped) - mixing)]
    wrong += [f"activations.safetensors has {name}, unknown here" for name in sorted(set(dumped) - set(expected))]
    worst = 0.0
    for name in sorted(sorted(set(dumped) & set(expected)), key=order):
        if dumped[name].numel() != expected[name].numel():
            wrong.append(f"{name}: shape {list(dumped[name].shape)}, expected {list(expected[name].shape)}")
            continue
        deviation = difference(dumped[name].reshape(expected[name].shape), expected[name])
        worst = max(worst, deviation)
        if not deviation <= tolerance:
            wrong.append(f"{name}: relative difference {deviation:.3g}")
    return wrong, worst


def check(program: str, case: Case, tolerance: float) -> bool:
    """Runs one case and prints its line; whether it passed."""
    with tempfile.TemporaryDirectory() as place:
        folder, file = Path(place) / "dump", Path(place) / "case.toml"
        file.write_text(configuration(case))
        command = [program, "propagate", "--config", file.name, "--seeds", "1", "--dtype", "f64", "--backward",
                   "--dump", folder.name, "--quiet"]  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, cwd=place)
        said = next((line for line in reversed(run.stderr.splitlines()) if line.strip()), "no message")
        if run.returncode not in (0, 4):  # 4: theory disagrees, which such a small width may
            print(f"FAIL {case.name}: exit code {run.returncode}: {said}", flush=True)
            return False
        wrong, worst = compare(case, folder, tolerance)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    print(f"FAIL {case.name}: {wrong[0]}{more}" if wrong else
          f"PASS {case.name}: largest relative difference {worst:.1e}", flush=True)  # fmt: skip
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Small stacks of a program against an independent PyTorch reference.")
    parser.add_argument("program")
    parser.add_argument("names", nargs="*", help="cases whose names start with one of these; all if none is given")
    parser.add_argument("--tolerance", type=float, default=1e-10)
    given = parser.parse_args()
    program = str(Path(given.program).resolve())
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    chosen = [case for case in cases() if not given.names or case.name.startswith(tuple(given.names))]
    passed = [check(program, case, given.tolerance) for case in chosen]
    return 0 if chosen and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())

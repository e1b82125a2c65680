"""How far finite width takes measured gradients from the theory of infinite width: where the allowance of verdicts
for gradients comes from (docs/lab_notes/finite_width.md, "Finite width of gradients").

Usage: python gradient_allowance.py BINARY [--journal FILE] [--only TEXT] [--seeds 0.1]

For every stack of a grid (placement, width, depth, heads, tokens, mask, MLP, norm, input, initialisation) it runs
`propagate --backward` with precise predictions and takes from the JSON, for log_grad_sq of the stream at every depth
and of every matrix of every layer, and for the score path's share p in units of p(1 - p), the logarithm's slope:

  b  the bias, measured - predicted, with its standard error, also of the mean over depth of each kind, which is a
     contrast of the program whose error knows how depths depend on each other,
  v  the variance over seeds of one reading,
  U  what a unit of c allows, as experiments/engine/judge/gradient_allowance.h has it, and
  c  (|b| - v/2) / U, the constant that this number needs.

A row of the tables has the median of max(0, c), the largest c of all numbers with its standard error, its lower limit
at 99 % for all numbers of the grid together, the largest c of the means over depth, and by how many standard errors the
worst number is beyond an allowance with c = 1. Where v reaches 2 for one gradient, verdicts withdraw the allowance of
all gradients of the stack; such rows say "withdrawn".

A journal keeps finished runs: a second call goes on where the first stopped, or only prints. Every run has seeds of its
own; --seeds 0.1 takes a tenth as many.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics
import subprocess
import sys

PLACEMENTS = ["pre", "peri", "post", "b-only", "a+c", "deepnorm", "mix", "lns", "none"]
SEEDS = {32: 1024, 64: 768, 128: 384, 256: 128, 512: 48}
TEXT = pathlib.Path(__file__).parents[1] / "configs" / "sample_text.txt"


def stack(placement, width, head_dim=16, layers=4, part=2, **other):
    """The keys of one stack: heads and the hidden layer grow with the width."""
    keys = {"model.placement": placement, "model.width": width, "model.heads": max(1, width // head_dim),
            "model.head_dim": head_dim, "model.mlp_width": int(part * width), "model.layers": layers,
            "model.vocab": 128, "model.mlp": "relu" if placement == "none" else "swiglu",
            "init.scheme": "lecun", "input.tokens": 16}
    keys.update({key.replace("__", "."): value for key, value in other.items()})
    return keys


def grid():
    """(family, stack, seeds): placements by width, and variations of shape of four placements."""
    for width, seeds in SEEDS.items():
        for placement in PLACEMENTS:
            yield "base", stack(placement, width), seeds
    variations = {
        "2 layers": {"layers": 2}, "8 layers": {"layers": 8}, "12 layers": {"layers": 12},
        "heads of 8": {"head_dim": 8}, "heads of 32": {"head_dim": 32}, "heads of 64": {"head_dim": 64},
        "ReLU": {"model__mlp": "relu"}, "LayerNorm": {"model__norm": "layer"}, "QK-norm": {"model__qk_norm": "head"},
        "strong attention": {"init__qk_factor": 2.0}, "He": {"init__scheme": "he"},
        "4 tokens": {"input__tokens": 4}, "48 tokens": {"input__tokens": 48}, "128 tokens": {"input__tokens": 128},
        "bidirectional, no RoPE": {"model__causal": "false", "model__rope": "false"},
        "alike tokens": {"input__correlation": 0.5},
        "text": {"input__kind": "text", "input__path": str(TEXT), "input__tokens": 48,
                 "model__vocab": 256},
        "both ways, 48 tokens": {"model__causal": "false", "input__tokens": 48},
        "both ways, 128 tokens": {"model__causal": "false", "input__tokens": 128},
        "1 layer, both ways, 16 tokens": {"layers": 1, "model__causal": "false"},
        "1 layer, both ways, 64 tokens": {"layers": 1, "model__causal": "false", "input__tokens": 64},
        "1 layer, both ways, 256 tokens": {"layers": 1, "model__causal": "false", "input__tokens": 256},
        "1 layer, 256 tokens": {"layers": 1, "input__tokens": 256},
    }
    many = list(variations)[-6:]
    hidden = {f"{layers} layer{'s' if layers > 1 else ''}, h = {part} D": {"layers": layers, "part": part}
              for layers in (1, 4) for part in (0.5, 1, 4)}
    narrow = "1 layer, h = 1 D, 48 tokens"
    variations |= hidden | {"1 layer": {"layers": 1}, narrow: {"layers": 1, "part": 1, "input__tokens": 48}}
    deeper = ["8 layers", "12 layers"]
    again = ["heads of 64", "12 layers", "128 tokens", "strong attention", "text"]
    several = ["pre", "peri", "post", "b-only"]
    others = ["none", "mix", "lns", "deepnorm", "residual-dual", "depth-scaled"]
    runs = [(64, name, several) for name in variations if name not in many and name not in [*hidden, narrow, "1 layer"]]
    runs += [(64, name, ["pre", "peri"]) for name in many]
    runs += [(128, name, ["pre", "peri"]) for name in many[2:]]
    runs += [(256, name, ["pre"]) for name in many[2:]]
    runs += [(64, name, others) for name in deeper]
    runs += [(64, "strong attention", ["none", "mix", "lns"]), (64, "He", ["none"]), (64, "128 tokens", ["none"])]
    runs += [(128, name, ["none"]) for name in deeper]
    runs += [(128, name, several) for name in again]
    runs += [(64, name, several) for name in hidden]
    runs += [(width, "1 layer", several) for width in (32, 64, 128)]
    runs += [(128, name, ["pre", "peri"]) for name in hidden if name.startswith("1") and "4" not in name]
    runs += [(width, narrow, ["peri", "b-only"]) for width in (64, 128, 256)]
    for width, name, placements in runs:
        change = variations[name]
        for placement in placements:
            changed = {k: v for k, v in change.items() if placement != "none" or k != "model__mlp"}
            big = max(1.0, change.get("layers", 4) / 4) * max(1.0, change.get("input__tokens", 16) / 32)
            yield name, stack(placement, width, **changed), int(SEEDS[width] * 2 / 3 / big)


def run(binary, keys, seeds, first, tolerance):
    command = [binary, "propagate", "--backward", "--quiet", "--json"]
    more = {"run.seeds": seeds, "run.seed": first, "theory.tolerance": tolerance,
            "theory.gradient_tolerance": tolerance, "theory.finite_width": "false"}
    for key, value in (keys | more).items():
        quoted = f'"{value}"' if isinstance(value, str) and value not in ("true", "false") else value
        command += ["--set", f"{key}={quoted}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 4):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    answer = json.loads(done.stdout)
    labels = {name: column["data"] for name, column in answer["coords"].items()}
    return labels | {name: column["data"][0][0] for name, column in answer["data_vars"].items()}


def readings(cell, keys, seeds):
    """Every logarithm that is compared: kind, index, bias, the two errors, variance over seeds, and W, the finite-width
    factor of the way to the top and back; and means over depth."""
    w = cell["finite_width"]
    width = keys["model.width"]
    across = 2.0 if keys.get("model.norm") == "layer" else 1.0

    def way(depth):
        return width / (width - across) * (2.0 * w[-1] - w[depth])

    found = []

    def add(kind, column, depth_of, row=None, share=False):
        curves = [cell[f"{column}_{version}"] for version in ("measured", "stderr", "predicted", "predicted_stderr")]
        log = curves if row is None else [curve[row] for curve in curves]
        mine = []
        for i, numbers in enumerate(zip(*log, strict=True)):
            if any(isinstance(number, str) for number in numbers):
                continue
            m, sm, t, st = numbers
            scale = t * (1.0 - t) if share else 1.0
            mine.append({"kind": kind, "i": i, "b": (m - t) / scale, "sm": sm / scale, "st": st / scale,
                         "v": seeds * (sm / scale) ** 2, "W": way(depth_of(i))})
        found.extend(mine)
        name = {"stream": "log_grad_sq x_out mean", "share": "score_share A_out mean"}.get(
            kind, f"log_grad_sq {kind} mean")
        for k, contrast in enumerate(cell.get("contrast_name", [])):
            if contrast == name:
                scale = statistics.mean(log[2][r["i"]] * (1 - log[2][r["i"]]) for r in mine) if share else 1.0
                found.append({"kind": kind, "i": "mean", "b": cell["contrast_deviation"][k] / scale,
                              "sm": cell["contrast_stderr"][k] / scale, "st": 0.0,
                              "v": statistics.mean(r["v"] for r in mine), "W": statistics.mean(r["W"] for r in mine)})

    add("stream", "log_grad_sq", lambda i: i)
    for row, weight in enumerate(cell["weight"]):
        add(weight, "weight_log_grad_sq", lambda i: 2 * i, row)
    add("share", "site_score_share", lambda i: i, cell["site"].index("A_out"), share=True)
    return found


def unit(entry, reading):
    """What c = 1 allows besides v/2."""
    keys = entry["keys"]
    tokens = keys["input.tokens"]
    causal = keys.get("model.causal") != "false"
    keys_seen = tokens / sum(1.0 / (t if causal else tokens) for t in range(1, tokens + 1))
    width = keys["model.width"]
    step = max(1.0 / width, 1.0 / (32.0 * keys["model.heads"]), 1.0 / keys["model.mlp_width"])
    step *= width / (width - (2.0 if keys.get("model.norm") == "layer" else 1.0))
    part = 1.0 if reading["kind"] in ("q", "k", "v", "o", "share") else 0.25
    unbounded = 3.0 if keys["model.placement"] == "none" else 1.0
    return unbounded * (reading["W"] + 4.0 * step + part * math.log1p(keys_seen / width))


def student(z, degrees):
    """Quantile of Student's t where the normal law has z (Cornish and Fisher)."""
    return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)


def row(entry, level):
    """The table's row of one stack, and its numbers (c, error, lower limit, name)."""
    limit = student(statistics.NormalDist().inv_cdf(1.0 - level), entry["seeds"] - 1)
    numbers = []
    for r in entry["readings"]:
        u = unit(entry, r)
        error = math.hypot(r["sm"], r["st"])
        c = (abs(r["b"]) - r["v"] / 2) / u
        spread = math.hypot(error, r["v"] / math.sqrt(2.0 * (entry["seeds"] - 1))) / u
        numbers.append((c, spread, c - limit * spread, f"{r['kind']} {r['i']}", (c - 1.0) * u / error))
    wild = any(r["v"] >= 2.0 for r in entry["readings"] if r["kind"] != "share" and r["i"] != "mean")
    worst = max(numbers)
    lower = max(numbers, key=lambda number: number[2])
    smooth = max(number for number in numbers if number[3].endswith("mean"))
    beyond = max(number[4] for number in numbers)
    median = statistics.median(max(0.0, number[0]) for number in numbers)
    text = (f"{median:6.2f}  {worst[0]:6.2f} +- {worst[1]:4.2f} {worst[3]:12s} {lower[2]:6.2f} {lower[3]:12s} "
            f"{smooth[0]:6.2f} +- {smooth[1]:4.2f} {smooth[3]:12s} {beyond:6.1f}")
    return text + ("  withdrawn" if wild else ""), numbers, wild


def exponent(entries):
    """p of b = B_k D^-p, one B for every kind's mean over depth: least squares. The error has Delta chi^2 = the number
    of kinds: as if they were all one number."""
    kinds = collections.defaultdict(list)
    for entry in entries:
        for r in entry["readings"]:
            if r["i"] == "mean":
                kinds[r["kind"]].append((entry["keys"]["model.width"], r["b"], r["sm"]))

    def misfit(p):
        total = 0.0
        for points in kinds.values():
            xx = sum((d ** -p / s) ** 2 for d, _, s in points)
            xy = sum(d ** -p * b / s ** 2 for d, b, s in points)
            total += sum(((b - xy / xx * d ** -p) / s) ** 2 for d, b, s in points)
        return total

    grid_of_p = [i / 200 for i in range(601)]
    misfits = [misfit(p) for p in grid_of_p]
    best = min(misfits)
    inside = [p for p, m in zip(grid_of_p, misfits, strict=True) if m <= best + len(kinds)]
    degrees = sum(len(points) - 1 for points in kinds.values()) - 1
    return grid_of_p[misfits.index(best)], (inside[-1] - inside[0]) / 2.0, best, degrees


def report(entries):
    level = 0.01 / sum(len(entry["readings"]) for entry in entries)
    print(f"{len(entries)} stacks, {sum(len(entry['readings']) for entry in entries)} numbers")
    print(f"{'':32s}{'':9s}  width seeds  median  largest c                lower limit        "
          "largest of means            beyond c = 1")
    largest = {}
    for entry in entries:
        keys = entry["keys"]
        text, numbers, wild = row(entry, level)
        name = f"{entry['family']:32s}{keys['model.placement']:13s}"
        print(f"{name} {keys['model.width']:4d} {entry['seeds']:5d}  {text}")
        group = "withdrawn" if wild else "without norms" if keys["model.placement"] == "none" else "with norms"
        for number in numbers:
            largest[group] = max(largest.get(group, (-math.inf,)), (number[2], number[0], number[1], number[3], name))
    for group, (lower, c, error, what, name) in largest.items():
        print(f"{group}: best resolved c {c:.2f} +- {error:.2f}, at least {lower:.2f} ({name.split()} {what})")
    print("exponents of the width, means over depth (chi^2 / degrees of freedom)")
    for placement in PLACEMENTS:
        chosen = [e for e in entries if e["family"] == "base" and e["keys"]["model.placement"] == placement]
        if len(chosen) > 2:
            p, error, best, degrees = exponent(chosen)
            print(f"  {placement:10s} -{p:.2f} +- {error:.2f}  ({best:.0f} / {degrees})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("gradient_allowance.jsonl"))
    parser.add_argument("--only", default="", help="only families whose name has this text")
    parser.add_argument("--seeds", type=float, default=1.0, help="factor on the number of seeds")
    args = parser.parse_args()
    done = {}
    if args.journal.exists():
        for line in args.journal.read_text().splitlines():
            entry = json.loads(line)
            done[json.dumps([entry["keys"], entry["seeds"]], sort_keys=True)] = entry
    entries = []
    for number, (family, keys, usual) in enumerate(grid(), start=1):
        seeds = max(16, int(usual * args.seeds))
        name = json.dumps([keys, seeds], sort_keys=True)
        if args.only not in family:
            continue
        if name not in done:
            tolerance = 0.01 if keys["model.width"] <= 64 else 0.005
            cell = run(args.binary, keys, seeds, 10000 * number, tolerance)
            done[name] = {"family": family, "keys": keys, "seeds": seeds, "readings": readings(cell, keys, seeds)}
            with args.journal.open("a") as journal:
                journal.write(json.dumps(done[name]) + "\n")
            print(f"{number}: {family}, {keys['model.placement']}, width {keys['model.width']}", file=sys.stderr)
        entries.append(done[name])
    report(entries)


if __name__ == "__main__":
    main()

"""Measures the deviation of gradients at finite width from the infinite-width theory. The tolerated bias of verdicts on
gradients is based on these measurements (docs/lab_notes/finite_width.md, "Measured bias of gradients").

Usage: python gradient_bias.py [--journal FILE] [--only TEXT] [--seeds 0.1]; needs the Python package (./lab python)

For every stack of a grid, compares log_grad_sq of the stream at every depth and of every matrix of every layer, and the
score path's share p in units of p(1 - p), with precise predictions:

  b  the bias, measured - predicted; also for each quantity's mean over depth, which verdicts test as a contrast,
  v  the variance of one reading over seeds,
  U  the tolerated bias for c = 1 (experiments/engine/judge/tolerated_bias.h), and
  c  (|b| - v/2) / U, the constant that would tolerate this bias.

A table row has the median of max(0, c), the largest c, its lower confidence limit (99 % for the whole grid), and the
largest c of the means over depth. If v >= 2 for a gradient, verdicts on the stack's gradients are inconclusive; its row
is marked "withdrawn". The journal caches finished runs; --seeds 0.1 uses a tenth of the seeds.
"""

import argparse
import itertools
import json
import math
import pathlib
import statistics
import sys

import numpy as np

import periscope as ps

PLACEMENTS = ["pre", "peri", "post", "b-only", "a+c", "deepnorm", "mix", "lns", "none"]
SEEDS = {32: 1024, 64: 768, 128: 384, 256: 128, 512: 48}
TEXT = pathlib.Path(__file__).parents[1] / "configs" / "sample_text.txt"


def stack(placement, width, head_dim=16, layers=4, part=2, **other):
    """Returns the keys of a stack; the number of heads and the hidden width are proportional to the width."""
    keys = {"model.placement": placement, "model.width": width, "model.heads": max(1, width // head_dim),
            "model.head_dim": head_dim, "model.mlp_width": int(part * width), "model.layers": layers,
            "model.vocab": 128, "model.mlp": "relu" if placement == "none" else "swiglu",
            "init.scheme": "lecun", "input.tokens": 16}
    keys.update({key.replace("__", "."): value for key, value in other.items()})
    return keys


def grid():
    """Yields (family, stack, seeds): all placements at every width, and variations of shape for some placements."""
    for width, seeds in SEEDS.items():
        for placement in PLACEMENTS:
            yield "base", stack(placement, width), seeds
    variations = {
        "2 layers": {"layers": 2}, "8 layers": {"layers": 8}, "12 layers": {"layers": 12},
        "heads of 8": {"head_dim": 8}, "heads of 32": {"head_dim": 32}, "heads of 64": {"head_dim": 64},
        "ReLU": {"model__mlp": "relu"}, "LayerNorm": {"model__norm": "layer"}, "QK-norm": {"model__qk_norm": "head"},
        "strong attention": {"init__qk_factor": 2.0}, "He": {"init__scheme": "he"},
        "4 tokens": {"input__tokens": 4}, "48 tokens": {"input__tokens": 48}, "128 tokens": {"input__tokens": 128},
        "bidirectional, no RoPE": {"model__causal": False, "model__rope": False},
        "correlated tokens": {"input__correlation": 0.5},
        "text": {"input__kind": "text", "input__path": str(TEXT), "input__tokens": 48,
                 "model__vocab": 256},
        "bidirectional, 48 tokens": {"model__causal": False, "input__tokens": 48},
        "bidirectional, 128 tokens": {"model__causal": False, "input__tokens": 128},
        "1 layer, bidirectional, 16 tokens": {"layers": 1, "model__causal": False},
        "1 layer, bidirectional, 64 tokens": {"layers": 1, "model__causal": False, "input__tokens": 64},
        "1 layer, bidirectional, 256 tokens": {"layers": 1, "model__causal": False, "input__tokens": 256},
        "1 layer, 256 tokens": {"layers": 1, "input__tokens": 256},
    }
    many, plain = list(variations)[-6:], list(variations)[:-6]
    hidden = {f"{layers} layer{'s' if layers > 1 else ''}, h = {part} D": {"layers": layers, "part": part}
              for layers in (1, 4) for part in (0.5, 1, 4)}
    narrow = "1 layer, h = 1 D, 48 tokens"
    variations |= hidden | {"1 layer": {"layers": 1}, narrow: {"layers": 1, "part": 1, "input__tokens": 48}}
    several, two, none = ["pre", "peri", "post", "b-only"], ["pre", "peri"], ["none"]
    for widths, names, placements in (
        ([64], plain, several),
        ([64], many, two),
        ([128], many[2:], two),
        ([256], many[2:], ["pre"]),
        ([64], ["8 layers", "12 layers"], ["none", "mix", "lns", "deepnorm", "residual-dual", "depth-scaled"]),
        ([64], ["strong attention"], ["none", "mix", "lns"]),
        ([64], ["He", "128 tokens"], none),
        ([128], ["8 layers", "12 layers"], none),
        ([128], ["heads of 64", "12 layers", "128 tokens", "strong attention", "text"], several),
        ([64], hidden, several),
        ([32, 64, 128], ["1 layer"], several),
        ([128], [name for name in hidden if name.startswith("1") and "4" not in name], two),
        ([64, 128, 256], [narrow], ["peri", "b-only"]),
    ):
        for width, name, placement in itertools.product(widths, names, placements):
            change = variations[name]
            changed = {k: v for k, v in change.items() if placement != "none" or k != "model__mlp"}
            big = max(1.0, change.get("layers", 4) / 4) * max(1.0, change.get("input__tokens", 16) / 32)
            yield name, stack(placement, width, **changed), int(SEEDS[width] * 2 / 3 / big)


def readings(ds, keys, seeds):
    """Returns the compared numbers as rows: kind, index or "mean", b, standard error of b, v, U."""
    width, causal = keys["model.width"], keys.get("model.causal", True)
    tokens, across = keys["input.tokens"], 2.0 if keys.get("model.norm") == "layer" else 1.0
    w = ds.finite_width.values
    path = width / (width - across) * (2.0 * w[-1] - w)  # forward to the output and back to each depth
    visible = tokens / sum(1.0 / (t if causal else tokens) for t in range(1, tokens + 1))
    step = max(1.0 / width, 1.0 / (32.0 * keys["model.heads"]), 1.0 / keys["model.mlp_width"])
    step *= width / (width - across)
    unbounded = 3.0 if keys["model.placement"] == "none" else 1.0
    deviations = ds.contrast_measured - ds.contrast_predicted
    errors = np.hypot(ds.contrast_stderr, ds.contrast_predicted_stderr)
    contrasts = dict(zip(ds.contrast_name.values, zip(deviations.values, errors.values, strict=True), strict=True))
    curves = [("stream", "log_grad_sq", {}, 1, "log_grad_sq x_out mean"),
              ("share", "site_score_share", {"site": "A_out"}, 1, "score_share A_out mean")]
    curves += [(str(name), "weight_log_grad_sq", {"weight": name}, 2, f"log_grad_sq {name} mean")
               for name in ds.weight.values]
    rows = []
    for kind, name, at, stride, contrast in curves:
        m, sm, t, st = (ds[f"{name}_{suffix}"].sel(at).values for suffix in ("measured", "stderr", "predicted",
                                                                           "predicted_stderr"))  # fmt: skip
        (found,) = np.nonzero(np.isfinite(m + sm + t + st))
        scale = t * (1.0 - t) if kind == "share" else np.ones_like(t)
        part = 1.0 if kind in ("q", "k", "v", "o", "share") else 0.25
        u = unbounded * (path[stride * found] + 4.0 * step + part * math.log1p(visible / width))
        v = seeds * (sm / scale)[found] ** 2
        rows += zip([kind] * len(found), map(str, found), ((m - t) / scale)[found], (np.hypot(sm, st) / scale)[found],
                    v, u, strict=True)  # fmt: skip
        if contrast in contrasts and len(found):
            b, error = np.array(contrasts[contrast]) / scale[found].mean()
            rows.append((kind, "mean", b, error, v.mean(), u.mean()))
    return [(kind, index, *map(float, numbers)) for kind, index, *numbers in rows]


def student(z, degrees):
    """Returns the quantile of Student's t at the probability of the normal quantile z (Cornish–Fisher expansion)."""
    return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)


def row(entry, level):
    """Returns a stack's table row, tuples (lower limit, c, error, name), and whether the row is marked "withdrawn"."""
    limit = student(statistics.NormalDist().inv_cdf(1.0 - level), entry["seeds"] - 1)
    numbers = []
    for kind, index, b, error, v, u in entry["readings"]:
        c = (abs(b) - v / 2) / u
        spread = math.hypot(error, v / math.sqrt(2.0 * (entry["seeds"] - 1))) / u
        numbers.append((c - limit * spread, c, spread, f"{kind} {index}"))
    withdrawn = any(v >= 2.0 for kind, index, _, _, v, _ in entry["readings"] if kind != "share" and index != "mean")
    median = statistics.median(max(0.0, number[1]) for number in numbers)
    worst = max(numbers, key=lambda number: number[1])
    smooth = max((n for n in numbers if n[3].endswith("mean")), key=lambda number: number[1], default=worst)
    text = f"{median:6.2f}  {worst[1]:6.2f} +- {worst[2]:4.2f} {worst[3]:12s} "
    text += f"{max(numbers)[0]:6.2f} {max(numbers)[3]:12s} {smooth[1]:6.2f} +- {smooth[2]:4.2f} {smooth[3]:12s}"
    return text + ("  withdrawn" if withdrawn else ""), numbers, withdrawn


def exponent(entries):
    """Fits b = B_k D^-p by least squares to the means over depth, with one B per kind k. Returns p and its error, taken
    at Delta chi^2 = number of kinds."""
    points = [(r[0], e["keys"]["model.width"], r[2], r[3]) for e in entries for r in e["readings"] if r[1] == "mean"]
    kind, width, b, error = map(np.array, zip(*points, strict=True))
    p = np.arange(601) / 200

    def misfit(here):
        x, y = width[here] ** -p[:, None] / error[here], b[here] / error[here]
        return ((y - (x @ y / (x * x).sum(1))[:, None] * x) ** 2).sum(1)

    misfits = sum(misfit(kind == one) for one in set(kind))
    inside = p[misfits <= misfits.min() + len(set(kind))]
    return p[misfits.argmin()], (inside[-1] - inside[0]) / 2.0


def report(entries):
    level = 0.01 / sum(len(entry["readings"]) for entry in entries)
    print(f"{'':45s}  width seeds  median  largest c                lower limit        largest of means")
    largest = {}
    for entry in entries:
        placement = entry["keys"]["model.placement"]
        text, numbers, withdrawn = row(entry, level)
        print(f"{entry['family']:32s}{placement:13s} {entry['keys']['model.width']:4d} {entry['seeds']:5d}  {text}")
        group = "withdrawn" if withdrawn else "without norms" if placement == "none" else "with norms"
        for lower, c, error, name in numbers:
            largest[group] = max(largest.get(group, (-math.inf,)), (lower, c, error, name, entry["family"], placement))
    for group, (lower, c, error, *labels) in largest.items():
        print(f"{group}: best resolved c {c:.2f} +- {error:.2f}, at least {lower:.2f} ({', '.join(labels)})")
    for placement in PLACEMENTS:
        chosen = [e for e in entries if e["family"] == "base" and e["keys"]["model.placement"] == placement]
        if len(chosen) > 2:
            print(f"exponent of the width, means over depth: {placement:10s} -%.2f +- %.2f" % exponent(chosen))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("gradient_bias.jsonl"))
    parser.add_argument("--only", default="", help="only families whose name contains this text")
    parser.add_argument("--seeds", type=float, default=1.0, help="factor on the number of seeds")
    args = parser.parse_args()
    lines = args.journal.read_text().splitlines() if args.journal.exists() else []
    done = {json.dumps([entry["keys"], entry["seeds"]]): entry for entry in map(json.loads, lines)}
    entries = []
    for number, (family, keys, usual) in enumerate(grid(), start=1):
        seeds = max(16, int(usual * args.seeds))
        name = json.dumps([keys, seeds])
        if args.only not in family:
            continue
        if name not in done:
            tolerance = 0.01 if keys["model.width"] <= 64 else 0.005
            theory = {"tolerance": tolerance, "gradient_tolerance": tolerance, "finite_width": False}
            ds = ps.propagate(keys, backward=True, theory=theory, seeds=seeds, seed=10000 * number)
            numbers = readings(ds.isel(input=0, placement=0), keys, seeds)
            done[name] = {"family": family, "keys": keys, "seeds": seeds, "readings": numbers}
            with args.journal.open("a") as journal:
                journal.write(json.dumps(done[name]) + "\n")
            print(f"{number}: {family}, {keys['model.placement']}, width {keys['model.width']}", file=sys.stderr)
        entries.append(done[name])
    report(entries)


if __name__ == "__main__":
    main()

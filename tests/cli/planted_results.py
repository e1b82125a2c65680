"""Planted results of `train` and `reproduce`, in which every number occurs once, and a test case that finds in a figure
the lines, markers and error bars of such numbers."""

import pathlib
import unittest

import plotting  # noqa: F401  first of what needs packages

# isort: split
import numpy as np
from matplotlib.colors import to_hex

from plots.results import Result

LAYERS, SEEDS, STEPS, RATE = 3, 3, 24, 0.01
RECORDS = np.array([0, 1, 2, 5, 10, 12, 20, 24])
GROUPS = (
    [(p, "base", "", RATE) for p in ("post", "pre", "peri", "a+c", "b-only")]
    + [(p, "rates", f"rate x {f:g}", RATE * f) for f in (3.0, 0.1) for p in ("post", "pre", "peri")]
    + [(p, "rates-warmup", f"warm-up x 3, rate x {f:g}", RATE * f) for f in (0.1, 3.0) for p in ("pre", "peri")]
    + [(p, "sgd", f"SGD, rate {r:g}", r) for r in (0.3, 0.03) for p in ("post", "pre", "peri")]
    + [("peri", "frozen", "output gains frozen", RATE)]
    + [(p, "decay", f"weight decay {d:g}", RATE) for d in (0.33, 0.0) for p in ("pre", "peri")]
    + [(p, "init", f"variance {v:g}/d", RATE) for v in (10, 0.1) for p in ("pre", "peri")]
    + [("peri", "layer-norm", "LayerNorm", RATE), ("b-only", "olmo", "QK-norm (OLMo 2)", RATE)]
)
DECAYS, DEVIATIONS = {"weight decay 0.33": 0.33, "weight decay 0": 0.0}, {"variance 10/d": 0.9, "variance 0.1/d": 0.01}


class Numbers:
    """Numbers from 1 to 2, none of them twice."""

    def __init__(self):
        self.draw = np.random.default_rng(1)

    def __call__(self, *shape):
        return self.draw.uniform(1.0, 2.0, shape)


CONFIG = {
    "run": {"seeds": SEEDS, "dtype": "f32"},
    "train": {"optimizer": "adamw", "lr": RATE, "steps": STEPS, "batch": 2, "corpus": "synthetic"},
    "stacks": [{"model": {"layers": LAYERS, "width": 16, "mlp": "swiglu", "norm": "rms", "placement": "peri"},
                "init": {"scheme": "normal", "std": 0.02}, "input": {"tokens": 8}}],
}  # fmt: skip
ATTRIBUTES = {"version": "0", "commit": "none", "loss_floor": 0.75, "model": "made up", "family": "llama"}


def planted_reproduce():
    numbers, n, r, d = Numbers(), len(GROUPS), len(RECORDS), 2 * LAYERS + 1
    names = [f"{p}, {what}" if what else p for p, _, what, _ in GROUPS]
    v = {
        "group": np.array(names), "placement": np.array([g[0] for g in GROUPS]),
        "study": np.array([g[1] for g in GROUPS]),
        "lr": np.array([g[3] for g in GROUPS]), "weight_decay": np.array([DECAYS.get(g[2], 0.033) for g in GROUPS]),
        "init_std": np.array([DEVIATIONS.get(g[2], 0.02) for g in GROUPS]),
        "record": RECORDS, "step": np.arange(1, STEPS + 1), "depth": np.arange(d), "other_depth": np.arange(d),
        "sublayer": np.arange(2 * LAYERS), "layer": np.arange(LAYERS), "seed": np.arange(SEEDS),
        "final_loss": numbers(n, SEEDS), "final_loss_mean": numbers(n), "final_loss_stderr": numbers(n) / 9,
        "diverged_at": np.full((n, SEEDS), np.nan), "spikes": np.arange(n * SEEDS).reshape(n, SEEDS) + 1.0,
        "spike": (np.arange(n * SEEDS * STEPS).reshape(n, SEEDS, STEPS) % 7 == 3).astype(float),
        "loss": numbers(n, SEEDS, STEPS), "grad_norm": numbers(n, SEEDS, STEPS),
        "last_layer_grad_norm": numbers(n, SEEDS, STEPS),
        "top_first": numbers(n, SEEDS, r) + 2, "top_last": numbers(n, SEEDS, r), "cosine_share": numbers(n, SEEDS, r),
        "theory_variance": numbers(n, d), "theory_second_moment": numbers(n, d),
        "theory_second_moment_stderr": numbers(n, d) / 9, "theory_layer_gradient": numbers(n, LAYERS),
        "theory_layer_gradient_stderr": numbers(n, LAYERS) / 9,
        "scaled_second_moment": numbers(n, SEEDS, d), "growth_from_scales": numbers(n, SEEDS),
        "growth_from_sizes_inside": numbers(n, SEEDS), "growth_from_alignment": numbers(n, SEEDS),
        "claim": np.array([], dtype=object), "claim_exhibit": np.array([], dtype=object),
        "claim_verdict": np.array([], dtype=object), "claim_statement": np.array([], dtype=object),
        "claim_p": np.array([]), "claim_holm": np.array([]),
    }  # fmt: skip
    for name, shape in (("variance", (d,)), ("second_moment", (d,)), ("eq4", (d,)), ("layer_gradient", (LAYERS,)),
                        ("gain_b", (2 * LAYERS,)), ("angular_distance", (d, d))):  # fmt: skip
        v[f"{name}_mean"], v[f"{name}_stderr"] = numbers(n, r, *shape), numbers(n, r, *shape) / 9
    v["angular_distance_mean"] /= 2
    v["theory_variance"][[g[1] != "base" for g in GROUPS]] = np.nan
    return Result(pathlib.Path("reproduce.nc"), v, {**ATTRIBUTES, "quick": 0}, CONFIG)


def planted_train():
    numbers, d = Numbers(), 2 * LAYERS + 1
    v = {
        "placement": np.array(["pre", "peri"]), "seed": np.arange(SEEDS), "step": np.arange(1, STEPS + 1),
        "record": RECORDS, "depth": np.arange(d), "loss": numbers(2, SEEDS, STEPS),
        "validation_loss": numbers(2, SEEDS, len(RECORDS)), "grad_norm": numbers(2, SEEDS, STEPS),
        "diverged_at": np.array([[np.nan, 9.0, np.nan], [np.nan] * 3]),
        "variance_measured": numbers(2, SEEDS, len(RECORDS), d),
    }  # fmt: skip
    return Result(pathlib.Path("train.nc"), v, dict(ATTRIBUTES), CONFIG)


class FigureTest(unittest.TestCase):
    result: Result

    def figure(self, kind, name, result=None):
        return dict(kind.draw(result or self.result))[name]

    def panel(self, figure, title):
        (axes,) = [axes for axes in figure.axes if axes.get_title() == title]
        return axes

    def rows(self, study="base", *placements):
        return [g for p in (placements or ("post", "pre", "peri", "a+c", "b-only"))
                for g, of in enumerate(GROUPS) if of[:2] == (p, study)]  # fmt: skip

    def lines(self, axes, **look):
        """Lines and markers with these properties, as points."""
        def has(line):
            found = {"colour": to_hex(line.get_color()), "marker": line.get_marker(), "style": line.get_linestyle(),
                     "face": to_hex(line.get_markerfacecolor()),
                     "edge": to_hex(line.get_markeredgecolor())}  # fmt: skip
            return all(found[k] == (to_hex(v) if k in ("colour", "face", "edge") else v) for k, v in look.items())
        return [np.column_stack(line.get_data()).astype(float) for line in axes.get_lines() if has(line)]

    def drawn(self, axes, x, y, what, **look):
        """Exactly one line with this look goes through these points."""
        expected = np.column_stack([x, y]).astype(float)
        found = [line for line in self.lines(axes, **look)
                 if line.shape == expected.shape and np.allclose(line, expected, rtol=1e-12,
                                                                 equal_nan=True)]  # fmt: skip
        self.assertEqual(len(found), 1, what)

    def bars(self, axes, x, low, high, what, horizontal=False):
        """Exactly one set of error bars reaches from `low` to `high` at x (horizontal: at the height x)."""
        along = 1 if horizontal else 0
        ends = np.column_stack(np.broadcast_arrays(x, low, high)).astype(float)
        found = 0
        for container in axes.containers:
            for collection in container.lines[2]:
                segments = np.array(collection.get_segments())
                if len(segments) == len(ends):
                    shown = np.column_stack([segments[:, 0, along], segments[:, 0, 1 - along],
                                             segments[:, 1, 1 - along]])
                    found += np.allclose(shown, ends, rtol=1e-9)
        self.assertEqual(found, 1, what)

    def geometric_bars(self, axes, x, mean, error, what):
        self.bars(axes, x, mean * np.exp(-2 * error), mean * np.exp(2 * error), what)

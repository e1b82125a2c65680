"""The figures of `train` and `reproduce`, and of `probe` where sublayers have markers of their own, drawn from planted
numbers, each of which occurs once: what is drawn is of the group, the record, the layer and the seed that it should
be, with the error bars and markers that the legend says. Usage: planted_figures_test.py

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import pathlib
import unittest

import plotting  # noqa: F401  first of what needs packages

# isort: split
import numpy as np
from matplotlib.colors import to_hex

from plots import (
    captions,
    claims,
    decay_init,
    extremes,
    final_losses,
    groups,
    growth_identity,
    growth_over_depth,
    layer_gradients,
    probe,
    rate_sweeps,
    redundancy,
    stability,
    style,
    training,
)
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


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = planted_reproduce()

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

    # -- reproduce ----------------------------------------------------------------------------------------------------

    def test_figure_1_variance(self):
        v, figure = self.result, self.figure(growth_over_depth, "figure-1-variance")
        self.assertEqual(groups.records(v, growth_over_depth.SHARES), [0, 1, 3, 5, 7])
        for r, title in {0: "Before training", 1: "After 1 steps", 3: "After 5 steps", 5: "After 12 steps",
                         7: "After 24 steps"}.items():  # fmt: skip
            axes = self.panel(figure, title)
            for g in self.rows():
                look = style.LOOKS[GROUPS[g][0]]
                mean, error = v["variance_mean"][g, r], v["variance_stderr"][g, r]
                line = v["theory_variance"][g] if r == 0 else mean
                self.drawn(axes, v["depth"], line, (title, g), colour=look.colour, marker="None")
                (points,) = self.lines(axes, colour=look.colour, marker=look.marker)
                at = points[:, 0].astype(int)
                np.testing.assert_allclose(points[:, 1], mean[at], err_msg=f"{title} {g}")
                self.geometric_bars(axes, at, mean[at], error[at], (title, g))
        top = self.panel(figure, "At the top of the stack")
        for g in self.rows():
            look = style.LOOKS[GROUPS[g][0]]
            mean, error = v["variance_mean"][g, :, -1], v["variance_stderr"][g, :, -1]
            self.drawn(top, RECORDS, mean, g, colour=look.colour, marker=look.marker)
            self.geometric_bars(top, RECORDS, mean, error, g)

    def sweeps(self, result):
        figure = self.figure(rate_sweeps, "figure-3-rates", result)
        for title, study, placements, with_base in (("Warm-up of the base", "rates", ("post", "pre", "peri"), True),
                                                    ("Warm-up three times as long", "rates-warmup", ("pre", "peri"),
                                                     False),
                                                    ("SGD", "sgd", ("post", "pre", "peri"), False)):  # fmt: skip
            for placement in placements:
                members = self.rows(study, placement) + (self.rows("base", placement) if with_base else [])
                yield self.panel(figure, title), style.LOOKS[placement], sorted(members,
                                                                                key=lambda g: GROUPS[g][3]), figure

    def test_figure_3_rates(self):
        v = self.result
        for axes, look, members, _ in self.sweeps(v):
            rate, mean, error = (v[name][members] for name in ("lr", "final_loss_mean", "final_loss_stderr"))
            self.drawn(axes, rate, mean, members, colour=look.colour, marker=look.marker, face=look.colour)
            self.bars(axes, rate, mean - 2 * error, mean + 2 * error, members)

    def test_figure_3_has_a_hollow_marker_where_any_seed_diverged(self):
        v = self.result
        diverged = np.full_like(v["diverged_at"], np.nan)
        one, every = self.rows("rates", "pre")[0], self.rows("base", "pre")[0]
        diverged[one, 1] = 7.0
        diverged[every] = 3.0
        result = Result(v.path, {**v.variables, "diverged_at": diverged}, v.attributes, v.config)
        for axes, look, members, figure in self.sweeps(result):  # noqa: B007  the last figure is read below
            lost = [g for g in members if g in (one, every)]
            hollow = np.concatenate(self.lines(axes, edge=look.colour, face="white") or [np.empty((0, 2))])
            lost_here = np.column_stack([v["lr"][lost], v["final_loss_mean"][lost]]) if lost else np.empty((0, 2))
            np.testing.assert_allclose(hollow, lost_here, err_msg=look.label)
        self.assertIn("with diverged runs", [text.get_text() for text in figure.legends[0].get_texts()])
        caption = figure.caption
        self.assertIn("Pre-LN (3 of 3 seeds)", caption)
        self.assertIn("Pre-LN, rate x 3 (1 of 3 seeds)", caption)
        plain = self.figure(rate_sweeps, "figure-3-rates")
        self.assertNotIn("with diverged runs", [text.get_text() for text in plain.legends[0].get_texts()])
        self.assertNotIn("Diverged", plain.caption)

    def test_figure_4_instability(self):
        v, figure = self.result, self.figure(stability, "figure-4-instability")
        for column, placement in enumerate(("pre", "peri")):
            (g,) = self.rows("base", placement)
            for axes, name in ((figure.axes[column], "loss"), (figure.axes[2 + column], "grad_norm")):
                self.assertEqual(len(axes.get_lines()), 2 * SEEDS)
                shades = {style.shade(style.LOOKS[placement].colour, seed) for seed in range(SEEDS)}
                self.assertEqual(len(shades), SEEDS, "every seed has a shade of its own")
                for seed, series in enumerate(v[name][g]):
                    colour = style.shade(style.LOOKS[placement].colour, seed)
                    self.drawn(axes, v["step"], series, (name, g), colour=colour, marker="None")
                    at = v["spike"][g, seed] == 1
                    self.drawn(axes, v["step"][at], series[at], (name, g), colour=colour, marker="v")
            counts = ", ".join(f"{n:g}" for n in v["spikes"][g])
            self.assertEqual(figure.axes[column].get_title(),
                             f"{style.LOOKS[placement].label}: {counts} spikes, seed by seed")

    def test_figure_5_last_layer(self):
        v, (axes,) = self.result, self.figure(stability, "figure-5-last-layer").axes
        self.assertEqual(len(axes.get_lines()), 3 * SEEDS)
        for g in self.rows("base", "post", "pre", "peri"):
            for norms in v["last_layer_grad_norm"][g]:
                self.drawn(axes, v["step"], norms, g, colour=style.LOOKS[GROUPS[g][0]].colour)

    def test_figure_7_gradients(self):
        v, figure = self.result, self.figure(layer_gradients, "figure-7-gradients")
        for g in self.rows():
            look = style.LOOKS[GROUPS[g][0]]
            axes = self.panel(figure, look.label)
            theory, margin = v["theory_layer_gradient"][g], 2 * v["theory_layer_gradient_stderr"][g]
            self.drawn(axes, v["layer"], theory, ("theory", g), marker="None", colour=look.colour)
            (band,) = [c.get_paths()[0].vertices for c in axes.collections if not hasattr(c, "get_segments")]
            for edge in (theory - margin, theory + margin):
                for x, y in zip(v["layer"], edge, strict=True):
                    self.assertTrue(np.isclose(band, (x, y), rtol=1e-9).all(axis=1).any(), ("error of theory", g))
            for r, face, joined in ((0, "white", "None"), (-1, look.colour, "-")):
                mean, error = v["layer_gradient_mean"][g, r], v["layer_gradient_stderr"][g, r]
                self.drawn(axes, v["layer"], mean, (r, g), marker=look.marker, face=face, style=joined)
                self.geometric_bars(axes, v["layer"], mean, error, (r, g))

    def test_figure_9_angles(self):
        v, figure = self.result, self.figure(redundancy, "figure-9-angles")
        shown = self.rows("base", "post", "pre", "peri") + self.rows("frozen", "peri")
        images = [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes if axes.get_images()]
        self.assertEqual(len(images), 2 * len(shown))
        for row, r in enumerate((0, len(RECORDS) - 1)):
            for column, g in enumerate(shown):
                np.testing.assert_array_equal(images[row * len(shown) + column], v["angular_distance_mean"][g, r],
                                              (r, g))
        self.assertIn("after 24 steps", figure.axes[len(shown)].get_ylabel())

    def test_figure_9_gains(self):
        v, figure = self.result, self.figure(redundancy, "figure-9-gains")
        for g, title in ((self.rows("base", "peri")[0], "Peri-LN"),
                         (self.rows("frozen", "peri")[0], "Peri-LN, output gains frozen")):
            axes = self.panel(figure, title)
            for r, marker in zip((0, 3, 5, 7), redundancy.MARKERS, strict=True):
                mean, error = v["gain_b_mean"][g, r], v["gain_b_stderr"][g, r]
                self.drawn(axes, v["sublayer"], mean, (g, r), marker=marker)
                self.bars(axes, v["sublayer"], mean - 2 * error, mean + 2 * error, (g, r))

    def test_figure_10_decay_and_init(self):
        v, figure = self.result, self.figure(decay_init, "figure-10-decay-init")
        kinds = (("decay", ["weight decay 0", "base: weight decay 0.033", "weight decay 0.33"]),
                 ("init", ["variance 0.1/d", "base: std 0.02", "variance 10/d"]))  # fmt: skip
        for row, (study, names) in enumerate(kinds):
            losses = figure.axes[3 * row + 2]
            self.assertEqual([label.get_text() for label in losses.get_yticklabels()], names)
            for column, placement in enumerate(("pre", "peri")):
                axes = figure.axes[3 * row + column]
                for place, name in enumerate(names):
                    g = next(g for g, of in enumerate(GROUPS) if of[0] == placement
                             and (of[1] == "base" if name.startswith("base") else of[2] == name
                                  and of[1] == study))  # fmt: skip
                    self.drawn(axes, v["depth"], v["variance_mean"][g, -1], (name, g), marker=decay_init.MARKERS[place],
                               colour=losses.get_yticklabels()[place].get_color())  # fmt: skip
                    mean, error = v["final_loss_mean"][g], v["final_loss_stderr"][g]
                    points = [p for p in np.concatenate(self.lines(losses, colour=style.LOOKS[placement].colour))
                              if np.isclose(p[0], mean, rtol=1e-12)]  # fmt: skip
                    self.assertEqual(len(points), 1, (name, g))
                    self.assertLess(abs(points[0][1] - place), 0.4, (name, g))
                    self.bars(losses, points[0][1], mean - 2 * error, mean + 2 * error, (name, g), horizontal=True)

    def test_figure_11_extremes(self):
        v, (axes,) = self.result, self.figure(extremes, "figure-11-extremes").axes
        for g in self.rows("base", "pre", "peri"):
            for seed in range(SEEDS):
                for name in ("top_first", "top_last"):
                    self.drawn(axes, RECORDS, v[name][g, seed], (name, g, seed),
                               colour=style.LOOKS[GROUPS[g][0]].colour)

    def test_growth(self):
        v, figure = self.result, self.figure(growth_identity, "growth")
        for g in self.rows():
            axes = self.panel(figure, style.LOOKS[GROUPS[g][0]].label)
            self.drawn(axes, v["depth"], v["theory_second_moment"][g], ("theory", g), marker="None",
                       colour=growth_identity.STEPS[0].colour)  # fmt: skip
            for r, look in zip((0, 3, 7), growth_identity.STEPS, strict=True):
                mean, error = v["second_moment_mean"][g, r], v["second_moment_stderr"][g, r]
                self.drawn(axes, v["depth"], mean, (r, g), colour=look.colour, marker=look.marker)
                self.geometric_bars(axes, v["depth"], mean, error, (r, g))
                self.drawn(axes, v["depth"], v["eq4_mean"][g, r], ("Eq. 4", r, g), colour=look.colour, marker="None")
            for curve in v["scaled_second_moment"][g]:
                self.drawn(axes, v["depth"], curve, ("scales", g), colour=growth_identity.RANDOM)
        (last,) = self.figure(growth_identity, "eq-4-gap").axes
        for g in self.rows():
            for share in v["cosine_share"][g]:
                self.drawn(last, RECORDS, share, g, colour=style.LOOKS[GROUPS[g][0]].colour)

    def test_growth_parts(self):
        v, (axes,) = self.result, self.figure(growth_identity, "growth-parts").axes
        for row, g in enumerate(self.rows()):
            self.drawn(axes, v["growth_from_scales"][g], [row - 0.2] * SEEDS, g, marker="o", colour="#0072B2")
            self.drawn(axes, v["growth_from_sizes_inside"][g], [row] * SEEDS, g, marker="D", colour="#CC79A7")
            self.drawn(axes, v["growth_from_alignment"][g], [row + 0.2] * SEEDS, g, marker="s", colour="#D55E00")
        labels = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(labels, [style.LOOKS[GROUPS[g][0]].label for g in self.rows()])

    def test_table_5_losses(self):
        v, (axes,) = self.result, self.figure(final_losses, "table-5-losses").axes
        shown = self.rows() + self.rows("frozen", "peri") + self.rows("layer-norm", "peri") + self.rows("olmo",
                                                                                                        "b-only")
        labels = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(labels, [groups.label(v, g) for g in shown])
        self.assertEqual(labels[5:], ["Peri-LN, output gains frozen", "Peri-LN, LayerNorm", "B-only, QK-norm (OLMo 2)"])
        for row, g in enumerate(shown):
            look, mean, error = style.LOOKS[GROUPS[g][0]], v["final_loss_mean"][g], v["final_loss_stderr"][g]
            self.drawn(axes, v["final_loss"][g], [row + 0.22] * SEEDS, g, marker=".", colour=look.colour)
            self.drawn(axes, [mean], [row - 0.08], g, marker=look.marker, colour=look.colour)
            self.bars(axes, row - 0.08, mean - 2 * error, mean + 2 * error, g, horizontal=True)

    def test_no_two_ticks_touch_and_no_text_is_cut(self):
        for kind, name in ((growth_over_depth, "figure-1-variance"), (growth_identity, "growth"),
                           (growth_identity, "eq-4-gap"), (extremes, "figure-11-extremes"),
                           (stability, "figure-4-instability"), (rate_sweeps, "figure-3-rates")):  # fmt: skip
            self.legible(self.figure(kind, name), name)
        self.legible(self.figure(training, "training", planted_train()), "training")

    def test_in_a_narrow_figure_panels_stand_below_each_other(self):
        style.use_width(3.3)
        try:
            figure = self.figure(training, "training", planted_train())
        finally:
            style.PAGE, style.PANEL = 7.0, 4.6
        self.assertEqual(figure.get_figwidth(), 3.3)
        self.legible(figure, "training")
        boxes = [axes.get_window_extent() for axes in figure.axes]
        self.assertTrue(all(one.y0 > other.y1 for one, other in zip(boxes, boxes[1:], strict=False)), "one column")

    def test_claims_have_ticks_apart_and_mark_what_is_decided_with_all(self):
        p = np.array([1e-11, 1e-4, 0.03, 0.5, 0.97, np.nan])
        n = len(p)
        made = {"claim": np.array([f"F{k}" for k in range(n)]), "claim_exhibit": np.array(["1"] * n),
                "claim_statement": np.array(["one is larger than another"] * n), "claim_p": p,
                "claim_verdict": np.array(["holds", "holds", "holds", "not-shown", "fails", "not-shown"]),
                "claim_mean": np.where(np.isfinite(p), 1.0, np.nan), "claim_stderr": np.full(n, 0.1),
                "claim_holm": np.array([1e-9, 1e-3, 0.3, 1.0, 0.3, np.nan]), "claim_detectable": np.full(n, np.nan)}
        figure = self.figure(claims, "claims", Result(self.result.path, {**self.result.variables, **made},
                                                      self.result.attributes, CONFIG))  # fmt: skip
        self.legible(figure, "claims")
        self.assertFalse([t for t in figure.axes[0].texts if "nan" in t.get_text()])
        faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines() if line.get_marker() in "oXs"]
        self.assertEqual([face == "white" for face in faces], [False, False, True, True, True, True])
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertTrue([words for words in legend if words.startswith("hollow: ")])

    def legible(self, figure, name):
        """Neighbouring tick labels of an axis do not touch, and no text leaves the figure."""
        figure.draw_without_rendering()
        for axes in figure.axes:
            for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
                boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_visible()
                         and label.get_text() and axis.get_view_interval().min() <= (
                             label.get_position()[0 if axis is axes.xaxis else 1]) <= axis.get_view_interval().max()]
                boxes.sort(key=lambda box: getattr(box, low))
                for one, other in zip(boxes, boxes[1:], strict=False):
                    self.assertLess(getattr(one, high), getattr(other, low), (name, axes.get_title()))
        for text in figure.texts:
            self.assertLessEqual(text.get_window_extent().x1, figure.bbox.x1, (name, text.get_text()))
        for axes in figure.axes:
            self.assertLessEqual(axes.title.get_window_extent().x1, figure.bbox.x1, (name, axes.get_title()))

    # -- train --------------------------------------------------------------------------------------------------------

    def test_train(self):
        v = planted_train()
        figure = self.figure(training, "training", v)
        loss, gradient, top, depth = figure.axes
        for p, placement in enumerate(("pre", "peri")):
            look = style.LOOKS[placement]
            for s in range(SEEDS):
                what = (placement, s)
                variance = v["variance_measured"][p, s]
                self.drawn(loss, v["step"], v["loss"][p, s], what, colour=look.colour, marker="None")
                self.drawn(loss, RECORDS, v["validation_loss"][p, s], what, colour=look.colour, marker=look.marker)
                self.drawn(gradient, v["step"], v["grad_norm"][p, s], what, colour=look.colour)
                self.drawn(top, RECORDS, variance[:, -1], what, colour=look.colour, marker=look.marker)
                for record, face in ((-1, look.colour), (0, "white")):
                    self.drawn(depth, v["depth"], variance[record], what, marker=look.marker, face=face)
        self.assertEqual([line.get_ydata()[0] for line in loss.get_lines() if line.get_linestyle() == ":"], [0.75])
        self.assertIn("Diverged: Pre-LN (1 of 3 seeds).", figure.caption)
        self.assertEqual(depth.get_title(), "Over depth: before training and after 24 steps")

    def test_a_caption_names_what_differs_from_defaults_and_between_stacks(self):
        v = planted_train()
        v.variables["placement"] = np.array(["peri, qk_norm none", "peri, qk_norm full", "mine"])
        v.variables["placement_settings"] = np.array([f'{{"model.qk_norm": "{q}"}}' for q in ("none", "full", "full")])
        v.attributes["config_differences"] = '{"input.second_moment": 0.0004, "model.vocab": 256, "model.width": 16}'
        words = captions.setting(v)
        self.assertIn("Other than by default: model.vocab 256.", words)
        self.assertIn("Curves differ in model.qk_norm: none (Peri-LN, qk_norm none), "
                      "full (Peri-LN, qk_norm full; mine).", words)  # fmt: skip
        v.variables["placement"] = np.array(["llama, std 0.02", "llama, std 0.05", "mine, std 0.02"])
        v.variables["placement_settings"] = np.array(
            [f'{{"init.std": {std}, "model.placement": "{p}", "model.recipe": "{r}"}}'
             for std, p, r in ((0.02, "pre", "llama"), (0.05, "pre", "llama"), (0.02, "b-only", ""))])  # fmt: skip
        self.assertIn("Curves differ in init.std: as the legend says; model.placement: Pre-LN (llama), B-only (mine);",
                      captions.setting(v))  # fmt: skip
        v.variables["placement"] = np.array(["peri, qk_norm none", "peri, qk_norm full", "mine"])
        looks = style.looks(v["placement"])
        self.assertEqual(len({look.colour for look in looks}), 3)
        self.assertEqual(looks[0].colour, style.LOOKS["peri"].colour)

    # -- probe --------------------------------------------------------------------------------------------------------

    def test_probe_growth_has_circles_for_attention_and_squares_for_mlps(self):
        numbers, sublayer = Numbers(), np.arange(2 * LAYERS)
        v = {name: numbers(2 * LAYERS) for name in ("growth_stream_share", "growth_branch_share", "growth_cross_share",
                                                    "growth_cross_over_branch", "growth_branch",
                                                    "branch_from_gains")}  # fmt: skip
        v |= {"sublayer": sublayer, "token": np.arange(8)}
        figure = probe._growth(Result(pathlib.Path("probe.nc"), v, ATTRIBUTES, CONFIG))
        ratio = v["growth_cross_over_branch"]
        for first, marker, words in ((0, "o", "attention"), (1, "s", "MLP")):
            self.drawn(figure.axes[1], sublayer[first::2], ratio[first::2], words, marker=marker)
            keys = [key for key in figure.legends[0].get_lines() if key.get_label() == words]
            self.assertEqual([key.get_marker() for key in keys], [marker])


if __name__ == "__main__":
    unittest.main()

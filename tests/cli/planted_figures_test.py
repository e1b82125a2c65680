"""The figures of `reproduce`, drawn from planted numbers: what is drawn is of the group, the record, the layer and the
seed that it should be, with the error bars and markers that the legend says. Usage: planted_figures_test.py

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import pathlib
import tempfile
import unittest

from planted_results import (
    ATTRIBUTES,
    CONFIG,
    GROUPS,
    LAYERS,
    RECORDS,
    SEEDS,
    FigureTest,
    Numbers,
    arrays,
    planted_reproduce,
    planted_train,
    result,
)
from plotting import figures_of, with_columns

# isort: split
import numpy as np
import xarray as xr

from plots import (
    attenuation,
    claims,
    claims_together,
    decay_init,
    drawing,
    extremes,
    final_losses,
    groups,
    growth_identity,
    growth_over_depth,
    kinds,
    layer_gradients,
    rate_sweeps,
    reader,
    redundancy,
    stability,
    style,
    together,
    training,
)


class ReproduceFigures(FigureTest):
    @classmethod
    def setUpClass(cls):
        cls.result = planted_reproduce()
        cls.values = arrays(cls.result)

    def claiming(self, columns):
        """The result with these claims, and no others."""
        without = self.result.drop_vars([name for name, v in self.result.variables.items() if "claim" in v.dims])
        return without.assign({name: ("claim", values) for name, values in columns.items()})

    def test_figure_1_variance(self):
        v, figure = self.values, self.figure(growth_over_depth, "figure-1-variance")
        self.assertEqual(groups.records(self.result, growth_over_depth.SHARES), [0, 1, 3, 5, 7])
        for r, title in {0: "Before training", 1: "After 1 steps", 3: "After 5 steps", 5: "After 12 steps",
                         7: "After 24 steps"}.items():  # fmt: skip
            axes = self.panel(figure, title)
            for g in self.rows():
                look = style.LOOKS[GROUPS[g][0]]
                mean, error = v["variance_measured"][g, r], v["variance_stderr"][g, r]
                line = v["variance_predicted"][g] if r == 0 else mean
                self.drawn(axes, v["depth"], line, (title, g), colour=look.colour, marker="None")
                (points,) = self.lines(axes, colour=look.colour, marker=look.marker)
                at = points[:, 0].astype(int)
                np.testing.assert_allclose(points[:, 1], mean[at], err_msg=f"{title} {g}")
                self.geometric_bars(axes, at, mean[at], error[at], (title, g))
        top = self.panel(figure, "At the top of the stack")
        for g in self.rows():
            look = style.LOOKS[GROUPS[g][0]]
            mean, error = v["variance_measured"][g, :, -1], v["variance_stderr"][g, :, -1]
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
        v = self.values
        for axes, look, members, _ in self.sweeps(self.result):
            rate, mean, error = (v[name][members] for name in ("lr", "final_loss_mean", "final_loss_stderr"))
            self.drawn(axes, rate, mean, members, colour=look.colour, marker=look.marker, face=look.colour)
            self.bars(axes, rate, mean - 2 * error, mean + 2 * error, members)

    def test_figure_3_has_a_hollow_marker_where_any_seed_diverged(self):
        v = self.values
        diverged = np.full_like(v["diverged_at"], np.nan)
        one, every = self.rows("rates", "pre")[0], self.rows("base", "pre")[0]
        diverged[one, 1] = 7.0
        diverged[every] = 3.0
        result = with_columns(self.result, {"diverged_at": diverged})
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
        v, figure = self.values, self.figure(stability, "figure-4-instability")
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
        v, (axes,) = self.values, self.figure(stability, "figure-5-last-layer").axes
        self.assertEqual(len(axes.get_lines()), 3 * SEEDS)
        for g in self.rows("base", "post", "pre", "peri"):
            for norms in v["last_layer_grad_norm"][g]:
                self.drawn(axes, v["step"], norms, g, colour=style.LOOKS[GROUPS[g][0]].colour)

    def test_figure_7_gradients(self):
        v, figure = self.values, self.figure(layer_gradients, "figure-7-gradients")
        for g in self.rows():
            look = style.LOOKS[GROUPS[g][0]]
            axes = self.panel(figure, look.label)
            theory, margin = v["layer_gradient_predicted"][g], 2 * v["layer_gradient_predicted_stderr"][g]
            self.drawn(axes, v["layer"], theory, ("theory", g), marker="None", colour=look.colour)
            (band,) = [c.get_paths()[0].vertices for c in axes.collections if not hasattr(c, "get_segments")]
            for edge in (theory - margin, theory + margin):
                for x, y in zip(v["layer"], edge, strict=True):
                    self.assertTrue(np.isclose(band, (x, y), rtol=1e-9).all(axis=1).any(), ("error of theory", g))
            for r, face, joined in ((0, "white", "None"), (-1, look.colour, "-")):
                mean, error = v["layer_gradient_measured"][g, r], v["layer_gradient_stderr"][g, r]
                self.drawn(axes, v["layer"], mean, (r, g), marker=look.marker, face=face, style=joined)
                self.geometric_bars(axes, v["layer"], mean, error, (r, g))
                low, high = axes.get_ylim()
                self.assertTrue((mean * np.exp(-2 * error) > low).all() and (mean * np.exp(2 * error) < high).all())

    def test_figure_7_is_not_squeezed_by_error_bars_of_few_seeds(self):
        wide = np.full_like(self.values["layer_gradient_stderr"], 8.0)  # ± 14 decades
        figure = self.figure(layer_gradients, "figure-7-gradients", with_columns(self.result,
                                                                                 {"layer_gradient_stderr": wide}))
        low, high = figure.axes[0].get_ylim()
        self.assertLess(np.log10(high / low), 3, "numbers from 1 to 2, and a decade on each side")

    def test_figures_9_carry_the_claims_that_they_show(self):
        names = ("F10a", "F10b", "F11a", "F11b")
        made = {"claim": np.array(names), "claim_exhibit": np.full(4, "9"), "claim_verdict": np.full(4, "holds"),
                "claim_statement": np.full(4, "one is larger"), "claim_p": np.full(4, 0.01),
                "claim_holm": np.full(4, 0.04)}  # fmt: skip
        result = self.claiming(made)
        for name, shown in (("figure-9-angles", names[:2]), ("figure-9-gains", names[2:])):
            figure = self.figure(redundancy, name, result)
            self.assertEqual((figure.texts, "Claims" in figure.caption), ([], False), "only on request")
            with tempfile.TemporaryDirectory() as folder:
                list(drawing.save(figure, pathlib.Path(folder) / name, drawing.Options(formats=("svg",), claims=True)))
            head = [text.get_text() for text in figure.texts]
            self.assertEqual([words.partition(" ")[0] for words in head if words.startswith("F")], list(shown))
            self.assertIn("Claims: one-sided tests", figure.caption)

    def test_figure_9_angles(self):
        v, figure = self.values, self.figure(redundancy, "figure-9-angles")
        shown = self.rows("base", "post", "pre", "peri") + self.rows("frozen", "peri")
        images = [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes if axes.get_images()]
        self.assertEqual(len(images), 2 * len(shown))
        for row, r in enumerate((0, len(RECORDS) - 1)):
            for column, g in enumerate(shown):
                np.testing.assert_array_equal(images[row * len(shown) + column], v["angular_distance_measured"][g, r],
                                              (r, g))
        self.assertIn("after 24 steps", figure.axes[len(shown)].get_ylabel())

    def test_figure_9_gains(self):
        v, figure = self.values, self.figure(redundancy, "figure-9-gains")
        for g, title in ((self.rows("base", "peri")[0], "Peri-LN"),
                         (self.rows("frozen", "peri")[0], "Peri-LN, output gains frozen")):
            axes = self.panel(figure, title)
            for r, marker in zip((0, 3, 5, 7), redundancy.MARKERS, strict=True):
                mean, error = v["gain_b_measured"][g, r], v["gain_b_stderr"][g, r]
                self.drawn(axes, v["sublayer"], mean, (g, r), marker=marker)
                self.bars(axes, v["sublayer"], mean - 2 * error, mean + 2 * error, (g, r))

    def test_figure_10_decay_and_init(self):
        v, figure = self.values, self.figure(decay_init, "figure-10-decay-init")
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
                    self.drawn(axes, v["depth"], v["variance_measured"][g, -1], (name, g),
                               marker=decay_init.MARKERS[place],
                               colour=losses.get_yticklabels()[place].get_color())  # fmt: skip
                    mean, error = v["final_loss_mean"][g], v["final_loss_stderr"][g]
                    points = [p for p in np.concatenate(self.lines(losses, colour=style.LOOKS[placement].colour))
                              if np.isclose(p[0], mean, rtol=1e-12)]  # fmt: skip
                    self.assertEqual(len(points), 1, (name, g))
                    self.assertLess(abs(points[0][1] - place), 0.4, (name, g))
                    self.bars(losses, points[0][1], mean - 2 * error, mean + 2 * error, (name, g), horizontal=True)

    def test_figure_11_extremes(self):
        v, (axes,) = self.values, self.figure(extremes, "figure-11-extremes").axes
        for g in self.rows("base", "pre", "peri"):
            for seed in range(SEEDS):
                for name in ("top_first", "top_last"):
                    self.drawn(axes, RECORDS, v[name][g, seed], (name, g, seed),
                               colour=style.LOOKS[GROUPS[g][0]].colour)

    def test_growth(self):
        v, figure = self.values, self.figure(growth_identity, "growth")
        for g in self.rows():
            axes = self.panel(figure, style.LOOKS[GROUPS[g][0]].label)
            self.drawn(axes, v["depth"], v["second_moment_predicted"][g], ("theory", g), marker="None",
                       colour=growth_identity.STEPS[0].colour)  # fmt: skip
            for r, look in zip((0, 3, 7), growth_identity.STEPS, strict=True):
                mean, error = v["second_moment_measured"][g, r], v["second_moment_stderr"][g, r]
                self.drawn(axes, v["depth"], mean, (r, g), colour=look.colour, marker=look.marker)
                self.geometric_bars(axes, v["depth"], mean, error, (r, g))
                self.drawn(axes, v["depth"], v["eq4_measured"][g, r], ("Eq. 4", r, g), colour=look.colour,
                           marker="None")
            for curve in v["scaled_second_moment"][g]:
                self.drawn(axes, v["depth"], curve, ("scales", g), colour=growth_identity.RANDOM)
        (last,) = self.figure(growth_identity, "eq-4-gap").axes
        for g in self.rows():
            for share in v["cosine_share"][g]:
                self.drawn(last, RECORDS, share, g, colour=style.LOOKS[GROUPS[g][0]].colour)

    def test_growth_parts(self):
        v, (axes,) = self.values, self.figure(growth_identity, "growth-parts").axes
        for row, g in enumerate(self.rows()):
            self.drawn(axes, v["growth_from_scales"][g], [row - 0.2] * SEEDS, g, marker="o", colour="#0072B2")
            self.drawn(axes, v["growth_from_sizes_inside"][g], [row] * SEEDS, g, marker="D", colour="#CC79A7")
            self.drawn(axes, v["growth_from_alignment"][g], [row + 0.2] * SEEDS, g, marker="s", colour="#D55E00")
            given, alone = v["growth_from_scales_given_directions"][g], v["growth_from_directions"][g]
            self.drawn(axes, given, [row - 0.3] * SEEDS, g, marker="o", edge="#0072B2")
            self.drawn(axes, alone, [row + 0.3] * SEEDS, g, marker="s", edge="#D55E00")
        labels = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(labels, [style.LOOKS[GROUPS[g][0]].label for g in self.rows()])

    def test_table_5_losses(self):
        v, (axes,) = self.values, self.figure(final_losses, "table-5-losses").axes
        shown = self.rows() + self.rows("frozen", "peri") + self.rows("layer-norm", "peri") + self.rows("olmo",
                                                                                                        "b-only")
        labels = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(labels, [groups.label(self.result, g) for g in shown])
        self.assertEqual(labels[5:], ["Peri-LN, output gains frozen", "Peri-LN, LayerNorm", "B-only, QK-norm (OLMo 2)"])
        for row, g in enumerate(shown):
            look, mean, error = style.LOOKS[GROUPS[g][0]], v["final_loss_mean"][g], v["final_loss_stderr"][g]
            self.drawn(axes, v["final_loss"][g], [row + 0.22] * SEEDS, g, marker=".", colour=look.colour)
            self.drawn(axes, [mean], [row - 0.08], g, marker=look.marker, colour=look.colour)
            self.bars(axes, row - 0.08, mean - 2 * error, mean + 2 * error, g, horizontal=True)

    def test_attenuation_draws_the_claimed_rate_down_from_the_top(self):
        numbers, cases = Numbers(), 2  # Post-LN, whose rate is claimed, and Pre-LN
        v = {"placement": ("case", ["post", "pre"]), "qk_factor": ("case", [0.0, 0.0]), "claim": ("case", ["G10", ""]),
             "claimed_rate": ("case", [0.5 * np.log(2 / 3), np.nan]),
             "layers_passed": ("layers_passed", np.arange(LAYERS + 1)), "layer": ("layer", np.arange(LAYERS))}
        for name, along, size in (("log_stream", "layers_passed", LAYERS + 1), ("log_down", "layer", LAYERS)):
            for version in ("predicted", "predicted_stderr", "measured", "stderr"):
                v[f"{name}_{version}"] = (f"case {along}", numbers(cases, size) / 9)
        figure = self.figure(attenuation, "attenuation", result(v, CONFIG, ATTRIBUTES))
        for axes, name, along in zip(figure.axes, ("log_stream", "log_down"), ("layers_passed", "layer"), strict=True):
            x, top = v[along][1], np.exp(v[f"{name}_predicted"][1][0, -1])
            claimed = [top * (2 / 3) ** ((x[-1] - at) / 2) for at in x]  # less and less towards the bottom
            self.drawn(axes, x, claimed, name, colour=attenuation.CLAIM["color"])

    def test_no_two_ticks_touch_and_no_text_is_cut(self):
        for kind, name in ((growth_over_depth, "figure-1-variance"), (growth_identity, "growth"),
                           (growth_identity, "eq-4-gap"), (extremes, "figure-11-extremes"),
                           (stability, "figure-4-instability"), (rate_sweeps, "figure-3-rates")):  # fmt: skip
            self.legible(self.figure(kind, name), name)
        self.legible(self.figure(training, "training", planted_train()), "training")

    def test_in_a_narrow_figure_panels_stand_below_each_other(self):
        with style.use_width(3.3):
            figure = self.figure(training, "training", planted_train())
        self.assertEqual(figure.get_figwidth(), 3.3)
        self.legible(figure, "training")
        boxes = [axes.get_window_extent() for axes in figure.axes]
        self.assertTrue(all(one.y0 > other.y1 for one, other in zip(boxes, boxes[1:], strict=False)), "one column")

    def test_claims_have_ticks_apart_and_mark_what_is_decided_with_all(self):
        p = np.array([1e-11, 1e-4, 0.03, 0.5, 0.97, np.nan])
        n = len(p)
        made = {"claim": np.array([f"F{k}" for k in range(n)]), "claim_exhibit": np.array(["1"] * n),
                "claim_statement": np.array(["one of them is larger than the other one in every layer"] * n),
                "claim_p": p,
                "claim_verdict": np.array(["holds", "holds", "holds", "not-shown", "fails", "not-shown"]),
                "claim_mean": np.where(np.isfinite(p), 1.0, np.nan), "claim_stderr": np.full(n, 0.1),
                "claim_holm": np.array([1e-9, 1e-3, 0.3, 1.0, 0.3, np.nan]), "claim_detectable": np.full(n, np.nan)}
        for made["claim_p"][0] in (1e-4, 4e-6, 1e-11):
            figure = self.figure(claims, "claims", self.claiming(made))
            self.legible(figure, "claims")
        self.assertFalse([t for t in figure.axes[0].texts if "nan" in t.get_text()])
        faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines() if line.get_marker() in "oXs"]
        self.assertEqual([face == "white" for face in faces], [False, False, True, True, True, True])
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertTrue([words for words in legend if words.startswith("hollow: ")])

    def test_claims_of_several_regimes_stand_side_by_side(self):
        def made(names, verdicts, mean, regime):
            n = len(names)
            columns = {"claim": names, "claim_exhibit": ["1"] * n, "claim_statement": [f"about {c}" for c in names],
                       "claim_verdict": verdicts, "claim_regime": [regime] * n, "claim_mean": [mean] * n,
                       "claim_stderr": [0.1] * n, "claim_detectable": [1.0] * n,
                       "claim_p": [0.01 if v in claims.MARKERS else np.nan for v in verdicts],
                       "claim_holm": [0.04 if v in claims.MARKERS else np.nan for v in verdicts]}  # fmt: skip
            columns = {k: np.array(v, dtype=object if isinstance(v[0], str) else float) for k, v in columns.items()}
            return self.claiming(columns).assign(regime=((), np.array(regime, dtype=object)))

        low = made(["F4a", "F9c", "G7c"], ["holds", "not-testable-here", "fails"], 2.5, "σ√D 0.2, 12 layers, width 96")
        high = made(["G7c", "F4a", "R8"], ["holds", "holds", "not-run"], 1.5, "σ√D 0.88, 12 layers, width 96")
        path = {name: pathlib.Path(name) for name in ("a.nc", "b.nc")}
        together.require(path["b.nc"], high, [low])
        whole = together.merged(dict(zip(path.values(), (low, high), strict=True)))
        self.assertEqual([kind.__name__ for kind in kinds.of(whole)], ["plots.claims_together"])
        self.assertEqual(list(whole["claim"].values), ["F4a", "F9c", "G7c", "R8"])
        self.assertEqual(list(whole["result"].values), ["σ√D 0.2", "σ√D 0.88"])
        figure = self.figure(claims_together, "claims-together", whole)
        (axes,) = figure.axes
        told = {(int(t.get_position()[0]), int(t.get_position()[1])): t.get_text() for t in axes.texts}
        self.assertEqual(len(told), 6, "R8 was tested in neither")
        self.assertEqual(told[0, 1], "2.5 ± 0.1\nnot testable here")
        self.assertEqual(told[0, 2], "2.5 ± 0.1\np = 0.010, of all 0.04")
        self.assertEqual(told[1, 2], "1.5 ± 0.1\np = 0.010, of all 0.04")
        self.assertEqual(told[1, 1], "not run")
        self.assertIn("σ√D 0.88: σ√D 0.88, 12 layers", figure.caption)
        self.legible(figure, "claims-together")
        (alone,) = figures_of(claims, low).values()
        self.assertIn("Not testable here: F9c.", alone.caption)
        self.assertIn("AdamW, σ√D 0.2, 12 layers, width 96", alone.caption)
        stack = xr.Dataset({"input": ["a"], "placement": ["b"], "depth": [0],
                            "variance_predicted": (("input", "placement", "depth"), np.ones((1, 1, 1)))})  # fmt: skip
        with self.assertRaisesRegex(reader.ResultError, "with their like alone"):
            together.require(path["b.nc"], stack, [low])

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


if __name__ == "__main__":
    unittest.main()

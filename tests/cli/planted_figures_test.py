"""The figures of `reproduce`, drawn from planted numbers: what is drawn is of the group, the record, the layer and the
seed that it should be, with the error bars and markers that the legend says. Usage: planted_figures_test.py

RequiredVariables the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import pathlib
import tempfile
import unittest

from planted_results import (
    ATTRIBUTES,
    CONFIG,
    FigureTest,
    arrays,
    planted_reproduce,
    planted_train,
    result,
)
from plotting import with_columns

# isort: split
import numpy as np

from plots import captions, drawing, style


class ReproduceFigures(FigureTest):
    @classmethod
    def setUpClass(cls):
        cls.result = planted_reproduce()
        cls.values = arrays(cls.result)

    def claiming(self, columns):
        """The result with these claims, and no others."""
        without = self.result.drop_vars([name for name, v in self.result.variables.items() if "claim" in v.dims])
        return without.assign({name: ("claim", values) for name, values in columns.items()})

    def test_figure_7_is_not_squeezed_by_error_bars_of_few_seeds(self):
        wide = np.full_like(self.values["layer_gradient_stderr"], 8.0)  # ± 14 decades
        figure = self.figure("figure-7-gradients", with_columns(self.result, {"layer_gradient_stderr": wide}))
        low, high = figure.axes[0].get_ylim()
        self.assertLess(np.log10(high / low), 3, "numbers from 1 to 2, and a decade on each side")

    def test_figures_9_carry_the_claims_that_they_show(self):
        names = ("F10a", "F10b", "F11a", "F11b")
        made = {"claim": np.array(names), "claim_exhibit": np.full(4, "9"), "claim_verdict": np.full(4, "holds"),
                "claim_statement": np.full(4, "one is larger"), "claim_p": np.full(4, 0.01),
                "claim_holm": np.full(4, 0.04)}  # fmt: skip
        result = self.claiming(made)
        for name, shown in (("figure-9-angles", names[:2]), ("figure-9-gains", names[2:])):
            figure = self.figure(name, result)
            self.assertEqual((figure.texts, "Claims" in figure.caption), ([], False), "only on request")
            with tempfile.TemporaryDirectory() as folder:
                list(drawing.save(figure, pathlib.Path(folder) / name, drawing.Options(formats=("svg",), claims=True)))
            head = [text.get_text() for text in figure.texts]
            self.assertEqual([words.partition(" ")[0] for words in head if words.startswith("F")], list(shown))
            self.assertIn("Claims: one-sided tests", figure.caption)

    def test_no_two_ticks_touch_and_no_text_is_cut(self):
        for name in ("figure-1-variance", "growth", "eq-4-gap", "figure-11-extremes", "figure-4-instability",
                     "figure-3-rates"):  # fmt: skip
            self.legible(self.figure(name), name)
        self.legible(self.figure("training", planted_train()), "training")

    def test_in_a_narrow_figure_panels_stand_below_each_other(self):
        with style.use_width(3.3):
            figure = self.figure("training", planted_train())
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
            figure = self.figure("claims", self.claiming(made))
            self.legible(figure, "claims")
        self.assertFalse([t for t in figure.axes[0].texts if "nan" in t.get_text()])
        faces = [line.get_markerfacecolor() for line in figure.axes[0].get_lines() if line.get_marker() in "oXs"]
        self.assertEqual([face == "white" for face in faces], [False, False, True, True, True, True])
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertTrue([words for words in legend if words.startswith("hollow: ")])

    def test_a_caption_names_what_differs_from_defaults_and_between_stacks(self):
        differences = '{"input.second_moment": 0.0004, "model.vocab": 256, "model.width": 16}'

        def stacks(names, settings):
            columns = {"placement": ("placement", names), "placement_settings": ("placement", settings)}
            return result(columns, CONFIG, {**ATTRIBUTES, "config_differences": differences})

        names = ["peri, qk_norm none", "peri, qk_norm full", "mine"]
        words = captions.settings_text(stacks(names, [f'{{"model.qk_norm": "{q}"}}' for q in ("none", "full", "full")]))
        self.assertIn("Non-default keys: model.vocab 256.", words)
        self.assertIn("Curves differ in model.qk_norm: none (Peri-LN, qk_norm none), "
                      "full (Peri-LN, qk_norm full; mine).", words)  # fmt: skip
        v = stacks(["llama, std 0.02", "llama, std 0.05", "mine, std 0.02"],
                   [f'{{"init.std": {std}, "model.placement": "{p}", "model.recipe": "{r}"}}'
                    for std, p, r in ((0.02, "pre", "llama"), (0.05, "pre", "llama"), (0.02, "b-only", ""))])
        self.assertIn("Curves differ in init.std: see the legend; model.placement: Pre-LN (llama), B-only (mine);",
                      captions.settings_text(v))  # fmt: skip
        styles = captions.styles(v)  # recipes have the styles of their placements, several of one its shades
        self.assertEqual([s.label for s in styles], ["llama, std 0.02", "llama, std 0.05", "mine, std 0.02"])
        pre = style.STYLES["pre"]
        self.assertEqual([s.colour for s in styles],
                         [pre.colour, style.shade(pre.colour, 1), style.STYLES["b-only"].colour])
        self.assertEqual((styles[0].dash, styles[0].marker), (pre.dash, pre.marker))
        odd = ["{mine", "{}, std 0.02", "[3]", "3"]  # names that users may give
        self.assertEqual([s.label for s in style.styles(odd)], odd)
        (pre, llama) = style.styles(["pre", "llama"], ["pre", "pre"])
        self.assertEqual((pre, llama.label), (style.STYLES["pre"], "llama"))
        self.assertNotEqual((llama.colour, llama.marker), (pre.colour, pre.marker))
        styles = style.styles(names)
        self.assertEqual(len({s.colour for s in styles}), 3)
        self.assertEqual(styles[0].colour, style.STYLES["peri"].colour)

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

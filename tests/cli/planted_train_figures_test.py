"""The figures of `train`, and of `probe` where sublayers have markers of their own, drawn from planted numbers, and
what captions say of stacks that differ. Usage: planted_train_figures_test.py

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from planted_results import (
    ATTRIBUTES,
    CONFIG,
    LAYERS,
    RECORDS,
    SEEDS,
    FigureTest,
    Numbers,
    arrays,
    planted_train,
    result,
)

# isort: split
import numpy as np

from plots import captions, probe, style, training


class TrainAndProbeFigures(FigureTest):
    def test_train(self):
        planted = planted_train()
        v, figure = arrays(planted), self.figure(training, "training", planted)
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
        differences = '{"input.second_moment": 0.0004, "model.vocab": 256, "model.width": 16}'

        def stacks(names, settings):
            columns = {"placement": ("placement", names), "placement_settings": ("placement", settings)}
            return result(columns, CONFIG, {**ATTRIBUTES, "config_differences": differences})

        names = ["peri, qk_norm none", "peri, qk_norm full", "mine"]
        words = captions.setting(stacks(names, [f'{{"model.qk_norm": "{q}"}}' for q in ("none", "full", "full")]))
        self.assertIn("Other than by default: model.vocab 256.", words)
        self.assertIn("Curves differ in model.qk_norm: none (Peri-LN, qk_norm none), "
                      "full (Peri-LN, qk_norm full; mine).", words)  # fmt: skip
        v = stacks(["llama, std 0.02", "llama, std 0.05", "mine, std 0.02"],
                   [f'{{"init.std": {std}, "model.placement": "{p}", "model.recipe": "{r}"}}'
                    for std, p, r in ((0.02, "pre", "llama"), (0.05, "pre", "llama"), (0.02, "b-only", ""))])
        self.assertIn("Curves differ in init.std: as the legend says; model.placement: Pre-LN (llama), B-only (mine);",
                      captions.setting(v))  # fmt: skip
        looks = captions.looks(v)  # recipes have the looks of their placements, several of one its shades
        self.assertEqual([look.label for look in looks], ["llama, std 0.02", "llama, std 0.05", "mine, std 0.02"])
        pre = style.LOOKS["pre"]
        self.assertEqual([look.colour for look in looks],
                         [pre.colour, style.shade(pre.colour, 1), style.LOOKS["b-only"].colour])
        self.assertEqual((looks[0].dash, looks[0].marker), (pre.dash, pre.marker))
        odd = ["{mine", "{}, std 0.02", "[3]", "3"]  # names that users may give
        self.assertEqual([look.label for look in style.looks(odd)], odd)
        (pre, llama) = style.looks(["pre", "llama"], ["pre", "pre"])
        self.assertEqual((pre, llama.label), (style.LOOKS["pre"], "llama"))
        self.assertNotEqual((llama.colour, llama.marker), (pre.colour, pre.marker))
        looks = style.looks(names)
        self.assertEqual(len({look.colour for look in looks}), 3)
        self.assertEqual(looks[0].colour, style.LOOKS["peri"].colour)

    def test_probe_growth_has_circles_for_attention_and_squares_for_mlps(self):
        numbers, sublayer = Numbers(), np.arange(2 * LAYERS)
        names = ("growth_stream_share", "growth_branch_share", "growth_cross_share", "growth_cross_over_branch",
                 "growth_branch", "branch_from_gains")  # fmt: skip
        v = {name: ("sublayer", numbers(2 * LAYERS)) for name in names}
        v |= {"sublayer": ("sublayer", sublayer), "token": ("token", np.arange(8))}
        figure = probe._growth(result(v, CONFIG, ATTRIBUTES))
        _, ratio = v["growth_cross_over_branch"]
        for first, marker, words in ((0, "o", "attention"), (1, "s", "MLP")):
            self.drawn(figure.axes[1], sublayer[first::2], ratio[first::2], words, marker=marker)
            keys = [key for key in figure.legends[0].get_lines() if key.get_label() == words]
            self.assertEqual([key.get_marker() for key in keys], [marker])


if __name__ == "__main__":
    unittest.main()

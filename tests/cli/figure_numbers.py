"""Figures against the JSON of the same run: lines, bands, markers, bars, axes, and which legend names which colour.
Nothing of plots/ reads or computes what is expected here. Usage: figure_numbers.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import SMALL, SWEEPS, SharedFolderTest, run_result
from plotting import figures_of  # first of what needs packages

# isort: split
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from plots import kinds, reader

PLACEMENTS = {"post": "Post-LN", "pre": "Pre-LN", "peri": "Peri-LN"}
READING = "line: theory, marker: measured"
MATRICES = ("q", "k", "v", "o", "gate", "up", "down")
LAYERS, DEPTHS = 3, 7
STACK = SMALL.replace("layers = 2", f"layers = {LAYERS}").replace('["pre", "peri"]',
                                                                  '["post", "pre", "peri"]') + SWEEPS + """
[ladder]
widths = [32, 64, 96, 128]
seeds = 32
"""
# A figure's numbers are JSON's, through at most an exponential and a product.
SAME = {"rtol": 1e-12, "atol": 1e-14}


def colours(figure):
    """Label to colour and marker of every stack, as the legend says."""
    (legend,) = figure.legends
    return {h.get_label(): (to_hex(h.get_color()), h.get_marker()) for h in legend.legend_handles
            if hasattr(h, "get_marker") and h.get_label() != READING}  # fmt: skip


class Drawn:
    """What one panel shows in one colour."""

    def __init__(self, axes, colour):
        bars = [c for c in axes.containers if to_hex(c.lines[0].get_color()) == colour]
        of_bars = {id(c.lines[0]) for c in bars}
        self.lines = [line.get_xydata() for line in axes.get_lines() if to_hex(line.get_color()) == colour and
                      line.get_linestyle() != "None" and id(line) not in of_bars]  # fmt: skip
        self.bands = [c.get_paths()[0].vertices for c in axes.collections if isinstance(c, PolyCollection)
                      and to_hex(c.get_facecolor()[0]) == colour]  # fmt: skip
        self.marked = [c.lines[0].get_xydata() for c in bars]
        self.marks = {c.lines[0].get_marker() for c in bars}
        self.across, self.bars = ([np.array([s[1] - s[0] for s in c.lines[2][way].get_segments()]) for c in bars]
                                  for way in (0, -1))

    def band(self, x):
        """Its lower and upper edge at x."""
        (vertices,) = self.bands
        at = [vertices[np.isclose(vertices[:, 0], v, rtol=1e-9, atol=1e-12), 1] for v in x]
        return np.array([a.min() for a in at]), np.array([a.max() for a in at])


class Numbers(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "small.toml").write_text(STACK)
        cls.found = {}

    def result(self, *command, name):
        if name not in self.found:
            json_result, _ = run_result(*command, "--config", self.folder / "small.toml", "--out", self.folder,
                                        "--quiet")
            self.found[name] = json_result, reader.read(self.folder / f"{name}.nc")
        return self.found[name]

    def figure(self, kind, file, name=None):
        module = next(k for k in kinds.KINDS if k.__name__ == f"plots.{kind}" or kind in k.FIGURES)
        drawn = figures_of(module, file)
        return drawn[name or kind]

    def check(self, axes, look, x, curve, scale=lambda v: v, slope=None, every=False, xs=None):
        """A theory line with its band of ± 2 standard errors, and markers with bars of ± 2 standard errors. `scale`
        turns JSON's values into what is drawn, `slope` is its derivative's value for an error."""
        colour, marker = look
        drawn = Drawn(axes, colour)
        m, e, t, u = (np.array(curve[k], float) for k in ("measured", "stderr", "predicted", "predicted_stderr"))
        slope = slope or (lambda v: np.ones_like(v))
        (line,) = drawn.lines
        np.testing.assert_allclose(line[:, 0], x, **SAME, err_msg="x of the theory line")
        np.testing.assert_allclose(line[:, 1], scale(t), **SAME, err_msg="theory line")
        low, high = drawn.band(x)
        np.testing.assert_allclose(low, scale(t) - 2 * slope(t) * u, rtol=1e-9, err_msg="lower edge of the band")
        np.testing.assert_allclose(high, scale(t) + 2 * slope(t) * u, rtol=1e-9, err_msg="upper edge of the band")
        self.assertEqual(drawn.marks, {marker}, "the legend's marker")
        self.assertEqual(len(drawn.marked), 1)
        at = [int(np.flatnonzero(np.isclose(x if xs is None else xs, v))[0]) for v in drawn.marked[0][:, 0]]
        self.assertGreater(len(at), 0)
        if every:
            self.assertEqual(at, list(range(len(x))), "every point is marked")
        np.testing.assert_allclose(drawn.marked[0][:, 1], scale(m)[at], **SAME, err_msg="markers")
        whole = drawn.bars[0][:, 1]
        np.testing.assert_allclose(whole, (4 * slope(m) * e)[at], rtol=1e-7, atol=1e-13,
                                   err_msg="bars: ± 2 std. errors")

    def curve(self, part, name):
        """A curve in its versions, of one stack or case."""
        return {v: part[f"{name}_{v}"] for v in ("measured", "stderr", "predicted", "predicted_stderr")}

    def cells(self, found):
        return {stack["placement"]: stack for stack in found.stacks()}

    def test_statistics_over_depth(self):
        found, file = self.result("propagate", "--backward", name="propagate")
        for kind, statistic, y_scale, words in (
                ("variance", "variance", "log", "Hidden-state variance"),
                ("token_cosine", "token_cosine", "linear", "Token cosine"),
                ("gradient", "log_grad_sq", "log", "Gradient of the hidden state")):  # fmt: skip
            figure = self.figure(kind, file)
            (axes,) = figure.axes
            if kind != "token_cosine":  # and in the one figure of both
                pair = self.figure("overview", file).axes[kind == "gradient"]
                self.assertEqual(pair.get_ylabel(), axes.get_ylabel())
                self.assertEqual([list(map(tuple, c.get_xydata())) for c in pair.get_lines()],
                                 [list(map(tuple, c.get_xydata())) for c in axes.get_lines()])
            self.assertEqual((axes.get_yscale(), axes.get_xscale()), (y_scale, "linear"))
            self.assertEqual(axes.get_xlabel(), "Sublayers passed (0: the input)")
            self.assertEqual(axes.get_title(), "Gaussian input, E[x²] = 1")
            self.assertTrue(axes.get_ylabel().startswith(words), axes.get_ylabel())
            self.assertIn("± 2 standard errors", figure.caption)
            self.assertEqual(set(colours(figure)), set(PLACEMENTS.values()))
            self.assertEqual(figure.legends[0].get_texts()[-1].get_text(), READING)
            for name, label in PLACEMENTS.items():
                with self.subTest(figure=kind, placement=name):
                    curve, how = self.curve(self.cells(found)[name], statistic), {}
                    if kind == "gradient":  # drawn as norms, of which JSON has the logarithms of squares
                        how = {"scale": lambda v: np.exp(v / 2), "slope": lambda v: np.exp(v / 2) / 2}
                    self.check(axes, colours(figure)[label], np.arange(DEPTHS), curve, **how)

    def test_dilution(self):
        found, file = self.result("propagate", "--backward", name="propagate")
        figure = self.figure("dilution", file)
        for module, axes in enumerate(figure.axes):
            self.assertTrue(axes.get_title().startswith(("Attention", "MLP")[module]))
            self.assertEqual((axes.get_xscale(), axes.get_yscale()), ("log", "log"))
            for name, label in PLACEMENTS.items():
                whole = self.curve(self.cells(found)[name].at(site="B_out"), "site_branch_ratio")
                curve = {version: values[module::2] for version, values in whole.items()}
                with self.subTest(module=module, placement=name):
                    self.check(axes, colours(figure)[label], 1 + np.arange(LAYERS), curve)

    def test_gradients_of_matrices(self):
        found, file = self.result("propagate", "--backward", name="propagate")
        figure = self.figure("weight_gradients", file, "weight-gradients-gaussian")
        self.assertEqual([axes.get_title() for axes in figure.axes], [f"$W_\\mathrm{{{m}}}$" for m in MATRICES])
        for matrix, axes in zip(MATRICES, figure.axes, strict=True):
            for name, label in PLACEMENTS.items():
                with self.subTest(matrix=matrix, placement=name):
                    curve = self.curve(self.cells(found)[name].at(weight=matrix), "weight_log_grad_sq")
                    self.check(axes, colours(figure)[label], np.arange(LAYERS), curve,
                               lambda v: np.exp(v / 2), lambda v: np.exp(v / 2) / 2)

    def test_residuals_and_what_a_verdict_could_hide(self):
        found, file = self.result("propagate", "--backward", name="propagate")
        residuals, powers = (self.figure(k, file, f"{k}-gaussian") for k in ("agreement", "power"))
        looks = colours(residuals)
        for p, (name, label) in enumerate(PLACEMENTS.items()):
            cell = self.cells(found)[name]
            for figure in (residuals, powers):
                self.assertEqual(figure.axes[p].get_title(), f"{label}: {cell['verdict']}")
            for words in ("variance", "token_cosine"):
                with self.subTest(placement=name, statistic=words):
                    c = {k: np.array(values, float) for k, values in self.curve(cell, words).items()}
                    error = np.hypot(c["stderr"], c["predicted_stderr"])
                    with np.errstate(all="ignore"):
                        z = np.where(error > 0, (c["measured"] - c["predicted"]) / error, np.nan)
                    (line,) = Drawn(residuals.axes[p], looks[words.replace("_", " ")][0]).lines
                    np.testing.assert_allclose(line, np.stack([np.arange(DEPTHS), z], 1), **SAME)
            moment = {k: np.array(cell[f"second_moment_{k}"]) for k in ("measured", "predicted")}
            (line,) = Drawn(powers.axes[p], colours(powers)["measured / predicted − 1"][0]).lines
            np.testing.assert_allclose(line[:, 1], 100 * (moment["measured"] / moment["predicted"] - 1), atol=1e-9)
            # JSON has the worst of all sites: the band over depth is within it, and on both sides of 0.
            worst = 100 * cell.at(statistic="second_moment")["statistic_power_worst"]
            (band,) = [c.get_paths()[0].vertices[:, 1] for c in powers.axes[p].collections
                       if isinstance(c, PolyCollection)]
            self.assertLessEqual(band.max(), worst * (1 + 1e-12))
            self.assertAlmostEqual(band.min(), -band.max(), places=9)
            limits = sorted({round(line.get_ydata()[0], 9) for line in powers.axes[p].get_lines()
                             if len(line.get_ydata()) == 2})  # fmt: skip
            self.assertEqual(limits, [-20.0, 0.0, 20.0], "agreement.power_limit.second_moment in per cent")

    def test_depth_and_its_exponents(self):
        found, file = self.result("gradients", "depth", name="gradient_depth")
        figure = self.figure("gradient_depth", file, "gradient-vs-depth")
        axes, side = figure.axes
        self.assertEqual((axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()), ("log", "log", "Layers $L$"))
        for row, (law, (name, label)) in enumerate(zip(found.each("law"), PLACEMENTS.items(), strict=True)):
            with self.subTest(placement=name):
                self.assertEqual(law["placement"], name)
                colour, marker = colours(figure)[label]
                drawn, curve = Drawn(axes, colour), self.curve(law, "log_gradient")
                (line,), (marked,), (bars,) = drawn.lines, drawn.marked, drawn.bars
                measured, error = (np.array(curve[k]) for k in ("measured", "stderr"))
                np.testing.assert_allclose(line[:, 1], np.exp(curve["predicted"]), **SAME)
                np.testing.assert_allclose(marked, np.stack([[1, 2, 4], np.exp(measured)], 1), **SAME)
                np.testing.assert_allclose(bars[:, 1], 4 * np.exp(measured) * error, rtol=1e-7)
                self.assertEqual(drawn.marks, {marker})
                beside = Drawn(side, colour)
                late = self.curve(law, "late_exponent")
                np.testing.assert_allclose(beside.marked[0], [[late["measured"], row]], **SAME)
                np.testing.assert_allclose(beside.bars[0][:, 0], [4 * late["stderr"]], rtol=1e-7)

    def test_score_shares(self):
        found, file = self.result("gradients", "score-path", name="score_path")
        figure = self.figure("score_path", file, "score-share")
        (axes,) = figure.axes
        self.assertEqual(axes.get_ylim(), (0, 1))
        for case, label in zip(found.each("case"), PLACEMENTS.values(), strict=True):
            with self.subTest(placement=label):
                curve = self.curve(case, "score_share")
                self.check(axes, colours(figure)[label], np.arange(LAYERS), curve, every=True)
        panels = self.figure("score_path", file, "score-path").axes
        for case, label, axes in zip(found.each("case"), PLACEMENTS.values(), panels, strict=False):
            with self.subTest(placement=label, what="without the score path"):
                verdicts = [case[k] for k in ("verdict", "without_scores_verdict")]
                lines = [label, f"whole theory: {verdicts[0]}", f"without score path: {verdicts[1]}"]
                self.assertEqual(axes.get_title().split("\n"), lines)
                (control,) = Drawn(axes, to_hex("0.45")).lines
                without = np.array(case["log_grad_sq_without_scores_predicted"])
                np.testing.assert_allclose(control, np.stack([np.arange(DEPTHS), np.exp(without / 2)], 1), **SAME)

    def test_attenuation(self):
        found, file = self.result("gradients", "attenuation", name="gradient_attenuation")
        figure = self.figure("attenuation", file)
        for factor, (stream, down) in zip((0.0, 1.0), zip(*np.reshape(figure.axes, (2, 2)), strict=True), strict=True):
            self.assertIn("Uniform attention" if factor == 0.0 else "Softmax", stream.get_title())
            for name, label in PLACEMENTS.items():
                case, = [c for c in found.each("case") if (c["placement"], c["qk_factor"]) == (name, factor)]
                for axes, key, x in ((stream, "log_stream", np.arange(LAYERS + 1)),
                                     (down, "log_down", np.arange(LAYERS))):
                    with self.subTest(factor=factor, placement=name, quantity=key):
                        curve = self.curve(case, key)
                        self.check(axes, colours(figure)[label], x, curve, np.exp, np.exp, every=True)

    def test_paths_of_the_gradient(self):
        found, file = self.result("gradients", "identity-path", name="identity_path")
        figure = self.figure("identity_path", file, "identity-path")
        share, skip, branch = figure.axes
        self.assertEqual([axes.get_yscale() for axes in figure.axes], ["log"] * 3)
        for case, label in zip(found.each("case"), PLACEMENTS.values(), strict=True):
            look = colours(figure)[label]
            with self.subTest(placement=label):
                self.check(share, look, np.arange(DEPTHS), self.curve(case, "skip_share"))
                self.check(skip, look, np.arange(DEPTHS), self.curve(case, "log_skip"), np.exp, np.exp)
                drawn = Drawn(branch, look[0])
                value, error = (case[k] for k in ("branch_term", "branch_term_stderr"))
                np.testing.assert_allclose(drawn.marked[0], np.stack([np.arange(DEPTHS - 1), value], 1), **SAME)
                np.testing.assert_allclose(drawn.bars[0][:, 1], 4 * np.array(error), rtol=1e-7)

    def test_crossover(self):
        found, file = self.result("gradients", "crossover", name="gradient_crossover")
        figure = self.figure("crossover", file)
        (axes,) = figure.axes
        self.assertEqual((axes.get_xscale(), axes.get_yscale()), ("log", "log"))
        self.assertEqual(found["placement"], ["post", "peri"], "Pre-LN is what these are divided by")
        for case, label in zip(found.each("case"), ("Post-LN", "Peri-LN"), strict=True):
            with self.subTest(placement=label):
                drawn = Drawn(axes, colours(figure)[label][0])
                ratio, size = (self.curve(case, k) for k in ("log_ratio", "log_rms_a"))
                (line,), (marked,) = drawn.lines, drawn.marked
                np.testing.assert_allclose(line, np.exp(np.stack([size["predicted"], ratio["predicted"]], 1)), **SAME)
                np.testing.assert_allclose(marked, np.exp(np.stack([size["measured"], ratio["measured"]], 1)), **SAME)
                bars = np.array(ratio["stderr"]) * np.exp(ratio["measured"])
                np.testing.assert_allclose(drawn.bars[0][:, 1], 4 * bars, rtol=1e-7, atol=1e-13)
                bars = np.array(size["stderr"]) * np.exp(size["measured"])
                np.testing.assert_allclose(drawn.across[0][:, 0], 4 * bars, rtol=1e-7, atol=1e-13)
                law = np.stack([np.exp(size["measured"]), np.exp(case["log_law_measured"])], 1)
                self.assertTrue(any(np.shape(xy) == law.shape and np.allclose(xy, law, rtol=1e-12) for xy in
                                    (x.get_xydata() for x in axes.get_lines() if x.get_marker() == "x")), "T14's law")

    def test_convergence(self):
        found, file = self.result("ladder", name="ladder")
        figure = self.figure("convergence", file)
        for row, statistic in enumerate(("second_moment", "token_cosine")):
            bias, bias_exponent, noise, noise_exponent = figure.axes[4 * row:4 * row + 4]
            self.assertEqual([a.get_xlabel() for a in (bias, noise)], ["Width $D$", "Seeds averaged"])
            drawn_fits = [f for f in found.each("convergence")
                          if f["convergence_statistic"] == statistic and f["noise_verdict"] != "not-checked"]
            for rank, fit in enumerate(drawn_fits):
                colour, _ = colours(figure)[PLACEMENTS[fit["convergence_placement"]]]
                for axes, beside, name, x in ((bias, bias_exponent, "bias", found["ladder_width"]),
                                              (noise, noise_exponent, "noise", found["group"])):
                    with self.subTest(statistic=statistic, placement=fit["convergence_placement"], panel=name):
                        marks = np.concatenate(Drawn(axes, colour).marked)
                        value, error = np.abs(fit[name]), np.array(fit[f"{name}_stderr"])
                        # beside each other; within 2 standard errors of 0 the upper end is marked
                        aside = np.array(x) * 2.0 ** (0.7 * ((rank + 0.5) / len(drawn_fits) - 0.5))
                        shown = np.where(value > 2 * error, value, value + 2 * error)
                        order = np.argsort(marks[:, 0])
                        np.testing.assert_allclose(marks[order], np.stack([aside, shown], 1), rtol=1e-9)
                        if not (name == "bias" and fit["bias_reason"]):
                            marked = Drawn(beside, colour)
                            np.testing.assert_allclose(marked.marked[0][0, 0], fit[f"{name}_exponent"], rtol=1e-12)
                            np.testing.assert_allclose(marked.bars[0][:, 0], [4 * fit[f"{name}_exponent_stderr"]],
                                                       rtol=1e-7)


if __name__ == "__main__":
    unittest.main()

"""Figures against the JSON of the same run: lines, bands, markers, bars, axes, and which legend names which colour.
Nothing of plots/ reads or computes what is expected here. Usage: figure_numbers.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import SMALL, SharedFolderTest, run_result
from plotting import figure_of  # first of what needs packages

# isort: split
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from plots import reader

PLACEMENTS = {"post": "Post-LN", "pre": "Pre-LN", "peri": "Peri-LN"}
READING = "line: theory, marker: measured"
LAYERS, DEPTHS = 3, 7
STACK = SMALL.replace("layers = 2", f"layers = {LAYERS}").replace('["pre", "peri"]',
                                                                  '["post", "pre", "peri"]')
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
            figure = figure_of(kind, file)
            (axes,) = figure.axes
            if kind != "token_cosine":  # and in the one figure of both
                pair = figure_of("overview", file).axes[kind == "gradient"]
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


if __name__ == "__main__":
    unittest.main()

"""The figures of `formats` show what the result file holds. Usage: number_formats_plot_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import FolderTest, run
from plotting import ROOT, figures_of  # noqa: F401  first of what needs packages

# isort: split
import numpy as np

from plots import number_formats, reader, style
from plots.dataset import array

FLAGS = ["--set", 'formats.format=["fp16","int8"]', "--set", "formats.certificates=false",
         "--set", "formats.massive=20", "--backward", "--quiet"]


class NumberFormatPlots(FolderTest):
    def drawn(self, *flags):
        done = run("formats", "--config", self.config, *FLAGS, "--out", self.folder, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = reader.read(self.folder / "formats.nc")
        self.assertTrue(all(name in result for name in number_formats.NEEDS))
        return result, figures_of(number_formats, result)

    def test_measured_as_markers_and_predicted_as_lines(self):
        result, figures = self.drawn()
        self.assertEqual(sorted(figures), [f"{name}-gaussian"
                                           for name in ("gradient-noise", "law", "massive", "noise")])
        look = style.LOOKS["peri"]
        site = list(array(result, "site")).index("x_out")
        panels = figures["noise-gaussian"].axes
        self.assertEqual([axes.get_title() for axes in panels], ["FP16", "INT8"])
        for f, axes in enumerate(panels, 1):
            (line,) = [li for li in axes.get_lines() if li.get_color() == look.colour and li.get_linestyle() == "-"
                       and li.get_marker() == "None" and len(li.get_xdata()) == 4]
            np.testing.assert_allclose(line.get_ydata(), array(result, "stream_sqnr_predicted")[1, f, 0, 1:])
            (markers,) = [c for c in axes.containers if c.lines[0].get_color() == look.colour]
            np.testing.assert_allclose(markers.lines[0].get_ydata(), array(result, "sqnr")[1, f, 0, site, 1:5])
            bars = [s[1, 1] - s[:, 1].mean() for s in markers.lines[2][0].get_segments()]
            np.testing.assert_allclose(bars, 2 * array(result, "sqnr_stderr")[1, f, 0, site, 1:5])
        law = figures["law-gaussian"].axes
        self.assertEqual([axes.get_title().split("\n")[0] for axes in law],
                         ["FP64 over theory", "FP16 over FP64", "INT8 over FP64"])
        (markers,) = [c for c in law[2].containers if c.lines[0].get_color() == look.colour]
        drift = array(result, "second_moment_drift")[1, 2, 0, site, :5]
        np.testing.assert_allclose(markers.lines[0].get_ydata(), drift)
        (markers,) = [c for c in figures["massive-gaussian"].axes[0].containers
                      if c.lines[0].get_color() == look.colour]
        np.testing.assert_allclose(markers.lines[0].get_ydata(), array(result, "massive_branch_cost")[1, 1:])

    def test_an_overflow_is_marked_where_it_was(self):
        result, figures = self.drawn("--set", "model.gamma=1e5", "--set", "formats.massive=1")
        look = style.LOOKS["peri"]
        axes = figures["noise-gaussian"].axes[0]
        at = array(result, "overflow_sublayer")[1, 1, 0] + 1
        self.assertIn([at, at], [list(li.get_xdata()) for li in axes.get_lines() if li.get_color() == look.colour])
        self.assertIn("first overflow", figures["noise-gaussian"].caption)


if __name__ == "__main__":
    unittest.main()

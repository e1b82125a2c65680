"""The figures of `power` and `ladder` show what the result files hold. Usage: confront_plots_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import FolderTest, run
from plotting import figures_of, with_columns  # first of what needs packages

# isort: split
import numpy as np

from plots import ladder, reader, wrong_theories
from plots.dataset import array

LIST = """
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=16"]
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
[[theory]]
name = "hardly wrong"
set = ["init.down_factor=1.000001"]
config = "small"
"""


class ConfrontPlots(FolderTest):
    def test_power_marks_what_is_rejected(self):
        (self.folder / "list.toml").write_text(LIST)
        done = run("power", "--config", self.folder / "list.toml", "--out", self.folder, "--quiet")
        self.assertEqual(done.returncode, 4, done.stderr)
        result = reader.read(self.folder / "power.nc")
        self.assertTrue(all(name in result for name in wrong_theories.NEEDS))
        ((name, figure),) = figures_of(wrong_theories, result).items()
        self.assertEqual(name, "wrong-theories")
        points = [line for line in figure.axes[0].get_lines() if line.get_marker() in ("o", ">")]
        filled = {line.get_ydata()[0] for line in points if line.get_markerfacecolor() == wrong_theories.WRONG}
        self.assertEqual((len(points), len(filled)), (3, 1))
        shown = {round(float(line.get_xdata()[0]), 6) for line in points}
        for margin in array(result, "power_excess") / array(result, "power_critical"):
            self.assertIn(round(float(np.clip(margin, wrong_theories.LEAST, wrong_theories.MOST)), 6), shown)
        # What is exact is rejected with any margin: at the right end, as far as the axis goes, and with its number.
        far = array(result, "power_excess").copy()
        far[0], far[1] = np.inf, np.nan
        result = with_columns(result, {"power_excess": far})
        (figure,) = figures_of(wrong_theories, result).values()
        axes = figure.axes[0]
        points = {line.get_marker(): line.get_xdata()[0] for line in axes.get_lines()
                  if line.get_marker() in ("o", ">")}
        self.assertEqual(points[">"], wrong_theories.MOST)
        self.assertGreater(axes.get_xlim()[1], wrong_theories.MOST)
        self.assertEqual(sum("∞" in text.get_text() for text in axes.texts), 1)

    def test_ladder_draws_points_fit_and_theory(self):
        done = run("ladder", "--config", self.folder / "small.toml", "--out", self.folder, "--quiet", "--set",
                   "ladder.widths=[32,64,96,128]", "--set", "ladder.seeds=16")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = reader.read(self.folder / "ladder.nc")
        self.assertTrue(all(name in result for name in ladder.NEEDS))
        figures = figures_of(ladder, result)
        self.assertEqual(sorted(figures), ["signals-peri-gaussian", "signals-pre-gaussian"])
        axes = figures["signals-pre-gaussian"].axes[0]
        self.assertEqual(axes.get_title().split("\n")[0], "stream, second moment")
        self.assertEqual(axes.get_ylabel(), "Measured − theory")
        self.assertEqual(figures["signals-pre-gaussian"].axes[-1].get_xlabel(), "1 / width")
        self.assertEqual([t.get_text() for t in axes.get_xticklabels()], ["0", "1/64", "1/32"], "labels do not touch")
        widths = np.array([32.0, 64, 128, 256, 1024, 4096, 16384, 65536])
        roots = np.sqrt(ladder.apart(1 / widths))
        self.assertGreater(np.diff(roots).min(), 0.2 * roots.max())
        self.assertEqual((roots[0], roots[-1]), (0, np.sqrt(1 / 32)))
        self.assertEqual([ladder.name_of(q) for q in ("score_share A_out mean over attention",
                                                      "token_cosine f_out mean over mlp",
                                                      "log_grad_sq down mean over layers",
                                                      "log_grad_sq x_out mean over stream")],
                         ["score path's share", "MLP's output, token cosine", "$W_{down}$, log ‖gradient‖²",
                          "stream, log ‖gradient‖²"])
        i = list(array(result, "quantity")).index("second_moment x_out mean over stream")
        measured = [line for line in axes.get_lines() if line.get_marker() == "o"][0]
        over = array(result, "ladder_measured")[i] - array(result, "limit_predicted")[i]
        np.testing.assert_allclose(measured.get_ydata(), over)
        np.testing.assert_allclose(measured.get_xdata(), 1 / array(result, "ladder_width"))


if __name__ == "__main__":
    unittest.main()

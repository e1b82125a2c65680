"""Figures of the gradient experiments: which there are, and that they show the files' numbers. Usage: … BINARY"""

import pathlib
import subprocess
import sys
import unittest

from periscope_process import SMALL, SWEEPS, SharedFolderTest, run
from plotting import ROOT, figures_of  # first of what needs packages

# isort: split
import numpy as np
from PIL import Image

from plots import (
    attenuation,
    crossover,
    gradient,
    gradient_depth,
    identity_path,
    reader,
    score_path,
    style,
    weight_gradients,
)
from plots.dataset import array, fact

# command, file, figures
RUNS = ((["propagate", "--backward"], "propagate", ["overview", "gradient", "weight-gradients-gaussian"]),
        (["gradients", "depth"], "gradient_depth", ["gradient-vs-depth"]),
        (["gradients", "attenuation"], "gradient_attenuation", ["attenuation"]),
        (["gradients", "identity-path"], "identity_path", ["identity-path"]),
        (["gradients", "score-path"], "score_path", ["score-share", "score-path"]),
        (["gradients", "crossover"], "gradient_crossover", ["crossover"]))


def line(axes, look):
    """What is predicted: the first line of a placement without markers."""
    return next(item.get_ydata() for item in axes.get_lines()
                if item.get_color() == look.colour and item.get_linestyle() != "None")


def points(axes, look):
    """What is measured: a placement's markers and the bars' half lengths."""
    drawn = next(c for c in axes.containers if c.lines[0].get_color() == look.colour)
    return drawn.lines[0].get_ydata(), np.array([s[1, 1] - s[:, 1].mean() for s in drawn.lines[2][-1].get_segments()])


class GradientPlots(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.folder / "small.toml"
        config.write_text(SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]') + SWEEPS)
        cls.files = {}
        for command, file, _ in RUNS:
            done = run(*command, "--config", config, "--out", cls.folder / "results", "--quiet")
            assert done.returncode == 0, done.stderr
            cls.files[file] = reader.read(cls.folder / "results" / f"{file}.nc")

    def test_every_figure_is_written(self):
        done = subprocess.run([sys.executable, "-m", "plots", self.folder / "results",
                               "--out", self.folder / "figures"],
                              capture_output=True, text=True, cwd=ROOT, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = {pathlib.Path(name) for name in done.stdout.splitlines()}
        for _, file, figures in RUNS:
            for name in figures:
                for kind in ("png", "svg"):
                    self.assertIn(self.folder / "figures" / f"{file}-{name}.{kind}", written)
                with Image.open(self.folder / "figures" / f"{file}-{name}.png") as image:
                    self.assertGreater(len(np.unique(np.asarray(image.convert("L")))), 50, f"{name} is not blank")
        of_other_runs = [p.name for p in written if p.name.split("-")[0] != "propagate"]
        self.assertEqual(len(of_other_runs), 3 * sum(len(f) for _, file, f in RUNS if file != "propagate"),
                         "a file is drawn by its own figures only")

    def check(self, axes, look, predicted, measured, error):
        np.testing.assert_allclose(line(axes, look), predicted)
        y, bars = points(axes, look)
        np.testing.assert_allclose(y, measured)
        np.testing.assert_allclose(bars, 2 * error, rtol=1e-6, atol=1e-12)

    def panels(self, kind, file, name=None):
        drawn = figures_of(kind, self.files[file])
        return (drawn[name] if name else next(iter(drawn.values()))).axes, self.files[file]

    def norms(self, data, name, place, scale=1.0):
        """Predicted and measured norms, and the standard error, from the logarithms in a file."""
        predicted, measured = (np.exp(scale * array(data, f"{name}_{v}")[place]) for v in ("predicted", "measured"))
        return predicted, measured, measured * scale * array(data, f"{name}_stderr")[place]

    def test_gradients_over_depth(self):
        (axes,), data = self.panels(gradient, "propagate")
        for p, look in enumerate(style.looks(array(data, "placement"))):
            predicted, measured, error = self.norms(data, "log_grad_sq", (0, p), 0.5)
            np.testing.assert_allclose(line(axes, look), predicted)
            y, _ = points(axes, look)
            self.assertTrue(set(np.round(y, 12)) <= set(np.round(measured, 12)))
        panels, data = self.panels(weight_gradients, "propagate")
        self.assertEqual(len(panels), 7)
        for w, axes in enumerate(panels):
            look = style.LOOKS["peri"]
            np.testing.assert_allclose(line(axes, look), self.norms(data, "weight_log_grad_sq", (0, 2, w), 0.5)[0])

    def test_score_path(self):
        (axes,), data = self.panels(score_path, "score_path", "score-share")
        for p, look in enumerate(style.looks(array(data, "placement"))):
            self.check(axes, look, *(array(data, f"score_share_{v}")[p] for v in ("predicted", "measured", "stderr")))
        panels, data = self.panels(score_path, "score_path", "score-path")
        for p, axes in enumerate(panels):
            control = [item for item in axes.get_lines() if item.get_color() == score_path.CONTROL["color"]]
            np.testing.assert_allclose(control[0].get_ydata(), np.exp(array(data, score_path.WITHOUT)[p] / 2))
            self.assertIn(array(data, "without_scores_verdict")[p], axes.get_title())

    def test_depth(self):
        (axes, side), data = self.panels(gradient_depth, "gradient_depth")
        for p, look in enumerate(style.looks(array(data, "placement"))):
            np.testing.assert_allclose(line(axes, look), np.exp(array(data, "log_gradient_predicted")[p]))
            np.testing.assert_allclose(points(axes, look)[0], np.exp(array(data, "log_gradient_measured")[p]))
            shown = np.asarray(side.containers[p].lines[0].get_xdata(), dtype=float)
            np.testing.assert_allclose(shown, array(data, "late_exponent_measured")[p])

    def test_attenuation(self):
        panels, data = self.panels(attenuation, "gradient_attenuation")
        self.assertEqual(len(panels), 4)
        for k, axes in enumerate(panels):
            name = ("log_stream", "log_down")[k // 2]
            for p, look in enumerate(style.looks(array(data, "placement")[:3])):
                self.check(axes, look, *self.norms(data, name, 3 * (k % 2) + p))

    def test_identity_path(self):
        (share, skip, branch), data = self.panels(identity_path, "identity_path")
        for p, look in enumerate(style.looks(array(data, "placement"))):
            np.testing.assert_allclose(line(share, look), array(data, "skip_share_predicted")[p])
            np.testing.assert_allclose(line(skip, look), np.exp(array(data, "log_skip_predicted")[p]))
            np.testing.assert_allclose(points(branch, look)[0], array(data, "branch_term")[p])

    def test_crossover(self):
        (axes,), data = self.panels(crossover, "gradient_crossover")
        for p, look in enumerate(style.looks(array(data, "placement"))):
            self.check(axes, look, *self.norms(data, "log_ratio", p))
        self.assertIn(fact(data, "order_claim"), axes.figure.caption)


if __name__ == "__main__":
    unittest.main()

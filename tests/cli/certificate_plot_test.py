"""The certificate's figure shows what the result file holds. Usage: certificate_plot_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import pathlib
import sys
import tempfile
import unittest

from periscope_process import run

try:
    import matplotlib  # noqa: F401
    import numpy as np
except ImportError:
    print("skipped: the packages of plots/requirements.txt are not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from plots import certificate, results  # noqa: E402


class CertificatePlot(unittest.TestCase):
    def draw(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            done = run("certify", ROOT / "tests/checkpoint/fixtures/gemma2", "--out", folder, "--quiet", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = results.read(pathlib.Path(folder) / "certify.nc")
        self.assertTrue(all(name in result for name in certificate.NEEDS))
        ((name, figure),) = certificate.draw(result)
        self.assertEqual(name, "certificate")
        return result, figure

    def test_bounds_are_lines_and_measurements_markers(self):
        result, figure = self.draw("--tokens", "1,2,3")
        for axes, curves in zip(figure.axes, certificate.PANELS.values(), strict=True):
            self.assertEqual(axes.get_yscale(), "log")
            for curve in curves:
                row = list(result["class"]).index(curve.name)
                points = slice(curve.first, None, curve.step)
                of_colour = [line for line in axes.get_lines() if line.get_color() == curve.colour]
                for name, drawn in (("class_bound", [x for x in of_colour if x.get_linestyle() != "None"]),
                                    ("class_measured", [x for x in of_colour if x.get_marker() == curve.marker])):
                    values = result[name][row][points]
                    self.assertEqual(len(drawn), 1, curve.label)
                    np.testing.assert_array_equal(drawn[0].get_ydata(), values[np.isfinite(values)])
        limits = {line.get_ydata()[0] for line in figure.axes[0].get_lines() if line.get_linewidth() == 0.7}
        self.assertEqual(limits, {448.0, 57344.0, 65504.0})

    def test_bounds_alone(self):
        _, figure = self.draw()
        markers = {line.get_marker() for axes in figure.axes for line in axes.get_lines()}
        self.assertLessEqual(markers, {"None", "_"})
        self.assertNotIn("Markers", figure.texts[0].get_text())


if __name__ == "__main__":
    unittest.main()

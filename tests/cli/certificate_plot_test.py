"""The certificate's figure shows what the result file holds. Usage: certificate_plot_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import pathlib
import tempfile
import unittest

from periscope_process import run
from plotting import ROOT, figures_of  # first of what needs packages

# isort: split
import numpy as np

from plots import certificate, reader
from plots.dataset import array


class CertificatePlot(unittest.TestCase):
    def draw(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            done = run("certify", ROOT / "tests/checkpoint/fixtures/gemma2", "--out", folder, "--quiet", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = reader.read(pathlib.Path(folder) / "certify.nc")
        self.assertTrue(all(name in result for name in certificate.NEEDS))
        ((name, figure),) = figures_of(certificate, result).items()
        self.assertEqual(name, "certificate")
        return result, figure

    def test_bounds_are_lines_and_measurements_markers(self):
        result, figure = self.draw("--tokens", "1,2,3")
        bounds = array(result, "run_bound")[list(array(result, "format")).index("fp16")]
        for axes, curves in zip(figure.axes, certificate.PANELS.values(), strict=True):
            self.assertEqual(axes.get_yscale(), "log")
            for curve in curves:
                row = list(array(result, "class")).index(curve.name)
                points = slice(curve.first, None, curve.step)
                of_colour = [line for line in axes.get_lines() if line.get_color() == curve.colour]
                for all_of, drawn in ((bounds, [x for x in of_colour if x.get_linestyle() != "None"]),
                                      (array(result, "class_measured"),
                                       [x for x in of_colour if x.get_marker() == curve.marker])):
                    values = all_of[row][points]
                    self.assertEqual(len(drawn), 1, curve.label)
                    np.testing.assert_array_equal(drawn[0].get_ydata(), values[np.isfinite(values)])
        self.assertEqual(figure.axes[0].get_ylabel(), "Largest magnitude (mixed, FP16)")
        self.assertIn("sums, norms and softmax in FP32", figure.caption)
        limits = {line.get_ydata()[0] for line in figure.axes[0].get_lines() if line.get_linewidth() == 0.7}
        self.assertEqual(limits, {448.0, 57344.0, 65504.0})

    def test_bounds_alone(self):
        _, figure = self.draw()
        markers = {line.get_marker() for axes in figure.axes for line in axes.get_lines()}
        self.assertLessEqual(markers, {"None", "_"})
        self.assertNotIn("Markers", figure.caption)

    def test_the_arithmetic_of_the_certificate_is_drawn(self):
        for flags, words, drawn in ((("--arithmetic", "pure"), "pure, FP16", "run_bound"),
                                    (("--arithmetic", "exact"), "exact", "class_bound")):
            with self.subTest(words):
                result, figure = self.draw(*flags)
                self.assertEqual(figure.axes[0].get_ylabel(), f"Largest magnitude ({words})")
                self.assertIn("exact arithmetic" if words == "exact" else "step in FP16", figure.caption)
                bounds = array(result, drawn)
                if drawn == "run_bound":
                    bounds = bounds[list(array(result, "format")).index("fp16")]
                stream = certificate.PANELS["Between modules"][0]
                (line,) = (x for x in figure.axes[0].get_lines() if x.get_color() == stream.colour)
                values = bounds[list(array(result, "class")).index("stream")]
                np.testing.assert_array_equal(line.get_ydata(), values[np.isfinite(values)])

    def test_beside_a_format_stands_what_is_certified_for_it(self):
        result, figure = self.draw()
        texts = {text.get_text() for text in figure.axes[-1].texts}
        for name, words in certificate.FORMATS.items():
            holds = array(result, "certified")[list(array(result, "format")).index(name)]
            if not any(text.startswith(words) for text in texts) or not np.isfinite(holds).all():
                continue
            count = int(holds.sum())
            some = f"{count} of {len(holds)} classes certified"
            self.assertIn(f"{words}: " + {0: "not certified", len(holds): "certified"}.get(count, some), texts)
        self.assertTrue(any("certified" in text for text in texts), texts)


if __name__ == "__main__":
    unittest.main()

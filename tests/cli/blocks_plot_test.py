"""The figure of many placements shows the most different ones with the file's numbers. Usage: … BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import SharedFolderTest, run
from plotting import draw, figures_of, with_columns  # first of what needs packages

# isort: split
import numpy as np

from plots import blocks, curves, reader, style
from plots.dataset import array

CONFIG = """
[model]
layers = 2
width = 16
heads = 2
placement = ["none", "post", "pre", "peri", "a+c", "deepnorm", "mix", "lns", "depth-scaled", "keel", "beam", "u-mup",
             "ngpt", "layer-scale", "muse-spark", "span",
             {name = "half", attention = {A = true, B = true, beta = 0.3, alpha = "1/sqrt(l+1)"}, mlp = "pre"}]
[init]
scheme = "lecun"
[input]
kind = "tokens"
tokens = 4
[run]
seeds = 4
backward = true
"""


class BlocksPlot(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.folder / "many.toml"
        config.write_text(CONFIG)
        done = run("propagate", "--config", config, "--out", cls.folder, "--quiet")
        assert done.returncode == 0, done.stderr
        cls.result = reader.read(cls.folder / "propagate.nc")
        cls.names = [str(name) for name in array(cls.result, "placement")]
        cls.every = [blocks.read(cls.result, 0, p) for p in range(len(cls.names))]

    def shown(self, result):
        """The stacks that are shown, in the order of the figure's classes, those left out, and the figure."""
        every = [blocks.read(result, 0, p) for p in range(len(self.names))]
        shown, nearest = blocks.most_different(every, [blocks.class_of(n) for n in self.names], self.names.index("pre"))
        ((name, figure),) = figures_of(blocks, result).items()
        self.assertEqual(name, "blocks-tokens")
        return shown, nearest, figure

    def test_the_twelve_most_different_stand_in_their_classes(self):
        shown, nearest, figure = self.shown(self.result)
        self.assertEqual(len(shown), blocks.SHOWN)
        self.assertIn(self.names.index("pre"), shown)
        classes = {blocks.class_of(self.names[p]) for p in range(len(self.names))}
        self.assertEqual({blocks.class_of(self.names[p]) for p in shown}, classes)
        self.assertEqual(len(figure.axes), 3 * len(classes))
        for p, (q, apart) in nearest.items():
            self.assertEqual(apart, min(blocks.difference(self.every[p], self.every[other]) for other in shown))
            self.assertIn(f"{style.looks([self.names[p]])[0].label} (", figure.caption)
            self.assertIn(q, shown)
        # Equal at initialisation, so never both: A+C's two norms and Post-LN's one, with equal gains.
        self.assertLess(blocks.difference(*(self.every[self.names.index(n)] for n in ("post", "a+c"))), 0.01)
        self.assertFalse({self.names.index("post"), self.names.index("a+c")} <= set(shown))

    def test_lines_are_theory_and_markers_measurement(self):
        shown, _, figure = self.shown(self.result)
        titles = [title for title in blocks.CLASSES if any(blocks.class_of(self.names[p]) == title for p in shown)]
        order = [p for title in titles for p in shown if blocks.class_of(self.names[p]) == title]
        looks = dict(zip(order, style.looks(self.names[p] for p in order), strict=True))

        def of(name):
            return array(self.result, name)[0]

        wanted = {
            0: lambda p, v: of(f"variance_{v}")[p] / of("variance_predicted")[p, 0],
            1: lambda p, v: np.exp(of(f"log_grad_sq_{v}")[p] / 2),
            2: lambda p, v: of(f"angular_distance_{v}")[p, 0],
        }
        for p in order:
            row = titles.index(blocks.class_of(self.names[p]))
            for column, value in wanted.items():
                axes = figure.axes[3 * row + column]
                with self.subTest(stack=self.names[p], column=column):
                    drawn = [line for line in axes.get_lines() if line.get_color() == looks[p].colour]
                    line = next(line for line in drawn if line.get_linestyle() != "None")
                    known = "predicted" if np.isfinite(value(p, "predicted")).any() else "measured"
                    np.testing.assert_allclose(line.get_ydata(), value(p, known))
                    np.testing.assert_array_equal(line.get_xdata(), [0, 0.5, 1, 1.5, 2])
                    if known == "predicted":
                        markers = next(c for c in axes.containers if c.lines[0].get_color() == looks[p].colour)
                        x, y = markers.lines[0].get_data()
                        np.testing.assert_allclose(y, value(p, "measured")[(2 * x).astype(int)])

    def test_a_stack_without_numbers_is_named_and_not_shown(self):
        peri = self.names.index("peri")
        gone = {name: array(self.result, name).copy() for name in ("variance_predicted", "variance_measured")}
        for values in gone.values():
            values[0, peri] = np.nan
        shown, nearest, figure = self.shown(with_columns(self.result, gone))
        self.assertNotIn(peri, [*shown, *nearest])
        self.assertIn("not shown: Peri-LN", figure.caption)

    def test_free_forms_have_words(self):
        """A rule for each kind of module, scales that are expressions, and what a stack differs by besides."""
        norms = '{"A": true, "B": false, "C": true, "alpha": "2L", "beta": 1.0}'
        kinds = f'{{"attention": {norms}, "mlp": "keel"}}'
        names = [kinds, norms, f"{kinds}, std 0.1", f"{norms}, norm l2", "span, x 1"]
        labels = [look.label for look in style.looks(names)]
        rule = "A+C, α = 2L, β = 1"
        self.assertEqual(labels, [f"{rule} attention, KEEL MLP", rule, f"{rule} attention, KEEL MLP, std 0.1",
                                  f"{rule}, norm l2", "SpanNorm, x 1"])  # fmt: skip

    def test_few_placements_need_no_such_figure(self):
        few = self.result.isel(placement=slice(blocks.FEWEST - 1))
        self.assertEqual(blocks.draw(few), {})
        done = draw(self.folder, "--out", self.folder / "figures", "--only", "blocks", "--width", "3.3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((self.folder / "figures" / "propagate-blocks-tokens.svg").is_file())
        self.assertTrue(curves.is_predicted(self.every[2].angle))


if __name__ == "__main__":
    unittest.main()

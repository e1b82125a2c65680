"""The figure of many placements shows the most different ones with the file's numbers. Usage: … BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import SharedFolderTest, run
from plotting import figures_of, with_columns  # first of what needs packages

# isort: split
import numpy as np

from plots import blocks, reader, style
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

    def test_a_stack_without_numbers_is_named_and_not_shown(self):
        peri = self.names.index("peri")
        gone = {name: array(self.result, name).copy() for name in ("variance_predicted", "variance_measured")}
        for values in gone.values():
            values[0, peri] = np.nan
        shown, nearest, figure = self.shown(with_columns(self.result, gone))
        self.assertNotIn(peri, [*shown, *nearest])
        self.assertIn("not shown: Peri-LN", figure.caption)


if __name__ == "__main__":
    unittest.main()

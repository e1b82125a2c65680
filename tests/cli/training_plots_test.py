"""The figures of real results of `train` and `reproduce`; those of planted numbers: planted_figures_test.py.
Usage: training_plots_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import unittest

from periscope_process import FolderTest, run, sets
from plotting import figures_of  # first of what needs packages

# isort: split
import numpy as np

from plots import (
    claims,
    decay_init,
    drawing,
    extremes,
    final_losses,
    groups,
    growth_identity,
    growth_over_depth,
    layer_gradients,
    rate_sweeps,
    reader,
    redundancy,
    stability,
    training,
)
from plots.dataset import array

KINDS = (claims, decay_init, extremes, final_losses, growth_identity, growth_over_depth, layer_gradients, rate_sweeps,
         redundancy, stability)  # fmt: skip
TINY = sets("model.layers=3", "model.width=16", "model.heads=2", "model.mlp_width=24", "model.vocab=40",
            "input.tokens=8", "train.steps=12", "train.batch=2", "train.record_every=6",
            "train.record_sequences=2")  # fmt: skip
EXHIBITS = [word for name in ("1", "8", "10", "3", "growth") for word in ("--figure", name)]


def made(folder, command, *flags):
    done = run(command, *flags, *TINY, "--seeds", "2", "--out", folder, "--quiet")
    assert done.returncode == 0, done.stderr
    return reader.read(folder / f"{command}.nc")


def markers(axes):
    """The points that are drawn, without lines between: (x, y) of each series."""
    return [np.array(line.get_xydata()) for line in axes.get_lines() if line.get_marker() not in ("", "None", None)]


class TrainingPlots(FolderTest):
    def test_reproduce(self):
        result = made(self.folder, "reproduce", *EXHIBITS)
        for kind in KINDS:
            self.assertTrue(all(name in result for name in kind.NEEDS), kind.__name__)
        written = [report.name for report in drawing.draw([self.folder / "reproduce.nc"], self.folder / "figures")]
        for figure in ("figure-1-variance", "figure-3-rates", "figure-10-decay-init", "figure-9-gains", "growth",
                       "growth-parts", "claims", "table-5-losses", "figure-4-instability", "figure-5-last-layer",
                       "figure-7-gradients", "figure-9-angles", "figure-11-extremes"):
            self.assertIn(f"reproduce-{figure}.png", written)
        self.verdicts(result)

    def verdicts(self, result):
        """Checks that --claims writes every tested claim above its figure, with the verdict, and that the figure of
        claims has all of them."""
        (figure,) = figures_of(growth_over_depth, result).values()
        groups.claims_above(figure)
        words = [text.get_text() for text in figure.texts]
        for c in np.flatnonzero(array(result, "claim_exhibit") == "1"):
            verdict = groups.SPELT.get(array(result, "claim_verdict")[c], array(result, "claim_verdict")[c])
            line = [w for w in words if w.startswith(f"{array(result, 'claim')[c]} {verdict} (")]
            self.assertEqual(len(line), 1, words)
            self.assertIn(array(result, "claim_statement")[c], line[0])
        (figure,) = figures_of(claims, result).values()
        tested = np.flatnonzero(~np.isin(array(result, "claim_verdict"), ["not-run", "not-testable-here"]))
        self.assertEqual(len(figure.axes[0].get_yticks()), len(tested))
        for label, c in zip(figure.axes[0].get_yticklabels(), tested, strict=True):
            self.assertTrue(label.get_text().startswith(array(result, "claim")[c]))
        points = [series[0] for series in markers(figure.axes[0])]
        for x, row in points:
            c = tested[round(row)]
            p = array(result, "claim_p")[c]
            np.testing.assert_allclose(x, np.log10(0.5 / p) if p <= 0.5 else -np.log10(0.5 / (1 - p)))

    def test_diverged_runs_are_named(self):
        """A rate at which every run fails: the figures are drawn all the same, and say which runs were lost."""
        result = made(self.folder, "reproduce", "--figure", "1", "--set", "train.lr=1e30")
        self.assertTrue(np.isfinite(array(result, "diverged_at")).all())
        reports = list(drawing.draw([self.folder / "reproduce.nc"], self.folder / "figures"))
        self.assertEqual([r.words for r in reports if isinstance(r, drawing.Failed)], [])
        self.assertIn("Pre-LN (2 of 2 seeds)", groups.diverged(result, groups.rows(result)))

    def test_train(self):
        result = made(self.folder, "train", "--set", 'model.placement=["pre", "peri"]')
        (figure,) = figures_of(training, result).values()
        self.assertEqual(len(figure.axes), 4)


if __name__ == "__main__":
    unittest.main()

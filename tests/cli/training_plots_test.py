"""The figures of `train` and `reproduce` show what the result files hold. Usage: training_plots_test.py BINARY

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
from plots.dataset import array, fact

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


def bars(axes):
    """From where to where the horizontal error bars of each series reach: [[from, to], ...]."""
    return [np.array([[part[0][0], part[1][0]] for part in bar.get_segments()])
            for bar in axes.collections if hasattr(bar, "get_segments")]


class TrainingPlots(FolderTest):
    def assert_drawn(self, axes, expected, what):
        lines = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
        self.assertTrue(any(len(y) == len(expected) and np.allclose(y, expected, equal_nan=True) for y in lines), what)

    def test_reproduce(self):
        result = made(self.folder, "reproduce", *EXHIBITS)
        for kind in KINDS:
            self.assertTrue(all(name in result for name in kind.NEEDS), kind.__name__)
        written = [report.path.name for report in drawing.draw([self.folder / "reproduce.nc"], self.folder / "figures")]
        for figure in ("figure-1-variance", "figure-3-rates", "figure-10-decay-init", "figure-9-gains", "growth",
                       "growth-parts", "claims", "table-5-losses", "figure-4-instability", "figure-5-last-layer",
                       "figure-7-gradients", "figure-9-angles", "figure-11-extremes"):
            self.assertIn(f"reproduce-{figure}.png", written)
        self.variance(result)
        self.verdicts(result)
        self.rates(result)
        self.identity(result)
        self.runs(result)
        self.parts(result)
        self.losses(result)

    def variance(self, result):
        (figure,) = figures_of(growth_over_depth, result).values()
        top = figure.axes[5 if len(figure.axes) > 5 else -1]
        drawn = {tuple(np.round(points[:, 1], 12)) for points in markers(top)}
        for g in groups.rows(result):
            self.assertIn(tuple(np.round(array(result, "variance_measured")[g, :, -1], 12)), drawn)

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

    def rates(self, result):
        (figure,) = figures_of(rate_sweeps, result).values()
        peri = groups.rows(result, "rates", ["peri"]) + groups.rows(result, "base", ["peri"])
        expected = sorted((array(result, "lr")[g], array(result, "final_loss_mean")[g]) for g in peri)
        self.assertTrue(any(len(series) == len(expected) and np.allclose(series, expected)
                            for series in markers(figure.axes[0])))

    def identity(self, result):
        figures = figures_of(growth_identity, result)
        g = groups.rows(result, placements=["pre"])[0]
        panel = next(axes for axes in figures["growth"].axes if axes.get_title() == "Pre-LN")
        lines = [line.get_ydata() for line in panel.get_lines()]
        for r in groups.records(result, growth_identity.SHARES):
            eq4 = array(result, "eq4_measured")[g, r]
            self.assertTrue(any(len(y) == len(eq4) and np.allclose(y, eq4) for y in lines), r)

    def runs(self, result):
        """What figures 5, 7, 9 and 11 draw of every run or group, at the beginning and at the end."""
        figures = {name: figure for kind in (extremes, layer_gradients, redundancy, stability)
                   for name, figure in figures_of(kind, result).items()}
        of_layers = array(result, "layer_gradient_measured")
        for row, g in enumerate(groups.rows(result)):
            for r in (0, -1):
                self.assert_drawn(figures["figure-7-gradients"].axes[row], of_layers[g, r], (g, r))
        for g in groups.rows(result, placements=groups.MAIN):
            for norms in array(result, "last_layer_grad_norm")[g]:
                self.assert_drawn(figures["figure-5-last-layer"].axes[0], norms, g)
        for g in groups.rows(result, placements=("pre", "peri")):
            for name in ("top_first", "top_last"):
                for magnitudes in array(result, name)[g]:
                    self.assert_drawn(figures["figure-11-extremes"].axes[0], magnitudes, (name, g))
        for row, g in enumerate(groups.rows(result, placements=["peri"]) + groups.rows(result, "frozen")):
            for r in groups.records(result, redundancy.SHARES):
                self.assert_drawn(figures["figure-9-gains"].axes[row], array(result, "gain_b_measured")[g, r], (g, r))

    def parts(self, result):
        panel = figures_of(growth_identity, result)["growth-parts"].axes[0]
        drawn = [line.get_xdata() for line in panel.get_lines()]
        for g in groups.rows(result):
            for name in ("growth_from_scales", "growth_from_sizes_inside", "growth_from_alignment"):
                self.assertTrue(any(np.shape(x) == array(result, name)[g].shape
                                    and np.allclose(x, array(result, name)[g], equal_nan=True)
                                    for x in drawn), (name, g))

    def losses(self, result):
        """Table 5's bars are two standard errors to each side."""
        drawn = bars(figures_of(final_losses, result)["table-5-losses"].axes[0])
        for g in groups.rows(result):
            mean, error = array(result, "final_loss_mean")[g], array(result, "final_loss_stderr")[g]
            ends = [[mean - 2 * error, mean + 2 * error]]
            self.assertTrue(any(bar.shape == (1, 2) and np.allclose(bar, ends) for bar in drawn), g)

    def test_diverged_runs_are_named(self):
        """A rate at which every run fails: the figures are drawn all the same, and say which runs were lost."""
        result = made(self.folder, "reproduce", "--figure", "1", "--set", "train.lr=1e30")
        self.assertTrue(np.isfinite(array(result, "diverged_at")).all())
        reports = list(drawing.draw([self.folder / "reproduce.nc"], self.folder / "figures"))
        self.assertEqual([r.words for r in reports if isinstance(r, drawing.Failed)], [])
        self.assertIn("Pre-LN (2 of 2 seeds)", groups.diverged(result, groups.rows(result)))

    def test_train(self):
        result = made(self.folder, "train", "--set", 'model.placement=["pre", "peri"]')
        ((name, figure),) = figures_of(training, result).items()
        self.assertEqual(name, "training")
        loss = figure.axes[0]
        drawn = [line.get_ydata() for line in loss.get_lines()]
        for cell in array(result, "loss").reshape(-1, 12):
            self.assertTrue(any(len(y) == 12 and np.array_equal(y, cell) for y in drawn))
        gradient, top, depth = figure.axes[1:4]
        for run_of in np.ndindex(array(result, "loss").shape[:-1]):
            self.assert_drawn(loss, array(result, "validation_loss")[run_of], run_of)
            self.assert_drawn(gradient, array(result, "grad_norm")[run_of], run_of)
            self.assert_drawn(top, array(result, "variance_measured")[run_of][:, -1], run_of)
            self.assert_drawn(depth, array(result, "variance_measured")[run_of][-1], run_of)
        floor = fact(result, "loss_floor")
        self.assertTrue(any(len(y) == 2 and y[0] == floor for y in drawn))


if __name__ == "__main__":
    unittest.main()

"""The figures show what the result files hold. Usage: plots_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import io
import json
import pathlib
import unittest
import xml.etree.ElementTree

from periscope_process import SharedFolderTest, run
from plotting import ROOT, draw, figures_of, with_columns, with_config  # first of what needs packages

# isort: split
import numpy as np
from PIL import Image

from plots import (
    agreement,
    angular,
    blocks,
    convergence,
    curves,
    drawing,
    kinds,
    ladder,
    power,
    probe,
    probe_extremes,
    reader,
    stream,
    style,
    verify,
)
from plots.dataset import array, config

TINY = """
[model]
layers = 2
width = 16
heads = 2
placement = ["pre", "peri", "post", {A=true,B=false,C=true,alpha=0.9,beta=0.5}]
[init]
scheme = "lecun"
[input]
kind = ["gaussian", "tokens"]
tokens = 4
[run]
seeds = 4
[ladder]
widths = [16, 32, 64, 128]
seeds = 32
"""
OVERFLOW = ["--set", 'model.placement=["none","peri"]', "--set", "model.layers=40", "--set", "init.scheme=he"]
ONE_INPUT = ["--set", "input.kind=gaussian"]
CHECKPOINT = ROOT / "tests" / "checkpoint" / "fixtures" / "gemma2"
PROBE_FIGURES = ["trained-vs-init", "growth", "growth-parts", "massive", "margins"]
STACK_FIGURES = ["variance", "token_cosine", "dilution", "agreement-gaussian", "agreement-tokens", "power-gaussian",
                 "power-tokens", "angular-gaussian", "angular-tokens"]


def lines_of(axes, look):
    """The line without markers of one placement: what is predicted."""
    return [line for line in axes.get_lines() if line.get_color() == look.colour and line.get_linestyle() != "None"]


def markers_of(axes, look):
    """x, y and the bar's half length of one placement's markers: what is measured."""
    found = [c for c in axes.containers if c.lines[0].get_color() == look.colour]
    x, y = (np.concatenate([c.lines[0].get_data()[k] for c in found]) for k in (0, 1))
    bars = np.concatenate([[s[1, 1] - s[:, 1].mean() for s in c.lines[2][0].get_segments()] for c in found])
    return x, y, bars


class Plots(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.results = cls.folder / "results"
        config = cls.folder / "tiny.toml"
        config.write_text(TINY)
        for command, name, *extra in (("propagate", "stack"), ("theory", "theory"), ("ladder", "stack", *ONE_INPUT),
                                      ("propagate", "overflow", *OVERFLOW)):
            done = run(command, "--config", config, "--out", cls.results / name, "--quiet", *extra)
            assert done.returncode == 0, done.stderr
        done = run("verify", "--cases", 3000, "--out", cls.results / "stack", "--quiet")
        assert done.returncode == 0, done.stderr
        cls.verify = reader.read(cls.results / "stack" / "verify.nc")
        done = run("probe", CHECKPOINT, "--tokens", "1,2,3,4,5,6", "--backward", "--out", cls.results / "stack",
                   "--quiet")
        assert done.returncode == 0, done.stderr
        cls.probed = reader.read(cls.results / "stack" / "probe.nc")
        cls.stack = reader.read(cls.results / "stack" / "propagate.nc")
        cls.theory = reader.read(cls.results / "theory" / "theory.nc")
        cls.ladder = reader.read(cls.results / "stack" / "ladder.nc")
        cls.overflow = reader.read(cls.results / "overflow" / "propagate.nc")

    def figure(self, kind, result, name=None):
        drawn = figures_of(kind, result)
        return drawn[name] if name else next(iter(drawn.values()))

    def test_every_figure_is_written_and_the_same_each_time(self):
        done = draw(self.results / "stack", "--out", self.folder / "figures")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = [pathlib.Path(line) for line in done.stdout.splitlines()]
        names = {f"propagate-{figure}" for figure in STACK_FIGURES} | {"ladder-convergence"}
        names |= {f"ladder-{name}" for name, _ in figures_of(ladder, self.ladder).items()}
        names |= {f"verify-{f}" for f in ("bound_ratios", "bound_ratio_vs_width", "massive_activations")}
        names |= {f"probe-{figure}" for figure in PROBE_FIGURES}
        expected = {self.folder / "figures" / f"{name}.{kind}" for name in names for kind in ("png", "svg", "txt")}
        self.assertEqual(set(written), expected)
        for path in written:
            with self.subTest(figure=path.name):
                if path.suffix == ".png":
                    with Image.open(path) as image:
                        self.assertGreater(min(image.size), 400)
                        self.assertGreater(len(np.unique(np.asarray(image.convert("L")))), 50, "not blank")
                elif path.suffix == ".svg":
                    root = xml.etree.ElementTree.parse(path).getroot()
                    self.assertGreater(sum(1 for _ in root.iter()), 100)
                    self.assertNotIn("dc:date", path.read_text())
        # Once more in this process, whose hashes are others.
        for result in (self.stack, self.ladder, self.verify, self.probed):
            for name, figure in self.figures(result):
                for path in drawing.save(figure, self.folder / "again" / name):
                    self.assertEqual(path.read_bytes(), (self.folder / "figures" / path.name).read_bytes(), path.name)

    def figures(self, result):
        """The figures of a file, each with the name of its own."""
        for kind in kinds.KINDS:
            if all(name in result for name in kind.NEEDS):
                stem = pathlib.Path(result.encoding["source"]).stem
                yield from ((f"{stem}-{name}", figure) for name, figure in figures_of(kind, result).items())

    def test_theory_alone_and_stacks_without_a_prediction_have_their_figures(self):
        theory = {f"theory-{f}" for f in STACK_FIGURES if not f.startswith(("agreement", "power"))}
        for result, names in ((self.theory, theory), (self.overflow, {f"propagate-{f}" for f in STACK_FIGURES})):
            drawn = dict(self.figures(result))
            self.assertEqual(set(drawn), names)
            for figure in drawn.values():
                figure.draw_without_rendering()

    def check_curves(self, axes, result, look, x, name, place):
        curve = curves.select(result, name, place)
        (line,) = lines_of(axes, look)
        np.testing.assert_array_equal(line.get_xdata(), x)
        np.testing.assert_array_equal(line.get_ydata(), curve["predicted"])
        at, y, bars = markers_of(axes, look)
        index = np.searchsorted(x, at)
        self.assertGreater(len(index), 1)
        np.testing.assert_array_equal(y, curve["measured"][index])
        np.testing.assert_allclose(bars, 2 * curve["stderr"][index], rtol=1e-6, atol=1e-12)

    def test_every_placement_has_a_look_of_its_own(self):
        names = [p["name"] for p in json.loads(run("list", "--json").stdout)["placements"]]
        self.assertEqual(len({(look.colour, look.marker) for look in style.looks(names)}), len(names))
        self.assertEqual(set(names), set(style.LOOKS))

    def test_two_statistics_have_a_row_each_and_a_column_per_input(self):
        figure = curves.over_depth(self.stack, stream.VARIANCE, stream.COSINE)
        titles = [axes.get_title().partition(",")[0] for axes in figure.axes]
        self.assertEqual(titles, ["Gaussian input", "Random-token input"] * 2)
        self.assertEqual([axes.get_yscale() for axes in figure.axes], ["log", "log", "linear", "linear"])
        for k, axes in enumerate(figure.axes):
            name = ("variance", "token_cosine")[k // 2]
            for p, look in enumerate(style.looks(array(self.stack, "placement"))):
                self.check_curves(axes, self.stack, look, array(self.stack, "depth"), name, (k % 2, p))
        self.assertEqual(figure.axes[2].get_ylim(), figure.axes[3].get_ylim())

    def test_what_one_statistic_has_no_prediction_of_is_said(self):
        predicted = array(self.stack, "token_cosine_predicted").copy()
        predicted[:, 0] = np.nan
        half = with_columns(self.stack, {"token_cosine_predicted": predicted})
        figure = curves.over_depth(half, stream.VARIANCE, stream.COSINE)
        label = style.looks(array(self.stack, "placement"))[0].label
        shown = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual(shown[0], f"{label} (no prediction of token_cosine)")
        self.assertFalse(any("no prediction" in words for words in shown[1:]))
        self.assertIn(f"{label}'s token_cosine is measured only", figure.caption)

    def test_titles_show_the_second_moment_that_all_stacks_have(self):
        every = [{**stack, "input": {**stack["input"]}} for stack in config(self.stack)["stacks"]]
        for moments, words in (((1.0, 4e-4), ""), ((1.0, 1.0 + 1e-9), ", E[x²] = 1")):
            for k, stack in enumerate(every):
                stack["input"]["second_moment"] = moments[k % len(moments)]
            result = with_config(self.stack, {**config(self.stack), "stacks": every})
            self.assertEqual(curves.input_title(result, 0), f"Gaussian input{words}")

    def test_angular_halves(self):
        panels = [a for a in self.figure(angular, self.stack, "angular-tokens").axes if a.get_images()]
        self.assertEqual(len(panels), 4)
        above = np.triu(np.ones((5, 5), dtype=bool), 1).T  # rows run upwards
        for p, axes in enumerate(panels):
            shown = np.asarray(axes.get_images()[0].get_array())
            np.testing.assert_array_equal(shown[above], array(self.stack, "angular_distance_predicted")[1, p][above])
            np.testing.assert_array_equal(shown[above.T], array(self.stack, "angular_distance_measured")[1, p][above.T])

    def test_residuals_are_beside_the_limit_of_rejection(self):
        figure = self.figure(agreement, self.stack, "agreement-gaussian")
        limit = array(self.stack, "worst_critical")[0, 1]
        dashed = {line.get_ydata()[0] for line in figure.axes[1].get_lines() if line.get_linestyle() == "--"}
        self.assertEqual(dashed, {limit, -limit})
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual(labels[2:], ["± 2 standard errors, for the eye", f"limit of rejection, {limit:.2g}"])

    def test_figures_say_which_second_moment_enters(self):
        for moment, words in (({}, "E[x²] = 1"), ({"second_moment": 4e-4}, "E[x²] = 0.0004")):
            stacks = [{**s, "input": {**s["input"], **moment}, "init": {**s["init"], "scheme": "normal"}}
                      for s in config(self.stack)["stacks"]]  # fmt: skip
            figure = self.figure(stream, with_config(self.stack, {**config(self.stack), "stacks": stacks}), "variance")
            self.assertEqual([axes.get_title() for axes in figure.axes],
                             [f"Gaussian input, {words}", f"Random-token input, {words}"])  # fmt: skip
            self.assertEqual("N(0, 0.02²), would be 0.0004" in figure.caption, not moment, "it is that of embeddings")
            self.assertEqual(figure.axes[0].get_xlabel(), "Sublayers passed (0: the input)")

    def test_readers_meet_no_numbers_of_theorems(self):
        for result in (self.stack, self.theory, self.ladder, self.verify, self.probed):
            for name, figure in self.figures(result):
                legends = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
                for words in (figure.caption, *legends):
                    self.assertNotRegex(words, r"\b[TG]\d", name)

    def test_power_band_is_what_the_test_would_not_refuse(self):
        axes = self.figure(power, self.stack, "power-gaussian").axes[1]
        hidden = 100 * array(self.stack, "second_moment_power")[0, 1]
        edges = axes.collections[0].get_paths()[0].vertices[:, 1]
        self.assertAlmostEqual(edges.max(), hidden.max())
        self.assertAlmostEqual(edges.min(), -hidden.max())
        shown = next(line.get_ydata() for line in axes.get_lines() if len(line.get_ydata()) == 5)
        m, t = (array(self.stack, f"second_moment_{v}")[0, 1] for v in ("measured", "predicted"))
        np.testing.assert_allclose(shown, 100 * (m / t - 1))
        limit = 100 * config(self.stack)["agreement"]["power_limit"]["second_moment"]
        for power_of_all, end in ((0.005, 0.65), (0.01 * limit, 1.6 * limit)):
            predicted = array(self.stack, "second_moment_predicted")
            made = with_columns(self.stack, {"second_moment_power": np.full_like(predicted, power_of_all),
                                             "second_moment_measured": predicted})  # fmt: skip
            page = self.figure(power, made, "power-gaussian")
            self.assertAlmostEqual(page.axes[1].get_ylim()[1], end)
            words = [text.get_text() for text in page.legends[0].get_texts() if "limit" in text.get_text()]
            self.assertEqual(len(words), 0 if end < limit else 1, "the legend has what is drawn")
            self.assertEqual("beyond the axes" in page.caption, end < limit)

    def test_theory_alone_has_no_markers(self):
        for axes in self.figure(stream, self.theory, "variance").axes:
            self.assertEqual(len(axes.containers), 0)
            self.assertEqual(len(axes.get_lines()), 4)

    def test_probe_shows_the_trained_model_beside_theory(self):
        panels = self.figure(probe, self.probed, "trained-vs-init").axes
        versions = {"variance": ("measured", "at_init", "at_scales", "at_profiles"), "grad_sq": ("measured", "at_init")}
        for axes, (name, suffixes) in zip(panels, versions.items(), strict=True):
            for line, suffix in zip(axes.get_lines(), suffixes, strict=True):
                np.testing.assert_array_equal(line.get_ydata(), array(self.probed, f"{name}_{suffix}"))
        caption = self.figure(probe, self.probed, "trained-vs-init").caption
        self.assertIn("normal init, std 0.02", caption)

    def test_probe_draws_the_parts_of_growth_and_what_every_null_leaves_over(self):
        left, right = self.figure(probe, self.probed, "growth-parts").axes
        for line, (name, *_) in zip(left.get_lines(), probe.PARTS, strict=False):
            np.testing.assert_array_equal(line.get_ydata(), array(self.probed, name))
        self.assertEqual(list(array(self.probed, "null")), list(probe.NULLS))
        numbers = (array(self.probed, f"null_left_over{of}") for of in ("", "_error"))
        for line, band, left_over, error in zip(right.get_lines(), right.collections, *numbers, strict=False):
            np.testing.assert_array_equal(line.get_ydata(), left_over)
            self.assertTrue((error > 0).all())
            edges = band.get_paths()[0].vertices[:, 1]
            self.assertAlmostEqual(edges.max(), (left_over + 2 * error).max())
            self.assertAlmostEqual(edges.min(), (left_over - 2 * error).min())

    def test_probe_stacks_the_terms_of_the_growth_identity(self):
        left, right, branch = self.figure(probe, self.probed, "growth").axes
        bars = [bar.get_height() for bar in branch.containers[0]]
        np.testing.assert_allclose(bars, array(self.probed, "growth_branch"))
        np.testing.assert_array_equal(branch.get_lines()[0].get_ydata(), array(self.probed, "branch_from_gains"))
        shares = np.array([array(self.probed, f"growth_{term}_share") for term in ("stream", "branch", "cross")])
        heights = np.array([[bar.get_height() for bar in bars] for bars in left.containers])
        np.testing.assert_allclose(heights, shares)
        np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-12)
        ratio, sublayer = array(self.probed, "growth_cross_over_branch"), array(self.probed, "sublayer")
        np.testing.assert_array_equal(right.get_lines()[1].get_ydata(), ratio)
        for which, marked in enumerate(right.get_lines()[2:]):
            self.assertEqual(marked.get_marker(), "os"[which], "attention, MLP")
            np.testing.assert_array_equal(marked.get_data(), (sublayer[which::2], ratio[which::2]))

    def test_probe_places_the_largest_activations_and_joins_equal_signals(self):
        left = self.figure(probe_extremes, self.probed, "massive").axes[0]
        np.testing.assert_array_equal(left.get_lines()[-1].get_ydata(), array(self.probed, "extreme_over_median")[:, 0])
        figure = self.figure(probe_extremes, self.probed, "margins")
        labels = [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()]
        self.assertEqual(labels, ["A_out", "f_out", "B_out", "x_out", "q", "k", "v", "mixed", "gate", "up", "hidden"])
        joined = probe_extremes._distinct({"f_out": np.array([1.0, 2.0]), "B_out": np.array([1.0, 2.0]),
                                  "r_out": np.array([np.nan])})
        self.assertEqual(list(joined), ["f_out, B_out"])

    def test_overflow_is_measured_only(self):
        predicted = array(self.overflow, "variance_predicted")
        self.assertFalse(np.isfinite(predicted[:, 0]).any(), "the test needs a refusal")
        figure = self.figure(stream, self.overflow, "variance")
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual(labels, ["No norm (no prediction)", "Peri-LN", "line: theory, marker: measured"])
        self.assertIn("overflows", figure.caption)
        (line,) = lines_of(figure.axes[0], style.LOOKS["none"])
        np.testing.assert_array_equal(line.get_ydata(), array(self.overflow, "variance_measured")[0, 0])
        highest = np.nanmax(predicted)
        self.assertLess(figure.axes[0].get_ylim()[1], 10 * highest, "the others stay legible")

    def test_convergence(self):
        # a resolved fit, whatever the tiny run found
        bias = np.array([[0.4, -0.2, 0.05, 0.001]])
        made = {"convergence_statistic": np.array(["second_moment"]),
                "convergence_placement": np.array(["pre"]), "bias": bias,
                "bias_stderr": np.full((1, 4), 0.01), "bias_exponent": np.array([-1.0]),
                "bias_exponent_stderr": np.array([0.1]), "bias_amplitude": np.array([-6.4]),
                "bias_reason": np.array([""]), "bias_verdict": np.array(["agrees"])}
        result = with_columns(self.ladder.isel(convergence=[0]), made)
        axes, exponents = self.figure(convergence, result).axes[:2]
        look = style.LOOKS["pre"]
        x, y, bars = markers_of(axes, look)
        np.testing.assert_allclose(x, array(self.ladder, "ladder_width"), rtol=1e-12)
        np.testing.assert_allclose(y, [0.4, 0.2, 0.05, 0.021])
        self.assertEqual([c.lines[0].get_markerfacecolor() for c in axes.containers], [look.colour, "white"])
        fitted = next(line for line in lines_of(axes, look))
        np.testing.assert_allclose(fitted.get_ydata(), [0.4, 0.2, 0.1, 0.05])
        self.assertEqual(exponents.containers[0].lines[0].get_xdata()[0], -1.0)

    def test_convergence_leaves_out_what_is_fixed(self):
        second_moment = array(self.ladder, "convergence_statistic") == "second_moment"
        post = (array(self.ladder, "convergence_placement") == "post") & second_moment
        self.assertEqual(list(array(self.ladder, "noise_verdict")[post]), ["not-checked"])
        figure = self.figure(convergence, self.ladder)
        self.assertFalse([c for c in figure.axes[0].containers if c.lines[0].get_color() == style.LOOKS["post"].colour])
        self.assertIn("fixed by the placement): Post-LN", figure.caption)

    def test_bound_ratios(self):
        stated, sharp = self.figure(verify, self.verify, "bound_ratios").axes
        for axes, bounds in ((stated, verify.STATED), (sharp, verify.SHARP)):
            for patch, name in zip(axes.patches, bounds, strict=True):
                with self.subTest(statement=name):
                    k = verify.index(self.verify, name)
                    shown = verify.density(self.verify, k)
                    values, edges, _ = patch.get_data()
                    np.testing.assert_array_equal(values[shown > 0], shown[shown > 0])
                    width = np.log10(edges[1] / edges[0])
                    self.assertAlmostEqual(np.sum(shown) * width, 1.0, places=9)
                    counted = array(self.verify, "cases")[k] - array(self.verify, "trivial")[k]
                    self.assertLessEqual(array(self.verify, "ratio_histogram")[k].sum(), counted)
        above, counts = array(self.verify, "log_ratio") > 0, array(self.verify, "ratio_histogram")
        for name in verify.SHARP:
            self.assertEqual(counts[verify.index(self.verify, name)][above].sum(), 0, name)
        reviews = verify.index(self.verify, "G4-whole")
        self.assertGreater(counts[reviews][above].sum(), 0)

    def test_bound_ratio_vs_width(self):
        panels = self.figure(verify, self.verify, "bound_ratio_vs_width").axes
        for axes, name in zip(panels, verify.PANELS, strict=True):
            k = verify.index(self.verify, name)
            seen = array(self.verify, "width_cases")[k] > 0
            (largest,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
            np.testing.assert_array_equal(largest.get_xdata(), array(self.verify, "width")[seen])
            ratio = array(self.verify, "width_ratio_largest")[k][seen]
            np.testing.assert_array_equal(largest.get_ydata(), ratio)
            limit = array(self.verify, "width_ratio_limit")[k]
            self.assertTrue(np.all(ratio <= limit[seen] * (1 + 1e-9)), name)
            self.assertTrue(any(np.array_equal(line.get_ydata(), limit) for line in axes.get_lines()), name)

    def test_massive_activations(self):
        every, bounded = self.figure(verify, self.verify, "massive_activations").axes
        self.assertEqual((len(every.containers), len(bounded.containers)), (4, 3))
        for k, container in enumerate(every.containers):
            np.testing.assert_array_equal(container.lines[0].get_ydata(), array(self.verify, "massive_gradient")[k])
            ends = [array(self.verify, f"massive_gradient_{end}")[k] for end in ("low", "high")]
            bars = np.array(container.lines[2][0].get_segments())[:, :, 1]
            np.testing.assert_allclose(bars, np.stack(ends, axis=1), rtol=1e-12)
        bounds = [line.get_ydata() for line in every.get_lines()]
        for k in range(4):
            self.assertTrue(any(np.array_equal(line, array(self.verify, "massive_bound")[k]) for line in bounds))

    def test_looks_differ(self):
        tables = [f'{{"A":true,"B":false,"C":false,"alpha":{k},"beta":1}}' for k in (2, 3)]
        looks = style.looks([*style.LOOKS, *tables])
        for kind in ("label", "colour"):
            self.assertEqual(len({getattr(look, kind) for look in looks}), len(style.LOOKS) + 2, kind)
        for title, members in blocks.CLASSES.items():
            self.assertEqual(len({style.LOOKS[name].marker for name in members}), len(members), title)
        self.assertEqual({name for members in blocks.CLASSES.values() for name in members}, set(style.LOOKS))
        self.assertEqual(looks[-1].label, "A, α = 3, β = 1")
        # Several recipes, each with several values: no two alike, and those of a recipe in shades of one colour.
        names = [f"{recipe}, std {s}" for recipe in ("gemma2", "llama", "olmo2", "mine", "opt") for s in (1, 2, 3)]
        looks = style.looks([*names, names[0]])
        self.assertEqual(len({(look.colour, look.marker) for look in looks}), len(names))
        self.assertEqual(len({look.colour for look in looks[::3]}), 5)
        self.assertEqual([look.label for look in looks], [*names, names[0]])

    def test_nothing_finite_is_drawn_as_that(self):
        """Runs that diverged from the start, of every kind that is here."""
        for result in (self.stack, self.ladder, self.probed):
            places = ("width", "ladder_width", "inverse_width", "group", "rank")
            nan = {n: np.full(v.shape, np.nan) for n, v in result.variables.items()
                   if v.dtype.kind in "fiub" and v.ndim and n not in (*places, *result.coords)}
            of_nothing = with_columns(result, nan)
            for kind in kinds.KINDS:
                if all(name in result for name in kind.NEEDS):
                    for name, figure in figures_of(kind, of_nothing).items():
                        with self.subTest(file=result.encoding["source"], figure=name):
                            figure.savefig(io.BytesIO(), format="png", dpi=30)
        nan = {n: np.full(v.shape, np.nan) for n, v in self.stack.data_vars.items() if n.startswith("variance_")}
        words = [t.get_text() for t in self.figure(stream, with_columns(self.stack, nan), "variance").axes[0].texts]
        self.assertEqual(words, ["no finite value"])


if __name__ == "__main__":
    unittest.main()

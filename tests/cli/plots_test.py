"""The figures show what the result files hold. Usage: plots_test.py BINARY

RequiredVariables the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import io
import json
import pathlib
import unittest
import xml.etree.ElementTree

from periscope_process import SharedFolderTest, run
from plotting import ROOT, draw, figure_of, figures_of, with_columns  # first of what required packages

# isort: split
import numpy as np
from PIL import Image

from plots import blocks, drawing, kinds, reader, style

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
ONE_INPUT = ["--set", "input.kind=gaussian"]
CHECKPOINT = ROOT / "tests" / "checkpoint" / "fixtures" / "gemma2"
PROBE_FIGURES = ["trained-vs-init", "growth", "growth-parts", "massive", "margins"]
STACK_FIGURES = ["variance", "token_cosine", "dilution", "agreement-gaussian", "agreement-tokens", "power-gaussian",
                 "power-tokens", "angular-gaussian", "angular-tokens"]


class Plots(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.results = cls.folder / "results"
        config = cls.folder / "tiny.toml"
        config.write_text(TINY)
        for command, name, *extra in (("propagate", "stack"), ("theory", "theory"), ("ladder", "stack", *ONE_INPUT)):
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

    def test_every_figure_is_written_and_the_same_each_time(self):
        done = draw(self.results / "stack", "--out", self.folder / "figures")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = [pathlib.Path(line) for line in done.stdout.splitlines()]
        names = {f"propagate-{figure}" for figure in STACK_FIGURES}
        names |= {name for name, _ in self.figures(self.ladder)}
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
            if all(name in result for name in kind.required):
                stem = pathlib.Path(result.encoding["source"]).stem
                yield from ((f"{stem}-{name}", figure) for name, figure in figures_of(kind, result).items())

    def test_every_placement_has_a_look_of_its_own(self):
        names = [p["name"] for p in json.loads(run("list", "--json").stdout)["placements"]]
        self.assertEqual(len({(s.colour, s.marker) for s in style.styles(names)}), len(names))
        self.assertEqual(set(names), set(style.STYLES))

    def test_readers_meet_no_numbers_of_theorems(self):
        for result in (self.stack, self.theory, self.ladder, self.verify, self.probed):
            for name, figure in self.figures(result):
                legends = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
                for words in (figure.caption, *legends):
                    self.assertNotRegex(words, r"\b[TG]\d", name)

    def test_looks_differ(self):
        tables = [f'{{"A":true,"B":false,"C":false,"alpha":{k},"beta":1}}' for k in (2, 3)]
        styles = style.styles([*style.STYLES, *tables])
        for kind in ("label", "colour"):
            self.assertEqual(len({getattr(s, kind) for s in styles}), len(style.STYLES) + 2, kind)
        for title, members in blocks.CLASSES.items():
            self.assertEqual(len({style.STYLES[name].marker for name in members}), len(members), title)
        self.assertEqual({name for members in blocks.CLASSES.values() for name in members}, set(style.STYLES))
        self.assertEqual(styles[-1].label, "A, α = 3, β = 1")
        # Several recipes, each with several values: no two alike, and those of a recipe in shades of one colour.
        names = [f"{recipe}, std {s}" for recipe in ("gemma2", "llama", "olmo2", "mine", "opt") for s in (1, 2, 3)]
        styles = style.styles([*names, names[0]])
        self.assertEqual(len({(s.colour, s.marker) for s in styles}), len(names))
        self.assertEqual(len({s.colour for s in styles[::3]}), 5)
        self.assertEqual([s.label for s in styles], [*names, names[0]])

    def test_free_placements_have_words(self):
        """A rule for each kind of module, scales that are expressions, and what a stack differs by besides."""
        norms = '{"A": true, "B": false, "C": true, "alpha": "2L", "beta": 1.0}'
        kinds_of_modules = f'{{"attention": {norms}, "mlp": "keel"}}'
        names = [kinds_of_modules, norms, f"{kinds_of_modules}, std 0.1", f"{norms}, norm l2", "span, x 1"]
        rule = "A+C, α = 2L, β = 1"
        self.assertEqual([s.label for s in style.styles(names)],
                         [f"{rule} attention, KEEL MLP", rule, f"{rule} attention, KEEL MLP, std 0.1",
                          f"{rule}, norm l2", "SpanNorm, x 1"])  # fmt: skip

    def test_nothing_finite_is_drawn_as_that(self):
        """Runs that diverged from the start, of every kind that is here."""
        for result in (self.stack, self.ladder, self.probed):
            places = ("width", "ladder_width", "inverse_width", "group", "rank")
            nan = {n: np.full(v.shape, np.nan) for n, v in result.variables.items()
                   if v.dtype.kind in "fiub" and v.ndim and n not in (*places, *result.coords)}
            of_nothing = with_columns(result, nan)
            for kind in kinds.KINDS:
                if all(name in result for name in kind.required):
                    for name, figure in figures_of(kind, of_nothing).items():
                        with self.subTest(file=result.encoding["source"], figure=name):
                            figure.savefig(io.BytesIO(), format="png", dpi=30)
        nan = {n: np.full(v.shape, np.nan) for n, v in self.stack.data_vars.items() if n.startswith("variance_")}
        words = [t.get_text() for t in figure_of("variance", with_columns(self.stack, nan)).axes[0].texts]
        self.assertEqual(words, ["no finite value"])


if __name__ == "__main__":
    unittest.main()

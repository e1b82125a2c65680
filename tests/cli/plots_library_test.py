"""Figures for callers in Python: which a dataset has, one of them as a matplotlib Figure, its caption, and what none of
this changes in the caller's process. Usage: plots_library_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import io
import subprocess
import sys
import unittest

from periscope_process import SMALL, SharedFolderTest, run, sets
from plotting import ROOT, draw

# isort: split
import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image

import plots
from plots import kinds, reader, style

TINY = sets("model.layers=2", "model.width=16", "model.heads=2", "model.vocab=32", "input.tokens=8",
            "train.steps=3", "train.batch=2")  # fmt: skip


def python(code, *arguments, cwd=ROOT):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, cwd=cwd, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def image(png):
    """The pixels of a figure, or of a file's bytes, as numbers from 0 to 255."""
    if isinstance(png, Figure):
        stream = io.BytesIO()
        png.savefig(stream, format="png")
        png = stream.getvalue()
    with Image.open(io.BytesIO(png)) as opened:
        return np.asarray(opened.convert("RGB")).astype(int)


class Library(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "small.toml").write_text(SMALL)
        for command in (["propagate", "--backward", "--set", 'input.kind=["gaussian","tokens"]'], ["theory"]):
            done = run(*command, "--config", cls.folder / "small.toml", "--out", cls.folder, "--quiet")
            assert done.returncode == 0, done.stderr
        done = run("train", *TINY, "--seeds", 2, "--set", 'model.placement=["pre","peri"]', "--out", cls.folder,
                   "--quiet")
        assert done.returncode == 0, done.stderr
        cls.file = cls.folder / "propagate.nc"
        read = reader.read(cls.file)
        cls.ds = xr.Dataset(read.data_vars, read.coords, read.attrs)  # as one that never was in a file
        cls.train = reader.read(cls.folder / "train.nc")
        done = draw(cls.file, cls.folder / "theory.nc", "--out", cls.folder / "figures")
        assert done.returncode == 0, done.stderr

    def check_same(self, one, other, what=""):
        """Two images have the same pixels."""
        one, other = (pixels if isinstance(pixels, np.ndarray) else image(pixels) for pixels in (one, other))
        self.assertEqual(one.shape, other.shape, what)
        np.testing.assert_array_equal(one, other, what)

    def test_a_figure_and_its_caption_are_those_of_the_command_line(self):
        self.assertEqual(self.ds.encoding, {})
        for name in ("overview", "variance", "angular-tokens"):
            with self.subTest(name):
                figure = plots.plot(self.ds, name)
                self.assertIsInstance(figure, Figure)
                self.check_same(figure, (self.folder / "figures" / f"propagate-{name}.png").read_bytes())
                words = (self.folder / "figures" / f"propagate-{name}.txt").read_text()
                self.assertEqual(plots.caption_of(self.ds, name).split(), words.split())

    def test_without_a_name_the_figure_that_tells_most_is_drawn(self):
        self.check_same(plots.plot(self.ds), plots.plot(self.ds, "overview"))
        self.assertEqual(plots.caption_of(self.ds), plots.caption_of(self.ds, "overview"))
        self.assertEqual(plots.figures(self.ds)[0], "overview")
        self.assertEqual(plots.figures(reader.read(self.folder / "theory.nc"))[0], "variance")

    def test_a_figure_that_is_drawn_once_per_input_has_its_short_name_where_there_is_one_input(self):
        one = self.ds.isel(input=[1])
        self.check_same(plots.plot(one, "agreement"), plots.plot(one, "agreement-tokens"))
        with self.assertRaisesRegex(ValueError, "'agreement' is ambiguous; expected one of agreement-gaussian"):
            plots.plot(self.ds, "agreement")

    def test_width_and_caption(self):
        self.assertEqual(plots.plot(self.ds, "variance", width=3.4).get_figwidth(), 3.4)
        self.assertEqual(plots.plot(self.ds, "variance").get_figwidth(), 7.0)
        self.assertEqual(image(plots.plot(self.ds, "variance", width=3.4)).shape[1], 680, "200 dots per inch")
        for width in (2.9, 21, float("nan")):
            with self.assertRaisesRegex(ValueError, f"width {width!r}: expected inches from 3 to 20"):
                plots.plot(self.ds, width=width)
        figure = plots.plot(self.ds, "variance", caption=True)
        below = " ".join(figure.texts[0].get_text().split())
        self.assertEqual(style.plain(below), plots.caption_of(self.ds, "variance"))
        self.assertEqual(plots.plot(self.ds, "variance").texts, [])

    def test_unknown_names_are_answered_with_the_known_ones(self):
        with self.assertRaises(ValueError) as caught:
            plots.plot(self.ds, "varaince")
        words = str(caught.exception)
        self.assertIn("unknown figure 'varaince'; nearest is 'variance'", words)
        for name in (*plots.figures(self.ds), *kinds.names()):
            self.assertIn(name, words)
        with self.assertRaisesRegex(ValueError, "belongs to another kind of result; this dataset has overview"):
            plots.plot(self.ds, "training")
        with self.assertRaisesRegex(ValueError, "unknown figure 'x'"):
            plots.caption_of(self.ds, "x")

    def test_stacks_and_inputs_can_be_selected(self):
        for chosen, panels in ((self.ds.isel(input=[0]), 1), (self.ds.sel(placement=["peri"]), 2)):
            self.assertEqual(plots.figures(chosen)[0], "overview")
            figure = plots.plot(chosen, "variance")
            self.assertEqual(len(figure.axes), panels)
            lines = {tuple(line.get_ydata()) for axes in figure.axes for line in axes.get_lines()}
            for curve in chosen["variance_predicted"].values.reshape(-1, chosen.sizes["depth"]):
                self.assertIn(tuple(curve), lines)
        self.assertNotIn("Pre-LN", plots.caption_of(self.ds.sel(placement=["peri"])))
        self.assertEqual(len(plots.plot(self.train.sel(placement=["peri"])).axes), 4)

    def test_what_a_selection_has_taken_away_is_named(self):
        order = "expected the order .input, placement, depth."
        for chosen, words in (
                (self.ds.isel(input=0), "'variance_predicted' has dimensions .placement, depth.; expected .input, pl"),
                (self.ds.sel(placement="peri"), "select with lists, such as isel.placement=.0..,"),
                (self.ds.mean("placement"), "has dimensions .input, depth.; expected"),
                (self.ds.transpose(), order),
                (self.ds.isel(placement=[]), "the dimension 'placement' of '.*' is empty"),
                (self.ds.isel(depth=slice(0, 3)), "'depth' has 3 of the result's 5 positions"),
                (self.ds.isel(depth=slice(None, None, -1)), "'depth' has 5 of .* in order"),
                (self.train.isel(seed=[0]), "'seed' has 1 of the result's 2 positions"),
                (self.train.isel(record=slice(1, None)), "'record' begins with step"),
                (self.ds.drop_attrs(), "no attribute 'version'; expected a result of Periscope"),
                (xr.Dataset(attrs=self.ds.attrs), "has the variables of no figure"),
                (xr.Dataset(), "no attribute 'version'")):  # fmt: skip
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                plots.plot(chosen)
        self.assertEqual(plots.figures(self.ds.isel(input=0)), [])
        odd = self.ds.isel(sublayer=slice(1, None))
        self.assertNotIn("dilution", plots.figures(odd))
        self.assertIn("variance", plots.figures(odd))
        with self.assertRaisesRegex(ValueError, "'dilution' cannot be drawn .*'sublayer' has 3 of the result's 4 pos"):
            plots.plot(odd, "dilution")
        with self.assertRaisesRegex(ValueError, "figure 'dilution' cannot be drawn from this dataset: .*'B_out'"):
            plots.plot(self.ds.sel(site=["x_in"]), "dilution")

    def test_notebooks_show_a_figure_that_pyplot_does_not_know(self):
        self.assertEqual(plots.plot(self.ds)._repr_png_()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_caller_s_settings_stay_and_do_not_change_figures(self):
        expected = image(plots.plot(self.ds, "variance"))
        own = {"axes.grid": False, "grid.color": "red", "xtick.labelsize": 30, "axes.titlesize": 40, "font.size": 20}
        with matplotlib.rc_context(own):
            before = matplotlib.rcParams.copy()
            figure = plots.plot(self.ds, "variance", width=4)
            figure = plots.plot(self.ds, "variance")
            self.check_same(figure, expected, "drawn outside of plot, where ticks are made")
            changed = {k for k, v in before.items() if k != "backend" and matplotlib.rcParams[k] != v}
            self.assertEqual(changed, set())
        self.assertEqual((style.PAGE, style.PANEL), (7.0, 4.6))

    def test_importing_is_light_and_changes_nothing(self):
        heavy = "'matplotlib', 'xarray', 'netCDF4'"
        found = python(f"import sys, plots; print(*(name for name in ({heavy}) if name in sys.modules))")
        self.assertEqual(found.split(), [])
        found = python("""if True:
            import sys, pathlib, importlib, matplotlib
            before = matplotlib.rcParams.copy()
            for path in sorted(pathlib.Path("plots").glob("*.py")):
                if path.stem != "__main__":
                    importlib.import_module(f"plots.{path.stem}".removesuffix(".__init__"))
            from plots import plot, reader
            figure = plot(reader.read(pathlib.Path(sys.argv[1])))
            figure.savefig(sys.argv[2])
            get = dict.__getitem__  # asking for the backend would choose one
            print(*(key for key in before if get(before, key) != get(matplotlib.rcParams, key)))
            print(*(name for name in ("matplotlib.pyplot", "plots.drawing") if name in sys.modules))
            """, self.file, self.folder / "one.png")
        self.assertEqual(found.split(), ["plots.drawing"])


if __name__ == "__main__":
    unittest.main()

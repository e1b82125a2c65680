"""The command line of plots/: which figures, how wide, in which files, where captions go, and results drawn together.
Usage: plots_command_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import subprocess
import sys
import unittest

from periscope_process import SMALL, SharedFolderTest, run, sets
from plotting import ROOT, draw, figures_of  # first of what needs packages

# isort: split
from PIL import Image

from plots import agreement, captions, kinds, reader, stream, style, together
from plots.dataset import array, seeds, seeds_in_words


def read(*paths):
    return {path: reader.read(path) for path in paths}


class Command(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.folder / "small.toml"
        config.write_text(SMALL)
        sizes = {"plain": [], "small": ["input.second_moment=4e-4"], "deep": ["model.layers=3", "model.qk_norm=head"]}
        for name, settings in sizes.items():
            flags = sets(*settings)
            done = run("propagate", "--config", config, *flags, "--out", cls.folder / "results" / name, "--quiet")
            assert done.returncode == 0, done.stderr
        cls.file = {name: cls.folder / "results" / name / "propagate.nc" for name in sizes}

    def written(self, *arguments):
        done = draw(*arguments, "--out", self.folder / self._testMethodName)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(line.removeprefix(f"{self.folder / self._testMethodName}/") for line in done.stdout.splitlines())

    def test_a_file_and_some_of_its_figures(self):
        self.assertEqual(self.written(self.file["plain"], "--only", "variance,agreement"),
                         [f"propagate-{name}.{kind}" for name in ("agreement-gaussian", "variance")
                          for kind in ("png", "svg", "txt")])  # fmt: skip

    def test_several_paths_keep_their_folders(self):
        paths = self.file["plain"], self.file["small"].parent, self.file["plain"]
        names = [f"{name}/propagate-variance.{kind}" for name in ("plain", "small") for kind in ("pdf", "txt")]
        self.assertEqual(self.written(*paths, "--only", "variance", "--format", "pdf"), names)
        pdf = self.folder / self._testMethodName / "plain" / "propagate-variance.pdf"
        self.assertEqual(pdf.read_bytes()[:5], b"%PDF-")
        self.assertNotIn(b"CreationDate", pdf.read_bytes())

    def test_width(self):
        for width in (3.3, 7):
            self.written(self.file["plain"], "--only", "variance,agreement", "--width", width, "--format", "png")
            for name in ("variance", "agreement-gaussian"):
                with Image.open(self.folder / self._testMethodName / f"propagate-{name}.png") as image:
                    self.assertEqual(image.width, round(200 * width))

    def test_captions_lie_beside_the_figure_or_in_it(self):
        self.written(self.file["plain"], "--only", "variance", "--format", "png")
        folder = self.folder / self._testMethodName
        words = (folder / "propagate-variance.txt").read_text()
        self.assertIn("Lines: theory", words)
        self.assertFalse([line for line in words.splitlines() if line.endswith("-")], "no word is broken")
        with Image.open(folder / "propagate-variance.png") as image:
            height = image.height
        (folder / "propagate-variance.txt").unlink()
        flags = ["--only", "variance", "--format", "png", "--caption", "below"]
        self.assertEqual(self.written(self.file["plain"], *flags), ["propagate-variance.png"])
        with Image.open(folder / "propagate-variance.png") as image:
            self.assertGreater(image.height, height + 40, "the caption is in the figure")
        figure = figures_of(stream, reader.read(self.file["plain"]))["variance"]
        self.assertEqual(figure.texts, [], "a figure has no caption of its own")
        style.caption_below(figure)
        self.assertEqual(" ".join(figure.texts[0].get_text().split()), " ".join(figure.caption.split()))
        for width in (2.5, 3.3, 7.0):
            narrow = figures_of(stream, reader.read(self.file["plain"]))["variance"]
            narrow.set_size_inches(width, 3.0)
            style.caption_below(narrow)
            box = narrow.texts[0].get_window_extent()
            self.assertTrue(0 <= box.x0 and box.x1 <= narrow.bbox.width, f"a caption of {width} inches is whole")

    def test_from_any_folder_by_its_path(self):
        done = subprocess.run([sys.executable, ROOT / "plots", "plain", "--out", "figures", "--only", "variance"],
                              capture_output=True, text=True, cwd=self.folder / "results", timeout=300)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((self.folder / "results" / "figures" / "propagate-variance.svg").is_file())

    def test_an_interpreter_without_the_packages_is_named(self):
        done = subprocess.run([sys.executable, "-S", "-m", "plots", "--list"], capture_output=True, text=True, cwd=ROOT,
                              timeout=300)  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Apython -m plots: No module named '\w+' for .*: start it with \.venv/bin/")

    def test_list_names_every_figure(self):
        done = draw("--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted({line.split()[0] for line in done.stdout.splitlines()}), sorted(kinds.names()))

    def test_what_is_refused(self):
        for flags, words in ((["--only", "varaince"], "no figure 'varaince'; did you mean 'variance'?"),
                             (["--format", "gif,png"], "no format 'gif'"), (["--caption", "above"], "'above'"),
                             (["--width", "0.5"], "'0.5': expected inches"),
                             (["--width", "wide"], "'wide': expected inches"),
                             (["--label", "a"], "--label: expected with --together"),
                             (["--together", "--label", "a", "--label", "a"], "expected a different, non-empty text"),
                             (["--together", "--label", "a", "--label", "b"], "--label: found 2; expected one for each "
                                                                              "of 1 results")):  # fmt: skip
            with self.subTest(flags):
                done = draw(self.file["plain"], "--out", self.folder / "never", *flags)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(words, done.stderr)
        self.assertFalse((self.folder / "never").exists())
        done = draw(self.file["plain"], "--out", self.folder / "never", "--only", "ladder,signals")
        self.assertEqual(done.returncode, 2)
        done = draw(self.file["plain"], self.folder / "nowhere", "--out", self.folder / "half", "--only", "signals")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{self.folder / 'nowhere'}: no such file or folder", done.stderr)
        self.assertIn("no figure 'signals' in these results", done.stderr)

    def test_results_drawn_together(self):
        names = self.written(self.file["plain"], self.file["small"], self.file["deep"], "--together", "--format", "png")
        for figure in ("variance", "token_cosine", "dilution", "agreement-gaussian"):
            self.assertIn(f"propagate-{figure}.png", names)
        found = read(*(self.file[name] for name in ("plain", "deep", "small")))
        whole = together.merged(found)
        two = read(self.file["plain"], self.file["deep"])
        self.assertEqual(together.names(two), ["layers 2, qk_norm none", "layers 3, qk_norm head"])
        self.assertEqual(together.names(found), ["plain", "deep", "small"], "three keys are too many for a name")
        figure = figures_of(stream, whole)["variance"]
        looks = style.looks(array(whole, "placement"))
        self.assertEqual([look.label for look in looks], [f"{p}, {name}" for name in ("plain", "deep", "small")
                                                          for p in ("Pre-LN", "Peri-LN")])
        self.assertEqual(len({(look.colour, look.marker) for look in looks}), 6)
        lines = {line.get_color(): line.get_ydata() for line in figure.axes[0].get_lines()
                 if line.get_linestyle() != "None"}  # fmt: skip
        for k, result in enumerate(found.values()):
            for p in (0, 1):
                drawn = lines[looks[2 * k + p].colour]
                own = array(result, "variance_predicted")[0, p]
                self.assertEqual(list(drawn[: len(own)]), list(own))
                self.assertTrue(all(v != v for v in drawn[len(own) :]), "nothing beyond the top of the smaller stack")
        self.assertIn("input.second_moment: 1 (Pre-LN, plain", figure.caption)
        self.assertIn("0.0004 (Pre-LN, small; Peri-LN, small)", figure.caption)

    def test_labels_name_the_results_that_are_drawn_together(self):
        alone = []
        for recipe in ("llama", "gemma2"):
            flags = ["--set", f"model.recipe={recipe}", "--set", "model.layers=2", "--set", "model.width=32", "--set",
                     "model.heads=2"]  # fmt: skip
            done = run("theory", *flags, "--out", self.folder / recipe, "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            alone.append(self.folder / recipe / "theory.nc")
        paths = [*alone, self.file["plain"]]
        labels = [word for label in ("Llama 3 style", "Gemma, 2 layers", "ours") for word in ("--label", label)]
        self.assertIn("propagate-theory-variance.svg",
                      self.written(*paths, "--together", "--only", "variance", *labels))  # fmt: skip
        whole = together.merged(read(*paths), ["Llama 3 style", "Gemma, 2 layers", "ours"])
        looks = captions.looks(whole)
        self.assertEqual([look.label for look in looks],
                         ["Llama 3 style", "Gemma, 2 layers", "Pre-LN, ours", "Peri-LN, ours"])
        self.assertEqual([look.colour for look in looks[:2]], [style.LOOKS["pre"].colour, style.LOOKS["peri"].colour])
        figure = figures_of(stream, whole)["variance"]
        self.assertNotIn("model.streams", figure.caption, "all have the default")
        self.assertNotIn("model.layer_scale", figure.caption)
        self.assertIn("model.placement: Pre-LN (Llama 3 style, Pre-LN), Peri-LN (Gemma, Peri-LN)", figure.caption)
        self.assertIn("input.second_moment: 0.0004 (Llama 3 style), 0.0128 (Gemma), 1 (Pre-LN, P", figure.caption)
        self.assertEqual(figure.axes[0].get_title(), "Gaussian input")

    def test_dollars_of_a_label_are_no_mathematical_text(self):
        labels = [r"for $3", r"$\frac{1$"]
        flags = ["--together", "--only", "variance", *(word for label in labels for word in ("--label", label))]
        self.written(self.file["plain"], self.file["deep"], *flags)
        whole = together.merged(read(self.file["plain"], self.file["deep"]), labels)
        figure = figures_of(stream, whole)["variance"]
        shown = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertIn(r"Pre-LN, \$\frac{1\$", shown)
        self.assertIn(f"Pre-LN, {labels[0]}", style.plain(figure.caption))

    def test_a_label_names_the_only_result_that_is_readable(self):
        broken = self.folder / "broken.nc"
        broken.write_bytes(b"")
        flags = ["--together", "--only", "variance", "--format", "svg"]
        done = draw(self.file["plain"], broken, "--out", self.folder / "one", *flags, "--label", "mine", "--label", "b")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Pre-LN, mine", (self.folder / "one" / "propagate-variance.svg").read_text())

    def test_what_was_not_measured_has_no_verdict_beside_what_was(self):
        flags = ["--config", self.folder / "small.toml", "--set", "init.scheme=normal", "--out", self.folder / "theory"]
        done = run("theory", *flags, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = together.merged(read(self.file["plain"], self.folder / "theory" / "theory.nc"))
        (figure,) = figures_of(agreement, whole).values()
        titles = [axes.get_title().replace("\n", " ") for axes in figure.axes]
        verdict = array(reader.read(self.file["plain"]), "verdict")[0]
        self.assertEqual(titles, [f"Pre-LN, scheme lecun: {verdict[0]}", f"Peri-LN, scheme lecun: {verdict[1]}",
                                  "Pre-LN, scheme normal", "Peri-LN, scheme normal"])
        self.assertIn("Curves differ in init.scheme: as the legend says", figure.caption)

    def test_together_says_where_theory_is_wrong_and_what_runs_differ_in(self):
        flags = ["--config", self.folder / "small.toml", "--seeds", "6", "--theory-set", "init.down_factor=2"]
        run("propagate", *flags, "--out", self.folder / "wrong", "--quiet")
        found = read(self.file["plain"], self.folder / "wrong" / "propagate.nc")
        plain = found[self.file["plain"]]
        figure = figures_of(stream, together.merged(found))["variance"]
        self.assertIn("wrong on purpose: init.down_factor=2 (", figure.caption)
        self.assertIn(f"{seeds(plain)} or 6 seeds", figure.caption)
        self.assertNotIn(f"mean of {seeds_in_words(plain)}", figure.caption)

    def test_a_path_with_dots_stays_below_out(self):
        folder = self.folder / "dotted"
        folder.mkdir()
        before = set(self.folder.rglob("*.svg"))
        done = subprocess.run(
            [sys.executable, ROOT / "plots", "plain", "../results/./plain", "--out", folder, "--only", "variance"],
            capture_output=True, text=True, cwd=self.folder / "results", timeout=300)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        new = set(self.folder.rglob("*.svg")) - before
        self.assertTrue(new and all(path.is_relative_to(folder) for path in new), new)

    def test_captions_name_the_keys_that_decide(self):
        figure = figures_of(stream, reader.read(self.file["deep"]))["variance"]
        for words in ("model.qk_norm head", "6 tokens of second moment 1", "3 layers"):
            self.assertIn(words, figure.caption)


if __name__ == "__main__":
    unittest.main()

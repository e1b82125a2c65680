"""The command line of plots/: which figures, how wide, in which files, where captions go, and results drawn together.
Usage: plots_command_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import subprocess
import sys
import unittest

from periscope_process import SMALL, SharedFolderTest, run, sets
from plotting import ROOT, draw, figure_of  # first of what needs packages

# isort: split
from PIL import Image

from plots import kinds, reader, style


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
        figure = figure_of("variance", reader.read(self.file["plain"]))
        self.assertEqual(figure.texts, [], "a figure has no caption of its own")
        style.caption_below(figure)
        self.assertEqual(" ".join(figure.texts[0].get_text().split()), " ".join(figure.caption.split()))
        for width in (2.5, 3.3, 7.0):
            narrow = figure_of("variance", reader.read(self.file["plain"]))
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
        self.assertRegex(done.stderr, r"\Apython -m plots: No module named '\w+' for .*; use \.venv/bin/")

    def test_list_names_every_figure(self):
        done = draw("--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted({line.split()[0] for line in done.stdout.splitlines()}), sorted(kinds.names()))

    def test_what_is_refused(self):
        for flags, words in ((["--only", "varaince"], "unknown figure 'varaince'; nearest is 'variance'"),
                             (["--format", "gif,png"], "unknown format 'gif'"), (["--caption", "above"], "'above'"),
                             (["--width", "0.5"], "'0.5': expected inches"),
                             (["--width", "wide"], "'wide': expected inches"),
                             (["--label", "a"], "--label: only valid with --together"),
                             (["--together", "--label", "a", "--label", "a"], "expected a different, non-empty text"),
                             (["--together", "--label", "a", "--label", "b"], "--label: expected one for each of 1 "
                                                                              "results, found 2")):  # fmt: skip
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
        self.assertIn("these results have no figure 'signals'", done.stderr)


if __name__ == "__main__":
    unittest.main()

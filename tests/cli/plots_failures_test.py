"""Figures of bad files: what cannot be drawn is named, and all else is drawn. Usage: plots_failures_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import os
import signal
import unittest
import unittest.mock as mock

from periscope_process import SMALL, SharedFolderTest, run
from plotting import draw  # first of what needs packages

# isort: split
import netCDF4
import numpy as np

from plots import drawing, reader

EVERY_FIGURE = ["variance", "token_cosine", "dilution", *(f"{f}-{i}" for f in ("agreement", "power", "angular")
                                                          for i in ("gaussian", "tokens"))]  # fmt: skip


class Failures(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.folder / "small.toml"
        config.write_text(SMALL)
        for command in ("propagate", "theory"):
            done = run(command, "--config", config, "--set", 'input.kind=["gaussian","tokens"]', "--out",
                       cls.folder / "results" / "stack", "--quiet")  # fmt: skip
            assert done.returncode == 0, done.stderr
        cls.results = cls.folder / "results"

    def damaged(self, folder, name, change):
        """A copy of a whole result file, with `change` made to it."""
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes((self.results / "stack" / "propagate.nc").read_bytes())
        with netCDF4.Dataset(folder / name, "a") as data:
            change(data)

    def test_broken_files_are_named_and_all_others_drawn(self):
        broken = self.folder / "broken"
        broken.mkdir()
        whole = (self.results / "stack" / "theory.nc").read_bytes()
        (broken / "cut.nc").write_bytes(whole[: len(whole) // 2])
        (broken / "empty.nc").write_bytes(b"")
        os.mkfifo(broken / "fifo.nc")
        (broken / "folder.nc").mkdir()
        with netCDF4.Dataset(broken / "foreign.nc", "w") as foreign:
            foreign.program = "another"
        with netCDF4.Dataset(broken / "huge.nc", "w") as huge:
            huge.setncatts({"program": "periscope", "version": "1", "commit": "1", "config": "{}"})
            huge.createDimension("x", 1 << 40)
            huge.createVariable("a", "f8", ("x",))
        self.damaged(broken, "no_commit.nc", lambda data: data.delncattr("commit"))
        self.damaged(broken, "no_config.nc", lambda data: data.setncattr("config", "no JSON"))
        with netCDF4.Dataset(broken / "nothing.nc", "w") as nothing:
            nothing.setncatts({"program": "periscope", "version": "1", "commit": "1", "config": "{}"})
        (broken / "text.nc").write_text("no NetCDF")
        (broken / "whole.nc").write_bytes(whole)
        done = draw(broken, "--out", self.folder / "of_broken")
        self.assertEqual(done.returncode, 1, done.stderr)
        expected = {"cut.nc": "expected a NetCDF-4 or JSON file", "empty.nc": "found an empty file",
                    "fifo.nc": "found a FIFO", "folder.nc": "found a folder",
                    "foreign.nc": "not a result of Periscope", "huge.nc": "'a' has",
                    "no_commit.nc": "'commit' is missing", "no_config.nc": "cannot be read",
                    "nothing.nc": "no figure supports", "text.nc": "expected a NetCDF-4 or JSON file"}
        complaints = done.stderr.splitlines()
        self.assertEqual(len(complaints), len(expected), done.stderr)
        for (name, words), line in zip(expected.items(), complaints, strict=True):
            self.assertTrue(line.startswith(f"{broken / name}: "), line)
            self.assertIn(words, line)
        self.assertIn("whole-variance.png", done.stdout, "the good file is drawn")
        for path in ("nowhere", "of_broken"):
            empty = draw(self.folder / path, "--out", self.folder / "of_nowhere")
            self.assertEqual((empty.returncode, empty.stdout), (3, ""))
            self.assertIn(path, empty.stderr)

    def test_a_figure_that_fails_is_named_and_all_others_drawn(self):
        folder = self.folder / "half"
        self.damaged(folder, "a.nc", lambda data: data.variables["angular_distance_measured"].__setitem__(
            Ellipsis, np.nan))
        self.damaged(folder, "b.nc", lambda data: data.renameVariable("verdict_reason", "other"))
        self.damaged(folder, "b.nc", lambda data: (data.renameVariable("angular_distance_measured", "other"),
                                                   data.renameVariable("site", "place")))
        out = self.folder / "of_half"
        done = draw(folder, "--out", out)
        self.assertEqual(done.returncode, 1)
        named = [line.split(": ")[:2] for line in done.stderr.splitlines()]
        self.assertEqual(named, [[str(folder / "b.nc"), f"figure {n}"] for n in (
            "angular-gaussian", "angular-tokens")], done.stderr)
        written = {p.name for p in out.iterdir()}
        for figure in EVERY_FIGURE:
            for kind in ("png", "svg", "txt"):
                self.assertIn(f"a-{figure}.{kind}", written)
                if not figure.startswith(("angular", "dilution")):
                    self.assertIn(f"b-{figure}.{kind}", written)

    def test_a_crash_of_the_library_ends_one_file_alone(self):
        def crash(_path):
            os.kill(os.getpid(), signal.SIGSEGV)

        with mock.patch.object(reader, "read", crash):
            reports = list(drawing.draw([self.results / "stack" / "theory.nc"], self.folder / "of_crash"))
        self.assertEqual([type(r) for r in reports], [drawing.Failed])
        self.assertIn("theory.nc: reading crashed (SIGSEGV)", reports[0].message)

        def hang(_path):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as a library that never comes back to Python
            while True:
                signal.pause()

        with mock.patch.object(reader, "read", hang):
            reports = list(drawing.draw([self.results / "stack" / "theory.nc"], self.folder / "of_crash", timeout=0.5))
        self.assertIn("reading takes longer than 0.5 s", reports[0].message)

    def test_figures_replace_figures_only_whole_and_nothing_else(self):
        out = self.folder / "of_targets"
        out.mkdir()
        (out / "a-variance.png").write_bytes(b"before")
        os.mkfifo(out / "a-variance.svg")
        figure = mock.Mock()
        figure.savefig.side_effect = lambda stream, **_: (stream.write(b"half"), 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            list(drawing.save(figure, out / "a-variance"))
        self.assertEqual((out / "a-variance.png").read_bytes(), b"before")
        self.assertEqual(len(list(out.iterdir())), 2, "nothing half-written is left")
        figure.savefig.side_effect = lambda stream, **_: stream.write(b"whole")
        with self.assertRaisesRegex(OSError, "a-variance.svg: it exists and is not a regular file"):
            list(drawing.save(figure, out / "a-variance"))
        self.assertEqual((out / "a-variance.png").read_bytes(), b"whole")
        self.assertTrue((out / "a-variance.svg").is_fifo())


if __name__ == "__main__":
    unittest.main()

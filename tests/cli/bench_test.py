"""The benchmarks' driver, its result file and its figures, on tiny stacks; nothing here depends on how long anything
takes. Usage: bench_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import types
import unittest

from plotting import ROOT, Asked, figures_of  # first of what needs packages

# isort: split
import netCDF4
import numpy as np

from plots import cost, reader
from plots.dataset import array

sys.path.insert(0, str(ROOT / "experiments" / "bench"))
import bench
import runs
import scaling

BUILD = pathlib.Path(sys.argv.pop(1)).resolve().parent
# Says what an interpreter with PyTorch would, of a stack that took 1, 3 and 2 s and 64 MiB.
PEER = """#!/bin/sh
case $1 in
  -c) echo '"9.8"' ;;
  *) echo '{"version": "9.8", "seconds": [1, 3, 2], "processor_seconds": [1, 1, 1], "peak_bytes": 67108864,' \\
          '"product_gflops": 1}' ;;
esac
"""


def run(*arguments, build=BUILD):
    command = [sys.executable, ROOT / "experiments" / "bench" / "bench.py", build, "--no-ops", "--quick", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)


class TinyRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        peer = cls.folder / "python"
        peer.write_text(PEER)
        peer.chmod(0o755)
        # Three widths; of PyTorch's seconds one, since a wider stack is expected to take 4 s.
        cls.done = run("--peer", peer, "--axes", "width", "--seconds", "3.5", "--last", "1024", "--out", cls.folder)
        assert cls.done.returncode == 0, cls.done.stderr
        cls.result = reader.read(cls.folder / "bench.nc")

    def test_the_file_holds_what_the_schema_says(self):
        with netCDF4.Dataset(self.folder / "bench.nc") as data:
            held = {name: (v.dimensions, v.units, v.long_name) for name, v in data.variables.items()}
        self.assertEqual(held, scaling.SCHEMA)
        for name in ("version", "commit", "compiler", "cpu", "peer", "created"):
            self.assertTrue(self.result.attrs[name], name)
        self.assertEqual(self.result.attrs["peer"], "PyTorch 9.8")

    def test_every_series_has_its_points(self):
        for way in scaling.WAYS:
            for name, widths in (("dense", [256, 512, 1024]), ("matrix-free", [256, 512, 1024]), ("PyTorch", [256])):
                at = cost.points(self.result, "width", way, name)
                self.assertEqual(list(array(self.result, "width")[at]), widths, (way, name))
        of_peer = array(self.result, "implementation") == "PyTorch"
        self.assertEqual(array(self.result, "repeat_seconds")[of_peer].tolist(), [[1, 3, 2]] * 2)
        self.assertEqual(array(self.result, "peak_memory")[of_peer].tolist(), [64 * 2**20] * 2)
        self.assertTrue((array(self.result, "repeat_seconds") > 0).all())
        self.assertTrue((array(self.result, "repeat_processor_seconds") > 0).all())
        # What a process with a few tensors of a few MiB has, and not what Python has.
        ours = array(self.result, "peak_memory")[~of_peer]
        self.assertTrue(((ours > 2**20) & (ours < 80 * 2**20)).all(), ours)

    def test_the_section_has_the_file_s_medians(self):
        rows = [line for line in self.done.stdout.splitlines() if line.startswith("| 256 |")]
        self.assertEqual(len(rows), 2)
        for row, way in zip(rows, scaling.WAYS, strict=True):
            cells = row.strip("| ").split(" | ")
            self.assertEqual(cells[3], "2 (1 – 3)")
            self.assertEqual(cells[6], "64")
            (first, *_), (lean, *_) = (cost.points(self.result, "width", way, n) for n in ("dense", "matrix-free"))
            for cell, at in ((cells[7], first), (cells[8], lean)):
                wall = 2 / statistics.median(array(self.result, "repeat_seconds")[at])
                processor = 1 / statistics.median(array(self.result, "repeat_processor_seconds")[at])
                self.assertEqual(cell, f"{wall:.3g} ({processor:.3g})")
        self.assertEqual((self.folder / "bench.md").read_text(), self.done.stdout)

    def test_figures_show_the_file(self):
        asked = Asked(self.result)
        figures = figures_of(cost, asked)
        self.assertEqual(list(figures), ["width"])
        self.assertLessEqual(asked.names | set(cost.NEEDS), set(scaling.SCHEMA))
        panels = figures["width"].axes
        self.assertEqual([axes.get_title() for axes in panels], ["Forward", "Forward and backward", "", ""])
        for column, way in enumerate(scaling.WAYS):
            for name, look in cost.LOOKS.items():
                at = cost.points(self.result, "width", way, name)
                seconds = array(self.result, "repeat_seconds")[at]
                (bars,) = [c for c in panels[column].containers if c.lines[0].get_color() == look.colour]
                np.testing.assert_array_equal(bars.lines[0].get_xdata(), array(self.result, "width")[at])
                np.testing.assert_allclose(bars.lines[0].get_ydata(), [statistics.median(row) for row in seconds])
                ends = [[s[0, 1], s[1, 1]] for s in bars.lines[2][0].get_segments()]
                np.testing.assert_allclose(ends, [[min(row), max(row)] for row in seconds])
                (memory,) = [li for li in panels[2 + column].get_lines() if li.get_color() == look.colour]
                np.testing.assert_allclose(memory.get_ydata(), array(self.result, "peak_memory")[at] / 2**20)
        labels = [text.get_text() for text in figures["width"].legends[0].get_texts()]
        self.assertEqual(labels[:3], [look.label for look in cost.LOOKS.values()])


class Driver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_missing_peer_is_said(self):
        for peer in ("/nowhere/python", "false"):
            done = run("--peer", peer, "--axes", "seeds", "--seconds", "0", "--repeats", "1", "--out", self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("no PyTorch: ", done.stdout)
            made = array(reader.read(self.folder / "bench.nc"), "implementation")
            self.assertEqual(set(made), {"dense", "matrix-free"})

    def test_a_missing_program_is_an_error(self):
        done = run("--out", self.folder, build=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"stack_seconds: cannot be run: No such file")
        self.assertNotIn("Traceback", done.stderr)

    def test_what_takes_too_long_or_too_much_is_left_out(self):
        limits = scaling.Limits(8.0, 800.0)
        width, tokens = (next(a for a in scaling.axes(2, False) if a.name == name) for name in ("width", "tokens"))
        self.assertEqual((width.values[0], width.values[-1]), (256, 65536))
        allowed = types.SimpleNamespace(
            dense=lambda s, b: limits.allow(width, "dense", 512, {"width": 256, "seconds": [9.0, s], "peak_bytes": b}),
            lean=lambda s: limits.allow(width, "matrix-free", 512, {"width": 256, "seconds": [s], "peak_bytes": 1}),
            tokens=lambda s: limits.allow(tokens, "matrix-free", 64, {"tokens": 32, "seconds": [s], "peak_bytes": 1}))
        self.assertEqual([allowed.dense(2.0, 200), allowed.dense(2.1, 1), allowed.dense(1.0, 201)],
                         [True, False, False])
        self.assertEqual([allowed.lean(4.0), allowed.lean(4.1)], [True, False])
        self.assertEqual([allowed.tokens(0.5), allowed.tokens(0.6)], [True, False])
        self.assertEqual([a.values for a in scaling.axes(3, True) if a.name == "threads"], [(1, 2, 3)])
        self.assertEqual([a.values for a in scaling.axes(40, True) if a.name == "threads"], [(*range(1, 9), 16, 32)])

    def test_ops_as_a_table(self):
        def one(aggregate, rate, share):
            return {"run_name": "norm/f32/128/real_time", "aggregate_name": aggregate, "repetitions": 3, "GB/s": rate,
                    "share": share}  # fmt: skip
        context = {"threads": "1", "ceiling_f32_gflops": "100", "ceiling_f64_gflops": "50",
                   "ceiling_memory_gbytes": "20"}
        found = {"context": context, "benchmarks": [one("mean", 9, 9), one("median", 5, 0.25), one("cv", 0.03, 0.03)]}
        self.assertIn("| `norm` | f32 | 128 | 5 GB/s | 25 % | 3 % |", bench.ops_section(found))
        self.assertIn("1 thread, at", bench.ops_section(found))

    def test_the_rate_of_another_library_is_a_number(self):
        program = BUILD / "experiments" / "op_rates"
        if not program.exists():
            self.skipTest("built without Google Benchmark")
        for flag in ("--library_gflops=fast", "--library_gflops=-1", "--library_gflops=", "--unknown"):
            self.assertEqual(subprocess.run([program, flag], capture_output=True).returncode, 2, flag)

    def test_stack_seconds_takes_its_shape_from_a_preset(self):
        shape = runs.shape_of(BUILD, preset="1.5B", width=1024, layers=3, tokens=7, way="backward")
        expected = {"width": 1024, "heads": 8, "kv_heads": 4, "head_dim": 128, "mlp_width": 4096, "layers": 3,
                    "tokens": 7, "seeds": 1, "way": "backward"}  # fmt: skip
        self.assertEqual(shape | expected, shape)
        self.assertEqual(set(shape), set(runs.SHAPE))
        program = BUILD / "experiments" / "stack_seconds"
        for flags in (["--preset", "9B"], ["--width", "300"], ["--tokens", "0"], ["--layers", "0"], ["--threads", "0"]):
            done = subprocess.run([program, *flags], capture_output=True, text=True)
            self.assertEqual((done.stdout, done.returncode != 0), ("", True), flags)
        json.dumps(shape)


if __name__ == "__main__":
    unittest.main()

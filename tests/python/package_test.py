"""The package itself: what it refuses when it is imported, what a dataset can show. Usage: package_test.py"""

import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import xarray as xr
from studies import SMALL, rejected

import periscope as ps
from periscope._processor import require_instructions
from periscope._progress import bar

FLAGS = "flags : fpu avx avx2 bmi1 bmi2 f16c fma movbe abm xsave sse4_2\n"


class Processor(unittest.TestCase):
    def setUp(self) -> None:
        self.listed = Path(self.enterContext(tempfile.TemporaryDirectory())) / "cpuinfo"

    def test_a_processor_without_avx2_is_refused(self) -> None:
        self.listed.write_text("processor : 0\n" + FLAGS.replace(" avx2", "").replace(" fma", ""))
        with rejected("lacks avx2, fma", ImportError):
            require_instructions(self.listed, "x86_64")
        require_instructions(self.listed, "aarch64")

    def test_others_are_not(self) -> None:
        self.listed.write_text("processor : 0\n" + FLAGS)
        require_instructions(self.listed, "x86_64")
        self.listed.write_text("nothing is said here\n")
        require_instructions(self.listed, "x86_64")
        require_instructions(Path("/no/such/file"), "x86_64")


class Shown(unittest.TestCase):
    def test_a_dataset_shows_itself(self) -> None:
        ds = ps.propagate(SMALL, seeds=4)
        self.assertIn("variance", ps.figures(ds))
        self.assertEqual(len(ds.periscope.plot("variance").axes), len(ps.plot(ds, "variance").axes))
        self.assertEqual(list(ds.periscope.verdicts().verdict), list(ps.verdicts(ds).verdict))
        self.assertEqual(ds.periscope.config["stacks"][0]["model"]["width"], 16)
        with rejected("variance", ValueError):
            ps.plot(ds, "varianz")

    def test_verdicts_come_first_and_in_few_columns(self) -> None:
        ds = ps.propagate(SMALL, model={"placement": ["pre", "peri"]}, seeds=4)
        shown = ["verdict", "placement", "worst_test", "worst_z", "critical"]
        self.assertEqual(list(ps.verdicts(ds)), shown)
        whole = ds.periscope.verdicts(all=True)
        rest = ["detectable", "reason"]
        self.assertEqual(list(whole), ["verdict", "quantity", "input", "placement", *shown[2:], *rest])
        for name, column in (("detectable", ds.power_worst), ("reason", ds.verdict_reason)):
            self.assertEqual(list(whole[name]), list(column.values.ravel()))
        one = ps.propagate(SMALL, seeds=4)
        self.assertEqual(list(ps.verdicts(one)), ["verdict", *shown[2:], "detectable"])

    def test_results_of_unlike_depths_combine(self) -> None:
        each = [ps.propagate(SMALL, model={"layers": n}, seeds=4).expand_dims(layers=[n]) for n in (2, 3)]
        both = xr.combine_by_coords(each, combine_attrs="drop_conflicts", data_vars="minimal", join="outer")
        assert isinstance(both, xr.Dataset)
        self.assertEqual(both.sizes["contrast"], max(ds.sizes["contrast"] for ds in each))
        for ds, layers in zip(each, (2, 3), strict=True):
            part = both.sel(layers=[layers], contrast=ds.contrast, depth=ds.depth)
            for name in ("contrast_name", "contrast_excess", "second_moment_measured"):
                self.assertEqual(part[name].values.tolist(), ds[name].values.tolist())

    def test_a_dataset_says_how_it_is_cited(self) -> None:
        ds = ps.theory(SMALL)
        for part in (ds.attrs["commit"], "study theory", ds.attrs["config_sha256"]):
            self.assertIn(part, ps.cite(ds))
        self.assertEqual(ds.periscope.cite(), ps.cite(ds))
        self.assertIn(f"version = {{{ps.__version__}}}", ps.cite())
        self.assertNotIn("result of its study", ps.cite())
        bare = xr.Dataset(attrs={"program": "periscope"})
        for odd in (xr.Dataset(), ds.assign_attrs(program="another"), bare):
            with self.assertRaises(ps.InputError):
                ps.cite(odd)

    def test_theory_beside_somebody_elses_model(self) -> None:
        folder = Path(__file__).parents[1] / "checkpoint" / "fixtures" / "llama"
        whole = ps.probe(folder, tokens=[1, 2, 3], draws=0)
        for where, theory in (("at_init", ps.at_init), ("at_scales", ps.at_scales)):
            ds = theory(folder, [1, 2, 3])
            self.assertTrue(ds.second_moment_predicted.equals(whole[f"second_moment_{where}"]))
            self.assertTrue(ds.second_moment_stderr.equals(whole[f"second_moment_{where}_stderr"]))
            self.assertNotIn("second_moment_measured", ds)
        plain, larger = (ps.at_init(folder, [1, 2, 3], init={"std": std}) for std in (0.02, 0.5))
        self.assertGreater(larger.second_moment_predicted[-1], plain.second_moment_predicted[-1])

    def test_progress_into_a_file_is_a_line_in_ten_seconds(self) -> None:
        def snapshot(share: float) -> Any:
            return SimpleNamespace(phase="theory", label="pre", share=share, seconds_left=None, messages=[])

        with mock.patch("sys.stderr", io.StringIO()) as written, mock.patch("time.monotonic") as clock, bar() as show:
            for second in range(25):
                clock.return_value = 1000.0 + second
                for part in range(10):
                    show(snapshot((10 * second + part) / 250))
        self.assertEqual(written.getvalue(), "theory: 0 %  pre\ntheory: 40 %  pre\ntheory: 80 %  pre\n")
        log = SimpleNamespace(write=written.write, flush=written.flush)  # has no isatty
        with mock.patch("sys.stderr", log), bar() as show:
            show(snapshot(1.0))
        self.assertIn("theory: 100 %  pre\n", written.getvalue())

    def test_the_door_says_what_it_is(self) -> None:
        done = subprocess.run([sys.executable, "-m", "periscope", "--version"], capture_output=True, text=True)
        self.assertRegex(done.stdout, rf"^periscope {ps.__version__} \([0-9a-f]+")
        done = subprocess.run([sys.executable, "-m", "periscope", "run", "theory", "--set", "model.widht=3"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("nearest is model.width", done.stderr)
        for setting, found in (("model.placement=[pre,peri]", "invalid TOML"), ("model.width=" + "[" * 5000, "invalid TOML"),
                               ("model.width=[8]\nb=1", "found more than one value")):  # fmt: skip
            done = subprocess.run([sys.executable, "-m", "periscope", "run", "theory", "--set", setting],
                                  capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(found, done.stderr)


if __name__ == "__main__":
    unittest.main()

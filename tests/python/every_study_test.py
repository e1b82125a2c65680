"""Every study of the registry gives in Python what the program writes. Usage: every_study_test.py PERISCOPE"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import xarray as xr
from studies import EVERY, power_list, run_module, run_program, verb_of

import periscope as ps
from periscope.describe import description

PROGRAM = ""


def settled(ds: xr.Dataset) -> xr.Dataset:
    """Without what two runs differ in."""
    return ds.assign_attrs(circumstances="")


class EveryStudy(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_all_studies_are_here(self) -> None:
        self.assertEqual({study["name"] for study in description()["studies"]}, set(EVERY))

    def test_the_dataset_is_that_of_the_programs_file(self) -> None:
        for study in EVERY:
            with self.subTest(study=study):
                words = {"config": power_list(self.folder)} if study == "power" else {}
                extra = ["--config", str(words["config"])] if words else []
                out = self.folder / verb_of(study)
                run_program(PROGRAM, study, *extra, out=out)
                theirs = ps.open(next(out.glob("*.nc")))
                ours = run_module(study, **words)
                xr.testing.assert_identical(settled(ours), settled(theirs))
                for name, variable in ours.variables.items():
                    self.assertEqual(variable.dtype, theirs[name].dtype, name)
                self.assertEqual(json.loads(ours.attrs["circumstances"]).keys(),
                                 json.loads(theirs.attrs["circumstances"]).keys())  # fmt: skip

    def test_out_writes_the_file_of_the_program(self) -> None:
        flags = 0
        for study in ("propagate", "formats", "certify"):
            with self.subTest(study=study):
                run_program(PROGRAM, study, out=self.folder / "program")
                ours = run_module(study, out=self.folder / "module")
                program, module = (self.folder / who / f"{study}.nc" for who in ("program", "module"))
                xr.testing.assert_identical(settled(ours), settled(ps.open(module)))
                xr.testing.assert_identical(settled(ps.open(module)), settled(ps.open(program)))
                self.maxDiff = None
                self.assertEqual(self.header(module), self.header(program))  # another reader sees the same types
                flags += sum(fill == 255 for _, _, fill in self.header(program).values())
                cited = subprocess.run([PROGRAM, "cite", program], capture_output=True, text=True).stdout
                self.assertEqual(ps.cite(ps.open(program)), cited)
        self.assertGreater(flags, 3)
        files = [path.name for path in (self.folder / "module").iterdir()]
        self.assertEqual(sorted(files), ["certify.nc", "formats.nc", "propagate.nc"])

    def header(self, file: Path) -> dict[str, tuple[object, ...]]:
        import netCDF4

        with netCDF4.Dataset(file) as data:
            return {name: (v.dtype, v.dimensions, int(v._FillValue) if "_FillValue" in v.ncattrs() else None)
                    for name, v in data.variables.items()}  # fmt: skip

    def test_placements_and_recipes_are_the_programs(self) -> None:
        listed = json.loads(subprocess.run([PROGRAM, "list", "--json"], capture_output=True, text=True).stdout)
        placements = ps.placements()
        self.assertEqual(placements.reset_index().to_dict("records"), listed["placements"])
        self.assertEqual(placements.loc["peri", "norms"], "A B")
        recipes = ps.recipes()
        self.assertEqual(recipes.drop(columns="extras").to_dict("index"),
                         {one["name"]: one["sets"] for one in listed["recipes"]})  # fmt: skip
        self.assertEqual(list(recipes.extras), ["; ".join(one["extras"]) for one in listed["recipes"]])

    def test_json_of_the_door_is_that_of_the_program(self) -> None:
        keys = ("model.layers=2", "model.width=16", "model.heads=2")
        words = [*(word for key in keys for word in ("--set", key)), "--seeds", "4", "--json"]
        theirs = subprocess.run([PROGRAM, "propagate", *words, "--quiet"], capture_output=True, text=True)
        ours = subprocess.run([sys.executable, "-m", "periscope", "run", "propagate", *words, "--quiet"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(ours.stderr, "")
        self.assertEqual(ours.returncode, theirs.returncode)
        a, b = json.loads(ours.stdout), json.loads(theirs.stdout)
        self.assertEqual(*(json.loads(one["attrs"].pop("circumstances")).keys() for one in (a, b)))
        self.assertEqual(a, b)

    def test_results_are_the_runs_own_memory(self) -> None:
        ds = run_module("propagate")
        values = ds.second_moment_measured.values
        self.assertFalse(values.flags.owndata)
        values[...] = 1.0  # and the caller's to change
        self.assertTrue(np.all(ds.second_moment_measured.values == 1.0))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()

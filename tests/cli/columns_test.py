"""Files hold what the schemas declare, and figures ask for nothing else. Usage: columns_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import json
import unittest

from periscope_process import LIST, SMALL, STUDIES, SWEEPS, SharedFolderTest, run, sets
from plotting import ROOT, Asked, figures_of  # first of what needs packages

# isort: split
import netCDF4
import xarray as xr

from plots import claims, kinds, reader

GEMMA = [ROOT / "tests" / "checkpoint" / "fixtures" / "gemma2", "--tokens", "1,2,3,4"]
COMMANDS = STUDIES | {
    "propagate": [*STUDIES["propagate"], "--backward"],
    "formats": [*STUDIES["formats"], "--backward", *sets("formats.massive=20",
                                                         'formats.format=["fp16","fp8_e4m3","int8"]')],
    "probe": ["probe", *GEMMA, "--backward"], "certify": ["certify", *GEMMA, "--headroom", "fp16"],
}  # fmt: skip


class Columns(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        listed = json.loads(run("list", "--columns", "--json").stdout)["results"]
        cls.declared = {kind: {c["name"]: c for c in r["columns"]} for kind, r in listed.items()}
        cls.versions = {kind: r["version"] for kind, r in listed.items()}
        cls.everywhere = {name for columns in cls.declared.values() for name in columns}
        super().setUpClass()
        (cls.folder / "small.toml").write_text(SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]') + SWEEPS)
        (cls.folder / "list.toml").write_text(LIST)
        for name, command in COMMANDS.items():
            done = run(*command, "--out", cls.folder / name, "--quiet", "--json", cwd=cls.folder)
            assert done.returncode in (0, 4), (command, done.stderr)
            (file,) = (cls.folder / name).glob("*.nc")
            file.with_suffix(".printed").write_text(done.stdout)
        cls.files = sorted(cls.folder.glob("*/*.nc"))

    def test_every_kind_of_result_is_here(self):
        kinds = {reader.read(file).attrs["result"] for file in self.files}
        self.assertEqual(kinds, set(self.declared))

    def test_files_hold_what_is_declared(self):
        for file in self.files:
            with netCDF4.Dataset(file) as data, self.subTest(file=file.name):
                kind = data.getncattr("result")
                self.assertEqual(data.getncattr("result_version"), self.versions[kind])
                for name, variable in data.variables.items():
                    column = self.declared[kind][name]
                    kinds = {"float64": "f8", "int64": "i8", "bool": "u1", "str": str}
                    said = [list(variable.dimensions), variable.units, variable.long_name, variable.dtype]
                    self.assertEqual(said, [column["dimensions"], column["units"], column["meaning"],
                                            kinds[column["type"]]], name)

    def test_json_is_the_file(self):
        for file in self.files:
            with self.subTest(file=file.name):
                printed, stored = (reader.read(path) for path in (file.with_suffix(".printed"), file))
                for result in (printed, stored):
                    self.assertIsInstance(result.attrs.pop("circumstances"), str)
                xr.testing.assert_identical(printed, stored)
                for name in stored.variables:
                    self.assertEqual(printed[name].dtype, stored[name].dtype, name)

    def test_dimensions_have_integer_coordinates_and_are_used(self):
        """UDUNITS knows every unit; what positions on `sublayer` are stands beside whatever is on it."""
        known = {"": str, "1": None, "s": None}
        for file in self.files:
            with netCDF4.Dataset(file) as data, self.subTest(file=file.name):
                used = {d for name, v in data.variables.items() if v.dimensions != (name,) for d in v.dimensions}
                self.assertEqual(set(data.dimensions), used)
                for name in used & {"depth", "other_depth", "sublayer", "layer", "seed", "aligned_depth"}:
                    self.assertEqual(data[name].dtype, "i8", name)
                    if name != "seed":
                        self.assertEqual(data[name][...].tolist(), list(range(len(data.dimensions[name]))), name)
                if "sublayer" in used:
                    sublayers = range(len(data.dimensions["sublayer"]))
                    self.assertEqual(data["sublayer_layer"][...].tolist(), [s // 2 for s in sublayers])
                    self.assertEqual(list(data["sublayer_kind"][...]), ["attention", "mlp"] * (len(sublayers) // 2))
                labels = {"sublayer_layer", "sublayer_kind", "sublayer_branch"}
                for name, variable in data.variables.items():
                    self.assertIn(variable.units, known, name)
                    if "sublayer" in variable.dimensions and name not in labels | {"sublayer"}:
                        self.assertEqual(set(variable.coordinates.split()), labels, name)

    def test_figures_ask_for_declared_columns(self):
        drawn = set()
        for kind in kinds.KINDS:
            self.assertLessEqual(set(kind.required), self.everywhere, kind.name)
        for file in self.files:
            result = reader.read(file)
            of_file = self.declared[result.attrs["result"]]
            asked = Asked(result)
            for kind in kinds.of(result):
                drawn.add(kind)
                figures_of(kind, asked)
            with self.subTest(file=file.name):
                self.assertLessEqual(asked.names, set(of_file))
                # A caption may ask which kind of result it is in.
                self.assertLessEqual(asked.sought, self.everywhere)
        self.assertEqual(drawn, set(kinds.KINDS) - {claims.claims_together}, "every figure of one result was drawn")


if __name__ == "__main__":
    unittest.main()

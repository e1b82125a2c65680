"""Result files as datasets: the types of columns, coordinates, attributes, and what is refused. Usage: reader_test.py
BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import json
import os
import unittest

from periscope_process import SMALL, SharedFolderTest, run, sets
from plotting import plain  # first of what needs packages

# isort: split
import netCDF4
import numpy as np
import xarray as xr

from plots import reader
from plots.dataset import array, config, scalar, scalar_or_none, tidy

TINY = sets("model.layers=2", "model.width=16", "model.heads=2", "model.vocab=32", "input.tokens=8",
            "train.steps=3", "train.batch=2")  # fmt: skip
SAID = {"program": "periscope", "version": "1", "commit": "1", "config": "{}"}


class Tidy(unittest.TestCase):
    def check(self, values, expected, dtype, missing=None):
        found = tidy(values, missing)
        self.assertEqual(found.dtype, dtype)
        np.testing.assert_array_equal(found, expected)

    def test_columns_have_one_type_each_and_nan_where_one_is_missing(self):
        gone = np.iinfo(np.int64).min
        self.check(np.array([1.5, np.nan], np.float32), [1.5, np.nan], np.float64)
        self.check(np.array([1, 2**60]), [1, 2**60], np.int64, gone)
        self.check(np.array([1, 2], np.int32), [1, 2], np.int64)
        self.check(np.array([1, gone]), [1.0, np.nan], np.float64, gone)
        self.check(np.array([0, 1], np.uint8), [False, True], np.bool_, 255)
        self.check(np.array([True, False]), [True, False], np.bool_)
        self.check(np.array([0, 255, 1], np.uint8), [0.0, np.nan, 1.0], np.float64, 255)
        self.check(np.array(["a", "bc"]), np.array(["a", "bc"], object), np.object_)
        self.check(np.array(gone), np.nan, np.float64, gone)
        self.assertIs(type(tidy(["a", ""])[0]), str)


class Read(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "small.toml").write_text(SMALL)
        for command in (["propagate", "--backward", "--config", cls.folder / "small.toml"],
                        ["train", *TINY, "--seeds", 2]):  # fmt: skip
            done = run(*command, "--out", cls.folder, "--quiet")
            assert done.returncode == 0, done.stderr
        cls.files = [cls.folder / "propagate.nc", cls.folder / "train.nc"]

    def planted(self, **attributes):
        """A file to be filled."""
        data = netCDF4.Dataset(self.folder / f"{self._testMethodName}.nc", "w")
        data.setncatts({**SAID, **attributes})
        return data

    def refused(self, words):
        path = self.folder / f"{self._testMethodName}.nc"
        with self.assertRaisesRegex(reader.ResultError, words) as caught:
            reader.read(path)
        self.assertTrue(str(caught.exception).startswith(f"{path}: "), caught.exception)

    def test_a_dataset_holds_what_the_file_holds(self):
        for path in self.files:
            ds = reader.read(path)
            with netCDF4.Dataset(path) as data:
                self.assertEqual(set(ds.variables), set(data.variables))
                for name, variable in data.variables.items():
                    with self.subTest(file=path.name, column=name):
                        found = ds[name]
                        self.assertEqual(found.dims, variable.dimensions)
                        kinds = {"f8": "f", "i8": "if", "u1": "bf"}
                        self.assertIn(found.dtype.kind, "O" if variable.dtype is str else kinds[variable.dtype.str[1:]])
                        np.testing.assert_array_equal(array(ds, name), plain(variable[...]))
                        said = {"units": variable.units, "long_name": variable.long_name}
                        self.assertEqual(found.attrs, {key: value for key, value in said.items() if value})
                        self.assertEqual(found.encoding, {})
                labels = {"sublayer_layer", "sublayer_kind", "sublayer_branch"}
                named = {name for name, v in data.variables.items() if v.dimensions == (name,)} | labels
                self.assertEqual(set(ds.coords), named)
                self.assertEqual(ds.attrs, {name: data.getncattr(name) for name in data.ncattrs()})
            self.assertIsInstance(ds.attrs["config"], str)
            self.assertEqual(config(ds), json.loads(ds.attrs["config"]))
            self.assertEqual(ds.encoding, {"source": str(path)})
        self.assertEqual(ds["diverged_at"].dtype, np.float64, "a whole number that is missing")
        self.assertEqual(ds["step"].dtype, np.int64)
        self.assertEqual(reader.read(self.files[0])["variance_measured"].sel(placement="peri", depth=2).shape, (1,))

    def test_one_value_of_the_whole_result_is_a_variable_on_no_dimension(self):
        ds = reader.read(self.folder / "train.nc")
        self.assertEqual((ds["loss_floor"].dims, ds["loss_floor"].attrs["units"]), ((), "1"))
        self.assertEqual(scalar(ds, "loss_floor"), float(ds["loss_floor"]))
        self.assertEqual(scalar(ds, "study"), "train")
        self.assertIsNone(scalar_or_none(ds, "quick"))
        with self.assertRaises(KeyError):
            scalar(ds, "quick")

    def test_the_file_is_closed_and_whole_in_memory(self):
        path = self.folder / "moved.nc"
        path.write_bytes(self.files[0].read_bytes())
        before = len(os.listdir("/proc/self/fd"))
        ds = reader.read(path)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        path.unlink()
        self.assertTrue(np.isfinite(ds["variance_measured"].values).all())

    def test_nothing_is_decoded_but_what_is_missing(self):
        with self.planted() as data:
            data.createDimension("x", 2)
            time = data.createVariable("time", "f8", ("x",))
            time.setncatts({"units": "s", "scale_factor": 2.0, "coordinates": "label elsewhere"})
            data.set_auto_maskandscale(False)
            time[:] = [1.0, 2.0]
            data.createVariable("since", "i8", ("x",)).setncatts({"units": "days since 1970-01-01"})
            data["since"][:] = [1, 2]
            data.createVariable("label", str, ("x",))[:] = np.array(["a", "b"], object)
        ds = reader.read(self.folder / f"{self._testMethodName}.nc")
        np.testing.assert_array_equal(ds["time"].values, [1.0, 2.0])
        np.testing.assert_array_equal(ds["since"].values, [1, 2])
        self.assertEqual((set(ds.coords), ds["time"].attrs), ({"label"}, {"units": "s"}))

    def test_a_dimension_that_says_that_it_is_huge_is_refused_before_it_fills_the_memory(self):
        """Also as a coordinate of itself, which xarray reads first."""
        with self.planted() as data:
            data.createDimension("x", 1 << 40)
            data.createVariable("x", "f8", ("x",))
        self.refused(f"variable 'x' has {1 << 40} values; expected at most {1 << 27}")

    def test_attributes_that_captions_need_are_texts(self):
        for attributes, words in (({"version": 1}, "attribute 'version' is .*1.*; expected text"),
                                  ({"config": "[]"}, "'config' is not a table; expected the resolved configuration"),
                                  ({"config": "{"}, "cannot be read: .*; expected a NetCDF-4 or JSON file of "),
                                  ({"program": "other"}, "not a result of Periscope")):  # fmt: skip
            with self.subTest(attributes):
                self.planted(**attributes).close()
                self.refused(words)

    def test_json_has_words_for_floats_and_null_for_what_is_missing(self):
        path = self.folder / "planted.json"

        def column(dtype, data, dims=("x",)):
            return {"dims": dims, "attrs": {"units": "1", "long_name": "a number"}, "dtype": dtype, "data": data}

        found = {"x": column("int64", [3, 7]), "real": column("float64", ["NaN", "-Infinity"]),
                 "one": column("float64", "Infinity", ()), "whole": column("int64", [2**60, -1]),
                 "gap": column("int64", [None, 5]), "flag": column("bool", [True, False]),
                 "maybe": column("bool", [None, True]), "text": column("str", ["NaN", ""])}  # fmt: skip
        parts = {"attrs": SAID, "dims": {"x": 2}, "coords": {"x": found.pop("x")}, "data_vars": found}
        path.write_text(json.dumps(parts))
        expected = {"real": [np.nan, -np.inf], "one": np.inf, "whole": np.array([2**60, -1]), "gap": [np.nan, 5.0],
                    "flag": [True, False], "maybe": [np.nan, 1.0], "text": np.array(["NaN", ""], object)}  # fmt: skip
        ds = reader.read(path)
        for name, values in expected.items():
            np.testing.assert_array_equal(ds[name].values, values, err_msg=name)
            self.assertEqual(ds[name].dtype, np.asarray(values).dtype, name)
        self.assertEqual((list(ds.coords), list(ds.x.values), ds.attrs), (["x"], [3, 7], SAID))
        plain_xarray = xr.Dataset.from_dict(parts)  # the words stay, the shapes are the same
        self.assertEqual((plain_xarray.sizes, set(plain_xarray.variables)), (ds.sizes, set(ds.variables)))
        for text, words in (("{", "cannot be read"), ("{}", "cannot be read"), ('{"attrs": {}}', "not a result")):
            path.write_text(text)
            with self.assertRaisesRegex(reader.ResultError, words):
                reader.read(path)

    def test_a_dataset_is_written_by_xarray_and_read_again(self):
        for path in self.files:
            ds = reader.read(path).assign(flag=("depth", np.arange(reader.read(path).sizes["depth"]) > 1))
            again = self.folder / "again.nc"
            ds.to_netcdf(again, engine="netcdf4")
            xr.testing.assert_identical(reader.read(again), ds)
            self.assertEqual(reader.read(again)["flag"].dtype, np.bool_)


if __name__ == "__main__":
    unittest.main()

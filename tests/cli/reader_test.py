"""Result files as datasets: types of columns, coordinates, attributes, and invalid files."""

import json
import os

import pytest

from plotting import ROOT  # noqa: F401  skips without the packages
from program import SMALL, run

# isort: split
import netCDF4
import numpy as np
import xarray as xr

from plots import reader
from plots.dataset import config, scalar, scalar_or_none

ATTRIBUTES = {"program": "periscope", "version": "1", "commit": "1", "config": "{}"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read")
    (folder / "small.toml").write_text(SMALL)
    run("propagate", "--backward", "--config", "small.toml", "--out", ".", "--quiet", cwd=folder)
    run("train", "model.layers=2", "model.width=16", "model.heads=2", "model.vocab=32", "input.tokens=8",
        "train.steps=3", "train.batch=2", "--seeds", 2, "--out", ".", "--quiet", cwd=folder)
    return folder / "propagate.nc", folder / "train.nc"


def plain(values):
    """Returns values of a file: numbers and flags as floats, NaN if missing, and text."""
    values = np.ma.asarray(values)
    return np.ma.filled(values.astype(float), np.nan) if values.dtype.kind in "fiub" else np.asarray(values)


def test_a_dataset_equals_its_file(files):
    for path in files:
        ds = reader.read(path)
        with netCDF4.Dataset(path) as data:
            assert set(ds.variables) == set(data.variables)
            for name, variable in data.variables.items():
                found = ds[name]
                kinds = {"f8": "f", "i8": "if", "u1": "bf"}
                assert found.dims == variable.dimensions, name
                assert found.dtype.kind in ("O" if variable.dtype is str else kinds[variable.dtype.str[1:]]), name
                values = found.values if found.dtype.kind == "O" else found.values.astype(float)
                np.testing.assert_array_equal(values, plain(variable[...]))
                attributes = {"units": variable.units, "long_name": variable.long_name}
                assert (found.attrs, found.encoding) == ({k: v for k, v in attributes.items() if v}, {}), name
            labels = {"sublayer_layer", "sublayer_kind", "sublayer_branch"}
            assert set(ds.coords) == {name for name, v in data.variables.items() if v.dimensions == (name,)} | labels
            assert ds.attrs == {name: data.getncattr(name) for name in data.ncattrs()}
        assert config(ds) == json.loads(ds.attrs["config"])
        assert ds.encoding == {"source": str(path)}
    assert (ds.diverged_at.dtype, ds.step.dtype) == (np.float64, np.int64), "missing integers"
    assert (ds.loss_floor.dims, scalar(ds, "loss_floor")) == ((), float(ds.loss_floor))
    assert (scalar(ds, "study"), scalar_or_none(ds, "quick")) == ("train", None)
    with pytest.raises(KeyError):
        scalar(ds, "quick")


def test_the_file_is_closed_and_whole_in_memory(files, folder):
    (folder / "moved.nc").write_bytes(files[0].read_bytes())
    before = len(os.listdir("/proc/self/fd"))
    ds = reader.read(folder / "moved.nc")
    assert len(os.listdir("/proc/self/fd")) == before
    (folder / "moved.nc").unlink()
    assert np.isfinite(ds.variance_measured.values).all()


def test_attributes_may_be_longer_than_64_kib(folder):
    """HDF5 stores attributes of this size differently."""
    run("theory", "--config", "small.toml", "theory.finite_width=false", "init.qk_factor=0.0", "model.layers=1",
        "input.tokens=2", "--out", ".", "--quiet",
        "--vary", f"init.o_factor={[1 + k / 8 for k in range(9)]}",
        "--vary", f"init.down_factor={[1 + k / 8 for k in range(9)]}")
    assert len(config(reader.read(folder / "theory.nc"))["stacks"]) == 162
    assert len(reader.read(folder / "theory.nc").attrs["config"]) > 1 << 16


def test_a_dataset_is_written_by_xarray_and_read_again(files, folder):
    for path in files:
        ds = reader.read(path)
        ds = ds.assign(flag=("depth", np.arange(ds.sizes["depth"]) > 1))
        ds.to_netcdf("again.nc", engine="netcdf4")
        xr.testing.assert_identical(reader.read(folder / "again.nc"), ds)
        assert reader.read(folder / "again.nc").flag.dtype == np.bool_


def planted(path, **attributes):
    data = netCDF4.Dataset(path, "w")
    data.setncatts({**ATTRIBUTES, **attributes})
    return data


def test_only_missing_values_are_decoded(folder):
    with planted(folder / "planted.nc") as data:
        data.createDimension("x", 2)
        time = data.createVariable("time", "f8", ("x",))
        time.setncatts({"units": "s", "scale_factor": 2.0, "coordinates": "label elsewhere"})
        data.set_auto_maskandscale(False)
        time[:] = [1.0, 2.0]
        data.createVariable("since", "i8", ("x",)).setncatts({"units": "days since 1970-01-01"})
        data["since"][:] = [1, 2]
        data.createVariable("label", str, ("x",))[:] = np.array(["a", "b"], object)
    ds = reader.read(folder / "planted.nc")
    assert (list(ds.time), list(ds.since), set(ds.coords), ds.time.attrs) == ([1, 2], [1, 2], {"label"}, {"units": "s"})


@pytest.mark.parametrize(("attributes", "name"), [
    ({"version": 1}, "'version'"), ({"config": "[]"}, "'config'"), ({"config": "{"}, "cannot be read"),
    ({"program": "other"}, "'program'"), ({}, "'x'")], ids=str)
def test_invalid_files_are_rejected_by_name(attributes, name, folder):
    """A huge dimension is rejected before memory is allocated."""
    with planted(folder / "planted.nc", **attributes) as data:
        if not attributes:
            data.createDimension("x", 1 << 40)
            data.createVariable("x", "f8", ("x",))
    with pytest.raises(reader.ResultError, match=name) as caught:
        reader.read(folder / "planted.nc")
    assert str(caught.value).startswith(f"{folder / 'planted.nc'}: ")


def test_json_has_strings_for_nan_and_infinity_and_null_for_missing_values(folder):
    path = folder / "planted.json"

    def column(dtype, data, dims=("x",)):
        return {"dims": dims, "attrs": {"units": "1", "long_name": "a number"}, "dtype": dtype, "data": data}

    found = {"x": column("int64", [3, 7]), "real": column("float64", ["NaN", "-Infinity"]),
             "one": column("float64", "Infinity", ()), "whole": column("int64", [2**60, -1]),
             "gap": column("int64", [None, 5]), "flag": column("bool", [True, False]),
             "maybe": column("bool", [None, True]), "text": column("str", ["NaN", ""])}
    parts = {"attrs": ATTRIBUTES, "dims": {"x": 2}, "coords": {"x": found.pop("x")}, "data_vars": found}
    path.write_text(json.dumps(parts))
    expected = {"real": [np.nan, -np.inf], "one": np.inf, "whole": np.array([2**60, -1]), "gap": [np.nan, 5.0],
                "flag": [True, False], "maybe": [np.nan, 1.0], "text": np.array(["NaN", ""], object)}
    ds = reader.read(path)
    for name, values in expected.items():
        np.testing.assert_array_equal(ds[name].values, values, err_msg=name)
        assert ds[name].dtype == np.asarray(values).dtype, name
    assert (list(ds.coords), list(ds.x.values), ds.attrs) == (["x"], [3, 7], ATTRIBUTES)
    plain_xarray = xr.Dataset.from_dict(parts)  # has strings, and the same shapes
    assert (plain_xarray.sizes, set(plain_xarray.variables)) == (ds.sizes, set(ds.variables))
    for text in ("{", "{}", '{"attrs": {}}'):
        path.write_text(text)
        with pytest.raises(reader.ResultError):
            reader.read(path)

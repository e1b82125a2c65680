"""Result files of Periscope as datasets."""

import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

from .dataset import tidy


class ResultError(Exception):
    """A file that is not a result of Periscope. The message names it."""


LARGEST = 1 << 30  # bytes of one variable: a damaged length must not fill the memory
TEXTS = ("version", "commit", "config")  # attributes that captions need


def _require_file(path: Path) -> None:
    """Opening a FIFO would wait for ever, and the library reads devices."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        what = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}.get(stat.S_IFMT(mode), "no regular file")
        raise ResultError(f"{path}: is {what}; expected a NetCDF-4 or JSON file of Periscope")
    if path.stat().st_size == 0:
        raise ResultError(f"{path}: is empty; expected a NetCDF-4 or JSON file of Periscope")


def _require_attributes(path: Path, attributes: Mapping[str, Any]) -> None:
    """Rejects attributes that are not those of a result."""
    if attributes.get("program") != "periscope":
        raise ResultError(f"{path}: not a result of Periscope: its attribute 'program' is not 'periscope'")
    for name in TEXTS:
        if not isinstance(attributes.get(name), str):
            found = f"is {attributes[name]!r}" if name in attributes else "is missing"
            raise ResultError(f"{path}: its attribute {name!r} {found}; expected a text")
    if not isinstance(json.loads(attributes["config"]), dict):
        raise ResultError(f"{path}: its attribute 'config' holds no table; expected the resolved configuration")


def _require_readable(path: Path, file: netCDF4.Dataset) -> None:
    """Rejects variables that cannot be read, before any of them is."""
    for name, variable in file.variables.items():
        count = math.prod(variable.shape)
        if count * 8 > LARGEST:
            raise ResultError(f"{path}: variable {name!r} has {count} values; expected at most {LARGEST // 8}")
        if not (variable.dtype is str or (isinstance(variable.datatype, np.dtype) and variable.dtype.kind in "fiu")):
            raise ResultError(f"{path}: variable {name!r} is of type {variable.dtype}; expected numbers or text")


def _column(path: Path, name: str, variable: xr.Variable) -> xr.Variable:
    """The variable as datasets have it: tidy values, and of its attributes the unit, if it has one, and the meaning."""
    try:
        values = tidy(variable.values, variable.attrs.get("_FillValue"))
    except (TypeError, ValueError) as error:
        raise ResultError(f"{path}: variable {name!r} {error}") from error
    kept = {key: variable.attrs[key] for key in ("units", "long_name") if variable.attrs.get(key)}
    return xr.Variable(variable.dims, values, kept)


def _of_netcdf(path: Path) -> xr.Dataset:
    with netCDF4.Dataset(path) as file:
        _require_attributes(path, {name: file.getncattr(name) for name in file.ncattrs()})
        _require_readable(path, file)
        store = xr.backends.NetCDF4DataStore(file)  # the engine "netcdf4" of a file that is open
        # No value is decoded: xarray would make integers with missing values floats, and seconds time spans.
        raw = xr.open_dataset(store, mask_and_scale=False, decode_times=False, decode_timedelta=False,
                              create_default_indexes=False).load()  # fmt: skip
    columns, named = ({name: _column(path, str(name), raw.variables[name]) for name in part}
                      for part in (raw.data_vars, raw.coords))  # fmt: skip
    return xr.Dataset(columns, named, raw.attrs)


def _of_json(path: Path) -> xr.Dataset:
    """Reads the JSON that `--json` prints: that of `xarray.Dataset.to_dict`, with words for floats that JSON lacks."""
    table = json.loads(path.read_bytes())
    _require_attributes(path, table["attrs"])

    def variable(name: str, described: Mapping[str, Any]) -> xr.Variable:
        values = np.array(described["data"], dtype=object)
        kind = "object" if described["dtype"] == "str" else "float64" if None in values.flat else described["dtype"]
        return _column(path, name, xr.Variable(described["dims"], values.astype(kind), described["attrs"]))

    columns, named = ({name: variable(name, described) for name, described in table[part].items()}
                      for part in ("data_vars", "coords"))  # fmt: skip
    return xr.Dataset(columns, named, table["attrs"])


def read(path: Path) -> xr.Dataset:
    """Reads a NetCDF or JSON file whole, and closes it. Raises ResultError for what is no result of Periscope.

    The columns are as `tidy` makes them. Those that say what positions on a dimension are, by the dimension's name or
    by the attribute "coordinates" of other columns, are coordinates. Attributes of the file stay as they are, JSON as
    text.
    """
    _require_file(path)
    try:
        with open(path, "rb") as file:
            is_json = file.read(1) == b"{"
        ds = _of_json(path) if is_json else _of_netcdf(path)
    except (OSError, RuntimeError, ValueError, KeyError, IndexError, AttributeError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split()).removesuffix(f": '{path}'")
        raise ResultError(f"{path}: cannot be read: {reason}; expected a NetCDF-4 or JSON file of Periscope") from error
    ds.encoding = {"source": str(path)}
    return ds

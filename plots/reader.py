"""Reads result files of Periscope as datasets."""

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
    """A file that is not a result of Periscope."""


LARGEST = 1 << 30  # maximum bytes per variable, so that a damaged length cannot exhaust memory
TEXTS = ("version", "commit", "config")  # attributes used in captions


def _require_file(path: Path) -> None:
    """Rejects files that are not regular: opening a FIFO would block, and netCDF4 reads devices."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        kind = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}.get(stat.S_IFMT(mode), "a special file")
        raise ResultError(f"{path}: found {kind}; expected a NetCDF-4 or JSON file of Periscope")
    if path.stat().st_size == 0:
        raise ResultError(f"{path}: found an empty file; expected a NetCDF-4 or JSON file of Periscope")


def _require_attributes(path: Path, attributes: Mapping[str, Any]) -> None:
    """Raises ResultError unless the attributes identify a result."""
    if attributes.get("program") != "periscope":
        raise ResultError(f"{path}: not a result of Periscope (attribute 'program' is not 'periscope')")
    for name in TEXTS:
        if not isinstance(attributes.get(name), str):
            found = f"is {attributes[name]!r}" if name in attributes else "is missing"
            raise ResultError(f"{path}: attribute {name!r} {found}; expected text")
    if not isinstance(json.loads(attributes["config"]), dict):
        raise ResultError(f"{path}: attribute 'config' is not a table; expected the resolved configuration")


def _require_readable(path: Path, file: netCDF4.Dataset) -> None:
    """Raises ResultError for variables of unsupported size or type, before any variable is read."""
    for name, variable in file.variables.items():
        count = math.prod(variable.shape)
        if count * 8 > LARGEST:
            raise ResultError(f"{path}: variable {name!r} has {count} values; expected at most {LARGEST // 8}")
        if not (variable.dtype is str or (isinstance(variable.datatype, np.dtype) and variable.dtype.kind in "fiu")):
            raise ResultError(f"{path}: variable {name!r} has type {variable.dtype}; expected numbers or text")


def _column(path: Path, name: str, variable: xr.Variable) -> xr.Variable:
    """Returns the variable with tidy values, keeping only the attributes for units and meaning."""
    try:
        values = tidy(variable.values, variable.attrs.get("_FillValue"))
    except (TypeError, ValueError) as error:
        raise ResultError(f"{path}: variable {name!r} {error}") from error
    attributes = {key: variable.attrs[key] for key in ("units", "long_name") if variable.attrs.get(key)}
    return xr.Variable(variable.dims, values, attributes)


def _read_netcdf(path: Path) -> xr.Dataset:
    with netCDF4.Dataset(path) as file:
        _require_attributes(path, {name: file.getncattr(name) for name in file.ncattrs()})
        _require_readable(path, file)
        store = xr.backends.NetCDF4DataStore(file)  # the engine "netcdf4" for an open file
        # Decoding is off: xarray would convert integers with missing values to floats, and seconds to time spans.
        raw = xr.open_dataset(store, mask_and_scale=False, decode_times=False, decode_timedelta=False,
                              create_default_indexes=False).load()  # fmt: skip
    data, coordinates = ({name: _column(path, str(name), raw.variables[name]) for name in part}
                         for part in (raw.data_vars, raw.coords))  # fmt: skip
    return xr.Dataset(data, coordinates, raw.attrs)


def _read_json(path: Path) -> xr.Dataset:
    """Reads the JSON of `--json`: the format of `xarray.Dataset.to_dict`, with text for NaN and infinities."""
    table = json.loads(path.read_bytes())
    _require_attributes(path, table["attrs"])

    def variable(name: str, described: Mapping[str, Any]) -> xr.Variable:
        values = np.array(described["data"], dtype=object)
        kind = "object" if described["dtype"] == "str" else "float64" if None in values.flat else described["dtype"]
        return _column(path, name, xr.Variable(described["dims"], values.astype(kind), described["attrs"]))

    data, coordinates = ({name: variable(name, described) for name, described in table[part].items()}
                         for part in ("data_vars", "coords"))  # fmt: skip
    return xr.Dataset(data, coordinates, table["attrs"])


def read(path: Path) -> xr.Dataset:
    """Reads a NetCDF or JSON file into memory. Raises ResultError for a file that is not a result of Periscope.

    Columns have the types of `tidy`. Columns named like a dimension, or listed in the attribute "coordinates" of other
    columns, become coordinates. Attributes are unchanged; JSON attributes remain text.
    """
    _require_file(path)
    try:
        with open(path, "rb") as file:
            is_json = file.read(1) == b"{"
        ds = _read_json(path) if is_json else _read_netcdf(path)
    except (OSError, RuntimeError, ValueError, KeyError, IndexError, AttributeError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split()).removesuffix(f": '{path}'")
        raise ResultError(f"{path}: cannot be read: {reason}; expected a NetCDF-4 or JSON file of Periscope") from error
    ds.encoding = {"source": str(path)}
    return ds

"""Conversion of results between runs, xarray datasets and files."""

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import xarray as xr

from . import _accessor  # noqa: F401  # ds.periscope
from .describe import description
from .errors import Error, InputError, utf8
from .plots import reader
from .plots.dataset import atomic_file, tidy

if TYPE_CHECKING:
    from ._periscope import Result

T = TypeVar("T")

# Encoding of column types in files. Integers and booleans have a fill value for missing values.
_STORED: dict[str, dict[str, Any]] = {
    "int64": {"dtype": "int64", "_FillValue": np.iinfo(np.int64).min},
    "bool": {"dtype": "uint8", "_FillValue": 255}, "float64": {"_FillValue": None}, "str": {},
}  # fmt: skip
_BY_DTYPE = {"i": "int64", "u": "int64", "b": "bool", "O": "str", "U": "str"}  # for columns that are not in the schema


def of_result(result: "Result", argv: list[str]) -> xr.Dataset:
    """Returns the dataset of a run. Apart from ``circumstances`` (such as run time), it equals the dataset of
    the program's result file. Its floating-point arrays share the memory of ``result``."""
    data: dict[str, xr.Variable] = {}
    coordinates: dict[str, xr.Variable] = {}
    for name, (kind, dimensions, shape, values, units, meaning, is_label) in result.variables().items():
        if kind == "str":
            array = np.empty(len(values), dtype=object)
            array[:] = values
            values = array.reshape(shape)
        words = {"units": units, "long_name": meaning}
        values = tidy(values, _STORED[kind].get("_FillValue"))
        variable = xr.Variable(dimensions, values, {k: v for k, v in words.items() if v})
        (coordinates if is_label or dimensions == [name] else data)[name] = variable
    return xr.Dataset(data, coordinates, json.loads(result.attributes(argv)))


def open(path: "str | os.PathLike[str]") -> xr.Dataset:  # noqa: A001  # named as in other dataset libraries
    """Reads a result file of Periscope into memory.

    Dimensions such as ``placement``, ``depth``, ``site`` and ``layer`` have coordinates; every variable has ``units``
    and ``long_name``. Measurement, prediction and standard error of a quantity are ``<quantity>_measured``,
    ``_predicted`` and ``_stderr``. Raises InputError for a file that is not a result.
    """
    try:
        return _in_netcdf_thread(lambda: reader.read(Path(os.fsdecode(path))))
    except reader.ResultError as error:
        raise InputError(str(error)) from None


def write(ds: xr.Dataset, path: "str | os.PathLike[str]") -> None:
    """Writes a dataset atomically as a NetCDF-4 file in the program's format.

    Integers and booleans that are floats in the dataset because of missing values are stored as integers and bytes.
    Raises OSError if the file cannot be written.
    """
    target = _regular(path)
    schema = description()["results"].get(ds.attrs.get("result", ""), {"columns": []})
    kinds = {column["name"]: column["type"] for column in schema["columns"]}
    encoding = {name: _STORED[kinds.get(str(name), _BY_DTYPE.get(variable.dtype.kind, "float64"))]
                for name, variable in ds.variables.items()}  # fmt: skip
    stored = ds.assign({name: variable.astype(np.uint8) for name, variable in ds.variables.items()
                        if variable.dtype == bool})  # fmt: skip

    def store() -> None:
        with atomic_file(target) as temporary:
            try:
                stored.to_netcdf(temporary, engine="netcdf4", encoding=encoding)
            except RuntimeError as error:  # raised by netCDF4 if the disk is full
                raise Error(f"cannot write {target}: {error}") from error

    _in_netcdf_thread(store)


def _regular(path: "str | os.PathLike[str]") -> Path:
    """Returns the resolved path, which need not exist. Raises Error if it is not a regular file."""
    target = Path(os.path.realpath(utf8("path", path)))
    if target.exists() and not target.is_file():
        raise Error(f"cannot write {target}: expected a regular file or a new file")
    if not target.parent.is_dir():  # netCDF4 would report "permission denied"
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    return target


_LOCK = threading.Lock()  # HDF5 is not thread-safe
os.register_at_fork(after_in_child=_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


def _in_netcdf_thread(work: Callable[[], T]) -> T:
    """Runs work that uses NetCDF in a separate thread, one call at a time. An interrupt is raised after the work has
    finished, because an interrupt inside the library would leave its locks locked."""
    answers: list[T] = []
    failures: list[BaseException] = []
    begun, done = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        try:
            with _LOCK:
                answers.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    interrupt: BaseException | None = None
    try:
        threading.Thread(target=run).start()
    except BaseException as caught:  # KeyboardInterrupt, or an exception of a signal handler
        if not begun.wait(1.0):
            raise
        interrupt = caught
    while not done.is_set():  # after an interrupted join, join and is_alive report the thread as finished
        try:
            done.wait()
        except BaseException as caught:
            interrupt = caught
    if interrupt is not None:
        raise interrupt
    if failures:
        raise failures[0]
    return answers[0]


def write_text(text: str, path: "str | os.PathLike[str]") -> None:
    """Writes a text file atomically."""
    with atomic_file(_regular(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")

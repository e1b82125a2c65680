"""Results as xarray datasets: from a run in this process, from files, into files."""

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
from .plots.dataset import tidy, whole_file

if TYPE_CHECKING:
    from ._periscope import Result

T = TypeVar("T")

# How files store the types of columns: whole numbers and flags have a value that stands for a missing one.
_STORED: dict[str, dict[str, Any]] = {
    "int64": {"dtype": "int64", "_FillValue": np.iinfo(np.int64).min},
    "bool": {"dtype": "uint8", "_FillValue": 255}, "float64": {"_FillValue": None}, "str": {},
}  # fmt: skip
_BY_DTYPE = {"i": "int64", "u": "int64", "b": "bool", "O": "str", "U": "str"}  # of columns without schema


def of_result(result: "Result", argv: list[str]) -> xr.Dataset:
    """The dataset of a run: equal to ``open`` of the file that the program writes, circumstances apart. Its real
    numbers are the run's own memory."""
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


def open(path: "str | os.PathLike[str]") -> xr.Dataset:  # noqa: A001  # the name that libraries of datasets use
    """The dataset in a result file of Periscope, whole in memory.

    ``placement``, ``depth``, ``site``, ``layer`` and other dimensions are coordinates with values; every variable has
    ``units`` and ``long_name``; measurement, theory and the standard error of a quantity are
    ``<quantity>_measured``, ``_predicted`` and ``_stderr``. Raises InputError for what is no result.
    """
    try:
        return _alone(lambda: reader.read(Path(os.fsdecode(path))))
    except reader.ResultError as error:
        raise InputError(str(error)) from None


def write(ds: xr.Dataset, path: "str | os.PathLike[str]") -> None:
    """Writes a dataset as the NetCDF-4 file that the program would write: whole, or not at all.

    Numbers and flags that are floats because some are missing are whole numbers and bytes there again. Raises OSError
    where that is impossible.
    """
    target = _regular(path)
    schema = description()["results"].get(ds.attrs.get("result", ""), {"columns": []})
    kinds = {column["name"]: column["type"] for column in schema["columns"]}
    encoding = {name: _STORED[kinds.get(str(name), _BY_DTYPE.get(variable.dtype.kind, "float64"))]
                for name, variable in ds.variables.items()}  # fmt: skip
    stored = ds.assign({name: variable.astype(np.uint8) for name, variable in ds.variables.items()
                        if variable.dtype == bool})  # fmt: skip

    def store() -> None:
        with whole_file(target) as temporary:
            try:
                stored.to_netcdf(temporary, engine="netcdf4", encoding=encoding)
            except RuntimeError as error:  # of the library, where the disk is full
                raise Error(f"cannot write {target}: {error}") from error

    _alone(store)


def _regular(path: "str | os.PathLike[str]") -> Path:
    """The file that a path leads to, which may not be there yet. Raises Error for what is no regular file."""
    target = Path(os.path.realpath(utf8("path", path)))
    if target.exists() and not target.is_file():
        raise Error(f"cannot write {target}: it is no regular file; expected one, or none")
    if not target.parent.is_dir():  # the library says "permission denied"
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    return target


_LOCK = threading.Lock()  # HDF5, under NetCDF, is for one thread at a time
os.register_at_fork(after_in_child=_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


def _alone(work: Callable[[], T]) -> T:
    """Does what NetCDF is needed for, beside no other thread's, and to its end: an interrupt in its midst, which would
    leave the library's own locks held, comes after it."""
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
    except BaseException as caught:  # KeyboardInterrupt, or what a handler of the caller raises
        if not begun.wait(1.0):
            raise
        interrupt = caught
    while not done.is_set():  # join and is_alive take an interrupted join for the thread's end
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
    """Writes a text file, whole or not at all."""
    with whole_file(_regular(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")

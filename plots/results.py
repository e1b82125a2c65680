"""Result files of Periscope as arrays."""

import json
import math
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np


class ResultError(Exception):
    """A file that is not a result of Periscope. The message names it."""


@dataclass(frozen=True)
class Result:
    """One result file: its variables by name, and what is said about the whole of it."""

    path: Path
    variables: dict[str, np.ndarray]
    attributes: dict[str, Any]
    config: dict[str, Any]
    dimensions: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of each variable

    def __getitem__(self, name: str) -> np.ndarray:
        return self.variables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    @property
    def measured(self) -> bool:
        return any(name.endswith("_measured") for name in self.variables)

    @property
    def seeds(self) -> int:
        return self.config["ladder" if "ladder_width" in self else "run"]["seeds"]

    @property
    def seeds_in_words(self) -> str:
        """Of a file, or of several that are drawn together."""
        if "seeds" in self.attributes:
            return str(self.attributes["seeds"])
        return "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"

    @property
    def version(self) -> str:
        """Which Periscope has made it, as the last words of a caption."""
        return f"Periscope {self.attributes['version']}, commit {self.attributes['commit']}."


LARGEST = 1 << 30  # bytes of one variable: a damaged length must not fill the memory
TEXTS = ("version", "commit", "config")  # attributes that captions need


def _plain(values: Any) -> np.ndarray:
    """Numbers and flags as floats, NaN where there is none; text as it is."""
    values = np.ma.asarray(values)
    is_number = values.dtype.kind in "fiub"
    return np.asarray(np.ma.filled(values.astype(float), np.nan) if is_number else np.ma.getdata(values))


def _require_file(path: Path) -> None:
    """Opening a FIFO would wait for ever, and the library reads devices."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        what = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}.get(stat.S_IFMT(mode), "no regular file")
        raise ResultError(f"{path}: is {what}; expected a NetCDF-4 file of Periscope")
    if path.stat().st_size == 0:
        raise ResultError(f"{path}: is empty; expected a NetCDF-4 file of Periscope")


def _values(path: Path, name: str, variable: "netCDF4.Variable[Any]") -> np.ndarray:
    size = math.prod(variable.shape) * 8
    if size > LARGEST:
        raise ResultError(f"{path}: variable {name!r} has {size // 8} values; expected at most {LARGEST // 8}")
    values = _plain(variable[...])
    if values.dtype.kind not in "fiuUO" or any(not isinstance(v, str) for v in values.flat if values.dtype == object):
        raise ResultError(f"{path}: variable {name!r} is of type {variable.dtype}; expected numbers or text")
    return values


def read(path: Path) -> Result:
    """Reads a file whole."""
    _require_file(path)
    try:
        with netCDF4.Dataset(path) as data:
            attributes = {name: data.getncattr(name) for name in data.ncattrs()}
            if attributes.get("program") != "periscope":
                raise ResultError(f"{path}: not a result of Periscope: its attribute 'program' is not 'periscope'")
            for name in TEXTS:
                if not isinstance(attributes.get(name), str):
                    found = f"is {attributes[name]!r}" if name in attributes else "is missing"
                    raise ResultError(f"{path}: its attribute {name!r} {found}; expected a text")
            variables = {name: _values(path, name, variable) for name, variable in data.variables.items()}
            # One value for the whole result is a variable on no dimension.
            for name, variable in data.variables.items():
                if variable.ndim == 0 and not np.ma.is_masked(variable[...]):
                    attributes[name] = np.asarray(variable[...]).item()
            variables = {name: values for name, values in variables.items() if values.ndim > 0}
            dimensions = {name: data.variables[name].dimensions for name in variables}
        config = json.loads(attributes["config"])
    except (OSError, RuntimeError, ValueError, KeyError, IndexError, AttributeError, MemoryError) as error:
        reason = " ".join(str(error).split()).removesuffix(f": '{path}'")
        raise ResultError(f"{path}: cannot be read: {reason}; expected a NetCDF-4 file of Periscope") from error
    if not isinstance(config, dict):
        raise ResultError(f"{path}: its attribute 'config' holds no table; expected the resolved configuration")
    return Result(path, variables, attributes, config, dimensions)

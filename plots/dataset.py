"""What a result's dataset holds and how figures ask for it: arrays of numbers, the configuration, words for captions.

A result is an xarray.Dataset, whether it was read from a file or comes from memory: one value for the whole result is
a variable on no dimension, JSON stands as text in the global attributes, columns are as `tidy` makes them.
"""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr


def tidy(values: Any, missing: int | None = None) -> np.ndarray:
    """A column with the types that datasets have, from the types of files and of the program.

    Real numbers become float64, with NaN where there is none; integers int64 and flags (bytes, 0 or 1) bool, or both
    float64 with NaN where any is `missing`; text an array of objects, all of them str. Raises TypeError for other
    types and ValueError for a flag that is neither 0, 1 nor `missing`.
    """
    values = np.asarray(values)
    kind = values.dtype.kind
    if kind == "f":
        return values.astype(np.float64, copy=False)
    if kind in "UO":
        if any(not isinstance(v, str) for v in values.flat):
            raise TypeError("is of type object; expected numbers or text")
        return values.astype(object, copy=False)
    if kind not in "iub":
        raise TypeError(f"is of type {values.dtype}; expected numbers or text")
    gone = np.zeros(values.shape, dtype=bool) if missing is None else values == missing
    is_flag = values.dtype in (np.uint8, np.bool_)
    if is_flag and not np.isin(values[~gone], (0, 1)).all():
        raise ValueError(f"holds the flag {values[~gone].max()}; expected 0 or 1")
    if gone.any():
        return np.where(gone, np.nan, values)
    return values.astype(bool if is_flag else np.int64, copy=False)


def on(dimensions: str, *names: str) -> dict[str, tuple[str, ...]]:
    """Variables with the dimensions on which a figure needs them, given as "input placement depth"."""
    return dict.fromkeys(names, tuple(dimensions.split()))


def coordinates(names: str) -> dict[str, tuple[str, ...]]:
    """Variables that say what the positions on the dimension of their name are, given as "input depth"."""
    return {name: (name,) for name in names.split()}


def array(ds: xr.Dataset, name: str) -> np.ndarray:
    """A variable for drawing: numbers and flags as floats, NaN where there is none, text as it is.

    Figures find their places on it by position, with the dimensions in the order in which files have them.
    """
    values = ds[name].values
    return values.astype(float, copy=False) if values.dtype.kind in "fiub" else values


def fact(ds: xr.Dataset, name: str) -> Any:
    """One value for the whole of a result: a variable on no dimension, or a global attribute. KeyError without one."""
    if name in ds.variables and ds.variables[name].ndim == 0:
        return ds.variables[name].values.item()
    return ds.attrs[name]


def fact_if_any(ds: xr.Dataset, name: str) -> Any:
    """The same, None where the result has none."""
    return fact(ds, name) if name in ds.variables or name in ds.attrs else None


def config(ds: xr.Dataset) -> dict[str, Any]:
    """The resolved configuration. Raises ValueError where the attribute holds none."""
    table = json.loads(ds.attrs["config"])
    if not isinstance(table, dict):
        raise ValueError("its attribute 'config' holds no table; expected the resolved configuration")
    return table


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside `target` for a file that takes its place once it is written and on the disk."""
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def is_measured(ds: xr.Dataset) -> bool:
    return any(str(name).endswith("_measured") and v.ndim > 0 for name, v in ds.variables.items())


def seeds(ds: xr.Dataset) -> int:
    return config(ds)["ladder" if "ladder_width" in ds else "run"]["seeds"]


def seeds_in_words(ds: xr.Dataset) -> str:
    """Of a result, or of several that are drawn together."""
    if "seeds" in ds.attrs:
        return str(ds.attrs["seeds"])
    return "1 seed" if seeds(ds) == 1 else f"{seeds(ds)} seeds"


def version(ds: xr.Dataset) -> str:
    """Which Periscope has made it, as the last words of a caption."""
    return f"Periscope {ds.attrs['version']}, commit {ds.attrs['commit']}."

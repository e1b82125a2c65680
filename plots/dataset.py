"""Access to a result's dataset: arrays, the configuration, and texts for captions.

A result is an xarray.Dataset, from a file or from memory. A single value for the whole result is a variable without
dimensions, JSON is text in the global attributes, and columns have the types of `tidy`.
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
    """Converts a column from the types of a file or of the program to the types of datasets.

    Real numbers become float64. Integers become int64, and flags (bytes 0 or 1) bool; both become float64 with NaN if
    a value is `missing`. Text becomes an object array of str. Raises TypeError for other types, and ValueError for a
    flag other than 0, 1 and `missing`.
    """
    values = np.asarray(values)
    kind = values.dtype.kind
    if kind == "f":
        return values.astype(np.float64, copy=False)
    if kind in "UO":
        if any(not isinstance(v, str) for v in values.flat):
            raise TypeError("has type object; expected numbers or text")
        return values.astype(object, copy=False)
    if kind not in "iub":
        raise TypeError(f"has type {values.dtype}; expected numbers or text")
    is_missing = np.zeros(values.shape, dtype=bool) if missing is None else values == missing
    is_flag = values.dtype in (np.uint8, np.bool_)
    if is_flag and not np.isin(values[~is_missing], (0, 1)).all():
        raise ValueError(f"has the flag {values[~is_missing].max()}; expected 0 or 1")
    if is_missing.any():
        return np.where(is_missing, np.nan, values)
    return values.astype(bool if is_flag else np.int64, copy=False)


def on(dimensions: str, *names: str) -> dict[str, tuple[str, ...]]:
    """Returns variables that a figure requires on these dimensions, given as "input placement depth"."""
    return dict.fromkeys(names, tuple(dimensions.split()))


def coordinates(names: str) -> dict[str, tuple[str, ...]]:
    """Returns required coordinates, given as "input depth"."""
    return {name: (name,) for name in names.split()}


def array(ds: xr.Dataset, name: str) -> np.ndarray:
    """Returns a variable's values for drawing: numbers and flags as floats with NaN if missing; text unchanged. Figures
    index the array by position, so the dimensions must be in the order of result files."""
    values = ds[name].values
    return values.astype(float, copy=False) if values.dtype.kind in "fiub" else values


def scalar(ds: xr.Dataset, name: str) -> Any:
    """Returns a variable without dimensions, or a global attribute. Raises KeyError if neither exists."""
    if name in ds.variables and ds.variables[name].ndim == 0:
        return ds.variables[name].values.item()
    return ds.attrs[name]


def scalar_or_none(ds: xr.Dataset, name: str) -> Any:
    return scalar(ds, name) if name in ds.variables or name in ds.attrs else None


def config(ds: xr.Dataset) -> dict[str, Any]:
    """Returns the resolved configuration. Raises ValueError if the attribute is not a table."""
    table = json.loads(ds.attrs["config"])
    if not isinstance(table, dict):
        raise ValueError("attribute 'config' is not a table; expected the resolved configuration")
    return table


def places(ds: xr.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the complete coordinates of positions in a stack (two sublayers per layer) and of seeds."""
    settings = config(ds)
    layers = max((stack["model"]["layers"] for stack in settings.get("stacks", [])), default=None)
    if layers is not None:
        for name, first, count in (("depth", 0, 2 * layers + 1), ("other_depth", 0, 2 * layers + 1),
                                   ("sublayer", 0, 2 * layers), ("layer", 0, layers), ("place", -1, 2 * layers + 2),
                                   ("layers_passed", 0, layers + 1)):  # fmt: skip
            yield name, np.arange(first, first + count)
    if "seed" in ds and "run" in settings:
        yield "seed", array(ds, "seed")[:1] + np.arange(settings["run"]["seeds"])


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yields a temporary path in the folder of `target`; the file is flushed and renamed to `target` afterwards."""
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


def seeds_text(ds: xr.Dataset) -> str:
    """Returns the number of seeds as text, for one result or several combined ones."""
    if "seeds" in ds.attrs:
        return str(ds.attrs["seeds"])
    return "1 seed" if seeds(ds) == 1 else f"{seeds(ds)} seeds"


def version(ds: xr.Dataset) -> str:
    """Returns the version and commit, the last sentence of a caption."""
    return f"Periscope {ds.attrs['version']}, commit {ds.attrs['commit']}."

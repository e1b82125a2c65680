"""The verdicts of a result as a table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Variables that a verdict may have, and their names as columns of the table.
COLUMNS = {
    "reason": "reason", "worst_test": "worst_test", "worst_z": "worst_z", "worst_critical": "critical",
    "power_worst": "detectable", "power": "detectable", "worst": "worst_test",
}  # fmt: skip
SHOWN = 5  # columns without all=True


def verdicts(ds: "xr.Dataset", *, all: bool = False) -> "pd.DataFrame":
    """Returns one row for every verdict of a result.

    The first column is the ``verdict`` ("agrees", "disagrees", "inconclusive", …). Then come ``quantity``, the variable
    that holds it, the coordinates that it is for, and, where the result has them, the worst cell, how many combined
    standard errors it is off (``worst_z``), at how many it would be rejected (``critical``), and the error that would
    have been found with 95 % probability (``detectable``).

    Only the first five are returned, without labels that are the same in all rows. ``all=True`` returns all columns,
    with the ``reason`` of every verdict as the last.
    """
    import pandas as pd

    rows = list(_rows(ds))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    last = [name for name in dict.fromkeys(COLUMNS.values()) if name in columns and name != "reason"]
    labels = [name for name in columns if name not in ("verdict", "reason", *last)]
    if all:
        return pd.DataFrame(rows, columns=["verdict", *labels, *last, *(["reason"] if "reason" in columns else [])])
    labels = [name for name in labels if len({row.get(name) for row in rows}) > 1]
    return pd.DataFrame(rows, columns=["verdict", *labels, *last][:SHOWN])


def _rows(ds: "xr.Dataset") -> Iterator[dict[str, Any]]:
    for name, variable in ds.data_vars.items():
        if not str(name).endswith("verdict"):
            continue
        stem = str(name).removesuffix("verdict")
        for index in np.ndindex(*variable.shape):
            at = dict(zip(variable.dims, index, strict=True))
            row: dict[str, Any] = {"quantity": str(name)}
            for dimension, place in at.items():
                row[str(dimension)] = ds[dimension].values[place] if dimension in ds.coords else place
            row["verdict"] = variable.values[index]
            for suffix, column in COLUMNS.items():
                for other in (f"{stem}{suffix}", f"{stem}verdict_{suffix}"):
                    if other in ds and set(ds[other].dims) <= set(variable.dims):
                        row[column] = ds[other].isel({d: at[d] for d in ds[other].dims}).item()
            yield row

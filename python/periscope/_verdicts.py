"""The verdicts of a result as a table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Table columns by the suffix of the dataset's variables.
COLUMNS = {
    "reason": "reason", "worst_test": "worst_test", "worst_z": "worst_z", "worst_critical": "critical",
    "power_worst": "detectable", "power": "detectable", "worst": "worst_test",
}  # fmt: skip
SHOWN = 5  # number of columns unless all=True


def verdicts(ds: "xr.Dataset", *, all: bool = False) -> "pd.DataFrame":
    """Returns a table with one row per verdict of a result.

    Columns: the ``verdict`` ("agrees", "disagrees", "inconclusive", …); ``quantity``, the variable of the verdict; its
    coordinates; and, if the result has them, the worst test, its deviation in combined standard errors (``worst_z``),
    the smallest deviation that rejects (``critical``), and the error detected with 95 % probability (``detectable``).

    By default returns the first five columns, without coordinates that are the same in all rows. ``all=True`` returns
    all columns, the last one being the ``reason`` of the verdict.
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

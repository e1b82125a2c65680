"""Tables of keys, columns, placements and recipes, and citations of results."""

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from . import _periscope
from .errors import ConfigError, InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@cache
def description() -> dict[str, Any]:
    """Returns the program's version and commit, studies, sections of keys, kinds of results, placements and recipes."""
    return dict(json.loads(_periscope.description()))


def keys() -> "pd.DataFrame":
    """Returns all configuration keys with default, unit and meaning."""
    rows = [key for section in description()["sections"] for key in section["keys"]]
    return _table(rows, ["name", "default", "unit", "meaning"])


def columns(kind: str) -> "pd.DataFrame":
    """Returns the columns of a kind of result (``ds.attrs["result"]``: "stack", "probe", …), with units and meaning."""
    results = description()["results"]
    if kind not in results:
        raise ConfigError(f"kind {kind!r}: expected one of {', '.join(results)}")
    rows = [{**column, "dimensions": " ".join(column["dimensions"])} for column in results[kind]["columns"]]
    return _table(rows, ["name", "dimensions", "type", "units", "meaning"])


def placements() -> "pd.DataFrame":
    """Returns the named placements with their norms A, B, C, scales, final norm, and the models that use them."""
    return _table(description()["placements"])


def recipes() -> "pd.DataFrame":
    """Returns the keys that each ``model.recipe`` sets, and properties of its family that have no key (``extras``)."""
    rows = description()["recipes"]
    return _table([{"name": row["name"], **row["sets"], "extras": "; ".join(row["extras"])} for row in rows])


def _table(rows: list[dict[str, Any]], shown: list[str] | None = None) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(rows, columns=shown).set_index("name")


def cite(ds: "xr.Dataset | None" = None) -> str:
    """Returns BibTeX entries of the Peri-LN paper and of this version, or of the version that made the result ``ds``,
    with its study and configuration. Raises InputError for a dataset that is not a result of Periscope."""
    attributes = {} if ds is None else {str(k): v for k, v in ds.attrs.items() if isinstance(v, str)}
    if ds is not None and attributes.get("program") != "periscope":
        raise InputError("result: the attribute 'program' is not 'periscope'; expected a result of Periscope")
    return _periscope.citation(attributes)

"""Tables of keys, columns, placements and recipes, and citations of results."""

import json
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def keys() -> "pd.DataFrame":
    """Every key of a configuration, with its default, unit and meaning."""
    import pandas as pd

    from . import _periscope

    rows = [key for section in _periscope.sections() for key in section["keys"]]
    return pd.DataFrame(rows, columns=["name", "default", "unit", "meaning"]).set_index("name")


def columns(kind: str) -> "pd.DataFrame":
    """The columns of a kind of result (``ds.attrs["result"]``: "stack", "probe", …), with units and meaning."""
    import pandas as pd

    from . import _periscope

    schemas = _periscope.schemas()
    if kind not in schemas:
        raise ConfigError(f"kind {kind!r}: expected one of {', '.join(schemas)}")
    rows = [{**column, "dimensions": " ".join(column["dimensions"])} for column in schemas[kind]["columns"]]
    return pd.DataFrame(rows, columns=["name", "dimensions", "type", "units", "meaning"]).set_index("name")


def placements() -> "pd.DataFrame":
    """Returns the named placements: their norms A, B, C, scales, final norm, and who uses them."""
    from . import _periscope

    return _table(json.loads(_periscope.placements()))


def recipes() -> "pd.DataFrame":
    """Returns the values that every ``model.recipe`` sets, and properties of its family without a key (``beyond``)."""
    from . import _periscope

    rows = json.loads(_periscope.recipes())
    return _table([{"name": row["name"], **row["sets"], "beyond": "; ".join(row["beyond"])} for row in rows])


def _table(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(rows).set_index("name")


def cite(ds: "xr.Dataset | None" = None) -> str:
    """Returns BibTeX of this version, or of the version that made a result, with the result's study and configuration,
    and of the paper that Periscope examines. Raises InputError for a dataset that is not a result of Periscope."""
    from . import _periscope

    attributes = {} if ds is None else {str(k): v for k, v in ds.attrs.items() if isinstance(v, str)}
    if ds is not None and attributes.get("program") != "periscope":
        raise InputError("result: its attribute 'program' is not 'periscope'; expected a result of Periscope")
    return _periscope.citation(attributes)

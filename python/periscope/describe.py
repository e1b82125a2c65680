"""Lists: what can be configured, and what results hold."""

from typing import TYPE_CHECKING

from .errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


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

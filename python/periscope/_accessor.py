"""``ds.periscope``: what a dataset of Periscope can show, from itself."""

from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@xr.register_dataset_accessor("periscope")
class Accessor:
    """Figures and verdicts of a result. xarray makes it; where attributes were lost, so are these."""

    def __init__(self, ds: xr.Dataset) -> None:
        self._ds = ds

    def plot(self, name: str | None = None, **words: Any) -> "Figure":
        """As ``periscope.plot``."""
        from .plots import plot

        return plot(self._ds, name, **words)

    def verdicts(self, *, all: bool = False) -> "pd.DataFrame":
        """As ``periscope.verdicts``."""
        from ._verdicts import verdicts

        return verdicts(self._ds, all=all)

    def cite(self) -> str:
        """As ``periscope.cite``."""
        from .describe import cite

        return cite(self._ds)

    @property
    def config(self) -> dict[str, Any]:
        """Every key of the configuration that it was made from. Raises AttributeError for what is no result."""
        from .plots.dataset import config

        if "config" not in self._ds.attrs:
            raise AttributeError("this dataset has no attribute 'config': it is no result of Periscope")
        return config(self._ds)

"""The accessor ``ds.periscope``: figures, verdicts and citation of a dataset."""

from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@xr.register_dataset_accessor("periscope")
class Accessor:
    """Figures and verdicts of a result. They need the dataset's attributes, which some operations of xarray drop."""

    def __init__(self, ds: xr.Dataset) -> None:
        self._ds = ds

    def plot(self, name: str | None = None, **options: Any) -> "Figure":
        """See ``periscope.plot``."""
        from .plots import plot

        return plot(self._ds, name, **options)

    def verdicts(self, *, all: bool = False) -> "pd.DataFrame":
        """See ``periscope.verdicts``."""
        from ._verdicts import verdicts

        return verdicts(self._ds, all=all)

    def cite(self) -> str:
        """See ``periscope.cite``."""
        from .describe import cite

        return cite(self._ds)

    @property
    def config(self) -> dict[str, Any]:
        """All keys of the result's configuration. Raises AttributeError for a dataset that is not a result."""
        from .plots.dataset import config

        if "config" not in self._ds.attrs:
            raise AttributeError("this dataset has no attribute 'config', so it is not a result of Periscope")
        return config(self._ds)

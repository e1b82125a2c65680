"""Figures from Periscope's results: `python -m plots RESULTS_DIR --out FIGURES_DIR` for files, `plot` for a dataset.

Results hold measured and predicted values alike. What is here draws them and computes nothing. matplotlib is imported
by the first call; its settings stay as they were, and it chooses no backend.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["caption_of", "figures", "plot"]


def figures(ds: "xr.Dataset") -> list[str]:
    """The names of all figures that can be drawn from a result; the first one tells most about it."""
    from . import library

    return library.figures(ds)


def plot(ds: "xr.Dataset", name: str | None = None, *, width: float | None = None, caption: bool = False) -> "Figure":
    """Draws one figure of a result: the one of that name, or the first of `figures(ds)`.

    `width` is in inches, by default 7, or 4.6 for one panel. With `caption` the figure carries its caption below the
    legend. pyplot does not know the figure: notebooks show it once, it needs no closing, and `savefig` writes it.
    Raises ValueError, which says why and which figures there are, if there is no such figure, or if the dataset lacks
    what the figure needs: stacks may be selected from a result, as by isel(placement=[0, 2]), but not dimensions
    removed nor places in the stack left out.
    """
    from . import library

    return library.plot(ds, name, width=width, caption=caption)


def caption_of(ds: "xr.Dataset", name: str | None = None) -> str:
    """What the figure of that name shows and how to read it, as one paragraph. Raises ValueError as `plot` does."""
    from . import library

    return library.caption_of(ds, name)

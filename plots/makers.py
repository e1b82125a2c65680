"""What draws the figures of a result: `draw` of a kind of figures returns a function for each of its figures."""

from collections.abc import Callable
from functools import partial

import matplotlib
import xarray as xr

from . import style
from .dataset import array

Makers = dict[str, Callable[[], style.Page]]  # by the figure's name


def one_figure(name: str) -> Callable[[Callable[[xr.Dataset], style.Page]], Callable[[xr.Dataset], Makers]]:
    """Makes `draw` of a kind of which a result has one figure, of the function that draws it."""
    return lambda make: lambda ds: {name: partial(make, ds)}


def one_per_input(name: str) -> Callable[[Callable[[xr.Dataset, int], style.Page]], Callable[[xr.Dataset], Makers]]:
    """The same of a kind with a figure for each input, which the function takes by its position."""
    return lambda make: lambda ds: {f"{name}-{of}": partial(make, ds, i) for i, of in enumerate(array(ds, "input"))}


def made(make: Callable[[], style.Page]) -> style.Page:
    """Draws a figure. matplotlib's settings are as before afterwards."""
    with matplotlib.rc_context(style.SETTINGS):
        return make()

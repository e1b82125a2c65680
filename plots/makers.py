"""Several figures of one result, of which one may fail without taking the others along."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import matplotlib
import xarray as xr

from . import style
from .dataset import array


class FigureError(Exception):
    """A figure that cannot be drawn. The message is its name, __cause__ the reason."""


class Figures(Iterator[tuple[str, style.Page]]):
    """Names and figures, each drawn when it is asked for.

    A figure that cannot be drawn raises FigureError; the next call goes on with the one after it, which a generator
    could not do. `makers` has what draws each figure, by its name; matplotlib's settings are as before afterwards.
    """

    def __init__(self, makers: Iterable[tuple[str, Callable[[], style.Page]]]) -> None:
        self.makers = {name: partial(_in_our_style, make) for name, make in makers}
        self._left = iter(self.makers.items())

    def __next__(self) -> tuple[str, style.Page]:
        name, make = next(self._left)
        try:
            return name, make()
        except Exception as error:
            raise FigureError(name) from error


def one_figure(name: str) -> Callable[[Callable[[xr.Dataset], style.Page]], Callable[[xr.Dataset], Figures]]:
    """Makes `draw` of a kind of which a result has one figure, of the function that draws it."""
    return lambda make: lambda ds: Figures([(name, partial(make, ds))])


def one_per_input(name: str) -> Callable[[Callable[[xr.Dataset, int], style.Page]], Callable[[xr.Dataset], Figures]]:
    """The same of a kind with a figure for each input, which the function takes by its position."""
    return lambda make: lambda ds: Figures(
        (f"{name}-{of}", partial(make, ds, i)) for i, of in enumerate(array(ds, "input")))


def _in_our_style(make: Callable[[], style.Page]) -> style.Page:
    with matplotlib.rc_context(style.SETTINGS):
        return make()

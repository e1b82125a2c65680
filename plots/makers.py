"""What a kind of figures is: its name, the variables that it needs, and a function that draws it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import xarray as xr

from . import style
from .dataset import array

Makers = dict[str, Callable[[], style.Page]]  # by the figure's name
Needs = dict[str, tuple[str, ...]]  # dimensions by variable


@dataclass(frozen=True, eq=False)
class Kind:
    """A figure, or one for each of a result's inputs, such as "agreement-text" of the kind "agreement"."""

    name: str
    words: str  # what it shows
    needs: Needs  # without these variables there is no such figure
    draw: Callable[[xr.Dataset], Makers]


def inputs(ds: xr.Dataset) -> dict[str, tuple[Any, ...]]:
    return {str(name): (i,) for i, name in enumerate(array(ds, "input"))}


def kind(
    name: str, words: str, needs: Needs,
    cases: Callable[[xr.Dataset], Mapping[str, tuple[Any, ...]]] = lambda _: {"": ()},
) -> Callable[[Callable[..., style.Page]], Kind]:  # fmt: skip
    """Makes a kind of the function that draws a figure of it. `cases(ds)` holds that function's arguments after the
    dataset, by the end of the figure's name."""

    return lambda make: Kind(name, words, needs, lambda ds: {
        f"{name}-{end}" if end else name: partial(make, ds, *arguments) for end, arguments in cases(ds).items()})


def made(make: Callable[[], style.Page]) -> style.Page:
    """Draws a figure. matplotlib's settings are as before afterwards."""
    with matplotlib.rc_context(style.SETTINGS):
        return make()

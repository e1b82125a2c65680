"""Definition of a kind of figure: its name, the variables that it requires, and the function that draws it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import xarray as xr

from . import style
from .dataset import array

Makers = dict[str, Callable[[], style.Page]]  # functions that draw figures, by name
RequiredVariables = dict[str, tuple[str, ...]]  # dimensions by variable


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of figure: one per result, or one per input, such as "agreement-text" of the kind "agreement"."""

    name: str
    description: str
    required: RequiredVariables
    draw: Callable[[xr.Dataset], Makers]


def inputs(ds: xr.Dataset) -> dict[str, tuple[Any, ...]]:
    return {str(name): (i,) for i, name in enumerate(array(ds, "input"))}


def kind(
    name: str, description: str, required: RequiredVariables,
    cases: Callable[[xr.Dataset], Mapping[str, tuple[Any, ...]]] = lambda _: {"": ()},
) -> Callable[[Callable[..., style.Page]], Kind]:  # fmt: skip
    """Decorator that makes a Kind from a drawing function. `cases(ds)` maps suffixes of figure names to the arguments
    of the function after the dataset."""

    return lambda make: Kind(name, description, required, lambda ds: {
        f"{name}-{suffix}" if suffix else name: partial(make, ds, *arguments)
        for suffix, arguments in cases(ds).items()})


def drawn(make: Callable[[], style.Page]) -> style.Page:
    """Draws a figure with the project's matplotlib settings, which are restored afterwards."""
    with matplotlib.rc_context(style.SETTINGS):
        return make()

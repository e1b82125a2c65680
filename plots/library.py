"""Python interface: the figures of a dataset, and their captions."""

import difflib
import threading
from dataclasses import dataclass

import numpy as np
import xarray as xr

from . import kinds, style, sweeps
from .dataset import array, places
from .makers import Kind, Makers, drawn

ATTRIBUTES = ("version", "commit", "config")  # attributes used in captions
_LOCK = threading.RLock()  # matplotlib's settings are global


@dataclass(frozen=True)
class Available:
    """The figures that a dataset supports, and the reasons why others with the required variables cannot be drawn."""

    makers: Makers
    reasons: dict[str, str]  # by name of the unsupported figure
    first: str  # the most informative figure, supported or not; "" if there is none


def figures(ds: xr.Dataset) -> list[str]:
    """Returns the names of all figures that can be drawn from a result, the most informative one first."""
    return list(_available(ds).makers)


def plot(
    ds: xr.Dataset, name: str | None = None, *, width: float | None = None, caption: bool = False
) -> style.Page:  # fmt: skip
    """Draws a figure of a result: `name`, or the first of `figures(ds)`.

    `width` is in inches; default: 7, or 4.6 for one panel. With `caption` the caption is part of the figure, below the
    legend. The figure is not registered with pyplot: notebooks display it once, it needs no closing, and `savefig`
    writes it. Raises ValueError, with the reason and the available figures, if there is no such figure or the dataset
    is incomplete. Stacks may be selected, as by isel(placement=[0, 2]), but dimensions and positions in the stack must
    be complete.
    """
    if width is not None and not style.NARROWEST <= width <= style.WIDEST:
        raise ValueError(f"width {width!r}: expected inches from {style.NARROWEST:g} to {style.WIDEST:g}")
    available = _available(ds)
    chosen = _choose(available, name)
    with _LOCK, style.use_width(width):
        try:
            figure = drawn(available.makers[chosen])
        except Exception as error:
            reason = f"figure {chosen!r} cannot be drawn from this dataset: {type(error).__name__}: {error}"
            raise ValueError(f"{reason}; expected a complete result, or stacks selected from one by lists") from error
        if caption:
            style.caption_below(figure)
    return figure


def caption_of(ds: xr.Dataset, name: str | None = None) -> str:
    """Returns the caption of a figure as plain text. Raises ValueError like `plot`."""
    return style.plain(plot(ds, name).caption)


def _available(ds: xr.Dataset) -> Available:
    missing = [name for name in ATTRIBUTES if not isinstance(ds.attrs.get(name), str)]
    if missing:
        raise ValueError(f"the dataset has no attribute {missing[0]!r}; expected a result of Periscope with its "
                         "attributes (keep_attrs=True preserves them in calculations)")  # fmt: skip
    makers: Makers = {}
    reasons: dict[str, str] = {}
    first = ""
    ds = sweeps.stacked(ds)
    for kind in kinds.of(ds):
        try:
            _require(ds, kind)
            if kind.name != "sweep" and (excess := sweeps.excess_of(ds)):
                raise ValueError(excess)
            of_kind = kind.draw(ds)
        except (ValueError, LookupError) as error:
            reasons[kind.name] = str(error)
            first = first or kind.name
            continue
        first = first or next(iter(of_kind), "")
        makers |= of_kind
    return Available(makers, reasons, first)


def _require(ds: xr.Dataset, kind: Kind) -> None:
    """Raises ValueError unless the variables have the required dimensions and positions, which figures rely on."""
    for name, dimensions in kind.required.items():
        found = ds[name].dims
        if found != dimensions and set(found) == set(dimensions):
            raise ValueError(f"{name!r} has dimensions {_listed(found)}; expected the order {_listed(dimensions)}")
        if found != dimensions:
            raise ValueError(f"{name!r} has dimensions {_listed(found)}; expected {_listed(dimensions)}: select with "
                             "lists, such as isel(placement=[0]), which keep the dimension")  # fmt: skip
        for dimension, size in ds[name].sizes.items():
            if size == 0 and dimension != "claim":  # a run may test no claim
                raise ValueError(f"the dimension {dimension!r} of {name!r} is empty")
    used = {dimension for dimensions in kind.required.values() for dimension in dimensions}
    for name, expected in places(ds):
        if name in used and name in ds and not np.array_equal(array(ds, name), expected):
            raise ValueError(f"{name!r} has {ds.sizes[name]} of the result's {expected.size} positions; figures need "
                             "all of them in order")  # fmt: skip
    if "record" in used and array(ds, "record")[0] != 0:
        raise ValueError(f"'record' begins with step {array(ds, 'record')[0]:g}; figures need the record at step 0")


def _choose(available: Available, name: str | None) -> str:
    """Returns the name of an available figure. Raises ValueError with the available names for any other name."""
    figures = f"this dataset has {', '.join(available.makers) or 'none'}"
    if name is None:
        if not available.makers and not available.reasons:
            raise ValueError("no figure supports the variables of the dataset; expected a result of Periscope")
        name = available.first
    if name in available.makers:
        return name
    members = [member for member in available.makers if kinds.family(member) == name]
    if len(members) == 1:
        return members[0]
    if members:
        raise ValueError(f"figure {name!r} is ambiguous; expected one of {', '.join(members)}")
    if name in available.reasons:
        raise ValueError(f"figure {name!r} cannot be drawn from this dataset: {available.reasons[name]}; {figures}")
    if name in kinds.names():
        raise ValueError(f"figure {name!r} belongs to another kind of result; {figures}")
    near = difflib.get_close_matches(name, [*available.makers, *kinds.names()], 1, 0.6)
    hint = f"nearest is {near[0]!r}; " if near else ""
    raise ValueError(f"unknown figure {name!r}; {hint}{figures}; all figures: {', '.join(kinds.names())}")


def _listed(dimensions: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, dimensions))})" if dimensions else "no dimension"

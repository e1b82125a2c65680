"""Figures of a dataset for callers in Python: which there are, one of them, its caption."""

import difflib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr

from . import kinds, style
from .dataset import array, config
from .makers import Kind, Makers, made

ATTRIBUTES = ("version", "commit", "config")  # what captions say
_ONE_AT_A_TIME = threading.RLock()  # matplotlib's settings are the process's


@dataclass(frozen=True)
class Offer:
    """The figures of a dataset, and why others, whose variables are there, cannot be drawn: the reason by name."""

    makers: Makers
    obstacles: dict[str, str]
    first: str  # the figure that tells most about such a result, whether it can be drawn or not; "" if there is none


def figures(ds: xr.Dataset) -> list[str]:
    """The names of all figures that can be drawn from a result; the first one tells most about it."""
    return list(_offer(ds).makers)


def plot(
    ds: xr.Dataset, name: str | None = None, *, width: float | None = None, caption: bool = False
) -> style.Page:  # fmt: skip
    """Draws one figure of a result: the one of that name, or the first of `figures(ds)`.

    `width` is in inches, by default 7, or 4.6 for one panel. With `caption` the figure carries its caption below the
    legend. pyplot does not know the figure: notebooks show it once, it needs no closing, and `savefig` writes it.
    Raises ValueError, which says why and which figures there are, if there is no such figure, or if the dataset lacks
    what the figure needs: stacks may be selected from a result, as by isel(placement=[0, 2]), but not dimensions
    removed nor places in the stack left out.
    """
    if width is not None and not style.NARROWEST <= width <= style.WIDEST:
        raise ValueError(f"width {width!r}: expected inches from {style.NARROWEST:g} to {style.WIDEST:g}")
    offer = _offer(ds)
    chosen = _choose(offer, name)
    with _ONE_AT_A_TIME, style.use_width(width):
        try:
            figure = made(offer.makers[chosen])
        except Exception as error:
            words = f"figure {chosen!r} cannot be drawn from this dataset: {type(error).__name__}: {error}"
            raise ValueError(f"{words}; expected a whole result, or stacks selected from one by lists") from error
        if caption:
            style.caption_below(figure)
    return figure


def caption_of(ds: xr.Dataset, name: str | None = None) -> str:
    """What the figure of that name shows and how to read it, as one paragraph. Raises ValueError as `plot` does."""
    return style.plain(plot(ds, name).caption)


def _offer(ds: xr.Dataset) -> Offer:
    missing = [name for name in ATTRIBUTES if not isinstance(ds.attrs.get(name), str)]
    if missing:
        raise ValueError(f"the dataset has no attribute {missing[0]!r}; expected a result of Periscope, with what it "
                         "says of itself (keep_attrs=True keeps it in calculations)")  # fmt: skip
    makers: Makers = {}
    obstacles: dict[str, str] = {}
    first = ""
    for kind in kinds.of(ds):
        try:
            _require(ds, kind)
            of_kind = kind.draw(ds)
        except (ValueError, LookupError) as error:
            obstacles[kind.name] = str(error)
            first = first or kind.name
            continue
        first = first or next(iter(of_kind), "")
        makers |= of_kind
    return Offer(makers, obstacles, first)


def _require(ds: xr.Dataset, kind: Kind) -> None:
    """Refuses a dataset in which figures would find other numbers than they look for: they find them by position."""
    for name, dimensions in kind.needs.items():
        found = ds[name].dims
        if found != dimensions and set(found) == set(dimensions):
            raise ValueError(f"{name!r} is on {_listed(found)}; expected them in the order {_listed(dimensions)}")
        if found != dimensions:
            raise ValueError(f"{name!r} is on {_listed(found)}; expected {_listed(dimensions)}: select by lists, as "
                             "isel(placement=[0]), which keep the dimension")  # fmt: skip
        for dimension, size in ds[name].sizes.items():
            if size == 0 and dimension != "claim":  # a run need not test any
                raise ValueError(f"nothing is left on the dimension {dimension!r} of {name!r}")
    used = {dimension for dimensions in kind.needs.values() for dimension in dimensions}
    for name, expected in _places(ds):
        if name in used and name in ds and not np.array_equal(array(ds, name), expected):
            raise ValueError(f"{name!r} has {ds.sizes[name]} of the result's {expected.size} places; figures need all "
                             "of them, in their order")  # fmt: skip
    if "record" in used and array(ds, "record")[0] != 0:
        raise ValueError(f"'record' begins with step {array(ds, 'record')[0]:g}; figures need the one before training")


def _places(ds: xr.Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """The coordinates that count places in a stack, seeds or steps, whole: two sublayers in every layer."""
    stated = config(ds)
    layers = max((stack["model"]["layers"] for stack in stated.get("stacks", [])), default=None)
    if layers is not None:
        for name, first, count in (("depth", 0, 2 * layers + 1), ("other_depth", 0, 2 * layers + 1),
                                   ("sublayer", 0, 2 * layers), ("layer", 0, layers), ("place", -1, 2 * layers + 2),
                                   ("layers_passed", 0, layers + 1)):  # fmt: skip
            yield name, np.arange(first, first + count)
    if "seed" in ds and "run" in stated:
        yield "seed", array(ds, "seed")[:1] + np.arange(stated["run"]["seeds"])


def _choose(offer: Offer, name: str | None) -> str:
    """The name of one figure of those that there are. Raises ValueError, which names them."""
    here = f"this dataset has {', '.join(offer.makers) or 'none'}"
    if name is None:
        if not offer.makers and not offer.obstacles:
            raise ValueError(f"the dataset lacks the variables of all {len(kinds.KINDS)} kinds of figures; expected a "
                             "result of Periscope")  # fmt: skip
        name = offer.first
    if name in offer.makers:
        return name
    members = [made for made in offer.makers if kinds.family(made) == name]
    if len(members) == 1:
        return members[0]
    if members:
        raise ValueError(f"there are several figures {name!r}: {', '.join(members)}")
    if name in offer.obstacles:
        raise ValueError(f"figure {name!r} cannot be drawn from this dataset: {offer.obstacles[name]}; {here}")
    if name in kinds.names():
        raise ValueError(f"figure {name!r} is of another kind of result; {here}")
    near = difflib.get_close_matches(name, [*offer.makers, *kinds.names()], 1, 0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"no figure {name!r}; {hint}{here}; known are {', '.join(kinds.names())}")


def _listed(dimensions: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, dimensions))})" if dimensions else "no dimension"

"""What a verdict could have refused (T22): measured over predicted, inside the band that the test would not notice."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from . import captions, curves, style
from .dataset import array, config, coordinates, on, seeds_in_words
from .makers import Makers

FIGURES = {"power": "the smallest error that the test would have found"}
NEEDS = (
    coordinates("depth")
    | on("input placement", "verdict", "power_worst")
    | on("input placement depth", "second_moment_power", "second_moment_measured")
)
BAND = "#56B4E9"
LINE = "#0072B2"
LIMIT: dict[str, Any] = {"color": style.INK, "linewidth": 0.6, "linestyle": (0, (4, 2))}


def draw(ds: xr.Dataset) -> Makers:
    return {f"power-{name}": partial(_bands, ds, i) for i, name in enumerate(array(ds, "input"))
            if np.isfinite(array(ds, "second_moment_power")[i]).any()}  # fmt: skip


def deviation(curve: curves.Curve) -> np.ndarray:
    """Measured over predicted, minus 1, in per cent."""
    predicted = np.where(curve["predicted"] != 0, curve["predicted"], np.nan)
    return 100 * (curve["measured"] / predicted - 1)


def reach(ds: xr.Dataset, i: int, limit: float) -> float:
    """Where the axis ends: beyond the limit, but where all that is drawn lies far inside it, beyond that."""
    drawn = [100 * array(ds, "second_moment_power")[i],
             *(deviation(curves.select(ds, "second_moment", (i, p))) for p in range(len(array(ds, "placement"))))]
    largest = max((np.nanmax(np.abs(y)) for y in drawn if np.isfinite(y).any()), default=0.0)
    return 1.6 * limit if not 0 < largest < limit / 4 else 1.3 * largest


def _bands(ds: xr.Dataset, i: int) -> style.Page:
    limit, depth = 100 * config(ds)["agreement"]["power_limit"]["second_moment"], array(ds, "depth")
    end = reach(ds, i, limit)

    def panel(axes: Axes, p: int, look: style.Look) -> None:
        hidden = 100 * array(ds, "second_moment_power")[i, p]
        hidden = np.where(np.isfinite(hidden), hidden, np.nan)
        axes.fill_between(depth, -hidden, hidden, color=BAND, alpha=0.35, lw=0, zorder=0)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        for y in (-limit, limit):
            axes.axhline(y, **LIMIT, zorder=1)
        curve = curves.select(ds, "second_moment", (i, p))
        axes.plot(depth, deviation(curve), color=LINE, marker="o", markersize=2.4, markeredgewidth=0, linewidth=0.6)
        axes.set_title(curves.titled(look, array(ds, "verdict")[i, p]))
        axes.set_ylim(-end, end)

    figure = curves.per_placement(ds, panel, 1.7, "Deviation / %", sharey=True)
    keys: list[Artist] = [
        style.entry(color=LINE, marker="o", ms=3.5, lw=0.6, label="measured / predicted − 1"),
        style.patch(color=BAND, alpha=0.35, lw=0, label="detectable error"),
    ]
    if limit <= end:
        keys.append(style.entry(**LIMIT, label=f"limit of an agreement, ± {limit:g} %"))
    where = "" if limit <= end else ", which is beyond the axes"
    words = (
        f"{style.title(style.INPUTS[array(ds, 'input')[i]])}: second moment of the stream, measured over predicted "
        f"({seeds_in_words(ds)}). Band: the smallest error that the test would have rejected with 95 % probability; "
        f"a verdict whose band leaves the limit, ± {limit:g} %{where}, is inconclusive. Titles: the verdict over all "
        "tested signals and gradients, of which each can make it inconclusive."
    )
    return style.finish(figure, keys, f"{words} {captions.setting(ds)}")

"""What a stack costs: time and peak memory against its width, layers, tokens, threads and seeds, PyTorch beside."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from . import scales, style
from .dataset import array, config, on, version
from .makers import Figures

KEPT = ("width", "layers", "tokens", "threads", "seeds")
FIGURES = {name: f"time and memory of a stack against its {name}" for name in KEPT}
NEEDS = on("point", "axis", "implementation", "way", "peak_memory") | on("point repeat", "repeat_seconds")
LOOKS = {
    "dense": style.Look("dense weights", "#0072B2", "o"),
    "matrix-free": style.Look("weights without matrices", "#D55E00", "s", (0, (6, 1.5))),
    "PyTorch": style.Look("PyTorch, dense", "#555555", "^", (0, (1.5, 1.5))),
}
WAYS = {"forward": "Forward", "backward": "Forward and backward"}
# For the eye, below the widest point of a series: how its time should grow with the width.
GUIDES = {"dense": (2, "∝ width²"), "matrix-free": (1, "∝ width")}
MIB = 2.0**20


def draw(ds: xr.Dataset) -> Figures:
    names = [name for name in KEPT if (array(ds, "axis") == name).any()]
    return Figures((name, partial(_figure, ds, name)) for name in names)


def points(ds: xr.Dataset, axis: str, way: str, implementation: str) -> np.ndarray:
    """Which points a series has, by rising value."""
    there = (array(ds, "axis") == axis) & (array(ds, "way") == way) & (array(ds, "implementation") == implementation)
    found = np.flatnonzero(there)
    return found[np.argsort(array(ds, axis)[found])]


def _figure(ds: xr.Dataset, axis: str) -> style.Page:
    ways = [way for way in WAYS if ((array(ds, "axis") == axis) & (array(ds, "way") == way)).any()]
    figure, grid = style.panels(2, len(ways), 2.1, style.page(len(ways)), sharex=True, sharey="row")
    for column, way in enumerate(ways):
        for name, look in LOOKS.items():
            at = points(ds, axis, way, name)
            if at.size:
                _series(grid[0][column], grid[1][column], ds, axis, name, look, at)
        grid[0][column].set_title(WAYS[way])
        grid[1][column].set_xlabel(style.title(axis))
    grid[0][0].set_ylabel("Time [s]")
    grid[1][0].set_ylabel("Peak memory [MiB]")
    here = array(ds, "axis") == axis
    for row, name in zip(grid, ("repeat_seconds", "peak_memory"), strict=True):
        scales.log_axis(row, array(ds, name)[here] / (MIB if name == "peak_memory" else 1.0))
        _value_axis(row, array(ds, axis)[here])
    of_axis = array(ds, "implementation")[array(ds, "axis") == axis]
    shown = [look for name, look in LOOKS.items() if (of_axis == name).any()]
    return style.finish(figure, [style.key(look, True) for look in shown] + _guide_key(axis), _caption(ds, axis))


def _series(
    time: Axes, memory: Axes, ds: xr.Dataset, axis: str, name: str, look: style.Look, at: np.ndarray
) -> None:
    x, seconds = array(ds, axis)[at], array(ds, "repeat_seconds")[at]
    middle = np.nanmedian(seconds, axis=1)
    range_ = [middle - np.nanmin(seconds, axis=1), np.nanmax(seconds, axis=1) - middle]
    shape: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": look.size,
                             "linestyle": look.dash, "linewidth": 1.2}  # fmt: skip
    time.errorbar(x, middle, range_, elinewidth=0.9, capsize=2, **shape)
    memory.plot(x, array(ds, "peak_memory")[at] / MIB, **shape)
    if axis == "width" and name in GUIDES and at.size > 2:
        power, words = GUIDES[name]
        ends = np.array([x[-1] / 2, x[-1]])
        heights = middle[-1] / 2 * (ends / x[-1]) ** power
        time.plot(ends, heights, color=style.INK, linewidth=0.7, zorder=1)
        time.annotate(words, (ends[0], heights[0]), xytext=(4, -2), textcoords="offset points", fontsize=6.5,
                      color=style.INK, va="top")  # fmt: skip


def _guide_key(axis: str) -> list[Line2D]:
    return [style.entry(color=style.INK, linewidth=0.7, label="guide for the eye")] if axis == "width" else []


def _value_axis(row: list[Axes], values: np.ndarray) -> None:
    """Logarithmic, with a tick at every value, or at every second one if there are many."""
    ticks = np.unique(values)
    ticks = ticks[:: 2 if ticks.size > 6 else 1]
    for axes in row:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())


def _caption(ds: xr.Dataset, axis: str) -> str:
    here = array(ds, "axis") == axis
    kept = [f"{name} {array(ds, name)[here][0]}" for name in KEPT if name != axis]
    repeats = array(ds, "repeat_seconds").shape[1]
    return (
        f"Time and peak memory of the process against {axis}; {', '.join(kept)}; proportions of the "
        f"{config(ds)['preset']} preset, Peri-LN, f32, weights drawn, statistics at every site, with backward the "
        f"norm of every matrix's gradient too. Medians of {repeats} repeats, bars from the "
        f"fastest to the slowest. {ds.attrs['cpu']}; {ds.attrs['peer']}. {version(ds)}"
    )

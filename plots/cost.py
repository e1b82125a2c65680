"""What a stack costs: time and peak memory against its width, layers, tokens, threads and seeds, PyTorch beside."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import scales, style
from .dataset import array, config, on, version
from .makers import Makers

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


def draw(ds: xr.Dataset) -> Makers:
    names = [name for name in KEPT if (array(ds, "axis") == name).any()]
    return {name: partial(_figure, ds, name) for name in names}


def points(ds: xr.Dataset, axis: str, way: str, implementation: str) -> np.ndarray:
    """Which points a series has, by rising value."""
    there = (array(ds, "axis") == axis) & (array(ds, "way") == way) & (array(ds, "implementation") == implementation)
    found = np.flatnonzero(there)
    return found[np.argsort(array(ds, axis)[found])]


def _figure(ds: xr.Dataset, axis: str) -> style.Page:
    here = array(ds, "axis") == axis
    ways = [way for way in WAYS if (here & (array(ds, "way") == way)).any()]
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
    for row, name in zip(grid, ("repeat_seconds", "peak_memory"), strict=True):
        scales.log_axis(row, array(ds, name)[here] / (MIB if name == "peak_memory" else 1.0))
        ticks = np.unique(array(ds, axis)[here])
        for axes in row:
            scales.log_ticks_at(axes, ticks[:: 2 if ticks.size > 6 else 1])
    keys = [style.key(look, True) for name, look in LOOKS.items() if (array(ds, "implementation")[here] == name).any()]
    if axis == "width":
        keys.append(style.entry(color=style.INK, linewidth=0.7, label="guide for the eye"))
    kept = [f"{name} {array(ds, name)[here][0]}" for name in KEPT if name != axis]
    words = (
        f"Time and peak memory of the process against {axis}; {', '.join(kept)}; proportions of the "
        f"{config(ds)['preset']} preset, Peri-LN, f32, weights drawn, statistics at every site, with backward the "
        f"norm of every matrix's gradient too. Medians of {array(ds, 'repeat_seconds').shape[1]} repeats, bars from "
        f"the fastest to the slowest. {ds.attrs['cpu']}; {ds.attrs['peer']}. {version(ds)}"
    )
    return style.finish(figure, keys, words)


def _series(
    time: Axes, memory: Axes, ds: xr.Dataset, axis: str, name: str, look: style.Look, at: np.ndarray
) -> None:
    x, seconds = array(ds, axis)[at], array(ds, "repeat_seconds")[at]
    middle = np.nanmedian(seconds, axis=1)
    range_ = [middle - np.nanmin(seconds, axis=1), np.nanmax(seconds, axis=1) - middle]
    shape = look.marks | look.line | {"linewidth": 1.2}
    time.errorbar(x, middle, range_, elinewidth=0.9, capsize=2, **shape)
    memory.plot(x, array(ds, "peak_memory")[at] / MIB, **shape)
    if axis == "width" and name in GUIDES and at.size > 2:
        power, words = GUIDES[name]
        ends = np.array([x[-1] / 2, x[-1]])
        heights = middle[-1] / 2 * (ends / x[-1]) ** power
        time.plot(ends, heights, color=style.INK, linewidth=0.7, zorder=1)
        time.annotate(words, (ends[0], heights[0]), xytext=(4, -2), textcoords="offset points", fontsize=6.5,
                      color=style.INK, va="top")  # fmt: skip

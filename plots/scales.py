"""Scales of axes and their ticks: logarithms, and square roots, which have a place for 0."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from .style import INK


def plain_log_ticks(axes: Axes, low: float, high: float) -> None:
    """Plain numbers on a logarithmic y axis that spans few decades: 1, 2, 5, 10, … or, within one, round ones."""
    if not (high / low < 2e3 and low > 1e-4):
        return
    axis = axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high / low > 6 else MaxNLocator(6))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def root(x: np.ndarray) -> np.ndarray:
    """A scale on which values that double stand apart and 0 has its place: the square root, with its sign below 0."""
    return np.sign(x) * np.sqrt(np.abs(x))


def square(x: np.ndarray) -> np.ndarray:
    """What root takes back."""
    return np.sign(x) * np.square(x)


def apart(candidates: Iterable[float], scale: Callable[[Any], Any], least: float) -> list[float]:
    """Returns the candidates that are more than `least`, on a scale, from all chosen before them: ticks whose labels do
    not touch."""
    chosen: list[float] = []
    for value in map(float, candidates):
        if all(abs(scale(np.array(value)) - scale(np.array(other))) > least for other in chosen):
            chosen.append(value)
    return chosen


def integers(axes: Axes, most: int) -> None:
    """Ticks of the x axis at whole numbers, at most so many intervals."""
    axes.xaxis.set_major_locator(MaxNLocator(most, integer=True))


def log_ticks_at(axes: Axes, values: Sequence[float] | np.ndarray) -> None:
    """A logarithmic x axis with ticks at these values only."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.set_xticks([], minor=True)


def depth_axis(axes: Axes, last: float, words: str = "Sublayers passed") -> None:
    axes.set(xlabel=words, xlim=(-0.02 * last, 1.02 * last))
    integers(axes, 6)


def log_axis(panels: Sequence[Axes], values: np.ndarray, bars: np.ndarray | None = None) -> None:
    """A logarithmic y axis around the finite positive ones of `values`; without any, frames that say so. It also covers
    `bars`, the ends of error bars, up to a decade beyond the values: those of two seeds may span many decades."""
    exponents = _exponents(values)
    low, high = (exponents.min(), exponents.max()) if exponents.size else (-1.0, 1.0)
    if bars is not None and (ends := _exponents(bars)).size:
        low, high = max(min(low, ends.min()), low - 1.0), min(max(high, ends.max()), high + 1.0)
    margin = max(0.06 * (high - low), math.log10(1.15))
    for axes in panels:
        axes.set_yscale("log")
        axes.set_ylim(10 ** max(low - margin, -300.0), 10 ** min(high + margin, 300.0))  # within the numbers of f64
        if exponents.size:
            plain_log_ticks(axes, 10**low, 10**high)
        else:
            nothing_finite(axes)


def _exponents(values: np.ndarray) -> np.ndarray:
    return np.log10(values[np.isfinite(values) & (values > 0)])


def nothing_finite(axes: Axes) -> None:
    """Says in an empty frame why it is empty: a run that diverged from the start has no value to show."""
    axes.tick_params(axis="y", which="both", left=False, labelleft=False)
    axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center", va="center", fontsize=7, color=INK,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})

"""Axis scales and ticks: logarithms, and square roots, which can show 0."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from .style import INK


def plain_log_ticks(axis: Axis, low: float, high: float, most: int = 6) -> None:
    """Uses plain numbers on a log axis over few decades: 1, 2, 5, 10, …, or `most` round numbers within one decade."""
    if not (high / low < 2e3 and low > 1e-4):
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high / low > 6 else MaxNLocator(most))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def signed_sqrt(x: np.ndarray) -> np.ndarray:
    """Axis transform that separates small values and can show 0."""
    return np.sign(x) * np.sqrt(np.abs(x))


def signed_square(x: np.ndarray) -> np.ndarray:
    """Inverse of signed_sqrt."""
    return np.sign(x) * np.square(x)


def spaced(candidates: Iterable[float], scale: Callable[[Any], Any], least: float) -> list[float]:
    """Returns ticks whose labels do not overlap. Skips candidates within `least` of an earlier tick on the scale."""
    chosen: list[float] = []
    for value in map(float, candidates):
        if all(abs(scale(np.array(value)) - scale(np.array(other))) > least for other in chosen):
            chosen.append(value)
    return chosen


def integers(axes: Axes, most: int) -> None:
    """Sets integer ticks on the x axis, with at most `most` intervals."""
    axes.xaxis.set_major_locator(MaxNLocator(most, integer=True))


def log_ticks_at(axes: Axes, values: Sequence[float] | np.ndarray) -> None:
    """Makes the x axis logarithmic with ticks only at these values."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.set_xticks([], minor=True)


def depth_axis(axes: Axes, last: float, label: str = "Sublayers passed") -> None:
    axes.set(xlabel=label, xlim=(-0.02 * last, 1.02 * last))
    integers(axes, 6)


def log_axis(panels: Sequence[Axes], values: np.ndarray, bars: np.ndarray | None = None) -> None:
    """Makes the y axes logarithmic and covers the finite positive `values`; if there are none, panels show a note. Also
    covers `bars`, the ends of error bars, but only up to a decade beyond the values: bars may span many decades."""
    exponents = _exponents(values)
    low, high = (exponents.min(), exponents.max()) if exponents.size else (-1.0, 1.0)
    if bars is not None and (ends := _exponents(bars)).size:
        low, high = max(min(low, ends.min()), low - 1.0), min(max(high, ends.max()), high + 1.0)
    margin = max(0.06 * (high - low), math.log10(1.15))
    for axes in panels:
        axes.set_yscale("log")
        axes.set_ylim(10 ** max(low - margin, -300.0), 10 ** min(high + margin, 300.0))  # within the range of f64
        if exponents.size:
            plain_log_ticks(axes.yaxis, 10**low, 10**high)
        else:
            note_no_finite_value(axes)


def _exponents(values: np.ndarray) -> np.ndarray:
    return np.log10(values[np.isfinite(values) & (values > 0)])


def note_no_finite_value(axes: Axes) -> None:
    """Writes a note into an empty panel, e.g. of a run that diverged from the start."""
    axes.tick_params(axis="y", which="both", left=False, labelleft=False)
    axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center", va="center", fontsize=7, color=INK,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})

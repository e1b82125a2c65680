"""The overflow certificate over depth: bounds as lines, measurement as markers, number formats as limits."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plots import style
from plots.results import Result

NEEDS = ("class", "place", "class_bound", "format_largest", "stream_bound")


@dataclass(frozen=True)
class Curve:
    """A class of signals, of all places or only of one module's sublayers."""

    name: str
    label: str
    colour: str
    marker: str
    dash: str | tuple
    first: int = 0  # place 0 is before sublayer 0: attention sublayers are at odd places, MLPs at even ones
    step: int = 1


PANELS = {
    "Between modules": (
        Curve("stream", "residual stream", "#0072B2", "o", "-"),
        Curve("branch", "attention's input and output", "#D55E00", "s", (0, (6, 1.5)), 1, 2),
        Curve("branch", "MLP's input and output", "#8C3B00", "D", (0, (2, 1.2)), 2, 2),
        Curve("head", "output and logits", "#E69F00", "P", "-"),
    ),
    "Inside modules": (
        Curve("scores", "attention scores", "#555555", "v", (0, (6, 1.5, 1, 1.5)), 1, 2),
        Curve("attention", "queries, keys, values", "#CC79A7", "h", (0, (4, 2)), 1, 2),
        Curve("mlp", "MLP's hidden layer", "#009E73", "^", "-", 2, 2),
    ),
}
FORMATS = {"fp16": "FP16", "bf16": "BF16", "fp8_e4m3": "FP8 E4M3", "fp8_e5m2": "FP8 E5M2", "fp32": "FP32"}
ALWAYS = 65504.0  # limits up to FP16's are drawn in every figure


def draw(result: Result) -> Iterator[tuple[str, Figure]]:
    figure, (row,) = style.panels(1, len(PANELS), 3.2, style.PAGE, sharey=True)
    measured = "class_measured" in result
    for axes, (title, curves) in zip(row, PANELS.items(), strict=True):
        for curve in curves:
            _curve(axes, result, curve, measured)
        axes.set(title=title, xlabel="Sublayer", yscale="log")
        axes.set_xlim(-1.6, result["place"][-1] + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    row[0].set_ylabel("Largest magnitude")
    _scale(result, row, measured)
    keys = [Line2D([], [], color=c.colour, linestyle=c.dash, linewidth=1.3, marker=c.marker if measured else "",
                   markersize=4, label=c.label) for curves in PANELS.values() for c in curves]  # fmt: skip
    yield "certificate", style.finish(figure, keys, caption(result, measured))


def _curve(axes: Axes, result: Result, curve: Curve, measured: bool) -> None:
    row = list(result["class"]).index(curve.name)
    points = slice(curve.first, None, curve.step)
    place, bound = result["place"][points], result["class_bound"][row][points]
    there = np.isfinite(bound)
    axes.plot(place[there], bound[there], color=curve.colour, linestyle=curve.dash, linewidth=1.3)
    if there.sum() == 1:
        axes.plot(place[there], bound[there], color=curve.colour, linestyle="", marker="_", markersize=9,
                  markeredgewidth=1.6, markeredgecolor=curve.colour)  # fmt: skip
    if measured:
        axes.plot(place[there], result["class_measured"][row][points][there], color=curve.colour, linestyle="",
                  marker=curve.marker, markersize=4)  # fmt: skip


def _scale(result: Result, panels: list[Axes], measured: bool) -> None:
    """The y axis, and the limits of the formats up to the first one into which all bounds fit."""
    parts = [result[n].ravel() for n in ("class_bound", "class_measured")[: 1 + measured]]
    values = np.concatenate(parts)
    values = values[np.isfinite(values) & (values > 0)]
    low, high = values.min(), values.max()
    limits = sorted(zip(result["format_largest"], result["format"], strict=True))
    fitting = next((largest for largest, _ in limits if largest >= high), limits[-1][0])
    shown = [(largest, name) for largest, name in limits if largest <= max(ALWAYS, fitting if fitting < 1e30 else 0)]
    for largest, name in shown:
        for axes in panels:
            axes.axhline(largest, color=style.INK, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=1)
        below = name == "fp8_e5m2"  # lies just under FP16's limit
        panels[-1].annotate(FORMATS.get(name, name), (1, largest), xycoords=("axes fraction", "data"), fontsize=6.5,
                            xytext=(-2, -2 if below else 1.5), textcoords="offset points", ha="right",
                            va="top" if below else "bottom", color=style.INK)  # fmt: skip
    panels[0].set_ylim(low / 2, 4 * max(high, *(largest for largest, _ in shown)))


def caption(result: Result, measured: bool) -> str:
    words = "Lines: bounds on the largest magnitude that any input can cause, from the weights alone, in exact "
    words += "arithmetic (T17)."
    if measured:
        words += " Markers: the largest magnitude measured."
    words += " Dotted: largest numbers of the formats. Sublayer −1: the stack's input; at the right end: its head. "
    attributes = result.attributes
    return f"{words}{attributes['model']}. Periscope {attributes['version']}, commit {attributes['commit']}."

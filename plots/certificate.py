"""The overflow certificate over depth: bounds as lines, measurements as markers, limits of number formats.

The bounds are for the certified arithmetic (T24) in FP16 if it is judged, else in the first judged format. Exact
arithmetic has one set of bounds for all formats (T17).
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import scales, style
from .dataset import array, coordinates, on, scalar, version
from .makers import kind


@dataclass(frozen=True)
class Curve(style.Style):
    """The curve of one or more classes of signals, at all places or only in the sublayers of one kind of module."""

    name: str = ""
    first: int = 0  # place 0 is before sublayer 0: attention sublayers are at odd places, MLPs at even ones
    step: int = 1


PANELS = {
    "Between modules": (
        Curve("residual stream", "#0072B2", "o", "-", "stream"),
        Curve("attention's input and output", "#D55E00", "s", (0, (6, 1.5)), "branch", 1, 2),
        Curve("MLP's input and output", "#8C3B00", "D", (0, (2, 1.2)), "branch", 2, 2),
        Curve("output and logits", "#E69F00", "P", "-", "head"),
    ),
    "Inside modules": (
        Curve("attention scores", "#555555", "v", (0, (6, 1.5, 1, 1.5)), "scores", 1, 2),
        Curve("queries, keys, values", "#CC79A7", "h", (0, (4, 2)), "attention cache", 1, 2),
        Curve("MLP's hidden layer", "#009E73", "^", "-", "mlp", 2, 2),
    ),
}
FP16 = 65504.0  # the largest finite number of FP16
# Descriptions of arithmetics for captions; {} is the format.
ARITHMETICS = {
    "mixed": "when weights and every result are stored in {}, with sums, norms and softmax in FP32",
    "pure": "when every operation is done in {}",
}


def bounds(ds: xr.Dataset) -> tuple[np.ndarray, str, str]:
    """Returns one bound per signal and place, and their arithmetic as a label ("mixed, FP16") and in words."""
    arithmetic, names = scalar(ds, "arithmetic"), list(array(ds, "format"))
    fp16_first = sorted(names, key=lambda name: name != "fp16")
    judged = [name for name in fp16_first if np.isfinite(array(ds, "run_signal_bound")[names.index(name)]).any()]
    if arithmetic not in ARITHMETICS or not judged:
        return array(ds, "bound"), "exact", "in exact arithmetic"
    label = style.format_name(judged[0])
    words = ARITHMETICS[arithmetic].format(label)
    return array(ds, "run_signal_bound")[names.index(judged[0])], f"{arithmetic}, {label}", words


def of_class(ds: xr.Dataset, names: str, values: np.ndarray) -> np.ndarray:
    """Returns the largest value of classes of signals at every place."""
    return np.fmax.reduce(values[np.isin(array(ds, "signal_class"), names.split())])


def certified(ds: xr.Dataset, name: str) -> str:
    """Returns the verdict on a format: ": certified", ": 5 of 7 classes certified", ": not certified" or ""."""
    holds = array(ds, "certified")[list(array(ds, "format")).index(name)]
    if not np.isfinite(holds).all():
        return ""
    count = int(holds.sum())
    if count in (0, len(holds)):
        return ": certified" if count else ": not certified"
    return f": {count} of {len(holds)} classes certified"


@kind("certificate", "bounds on every signal, compared with the limits of formats",
      coordinates("signal place format") | on("signal", "signal_class") | on("signal place", "bound")
      | on("format", "format_largest") | on("format signal place", "run_signal_bound")
      | on("format class", "certified"))  # fmt: skip
def certificate(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, len(PANELS), 3.2, style.PAGE, sharey=True)
    measured, (bound, arithmetic, words) = "measured" in ds, bounds(ds)
    for axes, (title, curves) in zip(row, PANELS.items(), strict=True):
        for curve in curves:
            _curve(axes, ds, curve, bound, measured)
        axes.set(title=title, xlabel="Sublayer (from 0)", yscale="log")
        axes.set_xlim(-1.6, array(ds, "place")[-1] + 0.6)
        scales.integers(axes, 8)
    row[0].set_ylabel(f"Largest magnitude ({arithmetic})")
    _scale(ds, row, bound, measured)
    keys = [style.entry(**c.line, linewidth=1.3, marker=c.marker if measured else "",
                   markersize=4, label=c.label) for curves in PANELS.values() for c in curves]  # fmt: skip
    return style.finish(figure, keys, caption(ds, words, measured))


def _curve(axes: Axes, ds: xr.Dataset, curve: Curve, bounds: np.ndarray, measured: bool) -> None:
    points = slice(curve.first, -1 if curve.step > 1 else None, curve.step)  # the last place is the head
    place, bound = array(ds, "place")[points], of_class(ds, curve.name, bounds)[points]
    finite = np.isfinite(bound)
    axes.plot(place[finite], bound[finite], **curve.line, linewidth=1.3)
    if finite.sum() == 1:
        axes.plot(place[finite], bound[finite], color=curve.colour, linestyle="", marker="_", markersize=9,
                  markeredgewidth=1.6, markeredgecolor=curve.colour)  # fmt: skip
    if measured:
        values = of_class(ds, curve.name, array(ds, "measured"))[points]
        finite = np.isfinite(values)
        axes.plot(place[finite], values[finite], color=curve.colour, linestyle="",
                  marker=curve.marker, markersize=4)  # fmt: skip


def _scale(ds: xr.Dataset, panels: list[Axes], bounds: np.ndarray, measured: bool) -> None:
    """Sets up the y axis, and draws the limits of formats up to the first one that exceeds all drawn bounds."""
    drawn = [bounds] + ([array(ds, "measured")] if measured else [])
    values = np.concatenate([of_class(ds, curve.name, part) for part in drawn
                             for curves in PANELS.values() for curve in curves])  # fmt: skip
    values = values[np.isfinite(values) & (values > 0)]
    low, high = (values.min(), values.max()) if values.size else (1.0, 1.0)
    limits = sorted(zip(array(ds, "format_largest"), array(ds, "format"), strict=True))
    fitting = next((largest for largest, _ in limits if largest >= high), limits[-1][0])
    shown = [(largest, name) for largest, name in limits if largest <= max(FP16, fitting if fitting < 1e30 else 0)]
    for largest, name in shown:
        for axes in panels:
            axes.axhline(largest, color=style.INK, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=1)
        below = name == "fp8_e5m2"  # its limit is just below that of FP16
        words = style.format_name(name) + certified(ds, name)
        panels[-1].annotate(words, (1, largest), xycoords=("axes fraction", "data"), fontsize=6.5,
                            xytext=(-2, -2 if below else 1.5), textcoords="offset points", ha="right",
                            va="top" if below else "bottom", color=style.INK,
                            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.6})  # fmt: skip
    panels[0].set_ylim(low / 2, 4 * max(high, *(largest for largest, _ in shown)))


def caption(ds: xr.Dataset, arithmetic: str, measured: bool) -> str:
    words = f"Lines: bounds on the largest magnitude for any input, from the weights alone, {arithmetic}."
    if measured:
        words += " Markers: largest measured magnitude."
    words += " Dotted: largest numbers of the formats"
    if np.isfinite(array(ds, "certified")).any():
        words += ", with the verdict for each format: classes of signals that no input can overflow"
    words += ". Sublayer −1: the stack's input; right end: its head. "
    return f"{words}Model: {scalar(ds, 'model')}. {version(ds)}"

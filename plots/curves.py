"""Statistics over depth: theory as lines, measurement as markers, one look per placement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from . import captions, scales, style
from .dataset import array, is_measured, seeds, seeds_in_words

Curve = dict[str, np.ndarray]  # predicted, predicted_stderr and, if it was measured, measured and stderr


def select(ds: xr.Dataset, name: str, place: tuple[Any, ...]) -> Curve:
    versions = ("predicted", "predicted_stderr", "measured", "stderr")
    return {v: array(ds, f"{name}_{v}")[place] for v in versions if f"{name}_{v}" in ds}


def is_predicted(curve: Curve) -> bool:
    return bool(np.isfinite(curve["predicted"]).any())


def draw(axes: Axes, look: style.Look, x: np.ndarray, curve: Curve, points: slice) -> None:
    """One placement; `points` are the ones that get a marker. A curve without prediction is joined instead."""
    if not is_predicted(curve):
        if "measured" in curve:
            axes.plot(x, curve["measured"], **look.line, linewidth=1.0, marker=look.marker,
                      markersize=look.size, zorder=2.4)  # fmt: skip
        return
    over = 2.1 if look.dash == "-" else 2.2
    axes.plot(x, curve["predicted"], **look.line, linewidth=1.3, zorder=over)
    if np.isfinite(curve["predicted"]).sum() == 1:  # one layer: a line of one point would not be seen
        axes.plot(x, curve["predicted"], color=look.colour, linestyle="", marker="_", markersize=12,
                  markeredgewidth=1.3, markeredgecolor=look.colour, zorder=over)  # fmt: skip
    margin = 2 * curve["predicted_stderr"]
    axes.fill_between(x, curve["predicted"] - margin, curve["predicted"] + margin, color=look.colour, alpha=0.25, lw=0)
    if "measured" in curve:
        style.points(axes, look, x[points], curve["measured"][points], 2 * curve["stderr"][points], zorder=2.5)


def turns(points: int, curves: int) -> list[slice]:
    """Which points of each curve get a marker: they take turns, so that coinciding curves all show theirs."""
    stride = max(1, min(curves, points // 3))
    return [slice(rank % stride, None, stride) for rank in range(curves)]


def often(points: slice) -> str:
    return "" if points.step == 1 else f", one point in {points.step} by turns"


def log_scale(panels: Sequence[Axes], curves: Sequence[Curve]) -> None:
    """A logarithmic scale that holds all curves with a prediction. One that theory refused may leave it."""
    parts = [c[k] for c in curves if is_predicted(c) for k in ("predicted", "measured") if k in c]
    scales.log_axis(panels, np.concatenate(parts) if parts else np.array([]))


def legend(ds: xr.Dataset, looks: Sequence[style.Look], *statistics: str) -> list[Line2D]:
    keys = []
    for p, look in enumerate(looks):
        missing = unpredicted(ds, p, statistics)
        what = "" if len(missing) == len(statistics) else f" of {', '.join(missing)}"
        keys.append(style.key(look, is_measured(ds), f" (no prediction{what})" if missing else ""))
    if is_measured(ds) and any(len(unpredicted(ds, p, statistics)) < len(statistics) for p in range(len(looks))):
        keys.append(style.theory_and_measurement())
    return keys


def both(looks: Sequence[style.Look]) -> list[Line2D]:
    """The legend of stacks that all have theory and measurement."""
    return [*(style.key(look, True) for look in looks), style.theory_and_measurement()]


def unpredicted(ds: xr.Dataset, p: int, statistics: Sequence[str]) -> list[str]:
    """Of which statistics stack p has no prediction."""
    return [name for name in statistics if not np.isfinite(array(ds, f"{name}_predicted")[:, p]).any()]


def caption(ds: xr.Dataset, points: slice, *statistics: str, mean: str = "mean") -> str:
    """How to read the curves of statistics, and what was run. `mean` names the mean over seeds."""
    words = ["Lines: theory; bands, where wider than the line, ± 2 standard errors of the prediction."]
    if is_measured(ds):
        one = "one seed" if seeds(ds) == 1 else f"{mean} of {seeds_in_words(ds)}, ± 2 standard errors"
        words.append(f"Markers{often(points)}: {one}.")
        words += unsupported(ds, statistics)
    return " ".join([*words, entering(ds) + captions.setting(ds)])


def unsupported(ds: xr.Dataset, statistics: Sequence[str]) -> list[str]:
    """Which curves are measured only, and why, in the file's words."""
    words = []
    for p, look in enumerate(captions.looks(ds)):
        missing = unpredicted(ds, p, statistics)
        if missing:
            what = "" if len(missing) == len(statistics) else f"'s {', '.join(missing)}"
            reasons = "; ".join(dict.fromkeys(r for r in array(ds, "verdict_reason")[:, p] if r))
            words.append(f"{look.label}{what} is measured only, its markers are joined: {reasons}.")
    return words


@dataclass(frozen=True)
class Statistic:
    """A statistic of the stream over depth, and how it is drawn: `read` finds a stack's curve."""

    name: str
    label: str
    log: bool = True
    read: Callable[[xr.Dataset, str, tuple[Any, ...]], Curve] = select


def over_depth(ds: xr.Dataset, *statistics: Statistic, mean: str = "mean") -> style.Page:
    """Statistics of the stream over depth: a row of panels for each, with one per input; with one input side by
    side."""
    inputs, depth = array(ds, "input"), array(ds, "depth")
    looks = captions.looks(ds)
    columns = len(inputs) if len(inputs) > 1 else len(statistics)
    rows = len(statistics) * len(inputs) // columns
    figure, grid = style.panels(rows, columns, 3.0 if rows == 1 else 2.5, style.page(columns))
    points = turns(len(depth), len(looks))
    flat = [axes for row in grid for axes in row]
    for k, statistic in enumerate(statistics):
        panels = flat[k * len(inputs) : (k + 1) * len(inputs)]
        every = []
        for i, axes in enumerate(panels):
            for p, look in enumerate(looks):
                every.append(statistic.read(ds, statistic.name, (i, p)))
                draw(axes, look, depth, every[-1], points[p])
            axes.set_title(input_title(ds, i))
            scales.depth_axis(axes, depth[-1], "Sublayers passed (0: the input)")
        for axes in panels[1:]:
            axes.sharey(panels[0])
            axes.tick_params(labelleft=bool(figure.broken))
        panels[0].set_ylabel(statistic.label)
        if statistic.log:
            log_scale(panels, every)
    names = [statistic.name for statistic in statistics]
    words = caption(ds, points[0], *names, mean=mean)
    return style.finish(figure, legend(ds, looks, *names), words)


def input_title(ds: xr.Dataset, i: int) -> str:
    """Returns "Gaussian input, E[x²] = 0.0004"; if stacks differ in the second moment, the caption lists it instead
    (captions.keys)."""
    words = style.title(style.INPUTS[array(ds, "input")[i]])
    shown = {f"{stack['input.second_moment']:.4g}" for stack in captions.stacks(ds)}
    return f"{words}, E[x²] = {shown.pop()}" if len(shown) == 1 else words


def entering(ds: xr.Dataset) -> str:
    """A sentence for where the input's second moment is not the one that embeddings drawn as the matrices have."""
    every = captions.stacks(ds)
    scheme, std, moment = (captions.shared(every, k) for k in ("init.scheme", "init.std", "input.second_moment"))
    if scheme != "normal" or std is None or moment is None or abs(moment / std**2 - 1) < 1e-6:
        return ""
    return (f"The input's second moment is {moment:g}, that of embeddings drawn like the matrices, N(0, {std:g}²), "
            "would be "
            f"{std**2:g}: what is above the first norm of a stack, its gradient at depth 0 too, depends on it. ")


def per_placement(
    ds: xr.Dataset, draw_panel: Callable[[Axes, int, style.Look], None], height: float, label: str, **keywords: Any
) -> style.Page:
    """Small multiples over depth, one panel per placement, which `draw_panel` fills for placement p and its look."""
    looks = captions.looks(ds)
    figure, panels = style.small_multiples(len(looks), height, "Sublayers passed", label, sharex=True, **keywords)
    for p, (axes, look) in enumerate(zip(panels, looks, strict=True)):
        draw_panel(axes, p, look)
    return figure


def titled(look: style.Look, verdict: str) -> str:
    """ "Peri-LN: agrees", in two lines where it is long, and without a verdict where there is none."""
    between = ": " if len(look.label) + len(verdict) < 24 else ":\n"
    return f"{look.label}{between}{verdict}" if verdict else look.label


def norms(curve: Curve) -> Curve:
    """A curve of logarithms as one of norms; standard errors by the first order."""
    shown = {}
    for value, error in (("predicted", "predicted_stderr"), ("measured", "stderr")):
        if value in curve:
            shown[value] = np.exp(curve[value])
            shown[error] = shown[value] * curve[error]
    return shown

"""Statistics over depth: theory as lines, measurement as markers, one style per placement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from . import captions, scales, style
from .dataset import array, is_measured, seeds, seeds_text

Curve = dict[str, np.ndarray]  # predicted, predicted_stderr and, if available, measured and stderr


def select(ds: xr.Dataset, name: str, index: tuple[Any, ...]) -> Curve:
    suffixes = ("predicted", "predicted_stderr", "measured", "stderr")
    return {v: array(ds, f"{name}_{v}")[index] for v in suffixes if f"{name}_{v}" in ds}


def is_predicted(curve: Curve) -> bool:
    return bool(np.isfinite(curve["predicted"]).any())


def draw(axes: Axes, curve_style: style.Style, x: np.ndarray, curve: Curve, points: slice) -> None:
    """Draws one placement with markers at `points`. Without a prediction, all points have markers joined by a line."""
    if not is_predicted(curve):
        if "measured" in curve:
            axes.plot(x, curve["measured"], **curve_style.line, linewidth=1.0, marker=curve_style.marker,
                      markersize=curve_style.size, zorder=2.4)  # fmt: skip
        return
    zorder = 2.1 if curve_style.dash == "-" else 2.2
    axes.plot(x, curve["predicted"], **curve_style.line, linewidth=1.3, zorder=zorder)
    if np.isfinite(curve["predicted"]).sum() == 1:  # a line of a single point would be invisible
        axes.plot(x, curve["predicted"], color=curve_style.colour, linestyle="", marker="_", markersize=12,
                  markeredgewidth=1.3, markeredgecolor=curve_style.colour, zorder=zorder)  # fmt: skip
    margin = 2 * curve["predicted_stderr"]
    low, high = curve["predicted"] - margin, curve["predicted"] + margin
    axes.fill_between(x, low, high, color=curve_style.colour, alpha=0.25, lw=0)
    if "measured" in curve:
        style.points(axes, curve_style, x[points], curve["measured"][points], 2 * curve["stderr"][points], zorder=2.5)


def alternating(points: int, curves: int) -> list[slice]:
    """Returns the points of each curve with a marker. Markers alternate between curves, so that all remain visible."""
    stride = max(1, min(curves, points // 3))
    return [slice(rank % stride, None, stride) for rank in range(curves)]


def marker_note(points: slice) -> str:
    return "" if points.step == 1 else f" (alternating, one point in {points.step} per curve)"


def log_scale(panels: Sequence[Axes], curves: Sequence[Curve]) -> None:
    """Sets a logarithmic scale that covers all curves with a prediction; other curves may exceed it."""
    parts = [c[k] for c in curves if is_predicted(c) for k in ("predicted", "measured") if k in c]
    scales.log_axis(panels, np.concatenate(parts) if parts else np.array([]))


def legend(ds: xr.Dataset, styles: Sequence[style.Style], *statistics: str) -> list[Line2D]:
    keys = []
    for p, curve_style in enumerate(styles):
        missing = unpredicted(ds, p, statistics)
        names = "" if len(missing) == len(statistics) else f" of {', '.join(missing)}"
        keys.append(style.key(curve_style, is_measured(ds), f" (no prediction{names})" if missing else ""))
    if is_measured(ds) and any(len(unpredicted(ds, p, statistics)) < len(statistics) for p in range(len(styles))):
        keys.append(style.theory_and_measurement())
    return keys


def comparison_legend(styles: Sequence[style.Style]) -> list[Line2D]:
    """Returns the legend of stacks that all have theory and measurement."""
    return [*(style.key(s, True) for s in styles), style.theory_and_measurement()]


def unpredicted(ds: xr.Dataset, p: int, statistics: Sequence[str]) -> list[str]:
    """Returns the statistics for which stack p has no prediction."""
    return [name for name in statistics if not np.isfinite(array(ds, f"{name}_predicted")[:, p]).any()]


def caption(ds: xr.Dataset, points: slice, *statistics: str, mean: str = "mean") -> str:
    """Explains the curves of statistics and describes the run. `mean` is the caption's term for the mean over seeds."""
    words = ["Lines: theory; bands (if wider than the line): ± 2 standard errors of the prediction."]
    if is_measured(ds):
        values = "one seed" if seeds(ds) == 1 else f"{mean} of {seeds_text(ds)}, ± 2 standard errors"
        words.append(f"Markers{marker_note(points)}: {values}.")
        words += unsupported(ds, statistics)
    return " ".join([*words, input_note(ds) + captions.settings_text(ds)])


def unsupported(ds: xr.Dataset, statistics: Sequence[str]) -> list[str]:
    """Returns sentences about curves without a prediction, with the reasons stored in the result."""
    words = []
    for p, curve_style in enumerate(captions.styles(ds)):
        missing = unpredicted(ds, p, statistics)
        if missing:
            names = "" if len(missing) == len(statistics) else f" ({', '.join(missing)})"
            reasons = "; ".join(dict.fromkeys(r for r in array(ds, "verdict_reason")[:, p] if r))
            words.append(f"No prediction for {curve_style.label}{names}, whose markers are joined"
                         f"{': ' + reasons if reasons else ''}.")  # fmt: skip
    return words


@dataclass(frozen=True)
class Statistic:
    """A statistic of the stream over depth; `read` returns a stack's curve."""

    name: str
    label: str
    description: str  # for captions
    log: bool = True
    read: Callable[[xr.Dataset, str, tuple[Any, ...]], Curve] = select


def over_depth(ds: xr.Dataset, *statistics: Statistic, mean: str = "mean") -> style.Page:
    """Draws statistics over depth: a row per statistic and a panel per input, or one row if there is a single input."""
    inputs, depth = array(ds, "input"), array(ds, "depth")
    styles = captions.styles(ds)
    columns = len(inputs) if len(inputs) > 1 else len(statistics)
    rows = len(statistics) * len(inputs) // columns
    figure, grid = style.panels(rows, columns, 3.0 if rows == 1 else 2.5, style.page(columns))
    points = alternating(len(depth), len(styles))
    flat = [axes for row in grid for axes in row]
    for k, statistic in enumerate(statistics):
        panels = flat[k * len(inputs) : (k + 1) * len(inputs)]
        every = []
        for i, axes in enumerate(panels):
            for p, curve_style in enumerate(styles):
                every.append(statistic.read(ds, statistic.name, (i, p)))
                draw(axes, curve_style, depth, every[-1], points[p])
            axes.set_title(input_title(ds, i))
            scales.depth_axis(axes, depth[-1], "Sublayers passed (0: the input)")
        for axes in panels[1:]:
            axes.sharey(panels[0])
            axes.tick_params(labelleft=bool(figure.broken))
        panels[0].set_ylabel(statistic.label)
        if statistic.log:
            log_scale(panels, every)
    names = [statistic.name for statistic in statistics]
    description = "; ".join(statistic.description for statistic in statistics)
    words = f"{style.title(description)}. {caption(ds, points[0], *names, mean=mean)}"
    return style.finish(figure, legend(ds, styles, *names), words)


def input_title(ds: xr.Dataset, i: int) -> str:
    """Returns a title such as "Gaussian input, E[x²] = 0.0004", without E[x²] if stacks differ in it."""
    words = style.title(style.INPUTS[array(ds, "input")[i]])
    shown = {f"{stack['input.second_moment']:.4g}" for stack in captions.stacks(ds)}
    return f"{words}, E[x²] = {shown.pop()}" if len(shown) == 1 else words


def input_note(ds: xr.Dataset) -> str:
    """Returns a note if the input's second moment differs from that of embeddings drawn like the matrices, or ""."""
    every = captions.stacks(ds)
    scheme, std, moment = (captions.shared(every, k) for k in ("init.scheme", "init.std", "input.second_moment"))
    if scheme != "normal" or std is None or moment is None or abs(moment / std**2 - 1) < 1e-6:
        return ""
    return (f"The input's second moment is {moment:g}; embeddings drawn like the matrices, N(0, {std:g}²), would have "
            f"{std**2:g}. Values before the first norm of a stack, and the gradient at depth 0, depend on it. ")


def per_placement(
    ds: xr.Dataset, draw_panel: Callable[[Axes, int, style.Style], None], height: float, label: str, **keywords: Any
) -> style.Page:
    """Draws small multiples over depth: one panel per placement p, drawn by `draw_panel`."""
    styles = captions.styles(ds)
    figure, panels = style.small_multiples(len(styles), height, "Sublayers passed", label, sharex=True, **keywords)
    for p, (axes, curve_style) in enumerate(zip(panels, styles, strict=True)):
        draw_panel(axes, p, curve_style)
    return figure


def panel_title(curve_style: style.Style, verdict: str) -> str:
    """Returns a title such as "Peri-LN: agrees", on two lines if it is long; without a verdict only the label."""
    separator = ": " if len(curve_style.label) + len(verdict) < 24 else ":\n"
    return f"{curve_style.label}{separator}{verdict}" if verdict else curve_style.label


def norms(curve: Curve) -> Curve:
    """Converts a curve of logarithms to norms; standard errors are propagated to first order."""
    shown = {}
    for value, error in (("predicted", "predicted_stderr"), ("measured", "stderr")):
        if value in curve:
            shown[value] = np.exp(curve[value])
            shown[error] = shown[value] * curve[error]
    return shown

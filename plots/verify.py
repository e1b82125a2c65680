"""Bounds of `periscope verify`: ratios of gradients of random sublayers to each bound, their scaling with the width,
and the gradient of W2 over the size of the hidden activation."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from . import scales, style
from .dataset import array, coordinates, on, scalar, version
from .makers import kind

REQUIRED = (
    coordinates("statement log_ratio width massive_factor")
    | on("statement", "ratio_largest")
    | on("statement log_ratio", "ratio_histogram")
    | on("statement width", "width_cases", *(f"width_ratio_{v}" for v in ("median", "q99", "largest", "limit")))
    | on("massive_curve", "massive_placement", "massive_final_norm", "massive_ceiling")
    | on("massive_curve massive_factor", "massive_bound", *(f"massive_gradient{v}" for v in ("", "_low", "_high")))
)
# Statements and their styles. Post-LN, drawn on top of the nearly coinciding Peri-LN, is dashed.
POST = replace(style.STYLES["post"], dash=(0, (3, 2)))
STATED = {
    "C.2-whole": replace(style.STYLES["peri"], label="Paper, Peri-LN"),
    "C.3-whole": replace(POST, label="Paper, Post-LN"),
    "G4-whole": replace(style.STYLES["a+c"], label="Reviews, Peri-LN: √(1/D)"),
}
SHARP = {
    "T14a": replace(style.STYLES["pre"], label="Pre-LN, no final norm"),
    "T14b": replace(style.STYLES["peri"], label="Peri-LN, sharp"),
    "T14c": replace(POST, label="Post-LN, sharp"),
    "T14d": replace(style.STYLES["deepnorm"], label="Final norm, unembedding"),
}
PANELS = {"T14b": r"Sharp: $\sqrt{2}\,(1-p_y)\sqrt{D}$", "C.2-whole": r"Paper: $4\sqrt{D}$",
          "G4-whole": r"Reviews: $4\sqrt{1/D}$"}  # fmt: skip
MARKS = {"largest": ("o", "#D55E00", "largest"), "q99": ("^", "#009E73", "99 %"), "median": ("s", "#0072B2", "median")}
LOWEST, FLOOR = 1e-3, 1e-6
ORDINARY = 3  # least width that sets the axis limits; at width 2, LayerNorm passes almost no gradient
BOUND: dict[str, Any] = {"color": style.INK, "linewidth": 0.8, "zorder": 1.5}
LIMIT: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "zorder": 2}
SHIFT = 1.45  # horizontal factor between the markers of neighbouring curves
FINAL = style.Style("Pre-LN, final norm", "#E69F00", "h", (0, (6, 1.5, 1, 1.5)))


def index(ds: xr.Dataset, statement: str) -> int:
    return int(np.flatnonzero(array(ds, "statement") == statement)[0])


def run(ds: xr.Dataset) -> str:
    """Returns sentences about the random cases and the version."""
    scale = scalar(ds, "verify_scale")
    scaled = "" if scale == 1 else f" For the verdict, bounds are multiplied by {scale:g}."
    return (
        f"{scalar(ds, 'verify_cases'):,} random sublayers: width 1 to 64, RMSNorm and LayerNorm, every MLP, "
        f"magnitudes 1e-6 to 1e6, f64.{scaled} {version(ds)}"
    )


@kind("bound_ratios", "distributions of gradients over their bounds", REQUIRED)
def ratios(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, 2, 3.4, style.PAGE, sharey=True)
    for axes, words, bounds in zip(row, ("Bounds as stated", "Sharp bounds"), (STATED, SHARP), strict=True):
        _distributions(ds, axes, bounds)
        axes.set(title=words, xlabel=r"$\|\partial\,loss/\partial W_2\|_F$ over bound")
        keys = [style.entry(**s.line, linewidth=1.3, label=s.label) for s in bounds.values()]
        style.panel_legend(axes, [*keys, style.entry(**BOUND, label="the bound")])
    row[0].set_ylabel("Share of cases per decade")
    paper, review = (index(ds, k) for k in ("C.2-whole", "G4-whole"))
    words = (
        "Left: the paper's bounds, for which no ratio can exceed √2/4 = "
        f"{array(ds, 'width_ratio_limit')[paper, 1]:.3f}, and the form in the reviews, which "
        f"{array(ds, 'violations')[review]:,.0f} of {array(ds, 'cases')[review]:,.0f} cases violate. Right: sharp "
        "bounds with √2 (1 − p of the label). Triangles: largest ratio. Cases with a zero or infinite bound are "
        "omitted. "
    )
    return style.finish(figure, [], words + run(ds))


def density(ds: xr.Dataset, statement: int) -> np.ndarray:
    """Returns the share of cases per decade of the ratio, in the bins of the file."""
    counts = array(ds, "ratio_histogram")[statement]
    per_bin = array(ds, "log_ratio")[1] - array(ds, "log_ratio")[0]
    return counts / max(counts.sum(), 1.0) / per_bin


def _distributions(ds: xr.Dataset, axes: Axes, bounds: dict[str, style.Style]) -> None:
    half = 0.5 * (array(ds, "log_ratio")[1] - array(ds, "log_ratio")[0])
    edges = 10.0 ** np.append(array(ds, "log_ratio") - half, array(ds, "log_ratio")[-1] + half)
    top = LOWEST
    for name, curve_style in bounds.items():
        k = index(ds, name)
        shown, largest = density(ds, k), array(ds, "ratio_largest")[k]
        axes.stairs(np.where(shown > 0, shown, FLOOR), edges, **curve_style.line, linewidth=1.1, baseline=None)
        if np.isfinite(largest):
            axes.plot(largest, 0.0045, color=curve_style.colour, marker="v", markersize=5, zorder=3)
            top = max(top, largest)
    axes.axvline(1.0, **BOUND)
    axes.set(xscale="log", yscale="log", xlim=(LOWEST, max(2.0, 1.6 * top)), ylim=(3e-3, 60))


@kind("bound_ratio_vs_width", "gradient over bound as a function of width", REQUIRED)
def over_width(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, len(PANELS), 2.5, style.PAGE, sharex=True)
    for axes, (name, words) in zip(row, PANELS.items(), strict=True):
        _widths(ds, axes, index(ds, name))
        axes.set(title=words, xlabel="Width $D$")
    row[0].set_ylabel("Gradient over bound, Peri-LN")
    keys = [style.entry(color=c, marker=m, ls="", ms=4, label=label) for m, c, label in MARKS.values()]
    keys.append(style.entry(**LIMIT, label="largest possible ratio"))
    keys.append(style.entry(color="0.6", linestyle=":", linewidth=1.2, label="the bound"))
    words = (
        "Frobenius norm of ∂loss/∂W₂ of Peri-LN sublayers over three bounds, each times γ‖h‖/‖a‖. With the correct "
        "power of D, the largest ratio is at the bound for every width; with √(1/D) it grows like D and exceeds 1 from "
        "D = 3. The median at D = 2, where LayerNorm leaves almost no gradient, is below the axes. "
    )
    return style.finish(figure, keys, words + run(ds))


def _widths(ds: xr.Dataset, axes: Axes, k: int) -> None:
    width, limit = array(ds, "width"), array(ds, "width_ratio_limit")[k]
    has_cases = array(ds, "width_cases")[k] > 0
    for name, (marker, colour, _) in MARKS.items():
        ratio = array(ds, f"width_ratio_{name}")[k][has_cases]
        axes.plot(width[has_cases], ratio, linestyle="", marker=marker, markersize=3.2, markeredgewidth=0.2,
                  color=colour)
    axes.plot(width, limit, **LIMIT)
    axes.axhline(1.0, color="0.6", linestyle=":", linewidth=1.2, zorder=1)
    lowest = np.nanmin(array(ds, "width_ratio_median")[k][has_cases & (width >= ORDINARY)], initial=limit.min())
    axes.set(yscale="log", ylim=(0.5 * max(lowest, 0.01), 1.6 * max(1.0, limit.max())))
    scales.plain_log_ticks(axes.yaxis, *axes.get_ylim())
    scales.log_ticks_at(axes, [1, 2, 4, 8, 16, 32, 64])


@kind("massive_activations", "an MLP's gradient against the size of its hidden activation", REQUIRED)
def massive(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, 2, 2.9, style.PAGE)
    ceiling = array(ds, "massive_ceiling")
    stacks = zip(array(ds, "massive_placement"), array(ds, "massive_final_norm"), strict=True)
    styles = [FINAL if norm else SHARP["T14a"] if name == "pre" else style.STYLES[name] for name, norm in stacks]
    _activations(ds, row[0], styles, range(len(styles)))
    row[0].set(title="All placements", yscale="log", ylabel=r"$\|\partial\,loss/\partial W_2\|_F$")
    row[0].yaxis.set_major_locator(LogLocator(numticks=12))
    row[0].yaxis.set_minor_formatter(NullFormatter())
    _activations(ds, row[1], styles, np.flatnonzero(np.isfinite(ceiling)).tolist())
    row[1].set(title="With a norm after the MLP: linear scale", ylim=(0, 1.25 * np.nanmax(ceiling)))
    keys = [style.key(s, True) for s in styles]
    keys.append(style.entry(color=style.INK, linestyle=":", linewidth=1.0, label="bound for all factors"))
    count, width, hidden = (scalar(ds, f"massive_{name}") for name in ("stacks", "width", "hidden"))
    words = (
        "Lines: sharp bounds (median over stacks); dotted: a bound for all factors. Markers, shifted horizontally: "
        f"gradient, median and quantiles 0.16 and 0.84 of {count} random ReLU stacks, width {width}, hidden width "
        f"{hidden}, one token. Only the gradient of Pre-LN without a final norm grows with the activation. "
        f"{version(ds)}"
    )
    return style.finish(figure, keys, words)


def _activations(ds: xr.Dataset, axes: Axes, styles: list[style.Style], curves: Iterable[int]) -> None:
    factor, ceiling = array(ds, "massive_factor"), array(ds, "massive_ceiling")
    bounded = np.flatnonzero(np.isfinite(ceiling)).tolist()
    for k in curves:
        # Only constant curves are shifted; a shifted marker of the growing curve would be off its line.
        shift = SHIFT ** (bounded.index(k) - 1) if k in bounded else 1.0
        middle, low, high = (array(ds, f"massive_gradient{part}")[k] for part in ("", "_low", "_high"))
        axes.plot(factor, array(ds, "massive_bound")[k], **styles[k].line, linewidth=1.3, zorder=2)
        style.points(axes, styles[k], factor * shift, middle, (middle - low, high - middle), zorder=2.5)
        axes.axhline(ceiling[k], color=styles[k].colour, linestyle=":", linewidth=1.0, zorder=1.5)
    axes.set(xscale="log", xlabel=r"Factor on $\|h\|$")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_formatter(NullFormatter())

"""Verdicts over depth: residuals in standard errors, and the detectable error (T22)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from . import captions, curves, scales, style
from .dataset import array, config, coordinates, on, seeds_text
from .makers import inputs, kind

STATISTICS = {"variance": ("variance", "#0072B2", "o"), "token_cosine": ("token cosine", "#E69F00", "^")}
GREY: dict[str, Any] = {"color": "0.93", "zorder": 0}
LIMIT: dict[str, Any] = {"color": style.INK, "linewidth": 0.7, "linestyle": (0, (4, 2))}


def residual(curve: curves.Curve) -> np.ndarray:
    error = np.hypot(curve["stderr"], curve["predicted_stderr"])
    return (curve["measured"] - curve["predicted"]) / np.where(error > 0, error, np.nan)


@kind("agreement", "measured minus predicted, in standard errors",
      coordinates("depth") | on("input placement", "verdict") | on("input placement depth", *(
          f"{s}_{v}" for s in STATISTICS for v in ("measured", "stderr", "predicted"))), inputs)  # fmt: skip
def agreement(ds: xr.Dataset, i: int) -> style.Page:
    critical = array(ds, "worst_critical")[i] if "worst_critical" in ds else np.full(ds.sizes["placement"], np.nan)

    def panel(axes: Axes, p: int, curve_style: style.Style) -> None:
        axes.axhspan(-2, 2, **GREY)
        for limit in critical[p] * np.array([-1, 1]):
            if np.isfinite(limit):
                axes.axhline(limit, **LIMIT, zorder=1)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        shown = {name: residual(curves.select(ds, name, (i, p))) for name in STATISTICS}
        if not any(np.isfinite(z).any() for z in shown.values()):
            scales.note_no_finite_value(axes)  # with a single seed, the standard error is undefined
        axes.set_xlim(-0.02 * array(ds, "depth")[-1], 1.02 * array(ds, "depth")[-1])
        for name, (_, colour, marker) in STATISTICS.items():
            axes.plot(array(ds, "depth"), shown[name], color=colour, marker=marker, markersize=2.6, markeredgewidth=0,
                      linewidth=0.6)  # fmt: skip
        axes.set_title(curves.panel_title(curve_style, array(ds, "verdict")[i, p]))

    figure = curves.per_placement(ds, panel, 1.7, "Residual / std. error", sharey=True)
    keys: list[Artist] = [style.entry(color=c, marker=m, ms=3.5, lw=0.6, label=words)
                          for words, c, m in STATISTICS.values()]  # fmt: skip
    keys.append(style.patch(**GREY, label="± 2 standard errors"))
    if np.isfinite(critical).any():
        keys.append(style.entry(**LIMIT, label=f"rejection limit, {critical[np.isfinite(critical)][0]:.2g}"))
    name = style.title(style.INPUTS[array(ds, "input")[i]])
    shared = ", and stacks share their random draws" if config(ds)["run"]["paired"] else ""
    words = (
        f"{name}: measured minus predicted, over their combined standard error ({seeds_text(ds)}). Grey: ± 2, which "
        "1 value in 22 exceeds by chance. Dashed: rejection limit for the tests at all sites, in excess of the "
        f"tolerated bias. Depths of one stack are correlated{shared}. Titles: verdict over all tested signals and "
        "gradients; it tolerates rounding and, if the theory is not exact at this width, a finite-width term."
    )
    return style.finish(figure, keys, f"{words} {captions.settings_text(ds)}")


BAND = "#56B4E9"
LINE = "#0072B2"


def judged(ds: xr.Dataset) -> dict[str, tuple[int]]:
    return {name: (i,) for name, (i,) in inputs(ds).items() if np.isfinite(array(ds, "second_moment_power")[i]).any()}


def deviation(curve: curves.Curve) -> np.ndarray:
    """Returns measured over predicted, minus 1, in percent."""
    predicted = np.where(curve["predicted"] != 0, curve["predicted"], np.nan)
    return 100 * (curve["measured"] / predicted - 1)


def reach(ds: xr.Dataset, i: int, limit: float) -> float:
    """Returns the end of the y axis: above the limit, or above the values if all are far below the limit."""
    drawn = [100 * array(ds, "second_moment_power")[i],
             *(deviation(curves.select(ds, "second_moment", (i, p))) for p in range(len(array(ds, "placement"))))]
    largest = max((np.nanmax(np.abs(y)) for y in drawn if np.isfinite(y).any()), default=0.0)
    return 1.6 * limit if not 0 < largest < limit / 4 else 1.3 * largest


@kind("power", "detectable error of the second moment over depth",
      coordinates("depth") | on("input placement", "verdict", "power_worst")
      | on("input placement depth", "second_moment_power", "second_moment_measured"), judged)  # fmt: skip
def power(ds: xr.Dataset, i: int) -> style.Page:
    limit, depth = 100 * config(ds)["agreement"]["power_limit"]["second_moment"], array(ds, "depth")
    end = reach(ds, i, limit)

    def panel(axes: Axes, p: int, curve_style: style.Style) -> None:
        detectable = 100 * array(ds, "second_moment_power")[i, p]
        detectable = np.where(np.isfinite(detectable), detectable, np.nan)
        axes.fill_between(depth, -detectable, detectable, color=BAND, alpha=0.35, lw=0, zorder=0)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        for y in (-limit, limit):
            axes.axhline(y, **LIMIT, zorder=1)
        curve = curves.select(ds, "second_moment", (i, p))
        axes.plot(depth, deviation(curve), color=LINE, marker="o", markersize=2.4, markeredgewidth=0, linewidth=0.6)
        axes.set_title(curves.panel_title(curve_style, array(ds, "verdict")[i, p]))
        axes.set_ylim(-end, end)

    figure = curves.per_placement(ds, panel, 1.7, "Deviation / %", sharey=True)
    keys: list[Artist] = [
        style.entry(color=LINE, marker="o", ms=3.5, lw=0.6, label="measured / predicted − 1"),
        style.patch(color=BAND, alpha=0.35, lw=0, label="detectable error"),
    ]
    if limit <= end:
        keys.append(style.entry(**LIMIT, label=f"largest detectable error for \"agrees\", ± {limit:g} %"))
    note = "" if limit <= end else " (beyond the axes)"
    words = (
        f"{style.title(style.INPUTS[array(ds, 'input')[i]])}: second moment of the stream, measured over predicted "
        f"({seeds_text(ds)}). Band: detectable error, the smallest error that the test rejects with 95 % probability; "
        f"if it exceeds ± {limit:g} %{note}, the verdict is inconclusive. Titles: verdict over all tested signals and "
        "gradients."
    )
    return style.finish(figure, keys, f"{words} {captions.settings_text(ds)}")

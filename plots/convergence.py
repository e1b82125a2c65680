"""Convergence of the width ladder: theory bias against width, and noise against the number of seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, scales, style
from .dataset import array, coordinates, on, seeds
from .makers import kind

STATISTICS = {"second_moment": r"of $\mathrm{E}[x^2]$, relative", "token_cosine": "of the token cosine"}
# Quantity, coordinate, their labels, and the predicted slope.
PANELS = (("bias", "ladder_width", "|Bias|", "Width $D$", -1.0),
          ("noise", "group", "Spread of means", "Seeds averaged", -0.5))  # fmt: skip
GUIDE: dict[str, Any] = {"color": "0.82", "linewidth": 2.5, "zorder": 1}


@kind("convergence", "error of the theory against width, and noise against the number of seeds",
      coordinates("ladder_width group") | on("convergence ladder_width", "bias", "bias_stderr")
      | on("convergence", "bias_exponent", "noise_exponent")
      | on("convergence group", "noise", "noise_stderr"))  # fmt: skip
def convergence(ds: xr.Dataset) -> style.Page:
    statistics = list(dict.fromkeys(array(ds, "convergence_statistic")))
    styles = style.styles(array(ds, "convergence_placement"))
    figure, grid = style.panels(len(statistics), 4, 2.1, style.PAGE, width_ratios=(3, 1.2, 3, 1.2))
    for statistic, row in zip(statistics, grid, strict=True):
        fits = np.flatnonzero(array(ds, "convergence_statistic") == statistic).tolist()
        for k, (name, over, y_label, x_label, slope) in enumerate(PANELS):
            curves, exponents = row[2 * k : 2 * k + 2]
            curves.set(xlabel=x_label, ylabel=f"{y_label}\n{STATISTICS.get(statistic, statistic)}")
            _curves(ds, styles, curves, [f for f in fits if is_drawn(ds, f)], name, array(ds, over), slope)
            _exponents(ds, exponents, fits, name, slope)
    keys = [style.key(s, True) for s in dict.fromkeys(styles)]
    keys.append(style.entry(**GUIDE, label="slope −1, −1/2"))
    return style.finish(figure, keys, caption(ds))


def is_drawn(ds: xr.Dataset, fit: int) -> bool:
    """Returns false if the placement fixes the statistic, or if there is no prediction."""
    return array(ds, "noise_verdict")[fit] != "not-checked"


def _curves(ds: xr.Dataset, styles: list[style.Style], axes: Axes, fits: Sequence[int], name: str, x: np.ndarray,
            slope: float) -> None:  # fmt: skip
    shown = []
    for rank, f in enumerate(fits):
        shifted = x * 2.0 ** (0.7 * ((rank + 0.5) / len(fits) - 0.5))
        shown += _points(axes, styles[f], shifted, np.abs(array(ds, name)[f]), 2 * array(ds, f"{name}_stderr")[f])
        fitted = np.abs(array(ds, f"{name}_amplitude")[f]) * x ** array(ds, f"{name}_exponent")[f]
        axes.plot(shifted, fitted, **styles[f].line, linewidth=1.1)
    axes.set_yscale("log")
    scales.log_ticks_at(axes, x)
    if shown:
        axes.plot(x, 2 * max(shown) * (x / x[0]) ** slope, **GUIDE)
        axes.set_ylim(0.4 * min(shown), 2.4 * max(shown))
        scales.plain_log_ticks(axes.yaxis, *axes.get_ylim())
    else:
        axes.set_ylim(0.1, 10.0)
        scales.note_no_finite_value(axes)


def _points(axes: Axes, curve_style: style.Style, x: np.ndarray, y: np.ndarray, bar: np.ndarray) -> list[float]:
    """Draws values with error bars, or open upper limits if a bar reaches zero. Returns the drawn values and limits."""
    is_positive = y > bar
    style.points(axes, curve_style, x[is_positive], y[is_positive], bar[is_positive])
    limit = (y + bar)[~is_positive]
    axes.errorbar(x[~is_positive], limit, 0.3 * limit, **curve_style.hollow, markeredgewidth=0.9, elinewidth=0.9,
                  uplims=True, capsize=2.0)  # fmt: skip
    return [v for v in np.where(is_positive, y, y + bar) if np.isfinite(v)]


def _exponents(ds: xr.Dataset, axes: Axes, fits: Sequence[int], name: str, slope: float) -> None:
    """Draws the fitted exponents, one row per placement, and the predicted one."""
    axes.axvline(slope, **GUIDE)
    value, bar = array(ds, f"{name}_exponent"), 2 * array(ds, f"{name}_exponent_stderr")
    for row, f in enumerate(fits):
        curve_style = style.styles(array(ds, "convergence_placement"))[f]
        style.points(axes, curve_style, value[f], row, xerr=bar[f])
    if not np.isfinite(value[fits]).any():
        axes.text(0.3, 0.5, f"no {name} to fit", transform=axes.transAxes, rotation=90, ha="center", va="center",
                  fontsize=7, color=style.INK)  # fmt: skip
    axes.set(xlabel="Exponent", ylim=(len(fits) - 0.5, -0.5), yticks=[])
    low, high = axes.get_xlim()
    reach = max(slope - low, high - slope, 0.4 * abs(slope))
    axes.set_xlim(slope - reach, slope + reach)
    half = float(f"{0.6 * reach:.1g}")
    axes.set_xticks([slope - half, slope + half])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.tick_params(axis="x", labelsize=6.5)
    axes.spines["left"].set_visible(False)


def caption(ds: xr.Dataset) -> str:
    words = (
        f"Left: measured minus theory of infinite width, mean over depth and {seeds(ds)} seeds; open markers with "
        "arrows: upper limits, for values within 2 standard errors of zero. Right: standard deviation of means over "
        "groups of seeds, at the largest width. Lines: fitted power laws, with exponents next to the panels; an "
        "insignificant bias is not fitted. Bars: ± 2 standard errors. Points are shifted horizontally. "
    )
    omitted: dict[str, list[str]] = {}
    for f, curve_style in enumerate(style.styles(array(ds, "convergence_placement"))):
        if not is_drawn(ds, f):
            statistic = array(ds, "convergence_statistic")[f].replace("_", " ")
            reason = array(ds, "bias_verdict_reason")[f].split(":")[0]
            omitted.setdefault(f"{statistic}, {reason}", []).append(curve_style.label)
    words += "".join(f"Omitted ({reason}): {', '.join(labels)}. " for reason, labels in omitted.items())
    return words + captions.settings_text(ds)

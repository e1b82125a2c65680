"""Gradient over bound against the width: which power of D is right."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from . import scales, style, verify
from .dataset import array, on
from .makers import Figures

FIGURES = {"bound_ratio_vs_width": "gradient over bound against width"}
NEEDS = (
    on("statement", "statement")
    | on("width", "width")
    | on(
        "statement width",
        "width_cases",
        "width_ratio_median",
        "width_ratio_q99",
        "width_ratio_largest",
        "width_ratio_limit",
    )
)
PANELS = {"T14b": r"Sharp: $\sqrt{2}\,(1-p_y)\sqrt{D}$", "C.2-whole": r"Paper: $4\sqrt{D}$",
          "G4-whole": r"Reviews: $4\sqrt{1/D}$"}  # fmt: skip
MARKS = {"largest": ("o", "#D55E00", "largest"), "q99": ("^", "#009E73", "99 %"), "median": ("s", "#0072B2", "median")}
ORDINARY = 3  # LayerNorm of 2 features has no direction left for a gradient: at D = 2 the median is next to 0
LIMIT: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "zorder": 2}


def draw(ds: xr.Dataset) -> Figures:
    return Figures([("bound_ratio_vs_width", partial(_figure, ds))])


def _figure(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, len(PANELS), 2.5, style.PAGE, sharex=True)
    for axes, (name, words) in zip(row, PANELS.items(), strict=True):
        _panel(ds, axes, verify.index(ds, name))
        axes.set(title=words, xlabel="Width $D$")
    row[0].set_ylabel("Gradient over bound, Peri-LN")
    keys = [Line2D([], [], color=c, marker=m, ls="", ms=4, label=words) for m, c, words in MARKS.values()]
    keys.append(Line2D([], [], **LIMIT, label="the most that any gradient can reach"))
    keys.append(Line2D([], [], color="0.6", linestyle=":", linewidth=1.2, label="the bound"))
    return style.finish(figure, keys, caption(ds))


def _panel(ds: xr.Dataset, axes: Axes, k: int) -> None:
    width = array(ds, "width")
    seen = array(ds, "width_cases")[k] > 0
    for name, (marker, colour, _) in MARKS.items():
        axes.plot(width[seen], array(ds, f"width_ratio_{name}")[k][seen], linestyle="", marker=marker, markersize=3.2,
                  markeredgewidth=0.2, color=colour)  # fmt: skip
    axes.plot(width, array(ds, "width_ratio_limit")[k], **LIMIT)
    axes.axhline(1.0, color="0.6", linestyle=":", linewidth=1.2, zorder=1)
    limit = array(ds, "width_ratio_limit")[k]
    lowest = np.nanmin(array(ds, "width_ratio_median")[k][seen & (width >= ORDINARY)], initial=limit.min())
    axes.set(xscale="log", yscale="log", ylim=(0.5 * max(lowest, 0.01), 1.6 * max(1.0, limit.max())))
    scales.plain_log_ticks(axes, *axes.get_ylim())
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    axes.set_xticks([], minor=True)


def caption(ds: xr.Dataset) -> str:
    words = (
        "Frobenius norm of ∂loss/∂W₂ of Peri-LN sublayers over three bounds, each times γ‖h‖/‖a‖. The right power of D "
        "keeps the largest ratio at the bound for every width; with √(1/D) it grows like D and passes 1 from D = 3 on. "
        "Below the frame: the median at D = 2, where LayerNorm leaves no gradient. "
    )
    return words + verify.run(ds)

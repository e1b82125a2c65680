"""How fast the ladder converges: the bias of theory over width, and the noise of the measurement over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, scales, style
from .dataset import array, coordinates, on, seeds
from .makers import kind

STATISTICS = {"second_moment": r"of $\mathrm{E}[x^2]$, relative", "token_cosine": "of the token cosine"}
# what is drawn, over what, their labels, and the slope that theory states
PANELS = (("bias", "ladder_width", "|Bias|", "Width $D$", -1.0),
          ("noise", "group", "Spread of means", "Seeds averaged", -0.5))  # fmt: skip
GUIDE: dict[str, Any] = {"color": "0.82", "linewidth": 2.5, "zorder": 1}


@kind("convergence", "theory's error over width, and noise over seeds",
      coordinates("ladder_width group") | on("convergence ladder_width", "bias", "bias_stderr")
      | on("convergence", "bias_exponent", "noise_exponent")
      | on("convergence group", "noise", "noise_stderr"))  # fmt: skip
def convergence(ds: xr.Dataset) -> style.Page:
    statistics = list(dict.fromkeys(array(ds, "convergence_statistic")))
    looks = style.looks(array(ds, "convergence_placement"))
    figure, grid = style.panels(len(statistics), 4, 2.1, style.PAGE, width_ratios=(3, 1.2, 3, 1.2))
    for statistic, row in zip(statistics, grid, strict=True):
        fits = np.flatnonzero(array(ds, "convergence_statistic") == statistic).tolist()
        for k, (name, over, y_label, x_label, slope) in enumerate(PANELS):
            curves, exponents = row[2 * k : 2 * k + 2]
            curves.set(xlabel=x_label, ylabel=f"{y_label}\n{STATISTICS.get(statistic, statistic)}")
            _curves(ds, looks, curves, [f for f in fits if is_drawn(ds, f)], name, array(ds, over), slope)
            _exponents(ds, exponents, fits, name, slope)
    keys = [style.key(look, True) for look in dict.fromkeys(looks)]
    keys.append(style.entry(**GUIDE, label="slope −1, −1/2"))
    return style.finish(figure, keys, caption(ds))


def is_drawn(ds: xr.Dataset, fit: int) -> bool:
    """False if the placement fixes the statistic, or if there is no prediction."""
    return array(ds, "noise_verdict")[fit] != "not-checked"


def _curves(ds: xr.Dataset, looks: list[style.Look], axes: Axes, fits: Sequence[int], name: str, x: np.ndarray,
            slope: float) -> None:  # fmt: skip
    shown = []
    for rank, f in enumerate(fits):
        aside = x * 2.0 ** (0.7 * ((rank + 0.5) / len(fits) - 0.5))
        shown += _points(axes, looks[f], aside, np.abs(array(ds, name)[f]), 2 * array(ds, f"{name}_stderr")[f])
        fitted = np.abs(array(ds, f"{name}_amplitude")[f]) * x ** array(ds, f"{name}_exponent")[f]
        axes.plot(aside, fitted, **looks[f].line, linewidth=1.1)
    axes.set_yscale("log")
    scales.log_ticks_at(axes, x)
    if shown:
        axes.plot(x, 2 * max(shown) * (x / x[0]) ** slope, **GUIDE)
        axes.set_ylim(0.4 * min(shown), 2.4 * max(shown))
        scales.plain_log_ticks(axes, *axes.get_ylim())
    else:
        axes.set_ylim(0.1, 10.0)
        scales.nothing_finite(axes)


def _points(axes: Axes, look: style.Look, x: np.ndarray, y: np.ndarray, bar: np.ndarray) -> list[float]:
    """Values with bars; where a bar reaches zero, an open marker with an arrow at its upper end. Returns them."""
    seen = y > bar
    style.points(axes, look, x[seen], y[seen], bar[seen])
    limit = (y + bar)[~seen]
    axes.errorbar(x[~seen], limit, 0.3 * limit, **look.hollow, markeredgewidth=0.9, elinewidth=0.9, uplims=True,
                  capsize=2.0)  # fmt: skip
    return [v for v in np.where(seen, y, y + bar) if np.isfinite(v)]


def _exponents(ds: xr.Dataset, axes: Axes, fits: Sequence[int], name: str, slope: float) -> None:
    """The fitted exponents beside the one that theory states, a row per placement."""
    axes.axvline(slope, **GUIDE)
    value, bar = array(ds, f"{name}_exponent"), 2 * array(ds, f"{name}_exponent_stderr")
    for row, f in enumerate(fits):
        look = style.looks(array(ds, "convergence_placement"))[f]
        style.points(axes, look, value[f], row, xerr=bar[f])
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
        "arrows: upper limits, within 2 standard errors of zero. Right: spread of means over groups of seeds, at the "
        "largest width. Lines: fitted power laws, exponents next to the panels; an insignificant bias is not fitted. "
        "Bars: ± 2 standard errors. Points are shifted sideways. "
    )
    left_out: dict[str, list[str]] = {}
    for f, look in enumerate(style.looks(array(ds, "convergence_placement"))):
        if not is_drawn(ds, f):
            statistic = array(ds, "convergence_statistic")[f].replace("_", " ")
            why = array(ds, "bias_verdict_reason")[f].split(":")[0]
            left_out.setdefault(f"{statistic}, {why}", []).append(look.label)
    words += "".join(f"Left out ({why}): {', '.join(labels)}. " for why, labels in left_out.items())
    return words + captions.setting(ds)

"""Residuals over depth: measured minus predicted, in standard errors of the difference."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from . import captions, curves, scales, style
from .dataset import array, coordinates, on, seeds_in_words
from .makers import one_per_input

STATISTICS = {"variance": ("variance", "#0072B2", "o"), "token_cosine": ("token cosine", "#E69F00", "^")}
FIGURES = {"agreement": "measured minus predicted, in standard errors"}
GREY: dict[str, Any] = {"color": "0.93", "zorder": 0}
LIMIT: dict[str, Any] = {"color": style.INK, "linewidth": 0.7, "linestyle": (0, (4, 2)), "zorder": 1}
NEEDS = (
    coordinates("depth")
    | on("input placement", "verdict")
    | on("input placement depth", *(f"{s}_{v}" for s in STATISTICS for v in ("measured", "stderr", "predicted")))
)


def residual(curve: curves.Curve) -> np.ndarray:
    error = np.hypot(curve["stderr"], curve["predicted_stderr"])
    return (curve["measured"] - curve["predicted"]) / np.where(error > 0, error, np.nan)


@one_per_input("agreement")
def draw(ds: xr.Dataset, i: int) -> style.Page:
    critical = array(ds, "worst_critical")[i] if "worst_critical" in ds else np.full(ds.sizes["placement"], np.nan)

    def panel(axes: Axes, p: int, look: style.Look) -> None:
        axes.axhspan(-2, 2, **GREY)
        for limit in critical[p] * np.array([-1, 1]):
            if np.isfinite(limit):
                axes.axhline(limit, **LIMIT)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        shown = {name: residual(curves.select(ds, name, (i, p))) for name in STATISTICS}
        if not any(np.isfinite(z).any() for z in shown.values()):
            scales.nothing_finite(axes)  # of one seed there is no standard error
        axes.set_xlim(-0.02 * array(ds, "depth")[-1], 1.02 * array(ds, "depth")[-1])
        for name, (_, colour, marker) in STATISTICS.items():
            axes.plot(array(ds, "depth"), shown[name], color=colour, marker=marker, markersize=2.6, markeredgewidth=0,
                      linewidth=0.6)  # fmt: skip
        axes.set_title(curves.titled(look, array(ds, "verdict")[i, p]))

    figure = curves.per_placement(ds, panel, 1.7, "Residual / std. error", sharey=True)
    keys: list[Artist] = [style.entry(color=c, marker=m, ms=3.5, lw=0.6, label=words)
                          for words, c, m in STATISTICS.values()]  # fmt: skip
    keys.append(style.patch(**GREY, label="± 2 standard errors, for the eye"))
    if np.isfinite(critical).any():
        keys.append(style.entry(**LIMIT, label=f"limit of rejection, {critical[np.isfinite(critical)][0]:.2g}"))
    name = style.title(style.INPUTS[array(ds, "input")[i]])
    words = (
        f"{name}: measured minus predicted over their combined standard error "
        f"({seeds_in_words(ds)}); grey: ± 2, which one value in 22 leaves by chance; dashed: the limit at which all "
        "sites together reject, with what is allowed for added to it. Depths of one stack are correlated, and stacks "
        "share their random draws: what several have in common happened once. Titles: the verdict over all "
        "tested signals and gradients, which counts only what goes beyond what is allowed: rounding, and a "
        "finite-width term where theory is not exact at the width."
    )
    return style.finish(figure, keys, f"{words} {captions.setting(ds)}")

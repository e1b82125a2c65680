"""Residuals over depth: measured minus predicted, in standard errors of the difference."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from plots import captions, curves, scales, style
from plots.figures import Figures
from plots.results import Result

STATISTICS = {"variance": ("variance", "#0072B2", "o"), "token_cosine": ("token cosine", "#E69F00", "^")}
FIGURES = {"agreement": "measured minus predicted, in standard errors"}
GREY: dict[str, Any] = {"color": "0.93", "zorder": 0}
LIMIT: dict[str, Any] = {"color": style.INK, "linewidth": 0.7, "linestyle": (0, (4, 2)), "zorder": 1}
NEEDS = ("depth", "verdict", *(f"{s}_{v}" for s in STATISTICS for v in ("measured", "stderr", "predicted")))


def draw(result: Result) -> Figures:
    return Figures((f"agreement-{name}", partial(_residuals, result, i)) for i, name in enumerate(result["input"]))


def residual(curve: curves.Curve) -> np.ndarray:
    error = np.hypot(curve["stderr"], curve["predicted_stderr"])
    return (curve["measured"] - curve["predicted"]) / np.where(error > 0, error, np.nan)


def _residuals(result: Result, i: int) -> style.Page:
    critical = result["worst_critical"][i] if "worst_critical" in result else np.full(result["placement"].size, np.nan)

    def panel(axes: Axes, p: int, look: style.Look) -> None:
        axes.axhspan(-2, 2, **GREY)
        for limit in critical[p] * np.array([-1, 1]):
            if np.isfinite(limit):
                axes.axhline(limit, **LIMIT)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        shown = {name: residual(curves.select(result, name, (i, p))) for name in STATISTICS}
        if not any(np.isfinite(z).any() for z in shown.values()):
            scales.nothing_finite(axes)  # of one seed there is no standard error
        axes.set_xlim(-0.02 * result["depth"][-1], 1.02 * result["depth"][-1])
        for name, (_, colour, marker) in STATISTICS.items():
            z = shown[name]
            axes.plot(result["depth"], z, color=colour, marker=marker, markersize=2.6, markeredgewidth=0, linewidth=0.6)
        axes.set_title(curves.titled(look, result["verdict"][i, p]))

    figure = curves.per_placement(result, panel, 1.7, "Residual / std. error", sharey=True)
    keys: list[Artist] = [Line2D([], [], color=c, marker=m, ms=3.5, lw=0.6, label=words)
                          for words, c, m in STATISTICS.values()]  # fmt: skip
    keys.append(Patch(**GREY, label="± 2 standard errors, for the eye"))
    if np.isfinite(critical).any():
        keys.append(Line2D([], [], **LIMIT, label=f"limit of rejection, {critical[np.isfinite(critical)][0]:.2g}"))
    return style.finish(figure, keys, caption(result, i))


def caption(result: Result, i: int) -> str:
    words = (
        f"{style.title(style.INPUTS[result['input'][i]])}: measured minus predicted over their combined standard error "
        f"({result.seeds_in_words}); grey: ± 2, which one value in 22 leaves by chance; dashed: the limit at which all "
        "sites together reject, with what is allowed for added to it. Depths of one stack are correlated, and stacks "
        "share their random draws: what several have in common happened once. Titles: the verdict over all sites, "
        "which counts only what goes beyond what is allowed: rounding, and a finite-width term where theory is "
        "not exact at the width."
    )
    return f"{words} {captions.setting(result)}"

"""The last MLP matrix's gradient over Pre-LN's, against the size of the MLP's output (G6, T14)."""

from typing import Any

import numpy as np
import xarray as xr

from . import captions, curves, score_path, style
from .dataset import array, coordinates, fact, on
from .makers import one_figure

FIGURES = {"crossover": "the last MLP's gradient over Pre-LN's, against its output's size"}
NEEDS = (
    coordinates("down_factor")
    | on("case down_factor", "log_ratio_predicted", "log_rms_a_predicted", "log_law_measured")
    | on("case", "log_crossing_measured")
)
LAW: dict[str, Any] = {"marker": "x", "markersize": 4, "markeredgewidth": 0.9, "linestyle": "", "color": style.INK,
                       "zorder": 3, "markeredgecolor": style.INK}  # fmt: skip


@one_figure("crossover")
def draw(ds: xr.Dataset) -> style.Page:
    looks = captions.looks(ds)
    figure, ((axes,),) = style.panels(1, 1, 3.2, style.page(1))
    axes.axhline(1, color=style.INK, linewidth=0.6, zorder=1)
    every = []
    for p, look in enumerate(looks):
        ratio, size = (curves.norms(curves.select(ds, n, (p,))) for n in ("log_ratio", "log_rms_a"))
        every.append(ratio)
        predicted = {k: ratio[k] for k in ("predicted", "predicted_stderr")}
        curves.draw(axes, look, size["predicted"], predicted, slice(None))
        axes.errorbar(size["measured"], ratio["measured"], 2 * ratio["stderr"], 2 * size["stderr"], **look.marks,
                      elinewidth=0.9, zorder=2.5)  # fmt: skip
        axes.plot(size["measured"], np.exp(array(ds, "log_law_measured")[p]), **LAW)
        at, error = array(ds, "log_crossing_measured")[p], 2 * array(ds, "log_crossing_stderr")[p]
        if np.isfinite(at):
            axes.axvspan(np.exp(at - error), np.exp(at + error), color=look.colour, alpha=0.3, linewidth=0)
    curves.log_scale([axes], every)
    if not np.isfinite([array(ds, f"log_rms_a_{v}") for v in ("predicted", "measured")]).any():
        axes.set_xlim(0.1, 10.0)  # a logarithmic axis finds no limits of its own
    axes.set(xscale="log", xlabel="Size of the last MLP's output, rms $a$",
             ylabel="Gradient of the last $W_\\mathrm{down}$\nover that of Pre-LN")
    keys = [style.key(look, True) for look in looks]
    keys.append(style.entry(**LAW, label="closed form, from measured sizes"))
    words = "Bars in the background: where the measured ratio is 1, ± 2 standard errors. The order Post > Pre > Peri "
    claim, condition = fact(ds, "order_claim"), fact(ds, "order_condition")
    words += f"is the claim of the literature: {claim}: {condition}. "
    return style.finish(figure, keys, words + score_path.reading(ds))

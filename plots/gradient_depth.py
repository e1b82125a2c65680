"""The last MLP matrix's gradient against the number of layers, and the exponents fitted to it (G8)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, curves, scales, score_path, style
from .dataset import array, coordinates, on
from .makers import one_figure

FIGURES = {"gradient-vs-depth": "the last layer's gradient against the number of layers"}
NEEDS = (
    coordinates("layers theory_layers")
    | on("law layers", "log_gradient_measured")
    | on("law theory_layers", "log_gradient_predicted")
    | on("law", "late_exponent_measured")
)
CLAIMED: dict[str, Any] = {"color": "0.8", "marker": "|", "markersize": 13, "markeredgewidth": 3.5,
                           "markeredgecolor": "0.8"}  # fmt: skip
THEORY: dict[str, Any] = {"marker": "|", "markersize": 8, "markeredgewidth": 1.5, "linestyle": "",
                          "markeredgecolor": style.INK}  # fmt: skip
LIMIT: dict[str, Any] = {**THEORY, "markersize": 12, "markeredgewidth": 0.5}


@one_figure("gradient-vs-depth")
def draw(ds: xr.Dataset) -> style.Page:
    looks = captions.looks(ds)
    figure, ((axes, side),) = style.panels(1, 2, 3.0, style.PAGE, width_ratios=(3, 2))
    every = []
    for p, look in enumerate(looks):
        shown = curves.norms(curves.select(ds, "log_gradient", (p,)))  # on more layers predicted than measured
        every.append({k: shown[k] for k in ("predicted", "predicted_stderr")})
        curves.draw(axes, look, array(ds, "theory_layers"), every[-1], slice(None))
        axes.errorbar(array(ds, "layers"), shown["measured"], 2 * shown["stderr"], **look.marks, elinewidth=0.9,
                      zorder=2.5)  # fmt: skip
    curves.log_scale([axes], every)
    scales.log_ticks_at(axes, array(ds, "theory_layers"))
    axes.set(xlabel="Layers $L$",
             ylabel="Gradient of the last layer's $W_\\mathrm{down}$\n" r"$\|\partial\,\mathrm{loss}/\partial W\|_F$")
    _exponents(ds, side, looks)
    keys = [style.key(look, True) for look in looks]
    keys.append(style.theory_and_measurement("left: line: theory, marker: measured"))
    keys.append(style.entry(linestyle="", **CLAIMED, label="claimed by Xiong et al."))
    keys += [style.entry(**THEORY, label="theory, these L"), style.entry(**LIMIT, label="theory, greatest L")]
    words = "Geometric means over seeds; the same seeds at every depth. Right: exponents of L fitted to the three "
    words += f"largest measured depths, {', '.join(f'{v:g}' for v in array(ds, 'layers')[-3:])}, of every seed. "
    return style.finish(figure, keys, words + score_path.reading(ds))


def _exponents(ds: xr.Dataset, axes: Axes, looks: list[style.Look]) -> None:
    for row, look in enumerate(looks):
        if np.isfinite(array(ds, "claimed_exponent")[row]):
            axes.plot(array(ds, "claimed_exponent")[row], row, **CLAIMED, linestyle="")
        axes.plot(array(ds, "late_exponent_predicted")[row], row, **THEORY)
        axes.plot(array(ds, "limit_exponent")[row], row, **LIMIT)
        axes.errorbar(array(ds, "late_exponent_measured")[row], row, xerr=2 * array(ds, "late_exponent_stderr")[row],
                      color=look.colour, marker=look.marker, markersize=look.size, elinewidth=0.9)  # fmt: skip
    words = [f"{look.label}\n{v}" for look, v in zip(looks, array(ds, "claim_verdict"), strict=True)]
    axes.set(xlabel="Exponent of $L$", ylim=(len(looks) - 0.5, -0.5))
    axes.set_yticks(range(len(looks)), words, fontsize=6.5)

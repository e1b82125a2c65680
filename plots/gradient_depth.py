"""The last MLP matrix's gradient against the number of layers, and the exponents fitted to it (G8)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from plots import curves, score_path, style
from plots.results import Result

FIGURES = {"gradient-vs-depth": "the last layer's gradient against the number of layers"}
NEEDS = ("layers", "theory_layers", "log_gradient_measured", "log_gradient_predicted", "late_exponent_measured")
CLAIMED: dict[str, Any] = {"color": "0.8", "marker": "|", "markersize": 13, "markeredgewidth": 3.5,
                           "markeredgecolor": "0.8"}  # fmt: skip
THEORY: dict[str, Any] = {"marker": "|", "markersize": 8, "markeredgewidth": 1.5, "linestyle": "",
                          "markeredgecolor": style.INK}  # fmt: skip
LIMIT: dict[str, Any] = {**THEORY, "markersize": 12, "markeredgewidth": 0.5}


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    looks = style.looks(result["placement"])
    figure, ((axes, side),) = style.panels(1, 2, 3.0, style.PAGE, width_ratios=(3, 2))
    every = []
    for p, look in enumerate(looks):
        measured = {"measured": result["log_gradient_measured"][p], "stderr": result["log_gradient_stderr"][p]}
        predicted = {k: result[f"log_gradient_{k}"][p] for k in ("predicted", "predicted_stderr")}
        every.append(curves.norms(predicted))
        curves.draw(axes, look, result["theory_layers"], every[-1], slice(None))
        shown = curves.norms(measured)
        axes.errorbar(result["layers"], shown["measured"], 2 * shown["stderr"], linestyle="", marker=look.marker,
                      markersize=look.size, color=look.colour, elinewidth=0.9, zorder=2.5)  # fmt: skip
    curves.log_scale([axes], every)
    ticks = result["theory_layers"]
    axes.set(xscale="log", xlabel="Layers $L$",
             ylabel="Gradient of the last layer's $W_\\mathrm{down}$\n" r"$\|\partial\,\mathrm{loss}/\partial W\|_F$")
    axes.set_xticks(ticks, [f"{v:g}" for v in ticks])
    axes.set_xticks([], minor=True)
    _exponents(result, side, looks)
    keys = [style.key(look, True) for look in looks]
    keys.append(Line2D([], [], linestyle="", **CLAIMED, label="claimed by Xiong et al."))
    keys += [Line2D([], [], **THEORY, label="theory, these L"), Line2D([], [], **LIMIT, label="theory, greatest L")]
    words = "Geometric means over seeds; the same seeds at every depth. Right: exponents of L fitted to the three "
    words += f"largest measured depths, {', '.join(f'{v:g}' for v in result['layers'][-3:])}, of every seed. "
    yield "gradient-vs-depth", style.finish(figure, keys, words + score_path.reading(result))


def _exponents(result: Result, axes: Axes, looks: list[style.Look]) -> None:
    for row, look in enumerate(looks):
        if np.isfinite(result["claimed_exponent"][row]):
            axes.plot(result["claimed_exponent"][row], row, **CLAIMED, linestyle="")
        axes.plot(result["late_exponent_predicted"][row], row, **THEORY)
        axes.plot(result["limit_exponent"][row], row, **LIMIT)
        axes.errorbar(result["late_exponent_measured"][row], row, xerr=2 * result["late_exponent_stderr"][row],
                      color=look.colour, marker=look.marker, markersize=look.size, elinewidth=0.9)  # fmt: skip
    words = [f"{look.label}\n{v}" for look, v in zip(looks, result["claim_verdict"], strict=True)]
    axes.set(xlabel="Exponent of $L$", ylim=(len(looks) - 0.5, -0.5))
    axes.set_yticks(range(len(looks)), words, fontsize=6.5)

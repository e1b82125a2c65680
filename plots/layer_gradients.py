"""Squared gradient of every layer before and after training, a panel per placement: the paper's Figure 7."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from plots import groups, scales, style
from plots.figures import Figures
from plots.results import Result

FIGURES = {"figure-7-gradients": "gradient of every layer before and after training"}
NEEDS = ("group", "record", "layer", "layer_gradient_mean", "layer_gradient_stderr", "theory_layer_gradient",
         "claim_exhibit")  # fmt: skip


def draw(result: Result) -> Figures:
    return Figures([("figure-7-gradients", partial(_figure, result))] if groups.rows(result) else [])


def _figure(result: Result) -> style.Page:
    shown = groups.rows(result)
    looks = groups.looks(result, shown)
    columns = min(3, len(shown))
    figure, grid = style.panels(-(-len(shown) // columns), columns, 1.95, style.PAGE, sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row][: len(shown)]
    for axes, g, look in zip(panels, shown, looks, strict=True):
        _panel(axes, result, g, look)
    style.label_outer(grid, len(shown), "Layer (from 0)", "Squared gradient norm\nof a layer's matrices (nat²)")
    ends, errors = (result[f"layer_gradient_{part}"][shown][:, [0, -1]] for part in ("mean", "stderr"))
    bars = [ends * np.exp(k * np.where(np.isfinite(errors), errors, 0.0)) for k in (-2, 2)]
    scales.log_axis(panels, np.concatenate([*bars, result["theory_layer_gradient"][shown][:, None]], axis=1))
    marks: dict[str, Any] = {"color": "0.3", "marker": "o", "markersize": 4.5, "markeredgecolor": "0.3",
                             "linestyle": ""}  # fmt: skip
    keys = [Line2D([], [], color="0.3", linewidth=1.3, label="before training, theory"),
            Line2D([], [], **marks, markerfacecolor="white", label="before training, measured"),
            Line2D([], [], **marks | {"linestyle": "-"}, linewidth=0.7,
                   label=f"after {result['record'][-1]:g} steps, measured")]  # fmt: skip
    words = (
        f"Gradient of the loss on the held-out windows. Markers: geometric mean of {result.seeds_in_words}, ± 2 "
        "standard errors. Theory is for random weights, on the same windows together; band, where wider than the line: "
        "± 2 standard errors, at most, of the prediction."
    )
    return groups.finish(figure, result, keys, words, ["7"], shown)


def _panel(axes: Axes, result: Result, g: int, look: style.Look) -> None:
    layer, mean, error = (result[n] for n in ("layer", "layer_gradient_mean", "layer_gradient_stderr"))
    theory = result["theory_layer_gradient"][g]
    axes.plot(layer, theory, color=look.colour, linewidth=1.3)
    if "theory_layer_gradient_stderr" in result:
        margin = 2 * result["theory_layer_gradient_stderr"][g]
        axes.fill_between(layer, theory - margin, theory + margin, color=look.colour, alpha=0.25, lw=0)
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": look.colour, "markeredgewidth": 0.9}
    groups.measured(axes, look, layer, mean[g, 0], error[g, 0], **hollow)
    groups.measured(axes, look, layer, mean[g, -1], error[g, -1], linestyle="-", linewidth=0.7, zorder=2.6)
    axes.set_title(look.label)

"""Squared gradient of every layer before and after training, a panel per placement: the paper's Figure 7."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds_in_words
from .makers import Makers

FIGURES = {"figure-7-gradients": "gradient of every layer before and after training"}
NEEDS = (
    coordinates("group record layer")
    | on("group record layer", "layer_gradient_measured", "layer_gradient_stderr")
    | on("group layer", "layer_gradient_predicted")
    | on("claim", "claim_exhibit")
)


def draw(ds: xr.Dataset) -> Makers:
    return {"figure-7-gradients": partial(_figure, ds)} if groups.rows(ds) else {}


def _figure(ds: xr.Dataset) -> style.Page:
    shown = groups.rows(ds)
    looks = groups.looks(ds, shown)
    figure, panels = style.small_multiples(
        len(shown), 1.95, "Layer (from 0)", "Squared gradient norm\nof a layer's matrices (nat²)",
        style.threes(len(shown)), style.PAGE, sharex=True, sharey=True)  # fmt: skip
    for axes, g, look in zip(panels, shown, looks, strict=True):
        _panel(axes, ds, g, look)
    means, errors = (array(ds, f"layer_gradient_{part}")[shown][:, [0, -1]] for part in ("measured", "stderr"))
    theory = array(ds, "layer_gradient_predicted")[shown][:, None]
    scales.log_axis(panels, np.concatenate([means, theory], axis=1), groups.bars(means, errors))
    marks: dict[str, Any] = {"color": "0.3", "marker": "o", "markersize": 4.5, "markeredgecolor": "0.3",
                             "linestyle": ""}  # fmt: skip
    keys = [style.entry(color="0.3", linewidth=1.3, label="before training, theory"),
            style.entry(**marks, markerfacecolor="white", label="before training, measured"),
            style.entry(**marks | {"linestyle": "-"}, linewidth=0.7,
                   label=f"after {array(ds, 'record')[-1]:g} steps, measured")]  # fmt: skip
    words = (
        f"Gradient of the loss on the held-out windows. Markers: geometric mean of {seeds_in_words(ds)}, ± 2 "
        "standard errors. Theory is for random weights, on the same windows together; band, where wider than the line: "
        "± 2 standard errors, at most, of the prediction."
    )
    return groups.finish(figure, ds, keys, words, ["7"], shown)


def _panel(axes: Axes, ds: xr.Dataset, g: int, look: style.Look) -> None:
    layer, mean, error = (array(ds, n) for n in ("layer", "layer_gradient_measured", "layer_gradient_stderr"))
    groups.predicted(axes, look.colour, ds, layer, "layer_gradient", g)
    groups.measured(axes, look, layer, mean[g, 0], error[g, 0], **look.hollow, markeredgewidth=0.9)
    groups.measured(axes, look, layer, mean[g, -1], error[g, -1], linestyle="-", linewidth=0.7, zorder=2.6)
    axes.set_title(look.label)

"""Every seed's loss, gradient norm and last layer's gradient norm over training: the paper's Figures 4 and 5."""

from functools import partial
from typing import Any

import xarray as xr

from . import groups, scales, style
from .dataset import array, coordinates, on
from .makers import Makers

SPIKE: dict[str, Any] = {"linestyle": "", "marker": "v", "markersize": 5, "markeredgewidth": 0.5, "zorder": 3}
FIGURES = {"figure-4-instability": "every seed's loss and gradient norm, and its spikes",
           "figure-5-last-layer": "gradient norm of the last layer over training"}  # fmt: skip
NEEDS = (
    coordinates("group step")
    | on("group seed step", "loss", "grad_norm", "last_layer_grad_norm")
    | on("group seed", "spikes")
    | on("claim", "claim_exhibit")
)


def draw(ds: xr.Dataset) -> Makers:
    figures: Makers = {}
    if groups.rows(ds, placements=("pre", "peri")):
        figures["figure-4-instability"] = partial(_instability, ds)
    if groups.rows(ds, placements=groups.MAIN):
        figures["figure-5-last-layer"] = partial(_last_layer, ds)
    return figures


def _instability(ds: xr.Dataset) -> style.Page:
    shown = groups.rows(ds, placements=("pre", "peri"))
    looks, step = groups.looks(ds, shown), array(ds, "step")
    figure, grid = style.panels(2, len(shown), 1.7, style.PAGE, sharex=True, sharey="row")
    for row, name, y in zip(grid, ("loss", "grad_norm"), ("Training loss (nat)", "Gradient norm"), strict=True):
        for axes, g, look in zip(row, shown, looks, strict=True):
            for seed, series in enumerate(array(ds, name)[g]):
                colour = style.shade(look.colour, seed)
                axes.plot(step, series, color=colour, linewidth=0.5, alpha=0.8)
                if "spike" in ds:
                    at = array(ds, "spike")[g, seed] == 1
                    axes.plot(step[at], series[at], color=colour, **SPIKE)
        row[0].set_ylabel(y)
        scales.log_axis(row, array(ds, name)[shown])
    for axes, below, g, look in zip(*grid, shown, looks, strict=True):
        counts = ", ".join(f"{n:g}" for n in array(ds, "spikes")[g])
        axes.set_title(f"{look.label}: {counts} spikes, seed by seed")
        below.set(xlabel="Step", xlim=(0, step[-1]))
    words = (
        "Every seed on its own, in shades of one colour; the two placements see the same batches. Spikes: events "
        "in which the logarithm of loss "
        "or gradient norm is 6 robust standard deviations above its median of the last 128 steps; steps that are at "
        "most 16 apart are of one event, whose first step is marked in both rows whichever of both it is. Gradient "
        "norm: of all gradients before clipping."
    )
    keys = [style.entry(color=look.colour, linewidth=1.2, label=look.label) for look in looks]
    if "spike" in ds:
        keys.append(style.entry(color=style.INK, **SPIKE, label="first step of a counted spike"))
    return groups.finish(figure, ds, keys, words, ["4"], shown)


def _last_layer(ds: xr.Dataset) -> style.Page:
    shown = groups.rows(ds, placements=groups.MAIN)
    looks, step = groups.looks(ds, shown), array(ds, "step")
    figure, ((axes,),) = style.panels(1, 1, 3.0, style.PAGE)
    for g, look in zip(shown, looks, strict=True):
        axes.plot(step, array(ds, "last_layer_grad_norm")[g].T, color=look.colour, linewidth=0.6, alpha=0.7)
    scales.log_axis([axes], array(ds, "last_layer_grad_norm")[shown])
    axes.set(xlabel="Step", ylabel="Gradient norm of the last layer", xlim=(0, step[-1]))
    words = "Every seed on its own: norm of the gradients of the last layer's parameters, before clipping."
    keys = [style.entry(color=look.colour, linewidth=1.2, label=look.label) for look in looks]
    return groups.finish(figure, ds, keys, words, ["5"], shown)

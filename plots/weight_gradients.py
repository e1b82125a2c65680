"""Gradient of every matrix over depth, a panel per kind of matrix."""


import numpy as np
import xarray as xr

from . import captions, curves, stream, style
from .dataset import array, coordinates, on
from .makers import one_per_input

NAME = "weight_log_grad_sq"
FIGURES = {"weight-gradients": "gradient of every matrix over layers"}
NEEDS = (
    coordinates("input layer weight")
    | on("input placement weight layer", f"{NAME}_predicted", f"{NAME}_predicted_stderr")
)


@one_per_input("weight-gradients")
def draw(ds: xr.Dataset, i: int) -> style.Page:
    looks = captions.looks(ds)
    layer = array(ds, "layer")
    every = range(len(array(ds, "weight")))
    versions = [array(ds, f"{NAME}_{v}")[i] for v in ("predicted", "measured") if f"{NAME}_{v}" in ds]
    # A stack without a gate has no gradient of one. If nothing is finite, empty panels say so.
    weights = [w for w in every if any(np.isfinite(values[:, w]).any() for values in versions)] or list(every)
    points = curves.turns(len(layer), len(looks))
    figure, panels = style.small_multiples(len(weights), 1.9, "Layer (from 0)",
                                           r"$\|\partial\,\mathrm{loss}/\partial W\|_F$", sharex=True, sharey=True)
    drawn = []
    for w, axes in zip(weights, panels, strict=True):
        for p, look in enumerate(looks):
            drawn.append(stream.norms(ds, NAME, (i, p, w)))
            curves.draw(axes, look, layer, drawn[-1], points[p])
        name = str(array(ds, "weight")[w]).replace("_", "\\ ")
        axes.set_title(f"$W_\\mathrm{{{name}}}$")
    curves.log_scale(panels, drawn)
    caption = f"{style.title(style.INPUTS[array(ds, 'input')[i]])}. "
    caption += curves.caption(ds, points[0], NAME, mean=stream.MEAN)
    return style.finish(figure, curves.legend(ds, looks, NAME), caption)

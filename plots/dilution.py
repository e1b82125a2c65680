"""Dilution: the size of a sublayer's branch beside the stream that it joins, over depth."""


import numpy as np
import xarray as xr

from . import captions, curves, style
from .dataset import array, coordinates, on
from .makers import one_figure

NAME = "site_branch_ratio"
FIGURES = {"dilution": "size of every branch beside the stream that it joins"}
NEEDS = (
    coordinates("site sublayer")
    | on("input placement site sublayer", f"{NAME}_predicted", f"{NAME}_predicted_stderr")
)
MODULES = ("Attention", "MLP")


@one_figure("dilution")
def draw(ds: xr.Dataset) -> style.Page:
    inputs = array(ds, "input")
    looks = captions.looks(ds)
    site = list(array(ds, "site")).index("B_out")
    layer = 1 + np.arange(len(array(ds, "sublayer")) // 2)
    ticks = [t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if t <= layer[-1]]
    points = curves.turns(len(layer), len(looks))
    figure, grid = style.panels(2, len(inputs), 2.3, style.page(len(inputs)), sharex=True, sharey=True)
    every = []
    for m, row in enumerate(grid):
        for i, axes in enumerate(row):
            for p, look in enumerate(looks):
                every.append(curves.select(ds, NAME, (i, p, site, slice(m, None, 2))))
                curves.draw(axes, look, layer, every[-1], points[p])
            axes.set(title=f"{MODULES[m]}, {style.INPUTS[inputs[i]]}", xscale="log")
            axes.set(xticks=ticks, xticklabels=[t - 1 for t in ticks], xlim=(0.9, 1.1 * layer[-1]))
            axes.set_xticks([], minor=True)
        row[0].set_ylabel("Branch over stream\n" r"$\mathrm{rms}(\beta\,B_{out})\,/\,\mathrm{rms}(\alpha\,x_{in})$")
    for axes in grid[-1]:
        axes.set_xlabel("Layer (from 0; logarithmic in 1 + layer)")
    curves.log_scale([axes for row in grid for axes in row], every)
    words = ("Size (rms over tokens and features) of a sublayer's branch βB_out over that of the stream αx_in to which "
             "it is added: x_in is the sublayer's input, B_out its module's output, after norm B where there is one; "
             "α and β are the placement's scales. ")  # fmt: skip
    caption = words + curves.caption(ds, points[0], NAME)
    return style.finish(figure, curves.legend(ds, looks, NAME), caption)

"""Gradient of every matrix over depth, a panel per kind of matrix."""

from functools import partial

import numpy as np

from plots import curves, gradient, style
from plots.figures import Figures
from plots.results import Result

NAME = "weight_log_grad_sq"
FIGURES = {"weight-gradients": "gradient of every matrix over layers"}
NEEDS = ("input", "layer", "weight", f"{NAME}_predicted", f"{NAME}_predicted_stderr")


def draw(result: Result) -> Figures:
    return Figures((f"weight-gradients-{name}", partial(_panels, result, i)) for i, name in enumerate(result["input"]))


def _panels(result: Result, i: int) -> style.Page:
    looks = style.looks(result["placement"])
    layer = result["layer"]
    every = range(len(result["weight"]))
    versions = [result[f"{NAME}_{v}"][i] for v in ("predicted", "measured") if f"{NAME}_{v}" in result]
    # A stack without a gate has no gradient of one. If nothing is finite, empty panels say so.
    weights = [w for w in every if any(np.isfinite(values[:, w]).any() for values in versions)] or list(every)
    points = curves.turns(len(layer), len(looks))
    rows, columns = style.multiples(len(weights))
    figure, grid = style.panels(rows, columns, 1.9, style.page(columns), sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row][: len(weights)]
    drawn = []
    for w, axes in zip(weights, panels, strict=True):
        for p, look in enumerate(looks):
            drawn.append(gradient.norms(result, NAME, (i, p, w)))
            curves.draw(axes, look, layer, drawn[-1], points[p])
        axes.set_title(f"$W_\\mathrm{{{result['weight'][w]}}}$")
    style.label_outer(grid, len(weights), "Layer (from 0)", r"$\|\partial\,\mathrm{loss}/\partial W\|_F$")
    curves.log_scale(panels, drawn)
    caption = f"{style.title(style.INPUTS[result['input'][i]])}. "
    caption += curves.caption(result, points[0].step, NAME, mean=gradient.MEAN)
    return style.finish(figure, curves.legend(result, looks, NAME), caption)

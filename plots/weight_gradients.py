"""Gradient of every matrix over depth, a panel per kind of matrix."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from plots import curves, gradient, style
from plots.results import Result

NAME = "weight_log_grad_sq"
NEEDS = ("input", "layer", "weight", f"{NAME}_predicted", f"{NAME}_predicted_stderr")


def draw(result: Result) -> Iterator[tuple[str, Figure]]:
    for i, name in enumerate(result["input"]):
        yield f"weight-gradients-{name}", _panels(result, i)


def _panels(result: Result, i: int) -> Figure:
    looks = style.looks(result["placement"])
    layer = 1 + result["layer"]
    weights = [w for w, _ in enumerate(result["weight"]) if np.isfinite(result[f"{NAME}_predicted"][i, :, w]).any()]
    points = curves.turns(len(layer), len(looks))
    rows, columns = style.multiples(len(weights))
    figure, grid = style.panels(rows, columns, 1.9, style.page(columns), sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row][: len(weights)]
    every = []
    for w, axes in zip(weights, panels, strict=True):
        for p, look in enumerate(looks):
            every.append(gradient.norms(result, NAME, (i, p, w)))
            curves.draw(axes, look, layer, every[-1], points[p])
        axes.set_title(f"$W_\\mathrm{{{result['weight'][w]}}}$")
    style.label_outer(grid, len(weights), "Layer", r"$\|\partial\,\mathrm{loss}/\partial W\|_F$")
    curves.log_scale(panels, every)
    caption = f"{style.title(style.INPUTS[result['input'][i]])}. Geometric means over seeds. "
    caption += curves.caption(result, NAME, points[0].step)
    return style.finish(figure, curves.legend(result, looks, NAME), caption)

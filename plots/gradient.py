"""Gradient of the hidden state over depth: the lab's Figure 7 at initialisation."""

from collections.abc import Iterator
from typing import Any

from matplotlib.ticker import MaxNLocator

from plots import curves, style
from plots.results import Result

NAME = "log_grad_sq"
FIGURES = {"gradient": "gradient of the hidden state over depth"}
NEEDS = ("input", "depth", f"{NAME}_predicted", f"{NAME}_predicted_stderr")


def norms(result: Result, name: str, place: tuple[Any, ...]) -> curves.Curve:
    """From the logarithms of squares."""
    return curves.norms({k: v / 2 for k, v in curves.select(result, name, place).items()})


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    inputs, depth = result["input"], result["depth"]
    looks = style.looks(result["placement"])
    figure, (row,) = style.panels(1, len(inputs), 3.2, style.page(len(inputs)), sharey=True)
    points = curves.turns(len(depth), len(looks))
    every = []
    for i, axes in enumerate(row):
        for p, look in enumerate(looks):
            every.append(norms(result, NAME, (i, p)))
            curves.draw(axes, look, depth, every[-1], points[p])
        axes.set(title=curves.input_title(result, i), xlabel="Sublayers passed (0: the input)")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    row[0].set_ylabel("Gradient of the hidden state\n" r"$\|\partial\,\mathrm{loss}/\partial x\|$, rms over tokens")
    curves.log_scale(row, every)
    caption = "Geometric means over seeds. " + curves.caption(result, NAME, points[0].step)
    yield "gradient", style.finish(figure, curves.legend(result, looks, NAME), caption)

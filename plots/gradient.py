"""Gradient of the hidden state over depth: the lab's Figure 7 at initialisation."""

from collections.abc import Iterator
from typing import Any

from plots import curves, style
from plots.results import Result

NAME = "log_grad_sq"
FIGURES = {"gradient": "gradient of the hidden state over depth"}
NEEDS = ("input", "depth", f"{NAME}_predicted", f"{NAME}_predicted_stderr")
MEAN = "geometric mean"


def norms(result: Result, name: str, place: tuple[Any, ...]) -> curves.Curve:
    """From the logarithms of squares."""
    return curves.norms({k: v / 2 for k, v in curves.select(result, name, place).items()})


LABEL = "Gradient of the hidden state\n" r"$\|\partial\,\mathrm{loss}/\partial x\|$, rms over tokens"
STATISTIC = curves.Statistic(NAME, LABEL, read=norms)


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    yield "gradient", curves.over_depth(result, STATISTIC, mean=MEAN)

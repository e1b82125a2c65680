"""Gradient of the hidden state over depth: the lab's Figure 7 at initialisation."""

from typing import Any

import xarray as xr

from . import curves, style
from .dataset import coordinates, on
from .makers import one_figure

NAME = "log_grad_sq"
FIGURES = {"gradient": "gradient of the hidden state over depth"}
NEEDS = coordinates("input depth") | on("input placement depth", f"{NAME}_predicted", f"{NAME}_predicted_stderr")
MEAN = "geometric mean"


def norms(ds: xr.Dataset, name: str, place: tuple[Any, ...]) -> curves.Curve:
    """From the logarithms of squares."""
    return curves.norms({k: v / 2 for k, v in curves.select(ds, name, place).items()})


LABEL = "Gradient of the hidden state\n" r"$\|\partial\,\mathrm{loss}/\partial x\|$, rms over tokens"
STATISTIC = curves.Statistic(NAME, LABEL, read=norms)


@one_figure("gradient")
def draw(ds: xr.Dataset) -> style.Page:
    return curves.over_depth(ds, STATISTIC, mean=MEAN)

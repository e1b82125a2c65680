"""Statistics of the stream over depth, all placements: variance (the lab's Figure 1 at initialisation), cosine of two
tokens' hidden states, gradient (its Figure 7 at initialisation), and an overview of variance and gradient."""

from functools import partial
from typing import Any

import xarray as xr

from . import curves
from .dataset import coordinates, on
from .makers import Makers

FIGURES = {"overview": "variance and gradient of the hidden state over depth",
           "variance": "hidden-state variance over depth",
           "token_cosine": "cosine between tokens over depth",
           "gradient": "gradient of the hidden state over depth"}  # fmt: skip
NEEDS = coordinates("depth") | on("input placement depth", *(
    f"{name}_{value}" for name in ("variance", "token_cosine") for value in ("predicted", "predicted_stderr")))
GRADIENTS = on("input placement depth", "log_grad_sq_predicted", "log_grad_sq_predicted_stderr")
MEAN = "geometric mean"


def norms(ds: xr.Dataset, name: str, place: tuple[Any, ...]) -> curves.Curve:
    """From the logarithms of squares."""
    return curves.norms({k: v / 2 for k, v in curves.select(ds, name, place).items()})


VARIANCE = curves.Statistic("variance", "Hidden-state variance\n" r"(mean over tokens of $\mathrm{Var}_D(x)$)")
COSINE = curves.Statistic("token_cosine", "Token cosine\n(mean over pairs of distinct tokens)", log=False)
GRADIENT = curves.Statistic(
    "log_grad_sq", "Gradient of the hidden state\n" r"$\|\partial\,\mathrm{loss}/\partial x\|$, rms over tokens",
    read=norms)  # fmt: skip


def draw(ds: xr.Dataset) -> Makers:
    figures: Makers = {"variance": partial(curves.over_depth, ds, VARIANCE),
                       "token_cosine": partial(curves.over_depth, ds, COSINE)}  # fmt: skip
    if not GRADIENTS.keys() <= ds.keys():
        return figures
    both = partial(curves.over_depth, ds, VARIANCE, GRADIENT, mean="mean (of gradients the geometric mean)")
    return {"overview": both, **figures, "gradient": partial(curves.over_depth, ds, GRADIENT, mean=MEAN)}

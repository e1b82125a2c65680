"""Cosine of two tokens' hidden states over depth, all placements."""


import xarray as xr

from . import style
from .curves import Statistic, over_depth
from .dataset import coordinates, on
from .makers import one_figure

FIGURES = {"token_cosine": "cosine between tokens over depth"}
NEEDS = coordinates("depth") | on("input placement depth", "token_cosine_predicted", "token_cosine_predicted_stderr")
STATISTIC = Statistic("token_cosine", "Token cosine\n(mean over pairs of distinct tokens)", log=False)


@one_figure("token_cosine")
def draw(ds: xr.Dataset) -> style.Page:
    return over_depth(ds, STATISTIC)

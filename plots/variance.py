"""Hidden-state variance over depth, all placements: the lab's Figure 1 at initialisation."""


import xarray as xr

from . import style
from .curves import Statistic, over_depth
from .dataset import coordinates, on
from .makers import one_figure

FIGURES = {"variance": "hidden-state variance over depth"}
NEEDS = coordinates("depth") | on("input placement depth", "variance_predicted", "variance_predicted_stderr")
STATISTIC = Statistic("variance", "Hidden-state variance\n" r"(mean over tokens of $\mathrm{Var}_D(x)$)")


@one_figure("variance")
def draw(ds: xr.Dataset) -> style.Page:
    return over_depth(ds, STATISTIC)

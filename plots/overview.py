"""Variance and gradient of the hidden state over depth, side by side: a run with --backward in one figure."""


import xarray as xr

from . import curves, gradient, style, variance
from .makers import one_figure

FIGURES = {"overview": "variance and gradient of the hidden state over depth"}
NEEDS = variance.NEEDS | gradient.NEEDS


@one_figure("overview")
def draw(ds: xr.Dataset) -> style.Page:
    statistics = variance.STATISTIC, gradient.STATISTIC
    return curves.over_depth(ds, *statistics, mean="mean (of gradients the geometric mean)")

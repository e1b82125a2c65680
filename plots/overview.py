"""Variance and gradient of the hidden state over depth, side by side: a run with --backward in one figure."""

from functools import partial

import xarray as xr

from . import curves, gradient, style, variance
from .makers import Figures

FIGURES = {"overview": "variance and gradient of the hidden state over depth"}
NEEDS = variance.NEEDS | gradient.NEEDS


def draw(ds: xr.Dataset) -> Figures:
    return Figures([("overview", partial(_figure, ds))])


def _figure(ds: xr.Dataset) -> style.Page:
    statistics = variance.STATISTIC, gradient.STATISTIC
    return curves.over_depth(ds, *statistics, mean="mean (of gradients the geometric mean)")

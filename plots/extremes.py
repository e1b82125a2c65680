"""The hundred largest activations of the stream during training, against FP16: the paper's Figure 11."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

from . import groups, scales, style
from .certificate import FP16
from .dataset import array, coordinates, on
from .makers import Makers

FIGURES = {"figure-11-extremes": "the hundred largest activations during training"}
NEEDS = coordinates("group record") | on("group seed record", "top_first", "top_last") | on("claim", "claim_exhibit")


def draw(ds: xr.Dataset) -> Makers:
    shown = groups.rows(ds, placements=("pre", "peri"))
    return {"figure-11-extremes": partial(_figure, ds, shown)} if shown else {}


def _figure(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks, step = groups.looks(ds, shown), array(ds, "record")
    figure, ((axes,),) = style.panels(1, 1, 2.9, style.PAGE)
    for g, look in zip(shown, looks, strict=True):
        for low, high in zip(array(ds, "top_last")[g], array(ds, "top_first")[g], strict=True):
            axes.fill_between(step, low, high, color=look.colour, alpha=0.18, linewidth=0)
            axes.plot(step, high, **look.line, linewidth=0.9)
            axes.plot(step, low, **look.line, linewidth=0.5)
    scales.log_axis([axes], np.concatenate([array(ds, "top_first")[shown], array(ds, "top_last")[shown]]))
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 2 * FP16))
    axes.yaxis.set_major_locator(LogLocator(numticks=10))  # the axis reaches further than the data
    axes.yaxis.set_major_formatter(LogFormatterSciNotation())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(FP16, color="#B00000", linewidth=0.9)
    axes.annotate(f"FP16's largest number, {FP16:g}", (0.01, FP16), (0, -2), xycoords=("axes fraction", "data"),
                  textcoords="offset points", va="top", fontsize=6.5, color="#B00000")  # fmt: skip
    groups.step_axis(axes, step[-1])
    axes.set_ylabel("Largest $|x|$ of the stream")
    keys = [style.patch(facecolor=look.colour, alpha=0.4, linewidth=0, label=f"{look.label}, largest to 100th largest")
            for look in looks]  # fmt: skip
    words = "Over all depths, held-out tokens and features, a band for every seed."
    return groups.finish(figure, ds, keys, words, ["11"], shown)

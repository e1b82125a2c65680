"""Final losses at the shared learning rate, seed by seed: the paper's Table 5 and Figures 8, 19 to 22 and 32 to 34."""

from functools import partial

import numpy as np
import xarray as xr

from . import groups, style
from .dataset import array, coordinates, on, seeds
from .makers import Makers

FIGURES = {"table-5-losses": "final losses, seed by seed"}
NEEDS = (
    coordinates("group")
    | on("group", "study", "final_loss_mean", "final_loss_stderr")
    | on("group seed", "final_loss")
    | on("claim", "claim_exhibit")
)
STUDIES = {"base": "table5", "frozen": "8", "layer-norm": "19", "embedding-norm": "20", "olmo": "32"}


def draw(ds: xr.Dataset) -> Makers:
    shown = [g for study in STUDIES for g in groups.rows(ds, study)]
    return {"table-5-losses": partial(_figure, ds, shown)} if shown else {}


def _figure(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks = groups.looks(ds, shown)
    figure, ((axes,),) = style.panels(1, 1, 0.6 + 0.26 * len(shown), style.PAGE)
    mean, bar = array(ds, "final_loss_mean"), 2 * array(ds, "final_loss_stderr")
    for row, (g, look) in enumerate(zip(shown, looks, strict=True)):
        axes.plot(array(ds, "final_loss")[g], np.full(seeds(ds), row + 0.22), color=look.colour, marker=".",
                  markersize=5, markeredgewidth=0, linestyle="")  # fmt: skip
        axes.errorbar(mean[g], row - 0.08, xerr=bar[g], **look.marks, elinewidth=0.9)
    axes.set_yticks(range(len(shown)), [groups.label(ds, g) for g in shown])
    axes.set(ylim=(len(shown) - 0.5, -0.5), xlabel="Final training loss (nat)")
    axes.grid(axis="y", visible=False)
    keys = [style.entry(color="0.3", marker="o", markersize=5, linestyle="", label="mean ± 2 standard errors"),
            style.entry(color="0.3", marker=".", markersize=6, linestyle="", label="each seed")]  # fmt: skip
    words = (
        "Mean training loss of the last tenth of the steps, ln V if not finite. Seeds are twins: they see the same "
        "batches in every group, so that differences, which the claims test, are surer than the bars."
    )
    exhibits = [exhibit for study, exhibit in STUDIES.items() if study in array(ds, "study")]
    return groups.finish(figure, ds, keys, words, exhibits, shown)

"""Weight decay and initialisation: variance over depth at the end, and final losses. The paper's Figure 10 and Tables
7 to 9."""

from functools import partial

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds_in_words
from .makers import Makers

FIGURES = {"figure-10-decay-init": "weight decay and initialisation"}
NEEDS = (
    coordinates("group depth")
    | on("group", "weight_decay", "init_std", "final_loss_mean", "final_loss_stderr")
    | on("group record depth", "variance_measured")
    | on("claim", "claim_exhibit")
)
TWO = ("pre", "peri")
STUDIES = {"decay": "weight decay", "init": "initialisation"}
MARKERS = "osD^vP*"


def draw(ds: xr.Dataset) -> Makers:
    present = [study for study in STUDIES if groups.rows(ds, study, TWO)]
    return {"figure-10-decay-init": partial(_figure, ds, present)} if present else {}


def variants(ds: xr.Dataset, study: str) -> list[tuple[str, list[int]]]:
    """What was varied, in its order, with the groups of Pre-LN and Peri-LN."""
    key = "weight_decay" if study == "decay" else "init_std"
    found: dict[str, list[int]] = {}
    for g in groups.rows(ds, study, TWO):
        found.setdefault(str(array(ds, "group")[g]).split(", ", 1)[1], []).append(g)
    base = groups.rows(ds, placements=TWO)
    if base:
        at = array(ds, key)[base[0]]
        found[f"base: {'weight decay' if study == 'decay' else 'std'} {at:g}"] = base
    return sorted(found.items(), key=lambda item: np.nan_to_num(array(ds, key)[item[1][0]], nan=np.inf))


def _figure(ds: xr.Dataset, present: list[str]) -> style.Page:
    figure, grid = style.panels(len(present), 3, 2.5, style.PAGE)
    shown = []
    for row, study in zip(grid, present, strict=True):
        found = variants(ds, study)
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(found)))
        for axes, placement in zip(row, TWO, strict=False):
            for (_, members), colour, marker in zip(found, colours, MARKERS, strict=False):
                for g in (g for g in members if array(ds, "placement")[g] == placement):
                    axes.plot(array(ds, "depth"), array(ds, "variance_measured")[g, -1], color=colour, linewidth=0.8,
                              marker=marker, markersize=3, markevery=2)  # fmt: skip
            axes.set(title=f"{style.LOOKS[placement].label}, by {STUDIES[study]}", xlabel="Sublayers passed")
            scales.whole_numbers(axes, 6)
        members = [g for _, rows in found for g in rows]
        scales.log_axis(row[:2], array(ds, "variance_measured")[members, -1])
        row[0].set_ylabel("Variance at the end")
        _losses(row[2], ds, found, colours)
        shown += [g for g in members if g not in shown]
    keys = [style.entry(color=style.LOOKS[p].colour, marker=style.LOOKS[p].marker, markersize=5, linestyle="",
                   label=f"{style.LOOKS[p].label}, final loss") for p in TWO]  # fmt: skip
    words = (
        f"Left: geometric mean of {seeds_in_words(ds)} over depth at the last record, coloured as the names at the "
        "right. Right: mean training loss of the last tenth of the steps, ± 2 standard errors, ln V if not finite."
    )
    return groups.finish(figure, ds, keys, words, ["10"], shown)


def _losses(axes: Axes, ds: xr.Dataset, found: list[tuple[str, list[int]]], colours: np.ndarray) -> None:
    for row, (_, members) in enumerate(found):
        for g, look in zip(members, groups.looks(ds, members), strict=True):
            axes.errorbar(array(ds, "final_loss_mean")[g], row + (0.12 if look.label == "Peri-LN" else -0.12),
                          xerr=2 * array(ds, "final_loss_stderr")[g], **look.marks, elinewidth=0.9)  # fmt: skip
    axes.set_yticks(range(len(found)), [name for name, _ in found], fontsize=6.5)
    for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    axes.set(ylim=(len(found) - 0.5, -0.5), xlabel="Final training loss (nat)")
    axes.grid(axis="y", visible=False)

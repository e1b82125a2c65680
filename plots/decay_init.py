"""Weight decay and initialisation: variance over depth at the end, and final losses. The paper's Figure 10 and Tables
7 to 9."""

from functools import partial

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plots import groups, scales, style
from plots.figures import Figures
from plots.results import Result

FIGURES = {"figure-10-decay-init": "weight decay and initialisation"}
NEEDS = ("group", "depth", "weight_decay", "init_std", "variance_mean", "final_loss_mean", "final_loss_stderr",
         "claim_exhibit")  # fmt: skip
TWO = ("pre", "peri")
STUDIES = {"decay": "weight decay", "init": "initialisation"}
MARKERS = "osD^vP*"


def draw(result: Result) -> Figures:
    present = [study for study in STUDIES if groups.rows(result, study, TWO)]
    return Figures([("figure-10-decay-init", partial(_figure, result, present))] if present else [])


def variants(result: Result, study: str) -> list[tuple[str, list[int]]]:
    """What was varied, in its order, with the groups of Pre-LN and Peri-LN."""
    key = "weight_decay" if study == "decay" else "init_std"
    found: dict[str, list[int]] = {}
    for g in groups.rows(result, study, TWO):
        found.setdefault(str(result["group"][g]).split(", ", 1)[1], []).append(g)
    base = groups.rows(result, placements=TWO)
    if base:
        at = result[key][base[0]]
        found[f"base: {'weight decay' if study == 'decay' else 'std'} {at:g}"] = base
    return sorted(found.items(), key=lambda item: np.nan_to_num(result[key][item[1][0]], nan=np.inf))


def _figure(result: Result, present: list[str]) -> style.Page:
    figure, grid = style.panels(len(present), 3, 2.5, style.PAGE)
    shown = []
    for row, study in zip(grid, present, strict=True):
        found = variants(result, study)
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(found)))
        for axes, placement in zip(row, TWO, strict=False):
            for (_, members), colour, marker in zip(found, colours, MARKERS, strict=False):
                for g in (g for g in members if result["placement"][g] == placement):
                    axes.plot(result["depth"], result["variance_mean"][g, -1], color=colour, linewidth=0.8,
                              marker=marker, markersize=3, markevery=2)  # fmt: skip
            axes.set(title=f"{style.LOOKS[placement].label}, by {STUDIES[study]}", xlabel="Sublayers passed")
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        members = [g for _, rows in found for g in rows]
        scales.log_axis(row[:2], result["variance_mean"][members, -1])
        row[0].set_ylabel("Variance at the end")
        _losses(row[2], result, found, colours)
        shown += [g for g in members if g not in shown]
    keys = [Line2D([], [], color=style.LOOKS[p].colour, marker=style.LOOKS[p].marker, markersize=5, linestyle="",
                   label=f"{style.LOOKS[p].label}, final loss") for p in TWO]  # fmt: skip
    words = (
        f"Left: geometric mean of {result.seeds_in_words} over depth at the last record, coloured as the names at the "
        "right. Right: mean training loss of the last tenth of the steps, ± 2 standard errors, ln V if not finite."
    )
    return groups.finish(figure, result, keys, words, ["10"], shown)


def _losses(axes: Axes, result: Result, found: list[tuple[str, list[int]]], colours: np.ndarray) -> None:
    for row, (_, members) in enumerate(found):
        for g, look in zip(members, groups.looks(result, members), strict=True):
            axes.errorbar(result["final_loss_mean"][g], row + (0.12 if look.label == "Peri-LN" else -0.12),
                          xerr=2 * result["final_loss_stderr"][g], color=look.colour, marker=look.marker,
                          markersize=4.5, linestyle="", elinewidth=0.9)  # fmt: skip
    axes.set_yticks(range(len(found)), [name for name, _ in found], fontsize=6.5)
    for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    axes.set(ylim=(len(found) - 0.5, -0.5), xlabel="Final training loss (nat)")
    axes.grid(axis="y", visible=False)

"""Angular distance between the streams at two depths before and after training, and the gains of the output norms:
the paper's Figures 9 and 39."""

from functools import partial
from typing import Any

import matplotlib
import numpy as np
import xarray as xr

from . import groups, scales, style
from .angular import colourbar, heatmaps
from .dataset import array, coordinates, on, seeds_in_words
from .makers import Makers

FIGURES = {"figure-9-angles": "angular distances before and after training",
           "figure-9-gains": "gains of output norms during training"}  # fmt: skip
NEEDS = (
    coordinates("group record depth sublayer")
    | on("group record depth other_depth", "angular_distance_measured")
    | on("group record sublayer", "gain_b_measured", "gain_b_stderr")
    | on("claim", "claim_exhibit")
)
SHARES = (0.0, 0.2, 0.5, 1.0)
MARKERS = "os^D"


def draw(ds: xr.Dataset) -> Makers:
    figures: Makers = {}
    if groups.rows(ds, placements=groups.MAIN):
        figures["figure-9-angles"] = partial(_angles, ds)
    if groups.rows(ds, placements=["peri"]):
        figures["figure-9-gains"] = partial(_gains, ds)
    return figures


def _angles(ds: xr.Dataset) -> style.Page:
    shown = groups.rows(ds, placements=groups.MAIN) + groups.rows(ds, "frozen")
    depth, ends = array(ds, "depth"), (0, len(array(ds, "record")) - 1)
    side = min(1.9, (style.PAGE - 1.3) / len(shown))
    figure, grid = style.panels(2, len(shown), side + 0.25, style.PAGE, compress=True, sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row]
    values = [array(ds, "angular_distance_measured")[g, r] for r in ends for g in shown]
    colourbar(figure, heatmaps(panels, values, depth), panels)
    for row, r in zip(grid, ends, strict=True):
        when = "before training" if r == 0 else f"after {array(ds, 'record')[r]:g} steps"
        row[0].set_ylabel(f"Sublayers passed,\n{when}")
    for axes, g in zip(grid[0], shown, strict=True):
        axes.set_title(groups.label(ds, g).replace(", ", ",\n"), fontsize=8)
    for axes in grid[1]:
        axes.set_xlabel("Sublayers passed")
    words = (
        f"Arccos(cosine)/π of the stream at two depths, mean over held-out tokens and {seeds_in_words(ds)}: dark is "
        "alike."
    )
    return groups.finish(figure, ds, [], words, ["F10a", "F10b"], shown)


def _gains(ds: xr.Dataset) -> style.Page:
    shown = groups.rows(ds, placements=["peri"]) + groups.rows(ds, "frozen")
    sublayer, at = array(ds, "sublayer"), groups.records(ds, SHARES)
    figure, (row,) = style.panels(1, len(shown), 2.6, style.page(len(shown)), sharey=True)
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(at)))
    keys = []
    for r, colour, marker in zip(at, colours, MARKERS, strict=False):
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.8, "linewidth": 0.7}
        keys.append(style.entry(**look, label=f"after {array(ds, 'record')[r]:g} steps"))
        for axes, g in zip(row, shown, strict=True):
            mean, error = array(ds, "gain_b_measured")[g, r], array(ds, "gain_b_stderr")[g, r]
            axes.errorbar(sublayer, mean, 2 * error, elinewidth=0.8, **look)
    for axes, g in zip(row, shown, strict=True):
        axes.set(title=groups.label(ds, g), xlabel="Sublayer (from 0)")
        scales.whole_numbers(axes, 6)
        if not np.isfinite(array(ds, "gain_b_measured")[g]).any():
            scales.nothing_finite(axes)
    row[0].set_ylabel("Mean gain of the output norm")
    words = (
        f"Gains of norm B, mean over features and {seeds_in_words(ds)}, ± 2 standard errors; even sublayers are "
        "attention, odd ones MLPs."
    )
    return groups.finish(figure, ds, keys, words, ["F11a", "F11b"], shown)

"""Massive activations: the gradient of W2 against the size of the hidden activation."""

from collections.abc import Iterable
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from . import style
from .dataset import array, fact, on, version
from .makers import Figures

FIGURES = {"massive_activations": "an MLP's gradient against the size of its hidden activation"}
NEEDS = (
    on("massive_curve", "massive_placement", "massive_final_norm", "massive_ceiling")
    | on("massive_factor", "massive_factor")
    | on(
        "massive_curve massive_factor",
        "massive_gradient",
        "massive_gradient_low",
        "massive_gradient_high",
        "massive_bound",
    )
)
ASIDE = 1.45  # ratio between the x of neighbouring curves' markers
FINAL = style.Look("Pre-LN, final norm", "#E69F00", "h", (0, (6, 1.5, 1, 1.5)))


def look_of(placement: str, final_norm: float) -> style.Look:
    look = FINAL if final_norm else style.LOOKS[placement]
    words = "Pre-LN, no final norm" if placement == "pre" and not final_norm else look.label
    return style.Look(words, look.colour, look.marker, look.dash)


def draw(ds: xr.Dataset) -> Figures:
    return Figures([("massive_activations", partial(_figure, ds))])


def _figure(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, 2, 2.9, style.PAGE)
    looks = [
        look_of(*which) for which in zip(array(ds, "massive_placement"), array(ds, "massive_final_norm"), strict=True)
    ]
    bounded = [k for k in range(len(looks)) if np.isfinite(array(ds, "massive_ceiling")[k])]
    _panel(ds, row[0], looks, range(len(looks)))
    row[0].set(title="All placements", yscale="log", ylabel=r"$\|\partial\,loss/\partial W_2\|_F$")
    row[0].yaxis.set_major_locator(LogLocator(numticks=12))
    row[0].yaxis.set_minor_formatter(NullFormatter())
    _panel(ds, row[1], looks, bounded)
    row[1].set(title="After a norm: linear scale", ylim=(0, 1.25 * np.nanmax(array(ds, "massive_ceiling"))))
    keys = [style.key(look, True) for look in looks]
    keys.append(Line2D([], [], color=style.INK, linestyle=":", linewidth=1.0, label="bound for every factor"))
    return style.finish(figure, keys, caption(ds))


def _panel(ds: xr.Dataset, axes: Axes, looks: list[style.Look], curves: Iterable[int]) -> None:
    factor = array(ds, "massive_factor")
    bounded = np.flatnonzero(np.isfinite(array(ds, "massive_ceiling"))).tolist()
    for k in curves:
        # Shifts flat curves only: a shifted marker of the rising one would leave its line.
        aside = ASIDE ** (bounded.index(k) - 1) if k in bounded else 1.0
        look = looks[k]
        middle, low, high = (array(ds, f"massive_gradient{part}")[k] for part in ("", "_low", "_high"))
        axes.plot(
            factor, array(ds, "massive_bound")[k], color=look.colour, linestyle=look.dash, linewidth=1.3, zorder=2
        )
        axes.errorbar(factor * aside, middle, (middle - low, high - middle), linestyle="", zorder=2.5,
                      marker=look.marker, markersize=look.size, color=look.colour, elinewidth=0.9)  # fmt: skip
        axes.axhline(array(ds, "massive_ceiling")[k], color=look.colour, linestyle=":", linewidth=1.0, zorder=1.5)
    axes.set(xscale="log", xlabel=r"Factor on $\|h\|$")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_formatter(NullFormatter())


def caption(ds: xr.Dataset) -> str:
    stacks, width, hidden = (fact(ds, f"massive_{name}") for name in ("stacks", "width", "hidden"))
    return (
        "Lines: sharp bounds (median over the stacks); dotted: one bound for all factors at once. Markers, shifted "
        f"sideways to be told apart: gradient, median and quantiles 0.16 and 0.84 of {stacks} random ReLU "
        f"stacks, width {width}, hidden width {hidden}, one token. Only Pre-LN without a "
        f"final norm grows with the activation. {version(ds)}"
    )

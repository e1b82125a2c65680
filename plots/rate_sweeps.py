"""Final loss over the learning rate, a panel per sweep: the paper's Figures 3, 12, 16 to 18 and 35."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from . import groups, style
from .dataset import array, coordinates, on, seeds_in_words
from .makers import Makers

FIGURES = {"figure-3-rates": "final loss over the learning rate"}
NEEDS = (
    coordinates("group")
    | on("group", "lr", "final_loss_mean", "final_loss_stderr")
    | on("group seed", "diverged_at")
    | on("claim", "claim_exhibit")
)
# A study, its title, the claims' exhibit, and whether the base study has its rate of factor 1.
SWEEPS = (
    ("rates", "Warm-up of the base", "3", True),
    ("rates-warmup", "Warm-up three times as long", "16", False),
    ("rates-short", "Sequences of half the length", "17", False),
    ("no-warmup", "No warm-up", "warmup", False),
    ("sgd", "SGD", "35", False),
)


def draw(ds: xr.Dataset) -> Makers:
    present = [sweep for sweep in SWEEPS if sweep[0] in array(ds, "study")]
    return {"figure-3-rates": partial(_figure, ds, present)} if present else {}


def _figure(ds: xr.Dataset, present: list[tuple[str, str, str, bool]]) -> style.Page:
    figure, panels = style.small_multiples(len(present), 2.3, "Learning rate", "Final training loss (nat)",
                                           style.threes(len(present)), style.PAGE, sharey=True)  # fmt: skip
    looks: dict[str, style.Look] = {}
    for axes, (study, title, _, with_base) in zip(panels, present, strict=False):
        for look, swept in _swept(ds, study, with_base):
            looks[look.label] = look
            _line(axes, ds, look, swept)
        axes.set(title=title, xscale="log")
        rates = np.unique(array(ds, "lr")[[g for _, swept in _swept(ds, study, with_base) for g in swept]])
        axes.set_xticks(rates)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.2g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(rates[0] / 1.4, rates[-1] * 1.4)
    shown = sorted({g for study, _, _, b in present for _, swept in _swept(ds, study, b) for g in swept})
    keys = [style.key(look, True) for look in looks.values()]
    if np.isfinite(array(ds, "diverged_at")[shown]).any():
        keys.append(style.entry(marker="o", color="0.3", markerfacecolor="white", markeredgecolor="0.3",
                           markersize=5, linestyle="", label="with diverged runs"))  # fmt: skip
    words = (
        f"Mean training loss of the last tenth of the steps, mean of {seeds_in_words(ds)}, ± 2 standard errors; a "
        "loss that is not finite counts as ln V, that of a guess."
    )
    return groups.finish(figure, ds, keys, words, [exhibit for _, _, exhibit, _ in present], shown, rate=False)


def _swept(ds: xr.Dataset, study: str, with_base: bool) -> Iterator[tuple[style.Look, list[int]]]:
    """Each placement of a sweep and its groups, by rate."""
    of_study = groups.rows(ds, study)
    for placement in dict.fromkeys(array(ds, "placement")[of_study]):
        rows = groups.rows(ds, study, [placement])
        rows += groups.rows(ds, "base", [placement]) if with_base else []
        yield style.looks([placement])[0], sorted(rows, key=lambda g: array(ds, "lr")[g])


def _line(axes: Axes, ds: xr.Dataset, look: style.Look, swept: list[int]) -> None:
    rate, mean, error = (array(ds, n)[swept] for n in ("lr", "final_loss_mean", "final_loss_stderr"))
    axes.errorbar(rate, mean, 2 * error, **look.marks | look.line, linewidth=0.9, elinewidth=0.9)
    lost = np.isfinite(array(ds, "diverged_at")[swept]).any(axis=1)
    axes.plot(rate[lost], mean[lost], **look.hollow, markeredgewidth=0.9, zorder=3)

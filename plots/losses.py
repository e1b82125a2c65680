"""Losses and gradient norms of training: over learning rates, weight decay and initialisation, every seed over its
steps, and final ones. The paper's Figures 3 to 5, 8, 10, 12, 16 to 22 and 32 to 35 and Tables 5 and 7 to 9."""

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds, seeds_in_words

# A study, its title, the claims' exhibit, and whether the base study has its rate of factor 1.
SWEEPS = (
    ("rates", "Warm-up of the base", "3", True),
    ("rates-warmup", "Warm-up three times as long", "16", False),
    ("rates-short", "Sequences of half the length", "17", False),
    ("no-warmup", "No warm-up", "warmup", False),
    ("sgd", "SGD", "35", False),
)


@groups.kind("figure-3-rates", "final loss over the learning rate",
             coordinates("group") | on("group", "lr", "final_loss_mean", "final_loss_stderr")
             | on("group seed", "diverged_at"),
             lambda ds: [sweep for sweep in SWEEPS if sweep[0] in array(ds, "study")])  # fmt: skip
def rates(ds: xr.Dataset, present: list[tuple[str, str, str, bool]]) -> style.Page:
    figure, panels = style.small_multiples(len(present), 2.3, "Learning rate", "Final training loss (nat)",
                                           threes=True, sharey=True)  # fmt: skip
    looks: dict[str, style.Look] = {}
    for axes, (study, title, _, with_base) in zip(panels, present, strict=False):
        for look, swept in _swept(ds, study, with_base):
            looks[look.label] = look
            rate, mean, error = (array(ds, n)[swept] for n in ("lr", "final_loss_mean", "final_loss_stderr"))
            axes.errorbar(rate, mean, 2 * error, **look.marks | look.line, linewidth=0.9, elinewidth=0.9)
            lost = np.isfinite(array(ds, "diverged_at")[swept]).any(axis=1)
            axes.plot(rate[lost], mean[lost], **look.hollow, markeredgewidth=0.9, zorder=3)
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


SPIKE: dict[str, Any] = {"linestyle": "", "marker": "v", "markersize": 5, "markeredgewidth": 0.5, "zorder": 3}


@groups.kind("figure-4-instability", "every seed's loss and gradient norm, and its spikes",
             coordinates("group step") | on("group seed step", "loss", "grad_norm") | on("group seed", "spikes"),
             groups.TWO)  # fmt: skip
def instability(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks, step = groups.looks(ds, shown), array(ds, "step")
    figure, grid = style.panels(2, len(shown), 1.7, style.PAGE, sharex=True, sharey="row")
    for row, name, y in zip(grid, ("loss", "grad_norm"), ("Training loss (nat)", "Gradient norm"), strict=True):
        for axes, g, look in zip(row, shown, looks, strict=True):
            for seed, series in enumerate(array(ds, name)[g]):
                colour = style.shade(look.colour, seed)
                axes.plot(step, series, color=colour, linewidth=0.5, alpha=0.8)
                if "spike" in ds:
                    at = array(ds, "spike")[g, seed] == 1
                    axes.plot(step[at], series[at], color=colour, **SPIKE)
        row[0].set_ylabel(y)
        scales.log_axis(row, array(ds, name)[shown])
    for axes, below, g, look in zip(*grid, shown, looks, strict=True):
        counts = ", ".join(f"{n:g}" for n in array(ds, "spikes")[g])
        axes.set_title(f"{look.label}: {counts} spikes, seed by seed")
        below.set(xlabel="Step", xlim=(0, step[-1]))
    words = (
        "Every seed, in shades of one colour; the two placements see the same batches. Spikes: the logarithm of loss "
        "or gradient norm is 6 robust standard deviations above its median of the last 128 steps; steps at most 16 "
        "apart are one spike, whose first step is marked in both rows. Gradient norm: of all gradients before clipping."
    )
    keys = [style.entry(color=look.colour, linewidth=1.2, label=look.label) for look in looks]
    if "spike" in ds:
        keys.append(style.entry(color=style.INK, **SPIKE, label="first step of a counted spike"))
    return groups.finish(figure, ds, keys, words, ["4"], shown)


@groups.kind("figure-5-last-layer", "gradient norm of the last layer over training",
             coordinates("group step") | on("group seed step", "last_layer_grad_norm"), groups.MAIN)  # fmt: skip
def last_layer(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks, step = groups.looks(ds, shown), array(ds, "step")
    figure, ((axes,),) = style.panels(1, 1, 3.0, style.PAGE)
    for g, look in zip(shown, looks, strict=True):
        axes.plot(step, array(ds, "last_layer_grad_norm")[g].T, color=look.colour, linewidth=0.6, alpha=0.7)
    scales.log_axis([axes], array(ds, "last_layer_grad_norm")[shown])
    axes.set(xlabel="Step", ylabel="Gradient norm of the last layer", xlim=(0, step[-1]))
    words = "Every seed on its own: norm of the gradients of the last layer's parameters, before clipping."
    keys = [style.entry(color=look.colour, linewidth=1.2, label=look.label) for look in looks]
    return groups.finish(figure, ds, keys, words, ["5"], shown)


VARIED = {"decay": "weight decay", "init": "initialisation"}
MARKERS = "osD^vP*"


def variants(ds: xr.Dataset, study: str) -> list[tuple[str, list[int]]]:
    """What was varied, in its order, with the groups of Pre-LN and Peri-LN."""
    key = "weight_decay" if study == "decay" else "init_std"
    found: dict[str, list[int]] = {}
    for g in groups.rows(ds, study, groups.TWO):
        found.setdefault(str(array(ds, "group")[g]).split(", ", 1)[1], []).append(g)
    base = groups.rows(ds, placements=groups.TWO)
    if base:
        at = array(ds, key)[base[0]]
        found[f"base: {'weight decay' if study == 'decay' else 'std'} {at:g}"] = base
    return sorted(found.items(), key=lambda item: np.nan_to_num(array(ds, key)[item[1][0]], nan=np.inf))


@groups.kind("figure-10-decay-init", "weight decay and initialisation",
             coordinates("group depth") | on("group record depth", "variance_measured")
             | on("group", "weight_decay", "init_std", "final_loss_mean", "final_loss_stderr"),
             lambda ds: [study for study in VARIED if groups.rows(ds, study, groups.TWO)])  # fmt: skip
def decay_init(ds: xr.Dataset, present: list[str]) -> style.Page:
    figure, grid = style.panels(len(present), 3, 2.5, style.PAGE)
    shown = []
    for row, study in zip(grid, present, strict=True):
        found = variants(ds, study)
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(found)))
        for axes, placement in zip(row, groups.TWO, strict=False):
            for (_, members), colour, marker in zip(found, colours, MARKERS, strict=False):
                for g in (g for g in members if array(ds, "placement")[g] == placement):
                    axes.plot(array(ds, "depth"), array(ds, "variance_measured")[g, -1], color=colour, linewidth=0.8,
                              marker=marker, markersize=3, markevery=2)  # fmt: skip
            axes.set(title=f"{style.LOOKS[placement].label}, by {VARIED[study]}", xlabel="Sublayers passed")
            scales.integers(axes, 6)
        members = [g for _, rows in found for g in rows]
        scales.log_axis(row[:2], array(ds, "variance_measured")[members, -1])
        row[0].set_ylabel("Variance at the end")
        _losses(row[2], ds, found, colours)
        shown += [g for g in members if g not in shown]
    keys = [style.entry(color=style.LOOKS[p].colour, marker=style.LOOKS[p].marker, markersize=5, linestyle="",
                   label=f"{style.LOOKS[p].label}, final loss") for p in groups.TWO]  # fmt: skip
    words = (
        f"Left: geometric mean of {seeds_in_words(ds)} over depth at the last record, coloured as the names at the "
        "right. Right: mean training loss of the last tenth of the steps, ± 2 standard errors, ln V if not finite."
    )
    return groups.finish(figure, ds, keys, words, ["10"], shown)


def _losses(axes: Axes, ds: xr.Dataset, found: list[tuple[str, list[int]]], colours: np.ndarray) -> None:
    for row, (_, members) in enumerate(found):
        for g, look in zip(members, groups.looks(ds, members), strict=True):
            mean, error = (array(ds, f"final_loss_{part}")[g] for part in ("mean", "stderr"))
            style.points(axes, look, mean, row + (0.12 if look.label == "Peri-LN" else -0.12), xerr=2 * error)
    style.rows(axes, [name for name, _ in found], fontsize=6.5)
    for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    axes.set_xlabel("Final training loss (nat)")


LOSSES = {"base": "table5", "frozen": "8", "layer-norm": "19", "embedding-norm": "20", "olmo": "32"}


@groups.kind("table-5-losses", "final losses, seed by seed",
             coordinates("group") | on("group", "study", "final_loss_mean", "final_loss_stderr")
             | on("group seed", "final_loss"),
             lambda ds: [g for study in LOSSES for g in groups.rows(ds, study)])  # fmt: skip
def final_losses(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks = groups.looks(ds, shown)
    figure, ((axes,),) = style.panels(1, 1, 0.6 + 0.26 * len(shown), style.PAGE)
    mean, bar = array(ds, "final_loss_mean"), 2 * array(ds, "final_loss_stderr")
    for row, (g, look) in enumerate(zip(shown, looks, strict=True)):
        axes.plot(array(ds, "final_loss")[g], np.full(seeds(ds), row + 0.22), color=look.colour, marker=".",
                  markersize=5, markeredgewidth=0, linestyle="")  # fmt: skip
        style.points(axes, look, mean[g], row - 0.08, xerr=bar[g])
    style.rows(axes, [groups.label(ds, g) for g in shown])
    axes.set_xlabel("Final training loss (nat)")
    keys = [style.entry(color="0.3", marker="o", markersize=5, linestyle="", label="mean ± 2 standard errors"),
            style.entry(color="0.3", marker=".", markersize=6, linestyle="", label="each seed")]  # fmt: skip
    words = (
        "Mean training loss of the last tenth of the steps, ln V if not finite. A seed sees the same batches in every "
        "group, so differences, which the claims test, are more certain than the bars."
    )
    exhibits = [exhibit for study, exhibit in LOSSES.items() if study in array(ds, "study")]
    return groups.finish(figure, ds, keys, words, exhibits, shown)

"""Losses and gradient norms of training: over learning rates, weight decay and initialisation, over steps, and final
losses. Figures 3 to 5, 8, 10, 12, 16 to 22 and 32 to 35 and Tables 5 and 7 to 9 of the Peri-LN paper."""

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds, seeds_text

# Study, title, exhibit of its claims, and whether to add the base study, which has the unscaled rate.
SWEEPS = (
    ("rates", "Warm-up of the base", "3", True),
    ("rates-warmup", "Three times the warm-up", "16", False),
    ("rates-short", "Half the sequence length", "17", False),
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
    styles: dict[str, style.Style] = {}
    for axes, (study, title, _, with_base) in zip(panels, present, strict=False):
        for curve_style, swept in _swept(ds, study, with_base):
            styles[curve_style.label] = curve_style
            rate, mean, error = (array(ds, n)[swept] for n in ("lr", "final_loss_mean", "final_loss_stderr"))
            axes.errorbar(rate, mean, 2 * error, **curve_style.marks | curve_style.line, linewidth=0.9, elinewidth=0.9)
            diverged = np.isfinite(array(ds, "diverged_at")[swept]).any(axis=1)
            axes.plot(rate[diverged], mean[diverged], **curve_style.hollow, markeredgewidth=0.9, zorder=3)
        axes.set(title=title, xscale="log")
        rates = np.unique(array(ds, "lr")[[g for _, swept in _swept(ds, study, with_base) for g in swept]])
        axes.set_xticks(rates)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.2g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(rates[0] / 1.4, rates[-1] * 1.4)
    shown = sorted({g for study, _, _, b in present for _, swept in _swept(ds, study, b) for g in swept})
    keys = [style.key(s, True) for s in styles.values()]
    if np.isfinite(array(ds, "diverged_at")[shown]).any():
        keys.append(style.entry(marker="o", color="0.3", markerfacecolor="white", markeredgecolor="0.3",
                           markersize=5, linestyle="", label="with diverged runs"))  # fmt: skip
    words = (
        f"Mean training loss of the last tenth of the steps, mean of {seeds_text(ds)}, ± 2 standard errors. A "
        "non-finite loss counts as ln V, the loss of a uniform guess."
    )
    return groups.finish(figure, ds, keys, words, [exhibit for _, _, exhibit, _ in present], shown, rate=False)


def _swept(ds: xr.Dataset, study: str, with_base: bool) -> Iterator[tuple[style.Style, list[int]]]:
    """Yields the style of each placement of a sweep and its groups, sorted by learning rate."""
    of_study = groups.rows(ds, study)
    for placement in dict.fromkeys(array(ds, "placement")[of_study]):
        rows = groups.rows(ds, study, [placement])
        rows += groups.rows(ds, "base", [placement]) if with_base else []
        yield style.styles([placement])[0], sorted(rows, key=lambda g: array(ds, "lr")[g])


SPIKE: dict[str, Any] = {"linestyle": "", "marker": "v", "markersize": 5, "markeredgewidth": 0.5, "zorder": 3}


@groups.kind("figure-4-instability", "every seed's loss and gradient norm, and its spikes",
             coordinates("group step") | on("group seed step", "loss", "grad_norm") | on("group seed", "spikes"),
             groups.TWO)  # fmt: skip
def instability(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles, step = groups.styles(ds, shown), array(ds, "step")
    figure, grid = style.panels(2, len(shown), 1.7, style.PAGE, sharex=True, sharey="row")
    for row, name, y in zip(grid, ("loss", "grad_norm"), ("Training loss (nat)", "Gradient norm"), strict=True):
        for axes, g, curve_style in zip(row, shown, styles, strict=True):
            for seed, series in enumerate(array(ds, name)[g]):
                colour = style.shade(curve_style.colour, seed)
                axes.plot(step, series, color=colour, linewidth=0.5, alpha=0.8)
                if "spike" in ds:
                    at = array(ds, "spike")[g, seed] == 1
                    axes.plot(step[at], series[at], color=colour, **SPIKE)
        row[0].set_ylabel(y)
        scales.log_axis(row, array(ds, name)[shown])
    for axes, below, g, curve_style in zip(*grid, shown, styles, strict=True):
        counts = ", ".join(f"{n:g}" for n in array(ds, "spikes")[g])
        axes.set_title(f"{curve_style.label}, spikes per seed: {counts}")
        below.set(xlabel="Step", xlim=(0, step[-1]))
    words = (
        "One line per seed, in shades of one colour; both placements have the same batches. Spike: the logarithm of "
        "the loss or the gradient norm is 6 robust standard deviations above its median of the last 128 steps. Steps "
        "at most 16 apart form one spike; its first step is marked in both rows. Gradient norm: all gradients, before "
        "clipping."
    )
    keys = [style.entry(color=s.colour, linewidth=1.2, label=s.label) for s in styles]
    if "spike" in ds:
        keys.append(style.entry(color=style.INK, **SPIKE, label="first step of a spike"))
    return groups.finish(figure, ds, keys, words, ["4"], shown)


@groups.kind("figure-5-last-layer", "gradient norm of the last layer over training",
             coordinates("group step") | on("group seed step", "last_layer_grad_norm"), groups.MAIN)  # fmt: skip
def last_layer(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles, step = groups.styles(ds, shown), array(ds, "step")
    figure, ((axes,),) = style.panels(1, 1, 3.0, style.PAGE)
    for g, curve_style in zip(shown, styles, strict=True):
        axes.plot(step, array(ds, "last_layer_grad_norm")[g].T, color=curve_style.colour, linewidth=0.6, alpha=0.7)
    scales.log_axis([axes], array(ds, "last_layer_grad_norm")[shown])
    axes.set(xlabel="Step", ylabel="Gradient norm of the last layer", xlim=(0, step[-1]))
    words = "One line per seed: norm of the gradients of the last layer's parameters, before clipping."
    keys = [style.entry(color=s.colour, linewidth=1.2, label=s.label) for s in styles]
    return groups.finish(figure, ds, keys, words, ["5"], shown)


VARIED = {"decay": "weight decay", "init": "initialisation"}
MARKERS = "osD^vP*"


def variants(ds: xr.Dataset, study: str) -> list[tuple[str, list[int]]]:
    """Returns the labels of a study's variants, sorted by value, with their groups of Pre-LN and Peri-LN."""
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
            axes.set(title=f"{style.STYLES[placement].label}, by {VARIED[study]}", xlabel="Sublayers passed")
            scales.integers(axes, 6)
        members = [g for _, rows in found for g in rows]
        scales.log_axis(row[:2], array(ds, "variance_measured")[members, -1])
        row[0].set_ylabel("Variance at the end")
        _losses(row[2], ds, found, colours)
        shown += [g for g in members if g not in shown]
    keys = [style.entry(color=style.STYLES[p].colour, marker=style.STYLES[p].marker, markersize=5, linestyle="",
                   label=f"{style.STYLES[p].label}, final loss") for p in groups.TWO]  # fmt: skip
    words = (
        f"Left and middle: variance over depth at the last record, geometric mean of {seeds_text(ds)}, in the colours "
        "of the names on the right. Right: mean training loss of the last tenth of the steps, ± 2 standard errors, ln "
        "V if not finite."
    )
    return groups.finish(figure, ds, keys, words, ["10"], shown)


def _losses(axes: Axes, ds: xr.Dataset, found: list[tuple[str, list[int]]], colours: np.ndarray) -> None:
    for row, (_, members) in enumerate(found):
        for g, curve_style in zip(members, groups.styles(ds, members), strict=True):
            mean, error = (array(ds, f"final_loss_{part}")[g] for part in ("mean", "stderr"))
            shift = 0.12 if curve_style.label == "Peri-LN" else -0.12
            style.points(axes, curve_style, mean, row + shift, xerr=2 * error)
    style.rows(axes, [name for name, _ in found], fontsize=6.5)
    for tick, colour in zip(axes.get_yticklabels(), colours, strict=True):
        tick.set_color(colour)
    axes.set_xlabel("Final training loss (nat)")


LOSSES = {"base": "table5", "frozen": "8", "layer-norm": "19", "embedding-norm": "20", "olmo": "32"}


@groups.kind("table-5-losses", "final loss of every seed",
             coordinates("group") | on("group", "study", "final_loss_mean", "final_loss_stderr")
             | on("group seed", "final_loss"),
             lambda ds: [g for study in LOSSES for g in groups.rows(ds, study)])  # fmt: skip
def final_losses(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles = groups.styles(ds, shown)
    figure, ((axes,),) = style.panels(1, 1, 0.6 + 0.26 * len(shown), style.PAGE)
    mean, bar = array(ds, "final_loss_mean"), 2 * array(ds, "final_loss_stderr")
    for row, (g, curve_style) in enumerate(zip(shown, styles, strict=True)):
        axes.plot(array(ds, "final_loss")[g], np.full(seeds(ds), row + 0.22), color=curve_style.colour, marker=".",
                  markersize=5, markeredgewidth=0, linestyle="")  # fmt: skip
        style.points(axes, curve_style, mean[g], row - 0.08, xerr=bar[g])
    style.rows(axes, [groups.label(ds, g) for g in shown])
    axes.set_xlabel("Final training loss (nat)")
    keys = [style.entry(color="0.3", marker="o", markersize=5, linestyle="", label="mean ± 2 standard errors"),
            style.entry(color="0.3", marker=".", markersize=6, linestyle="", label="each seed")]  # fmt: skip
    words = (
        "Mean training loss of the last tenth of the steps, ln V if not finite. A seed has the same batches in every "
        "group, so the differences tested by the claims are more precise than the bars suggest."
    )
    exhibits = [exhibit for study, exhibit in LOSSES.items() if study in array(ds, "study")]
    return groups.finish(figure, ds, keys, words, exhibits, shown)

"""A checkpoint under the probe: trained against theory at initialisation and at the trained sizes, what of the stream's
growth is size and what alignment (T29), and the growth identity (T15)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist

from . import captions, scales, style
from .dataset import array, config, fact, on, version
from .makers import kind

NEEDS = on("sublayer", "growth_stream_share", "growth_branch_share", "growth_cross_share", "growth_cross_over_branch")
TRAINED, THEORY, SCALES, PROFILES = "#D55E00", "#0072B2", "#009E73", "#CC79A7"
MEASURED: dict[str, Any] = {"color": TRAINED, "marker": "o", "markersize": 4, "linewidth": 0.8}
# Random weights that share something with the trained ones: their line, and what captions say of it.
THEORIES: dict[str, tuple[dict[str, Any], str]] = {
    "at_init": ({"color": THEORY, "linewidth": 1.3, "label": "at initialisation, theory"},
                ", and theory for random weights of the same shape; band, where wider than the line: 2 standard errors "
                "of the prediction, and what finite width may add."),
    "at_scales": ({"color": SCALES, "linewidth": 1.3, "linestyle": "--",
                   "label": "random weights at the trained scales, theory"},
                  " Dashed: theory for random weights with every matrix's own root mean square and all gains."),
    "at_profiles": ({"color": PROFILES, "linewidth": 1.3, "linestyle": ":",
                     "label": "and with the size of every row and column, theory"},
                    " Dotted: the same with the size of every row and column too; the rest of the difference "
                    "from the measurement is alignment."),
}  # fmt: skip
PARTS = (
    ("log_growth_from_scales", "sizes of matrices, and gains", SCALES, "s"),
    ("log_growth_from_sizes_inside", "sizes inside matrices", PROFILES, "D"),
    ("log_growth_from_alignment", "alignment", TRAINED, "o"),
)
NULLS = {"matrices": ("every matrix's size", "#56B4E9", "v"), "rows": ("every row's size", "#E69F00", "^"),
         "rank_one": ("rank-one profiles", "#332288", "P"),
         "signs": ("every $|W_{ij}|$, random signs", "#000000", "X")}  # fmt: skip
BLACK = "#000000"
TERMS = (
    ("growth_stream_share", "stream $\\alpha^2 q$", "#0072B2"),
    ("growth_branch_share", "branch $\\beta^2 s^2$", "#E69F00"),
    ("growth_cross_share", "cosine term $2\\alpha\\beta\\sqrt{q}\\,s\\,\\cos$", "#CC79A7"),
)
MODULES = (("attention", "o"), ("MLP", "s"))


def caption(ds: xr.Dataset, words: str, theory: bool = False) -> str:
    stack = config(ds)["stacks"][0]
    model, init = stack["model"], stack["init"]
    placement = model["placement"] if isinstance(model["placement"], str) else "free form"
    label = style.LOOKS[placement].label if placement in style.LOOKS else placement
    setting = (
        f"{fact(ds, 'model')} ({fact(ds, 'family')}, {label}): {model['layers']} layers, width "
        f"{model['width']}, {len(array(ds, 'token'))} tokens, {config(ds)['run']['dtype']}. "
    )
    if theory and _has_theory(ds):
        scheme = f"{init['scheme']} init" + (f", std {init['std']:g}" if init["scheme"] == "normal" else "")
        setting += f"Theory: {scheme}. "
    return f"{words} {setting}{captions.keys(ds) if theory else ''}{version(ds)}"


def _has_theory(ds: xr.Dataset) -> bool:
    return "variance_at_init" in ds


@kind("trained-vs-init", "a checkpoint's stream over depth beside theory", NEEDS)
def trained(ds: xr.Dataset) -> style.Page:
    shown = [("variance", "Hidden-state variance\n(mean over tokens of $\\mathrm{Var}_D(x)$)")]
    if "grad_sq_measured" in ds:
        shown.append(("grad_sq", "Mean over tokens of\n$\\|\\partial\\,\\mathrm{loss}/\\partial x\\|^2$"))
    depth = array(ds, "depth")
    figure, (row,) = style.panels(1, len(shown), 3.0, style.page(len(shown)))
    for axes, (name, label) in zip(row, shown, strict=True):
        curves = [array(ds, f"{name}_measured")]
        axes.plot(depth, curves[0], **MEASURED, zorder=3)
        for theory, (look, _) in THEORIES.items():
            if f"{name}_{theory}" in ds:
                curves.append(array(ds, f"{name}_{theory}"))
                axes.plot(depth, curves[-1], **look)
        if f"{name}_at_init" in ds:
            curves += [array(ds, f"{name}_at_init_{end}") for end in ("low", "high")]
            axes.fill_between(depth, curves[-2], curves[-1], color=THEORY, alpha=0.25, lw=0)
        scales.log_axis([axes], np.concatenate(curves))
        axes.set_ylabel(label)
        scales.depth_axis(axes, depth[-1])
    there = [shown for theory, shown in THEORIES.items() if f"variance_{theory}" in ds]
    keys = [style.entry(**MEASURED, label="trained, measured"), *(style.entry(**look) for look, _ in there)]
    words = "The checkpoint's stream over depth" + ("" if _has_theory(ds) else ".")
    return style.finish(figure, keys, caption(ds, words + "".join(said for _, said in there), theory=True))


@kind("growth-parts", "growth as sizes of weights and as alignment",
      NEEDS | on("depth", "log_growth_from_sizes_inside"))  # fmt: skip
def parts(ds: xr.Dataset) -> style.Page:
    """T29: growth over depth in three parts, and what every null leaves over."""
    depth = array(ds, "depth")
    figure, ((left, right),) = style.panels(1, 2, 3.7, style.PAGE)
    for name, label, colour, marker in PARTS:
        left.plot(depth, array(ds, name), color=colour, marker=marker, markersize=4, linewidth=0.9, label=label)
    for row, name in enumerate(array(ds, "null")):
        label, colour, marker = NULLS[name]
        value = array(ds, "null_left_over")[row]
        if "null_left_over_error" in ds:
            margin = 2 * array(ds, "null_left_over_error")[row]
            right.fill_between(depth, value - margin, value + margin, facecolor=(colour, 0.05),
                           edgecolor=(colour, 0.6), lw=0.6)  # edges, as four filled bands mix to grey
        right.plot(depth, value, color=colour, marker=marker, markersize=3.5, linewidth=0.9, label=label)
    for axes in (left, right):
        style.panel_legend(axes, axes.get_lines())
        axes.axhline(0, color=style.INK, linewidth=0.6)
        scales.depth_axis(axes, depth[-1])
    left.set_ylabel("Part of ln(second moment / at initialisation)")
    right.set_ylabel("ln(second moment / that of random weights)")
    words = ("Left: growth of the stream over its initialisation, in three parts. Right: what is left over beyond "
             "random weights that share with the trained ones what the legend names.")  # fmt: skip
    draws = array(ds, "null_draws")[0]
    if "null_left_over_error" in ds and np.isfinite(draws):
        words += (f" Bands: twice what one random model of the model's own width has there, root mean square over "
                  f"{int(draws)} of each.")  # fmt: skip
    return style.finish(figure, [], caption(ds, words, theory=True))


@kind("growth", "the terms of the stream's growth", NEEDS)
def growth(ds: xr.Dataset) -> style.Page:
    sublayer = array(ds, "sublayer")
    has_gains = bool(np.isfinite(array(ds, "branch_from_gains")).any())
    figure, (row,) = style.panels(1, 3 if has_gains else 2, 3.0, style.PAGE)
    left, right = row[:2]
    above, below = np.zeros(len(sublayer)), np.zeros(len(sublayer))
    for name, _, colour in TERMS:
        share = array(ds, name)
        base = np.where(share >= 0, above, below)
        left.bar(sublayer, share, bottom=base, color=colour, width=0.8, linewidth=0)
        above, below = above + np.maximum(share, 0), below + np.minimum(share, 0)
    left.axhline(1, color=style.INK, linewidth=0.8, linestyle=":")
    left.axhline(0, color=style.INK, linewidth=0.6)
    left.set_ylabel("Share of $q^+$")
    ratio = array(ds, "growth_cross_over_branch")
    right.axhline(0, color=style.INK, linewidth=0.8, linestyle=":")
    right.plot(sublayer, ratio, color="0.75", linewidth=0.8)
    for which, (_, marker) in enumerate(MODULES):
        right.plot(sublayer[which::2], ratio[which::2], color="#CC79A7", marker=marker, markersize=4.5, linestyle="")
    right.set_ylabel("Cosine term over branch\n(0: Eq. 4 holds)")
    keys: list[Artist] = [style.patch(color=colour, label=label) for _, label, colour in TERMS]
    if has_gains:
        gains: dict[str, Any] = {"color": BLACK, "marker": "_", "markersize": 9, "markeredgewidth": 1.6,
                                 "markeredgecolor": BLACK, "linestyle": ""}  # fmt: skip
        row[2].bar(sublayer, array(ds, "growth_branch"), color=TERMS[1][2], width=0.8, linewidth=0)
        row[2].plot(sublayer, array(ds, "branch_from_gains"), **gains)
        row[2].set_ylabel("Branch $\\beta^2 s^2$ ($\\beta_0$)")
        keys.append(style.entry(label="$\\beta_0$ from norm B's gains alone", **gains))
    for axes in row:
        axes.set_xlabel("Sublayer (from 0)")
        scales.integers(axes, 6)
    keys += [style.entry(color="#CC79A7", marker=m, markersize=4.5, linestyle="", label=w) for w, m in MODULES]
    words = ("How the second moment grows, exact for every token: left, its three terms as shares of the second "
             "moment after the sublayer (before a norm C), mean over tokens; next to it, the term that Eq. 4 leaves "
             "out, over the branch's own. ")  # fmt: skip
    if has_gains:
        words += "Right: the branch's second moment, and what norm B's gains alone would give. "
    words += ("q and q⁺: second moment of the stream before and after the sublayer; s²: of its branch; "
             "cos: their cosine.")  # fmt: skip
    return style.finish(figure, keys, caption(ds, words))

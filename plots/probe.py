"""Results of `probe`: a trained checkpoint compared with theory at initialisation and at the trained weight scales, the
parts of its growth due to weight sizes and alignment (T29), and the growth identity (T15)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist

from . import captions, scales, style
from .dataset import array, config, on, scalar, version
from .makers import kind

REQUIRED = on("sublayer", "growth_stream_share", "growth_branch_share", "growth_cross_share",
              "growth_cross_over_branch")  # fmt: skip
TRAINED, THEORY, SCALES, PROFILES = "#D55E00", "#0072B2", "#009E73", "#CC79A7"
MEASURED: dict[str, Any] = {"color": TRAINED, "marker": "o", "markersize": 4, "linewidth": 0.8}
# Predictions for random weights that share properties with the trained ones: line and sentence for captions.
THEORIES: dict[str, tuple[dict[str, Any], str]] = {
    "at_init": ({"color": THEORY, "linewidth": 1.3, "label": "at initialisation, theory"},
                ", compared with theory for random weights of the same shape; band (if wider than the line): 2 "
                "standard errors of the prediction plus the possible effect of finite width."),
    "at_scales": ({"color": SCALES, "linewidth": 1.3, "linestyle": "--",
                   "label": "random weights at the trained scales, theory"},
                  " Dashed: theory for random weights with the trained rms of every matrix and all gains."),
    "at_profiles": ({"color": PROFILES, "linewidth": 1.3, "linestyle": ":",
                     "label": "also with the size of every row and column, theory"},
                    " Dotted: also with the size of every row and column; the remaining difference from the "
                    "measurement is alignment."),
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
    placement = model["placement"] if isinstance(model["placement"], str) else "custom placement"
    label = style.STYLES[placement].label if placement in style.STYLES else placement
    setting = (
        f"{scalar(ds, 'model')} ({scalar(ds, 'family')}, {label}): {model['layers']} layers, width "
        f"{model['width']}, {len(array(ds, 'token'))} tokens, {config(ds)['run']['dtype']}. "
    )
    if theory and _has_theory(ds):
        scheme = f"{init['scheme']} init" + (f", std {init['std']:g}" if init["scheme"] == "normal" else "")
        setting += f"Theory: {scheme}. "
    return f"{words} {setting}{captions.keys(ds) if theory else ''}{version(ds)}"


def _has_theory(ds: xr.Dataset) -> bool:
    return "variance_at_init" in ds


@kind("trained-vs-init", "a checkpoint's stream over depth, compared with theory", REQUIRED)
def trained(ds: xr.Dataset) -> style.Page:
    shown = [("variance", "Hidden-state variance\n(mean over tokens of $\\mathrm{Var}_D(x)$)")]
    if "grad_sq_measured" in ds:
        shown.append(("grad_sq", "Mean over tokens of\n$\\|\\partial\\,\\mathrm{loss}/\\partial x\\|^2$"))
    depth = array(ds, "depth")
    figure, (row,) = style.panels(1, len(shown), 3.0, style.page(len(shown)))
    for axes, (name, label) in zip(row, shown, strict=True):
        curves = [array(ds, f"{name}_measured")]
        axes.plot(depth, curves[0], **MEASURED, zorder=3)
        for theory, (options, _) in THEORIES.items():
            if f"{name}_{theory}" in ds:
                curves.append(array(ds, f"{name}_{theory}"))
                axes.plot(depth, curves[-1], **options)
        if f"{name}_at_init" in ds:
            curves += [array(ds, f"{name}_at_init_{end}") for end in ("low", "high")]
            axes.fill_between(depth, curves[-2], curves[-1], color=THEORY, alpha=0.25, lw=0)
        scales.log_axis([axes], np.concatenate(curves))
        axes.set_ylabel(label)
        scales.depth_axis(axes, depth[-1])
    available = [value for theory, value in THEORIES.items() if f"variance_{theory}" in ds]
    keys = [style.entry(**MEASURED, label="trained, measured"), *(style.entry(**options) for options, _ in available)]
    words = "The checkpoint's stream over depth" + ("" if _has_theory(ds) else ".")
    return style.finish(figure, keys, caption(ds, words + "".join(sentence for _, sentence in available), theory=True))


@kind("growth-parts", "growth due to weight sizes and due to alignment",
      REQUIRED | on("depth", "log_growth_from_sizes_inside"))  # fmt: skip
def parts(ds: xr.Dataset) -> style.Page:
    """Draws growth over depth in three parts, and the excess over each kind of random weights (T29)."""
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
                           edgecolor=(colour, 0.6), lw=0.6)  # with edges, because overlapping bands mix to grey
        right.plot(depth, value, color=colour, marker=marker, markersize=3.5, linewidth=0.9, label=label)
    for axes in (left, right):
        style.panel_legend(axes, axes.get_lines())
        axes.axhline(0, color=style.INK, linewidth=0.6)
        scales.depth_axis(axes, depth[-1])
    left.set_ylabel("Part of ln(second moment / at initialisation)")
    right.set_ylabel("ln(second moment / random weights)")
    words = ("Left: growth of the stream relative to initialisation, in three parts. Right: excess over random weights "
             "that share the properties in the legend with the trained ones.")  # fmt: skip
    draws = array(ds, "null_draws")[0]
    if "null_left_over_error" in ds and np.isfinite(draws):
        words += (" Bands: twice the rms of the same quantity for random models of this width "
                  f"({int(draws)} per null).")  # fmt: skip
    return style.finish(figure, [], caption(ds, words, theory=True))


@kind("growth", "the terms of the stream's growth", REQUIRED)
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
    words = ("Growth identity of the second moment, valid for every token. Left: its three terms as shares of q⁺, mean "
             f"over tokens. {'Middle' if has_gains else 'Right'}: the cosine term, which Eq. 4 of the Peri-LN paper "
             "omits, over the branch's term. ")  # fmt: skip
    if has_gains:
        words += "Right: the branch's second moment, and the value expected from norm B's gains alone. "
    words += ("Second moments: q of the sublayer's input, q⁺ of the sum of stream and branch (before any norm C), "
              "s² of the branch; cos: cosine of stream and branch.")  # fmt: skip
    return style.finish(figure, keys, caption(ds, words))

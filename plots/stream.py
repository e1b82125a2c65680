"""Statistics over depth for all placements: variance (Figure 1 of the Peri-LN paper, at initialisation), cosine between
tokens, gradients (its Figure 7, at initialisation), and the size of every branch."""

from typing import Any

import numpy as np
import xarray as xr

from . import captions, curves, style
from .dataset import array, coordinates, on
from .makers import inputs, kind

RATIO, MATRIX = "site_branch_ratio", "weight_log_grad_sq"
REQUIRED = coordinates("depth") | on("input placement depth", *(
    f"{name}_{value}" for name in ("variance", "token_cosine") for value in ("predicted", "predicted_stderr")))
GRADIENTS = on("input placement depth", "log_grad_sq_predicted", "log_grad_sq_predicted_stderr")
MEAN = "geometric mean"


def norms(ds: xr.Dataset, name: str, index: tuple[Any, ...]) -> curves.Curve:
    """Returns norms from logarithms of squared norms."""
    return curves.norms({k: v / 2 for k, v in curves.select(ds, name, index).items()})


VARIANCE = curves.Statistic("variance", "Hidden-state variance\n" r"(mean over tokens of $\mathrm{Var}_D(x)$)",
                            "variance of the hidden state over features, mean over tokens")  # fmt: skip
COSINE = curves.Statistic("token_cosine", "Token cosine\n(mean over pairs of distinct tokens)",
                          "cosine of the hidden states of two distinct tokens, mean over pairs", log=False)  # fmt: skip
GRADIENT = curves.Statistic(
    "log_grad_sq", "Gradient of the hidden state\n" r"$\|\partial\,\mathrm{loss}/\partial x\|$, rms over tokens",
    "norm of the loss's gradient with respect to the hidden state, rms over tokens", read=norms)  # fmt: skip


@kind("overview", "variance and gradient of the hidden state over depth", REQUIRED | GRADIENTS)
def overview(ds: xr.Dataset) -> style.Page:
    return curves.over_depth(ds, VARIANCE, GRADIENT, mean="mean (gradients: geometric mean)")


@kind("variance", "hidden-state variance over depth", REQUIRED)
def variance(ds: xr.Dataset) -> style.Page:
    return curves.over_depth(ds, VARIANCE)


@kind("token_cosine", "cosine between tokens over depth", REQUIRED)
def token_cosine(ds: xr.Dataset) -> style.Page:
    return curves.over_depth(ds, COSINE)


@kind("gradient", "gradient of the hidden state over depth", REQUIRED | GRADIENTS)
def gradient(ds: xr.Dataset) -> style.Page:
    return curves.over_depth(ds, GRADIENT, mean=MEAN)


@kind("dilution", "size of every branch relative to the stream",
      coordinates("site sublayer")
      | on("input placement site sublayer", f"{RATIO}_predicted", f"{RATIO}_predicted_stderr"))  # fmt: skip
def dilution(ds: xr.Dataset) -> style.Page:
    inputs = array(ds, "input")
    styles = captions.styles(ds)
    site = list(array(ds, "site")).index("B_out")
    layer = 1 + np.arange(len(array(ds, "sublayer")) // 2)
    ticks = [t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if t <= layer[-1]]
    points = curves.alternating(len(layer), len(styles))
    figure, grid = style.panels(2, len(inputs), 2.3, style.page(len(inputs)), sharex=True, sharey=True)
    every = []
    for m, row in enumerate(grid):
        for i, axes in enumerate(row):
            for p, curve_style in enumerate(styles):
                every.append(curves.select(ds, RATIO, (i, p, site, slice(m, None, 2))))
                curves.draw(axes, curve_style, layer, every[-1], points[p])
            axes.set(title=f"{('Attention', 'MLP')[m]}, {style.INPUTS[inputs[i]]}", xscale="log")
            axes.set(xticks=ticks, xticklabels=[t - 1 for t in ticks], xlim=(0.9, 1.1 * layer[-1]))
            axes.set_xticks([], minor=True)
        row[0].set_ylabel("Branch over stream\n" r"$\mathrm{rms}(\beta\,B_{out})\,/\,\mathrm{rms}(\alpha\,x_{in})$")
    for axes in grid[-1]:
        axes.set_xlabel("Layer (from 0; logarithmic in 1 + layer)")
    curves.log_scale([axes for row in grid for axes in row], every)
    words = ("Rms over tokens and features of a sublayer's branch βB_out, relative to the stream αx_in to which it is "
             "added. x_in: input of the sublayer; B_out: output of its module, after norm B if there is one; α, β: "
             "scales of the placement. ")  # fmt: skip
    caption = words + curves.caption(ds, points[0], RATIO)
    return style.finish(figure, curves.legend(ds, styles, RATIO), caption)


@kind("weight-gradients", "gradient of every matrix over layers",
      coordinates("input layer weight")
      | on("input placement weight layer", f"{MATRIX}_predicted", f"{MATRIX}_predicted_stderr"), inputs)  # fmt: skip
def weight_gradients(ds: xr.Dataset, i: int) -> style.Page:
    styles = captions.styles(ds)
    layer = array(ds, "layer")
    every = range(len(array(ds, "weight")))
    both = [array(ds, f"{MATRIX}_{v}")[i] for v in ("predicted", "measured") if f"{MATRIX}_{v}" in ds]
    # Matrices without any finite gradient, such as a missing gate, are omitted, unless no matrix has one.
    weights = [w for w in every if any(np.isfinite(values[:, w]).any() for values in both)] or list(every)
    points = curves.alternating(len(layer), len(styles))
    figure, panels = style.small_multiples(len(weights), 1.9, "Layer (from 0)",
                                           r"$\|\partial\,\mathrm{loss}/\partial W\|_F$", sharex=True, sharey=True)
    drawn = []
    for w, axes in zip(weights, panels, strict=True):
        for p, curve_style in enumerate(styles):
            drawn.append(norms(ds, MATRIX, (i, p, w)))
            curves.draw(axes, curve_style, layer, drawn[-1], points[p])
        name = str(array(ds, "weight")[w]).replace("_", "\\ ")
        axes.set_title(f"$W_\\mathrm{{{name}}}$")
    curves.log_scale(panels, drawn)
    caption = f"Frobenius norm of the gradient of every matrix, {style.INPUTS[array(ds, 'input')[i]]}. "
    caption += curves.caption(ds, points[0], MATRIX, mean=MEAN)
    return style.finish(figure, curves.legend(ds, styles, MATRIX), caption)

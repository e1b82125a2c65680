"""Figures of `periscope gradients`: the score path, gradients over the number of layers and over depth, the skip path,
and gradients relative to Pre-LN."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, curves, scales, stream, style
from .dataset import array, coordinates, on, scalar, seeds_text
from .makers import kind

WITHOUT = "log_grad_sq_without_scores_predicted"
SCORES = (
    coordinates("layer depth")
    | on("case depth", WITHOUT)
    | on("case layer", "score_share_predicted", "score_share_measured")
)
CONTROL: dict[str, Any] = {"color": "0.45", "linestyle": (0, (2, 1.5)), "linewidth": 1.1}


@kind("score-share", "share of queries and keys in attention's gradient", SCORES)
def score_share(ds: xr.Dataset) -> style.Page:
    styles, layer = captions.styles(ds), array(ds, "layer")
    figure, ((axes,),) = style.panels(1, 1, 2.8, style.page(1))
    for p, curve_style in enumerate(styles):
        curves.draw(axes, curve_style, layer, curves.select(ds, "score_share", (p,)), slice(None))
    axes.set(xlabel="Layer (from 0)", ylabel="Share of the score path\nin attention's gradient", ylim=(0, 1))
    scales.integers(axes, 6)
    words = "S/(S+V): squared gradient at attention's input through queries and keys (S) and through values (V). "
    return style.finish(figure, curves.comparison_legend(styles), words + _explanation(ds))


@kind("score-path", "gradients, and a theory without queries and keys", SCORES)
def score_path(ds: xr.Dataset) -> style.Page:
    depth = array(ds, "depth")

    def panel(axes: Axes, p: int, curve_style: style.Style) -> None:
        curve = stream.norms(ds, "log_grad_sq", (p,))
        curves.draw(axes, curve_style, depth, curve, slice(None, None, 2))
        without = np.exp(array(ds, WITHOUT)[p] / 2)
        axes.plot(depth, without, **CONTROL)
        curves.log_scale([axes], [curve, {"predicted": without}])
        axes.set_title(f"{curve_style.label}\nwhole theory: {array(ds, 'verdict')[p]}\n"
                       f"without score path: {array(ds, 'without_scores_verdict')[p]}", fontsize=7)  # fmt: skip

    figure = curves.per_placement(ds, panel, 1.9, r"$\|\partial\,\mathrm{loss}/\partial x\|$")
    keys = [*curves.comparison_legend(captions.styles(ds)), style.entry(**CONTROL, label="without the score path")]
    words = "Gradient of the hidden state, rms over tokens, geometric means over seeds. Titles: verdicts on the whole "
    words += "theory and on the theory without the gradient through queries and keys (dashed). "
    return style.finish(figure, keys, words + _explanation(ds))


def _explanation(ds: xr.Dataset) -> str:
    words = "Lines: theory; bands (if wider than the line): ± 2 standard errors of the prediction. Markers: mean of "
    return f"{words}{seeds_text(ds)}, ± 2 standard errors. {captions.settings_text(ds)}"


CLAIMED: dict[str, Any] = {"color": "0.8", "marker": "|", "markersize": 13, "markeredgewidth": 3.5,
                           "markeredgecolor": "0.8"}  # fmt: skip
THEORY: dict[str, Any] = {"marker": "|", "markersize": 8, "markeredgewidth": 1.5, "linestyle": "",
                          "markeredgecolor": style.INK}  # fmt: skip
GREATEST: dict[str, Any] = {**THEORY, "markersize": 12, "markeredgewidth": 0.5}


@kind("gradient-vs-depth", "the last layer's gradient against the number of layers",
      coordinates("layers theory_layers") | on("law layers", "log_gradient_measured")
      | on("law theory_layers", "log_gradient_predicted") | on("law", "late_exponent_measured"))  # fmt: skip
def gradient_vs_depth(ds: xr.Dataset) -> style.Page:
    styles = captions.styles(ds)
    figure, ((axes, side),) = style.panels(1, 2, 3.0, style.PAGE, width_ratios=(3, 2))
    every = []
    for p, curve_style in enumerate(styles):
        shown = curves.norms(curves.select(ds, "log_gradient", (p,)))  # predicted up to larger depths
        every.append({k: shown[k] for k in ("predicted", "predicted_stderr")})
        curves.draw(axes, curve_style, array(ds, "theory_layers"), every[-1], slice(None))
        style.points(axes, curve_style, array(ds, "layers"), shown["measured"], 2 * shown["stderr"], zorder=2.5)
    curves.log_scale([axes], every)
    scales.log_ticks_at(axes, array(ds, "theory_layers"))
    axes.set(xlabel="Layers $L$",
             ylabel="Gradient of the last layer's $W_\\mathrm{down}$\n" r"$\|\partial\,\mathrm{loss}/\partial W\|_F$")
    _exponents(ds, side, styles)
    keys = [style.key(s, True) for s in styles]
    keys.append(style.theory_and_measurement("left: theory (line), measured (marker)"))
    keys.append(style.entry(linestyle="", **CLAIMED, label="claim of Xiong et al."))
    keys += [style.entry(**THEORY, label="theory, same L"), style.entry(**GREATEST, label="theory, largest L")]
    words = "Geometric means over seeds; the same seeds at every depth. Right: exponents of L, fitted for every seed "
    words += f"to the three largest measured depths, {', '.join(f'{v:g}' for v in array(ds, 'layers')[-3:])}. "
    return style.finish(figure, keys, words + _explanation(ds))


def _exponents(ds: xr.Dataset, axes: Axes, styles: list[style.Style]) -> None:
    for row, curve_style in enumerate(styles):
        if np.isfinite(array(ds, "claim_number")[row]):
            axes.plot(array(ds, "claim_number")[row], row, **CLAIMED, linestyle="")
        axes.plot(array(ds, "late_exponent_predicted")[row], row, **THEORY)
        axes.plot(array(ds, "limit_exponent")[row], row, **GREATEST)
        measured, error = (array(ds, f"late_exponent_{part}")[row] for part in ("measured", "stderr"))
        style.points(axes, curve_style, measured, row, xerr=2 * error)
    words = [f"{curve_style.label}\n{v}" for curve_style, v in zip(styles, array(ds, "claim_verdict"), strict=True)]
    axes.set_xlabel("Exponent of $L$")
    style.rows(axes, words, fontsize=6.5)


QUANTITIES = (("log_stream", "layers_passed", r"$\|\partial\,\mathrm{loss}/\partial x\|$", "Layers passed"),
              ("log_down", "layer", r"$\|\partial\,\mathrm{loss}/\partial W_\mathrm{down}\|_F$", "Layer (from 0)"))
CLAIM: dict[str, Any] = {"color": "0.72", "linewidth": 2.5, "zorder": 1}


@kind("attenuation", "gradients over depth, from the top of a stack to its bottom",
      coordinates("layers_passed layer") | on("case", "qk_factor", "stream_claim_number")
      | on("case layers_passed", "log_stream_predicted") | on("case layer", "log_down_predicted"))  # fmt: skip
def attenuation(ds: xr.Dataset) -> style.Page:
    factors = list(dict.fromkeys(array(ds, "qk_factor")))
    figure, grid = style.panels(2, len(factors), 2.1, style.page(len(factors)))
    styles = captions.styles(ds)
    for row, (name, along, label, x_label) in zip(grid, QUANTITIES, strict=True):
        x = array(ds, along)
        for axes, factor in zip(row, factors, strict=True):
            every = []
            for k in np.flatnonzero(array(ds, "qk_factor") == factor).tolist():
                every.append(curves.norms(curves.select(ds, name, (k,))))
                curves.draw(axes, styles[k], x, every[-1], slice(None))
                rate = array(ds, "stream_claim_number")[k]
                if array(ds, "stream_claim")[k] == "G10":
                    axes.plot(x, every[-1]["predicted"][-1] * np.exp(rate * (x[-1] - x)), **CLAIM)
            curves.log_scale([axes], every)
            scales.integers(axes, 5)
            axes.set(xlabel=x_label, title="Uniform attention" if factor == 0 else f"Softmax, q·k × {factor:g}²")
        row[0].set_ylabel(label)
    keys = curves.comparison_legend(list(dict(zip(array(ds, "placement"), styles, strict=True)).values()))
    keys.append(style.entry(**CLAIM, label="claim for Post-LN: $(2/3)^{(L-l)/2}$"))
    words = "Top: gradient of the hidden state, rms over tokens; bottom: gradient of the MLP's last matrix. Geometric "
    words += "means over seeds. Grey: Post-LN's gradient at the top of the stack times (2/3)^((L−l)/2). "
    return style.finish(figure, keys, words + _explanation(ds))


@kind("identity-path", "the part of the gradient through skip connections only",
      coordinates("depth sublayer") | on("case depth", "skip_share_predicted", "log_skip_predicted")
      | on("case sublayer", "branch_term_measured") | on("case", "identity_error"))  # fmt: skip
def identity_path(ds: xr.Dataset) -> style.Page:
    styles, depth = captions.styles(ds), array(ds, "depth")
    figure, ((share, skip, branch),) = style.panels(1, 3, 2.7, style.PAGE)
    points = curves.alternating(len(depth), len(styles))
    shares, skips = [], []
    for p, curve_style in enumerate(styles):
        shares.append(curves.select(ds, "skip_share", (p,)))
        curves.draw(share, curve_style, depth, shares[-1], points[p])
        skips.append(curves.norms(curves.select(ds, "log_skip", (p,))))
        curves.draw(skip, curve_style, depth, skips[-1], points[p])
        term, error = (array(ds, f"branch_term_{part}")[p] for part in ("measured", "stderr"))
        branch.errorbar(array(ds, "sublayer"), term, 2 * error, **curve_style.line, linewidth=0.8, elinewidth=0.7)
    curves.log_scale([share], shares)
    curves.log_scale([skip], skips)
    branch.set_yscale("log")
    share.set(title="Share of the skip path", ylabel=r"$\|s\|^2/(\|s\|^2+\|r\|^2)$", xlabel="Sublayers passed")
    skip.set(title="Its gradient relative to the top", ylabel=r"$\|s_i\|/\|g_{2L}\|$", xlabel="Sublayers passed")
    branch.set(title="Terms of the branches", ylabel=r"$\|J_i^T g_{i+1}\|/\|g_{2L}\|$", xlabel="Sublayer (from 0)")
    for axes in (share, skip, branch):
        scales.integers(axes, 5)
    words = "Gradient g = s + r at every depth: s through skip connections only, r through at least one branch; "
    words += f"largest ‖g − s − r‖/‖g‖ of all runs: {max(array(ds, 'identity_error')):.1e}. Right: measured only. "
    return style.finish(figure, curves.comparison_legend(styles), words + _explanation(ds))


LAW: dict[str, Any] = {"marker": "x", "markersize": 4, "markeredgewidth": 0.9, "linestyle": "", "color": style.INK,
                       "zorder": 3, "markeredgecolor": style.INK}  # fmt: skip


@kind("crossover", "the last MLP's gradient relative to Pre-LN's, against the size of its output",
      coordinates("down_factor") | on("case", "log_crossing_measured")
      | on("case down_factor", "log_ratio_predicted", "log_rms_a_predicted", "log_law_measured"))  # fmt: skip
def crossover(ds: xr.Dataset) -> style.Page:
    styles = captions.styles(ds)
    figure, ((axes,),) = style.panels(1, 1, 3.2, style.page(1))
    axes.axhline(1, color=style.INK, linewidth=0.6, zorder=1)
    every = []
    for p, curve_style in enumerate(styles):
        ratio, size = (curves.norms(curves.select(ds, n, (p,))) for n in ("log_ratio", "log_rms_a"))
        every.append(ratio)
        predicted = {k: ratio[k] for k in ("predicted", "predicted_stderr")}
        curves.draw(axes, curve_style, size["predicted"], predicted, slice(None))
        bars = {"bar": 2 * ratio["stderr"], "xerr": 2 * size["stderr"]}
        style.points(axes, curve_style, size["measured"], ratio["measured"], **bars, zorder=2.5)
        axes.plot(size["measured"], np.exp(array(ds, "log_law_measured")[p]), **LAW)
        at, error = array(ds, "log_crossing_measured")[p], 2 * array(ds, "log_crossing_stderr")[p]
        if np.isfinite(at):
            axes.axvspan(np.exp(at - error), np.exp(at + error), color=curve_style.colour, alpha=0.3, linewidth=0)
    curves.log_scale([axes], every)
    if not np.isfinite([array(ds, f"log_rms_a_{v}") for v in ("predicted", "measured")]).any():
        axes.set_xlim(0.1, 10.0)  # a logarithmic axis without data has no limits
    axes.set(xscale="log", xlabel="Size of the last MLP's output, rms $a$",
             ylabel="Gradient of the last $W_\\mathrm{down}$\nrelative to Pre-LN")
    keys = [style.key(s, True) for s in styles]
    keys.append(style.entry(**LAW, label="closed form with measured sizes"))
    words = "Vertical bands: sizes at which the measured ratio is 1, ± 2 standard errors. Claim in the literature that "
    claim, condition = scalar(ds, "order_claim"), scalar(ds, "order_condition")
    words += f"the order is Post > Pre > Peri: {claim}; {condition}. "
    return style.finish(figure, keys, words + _explanation(ds))

"""Figures of `periscope gradients`: the score path, gradients against the number of layers and from the top of a stack
to its bottom, the skip path, and Pre-LN's gradient as the measure of others."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, curves, scales, stream, style
from .dataset import array, coordinates, fact, on, seeds_in_words
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
    looks, layer = captions.looks(ds), array(ds, "layer")
    figure, ((axes,),) = style.panels(1, 1, 2.8, style.page(1))
    for p, look in enumerate(looks):
        curves.draw(axes, look, layer, curves.select(ds, "score_share", (p,)), slice(None))
    axes.set(xlabel="Layer (from 0)", ylabel="Share of the score path\nin attention's gradient", ylim=(0, 1))
    scales.integers(axes, 6)
    words = "S/(S+V): S is the squared gradient that reaches attention's input through queries and keys, V that "
    words += "through values. " + _reading(ds)
    return style.finish(figure, curves.both(looks), words)


@kind("score-path", "gradients, and a theory without queries and keys", SCORES)
def score_path(ds: xr.Dataset) -> style.Page:
    depth = array(ds, "depth")

    def panel(axes: Axes, p: int, look: style.Look) -> None:
        curve = stream.norms(ds, "log_grad_sq", (p,))
        curves.draw(axes, look, depth, curve, slice(None, None, 2))
        without = np.exp(array(ds, WITHOUT)[p] / 2)
        axes.plot(depth, without, **CONTROL)
        curves.log_scale([axes], [curve, {"predicted": without}])
        axes.set_title(f"{look.label}\nwhole theory: {array(ds, 'verdict')[p]}\n"
                       f"without score path: {array(ds, 'without_scores_verdict')[p]}", fontsize=7)  # fmt: skip

    figure = curves.per_placement(ds, panel, 1.9, r"$\|\partial\,\mathrm{loss}/\partial x\|$")
    keys = [*curves.both(captions.looks(ds)), style.entry(**CONTROL, label="without the score path")]
    words = "Gradient of the hidden state, rms over tokens, geometric means over seeds. Titles: the verdicts on "
    words += "theory, once whole, and once without what comes through queries and keys (dashed). "
    return style.finish(figure, keys, words + _reading(ds))


def _reading(ds: xr.Dataset) -> str:
    words = "Lines: theory; bands, where wider than the line, ± 2 standard errors of the prediction. Markers: mean of "
    return f"{words}{seeds_in_words(ds)}, ± 2 standard errors. {captions.setting(ds)}"


CLAIMED: dict[str, Any] = {"color": "0.8", "marker": "|", "markersize": 13, "markeredgewidth": 3.5,
                           "markeredgecolor": "0.8"}  # fmt: skip
THEORY: dict[str, Any] = {"marker": "|", "markersize": 8, "markeredgewidth": 1.5, "linestyle": "",
                          "markeredgecolor": style.INK}  # fmt: skip
GREATEST: dict[str, Any] = {**THEORY, "markersize": 12, "markeredgewidth": 0.5}


@kind("gradient-vs-depth", "the last layer's gradient against the number of layers",
      coordinates("layers theory_layers") | on("law layers", "log_gradient_measured")
      | on("law theory_layers", "log_gradient_predicted") | on("law", "late_exponent_measured"))  # fmt: skip
def gradient_vs_depth(ds: xr.Dataset) -> style.Page:
    looks = captions.looks(ds)
    figure, ((axes, side),) = style.panels(1, 2, 3.0, style.PAGE, width_ratios=(3, 2))
    every = []
    for p, look in enumerate(looks):
        shown = curves.norms(curves.select(ds, "log_gradient", (p,)))  # on more layers predicted than measured
        every.append({k: shown[k] for k in ("predicted", "predicted_stderr")})
        curves.draw(axes, look, array(ds, "theory_layers"), every[-1], slice(None))
        style.points(axes, look, array(ds, "layers"), shown["measured"], 2 * shown["stderr"], zorder=2.5)
    curves.log_scale([axes], every)
    scales.log_ticks_at(axes, array(ds, "theory_layers"))
    axes.set(xlabel="Layers $L$",
             ylabel="Gradient of the last layer's $W_\\mathrm{down}$\n" r"$\|\partial\,\mathrm{loss}/\partial W\|_F$")
    _exponents(ds, side, looks)
    keys = [style.key(look, True) for look in looks]
    keys.append(style.theory_and_measurement("left: line: theory, marker: measured"))
    keys.append(style.entry(linestyle="", **CLAIMED, label="claimed by Xiong et al."))
    keys += [style.entry(**THEORY, label="theory, these L"), style.entry(**GREATEST, label="theory, greatest L")]
    words = "Geometric means over seeds; the same seeds at every depth. Right: exponents of L fitted to the three "
    words += f"largest measured depths, {', '.join(f'{v:g}' for v in array(ds, 'layers')[-3:])}, of every seed. "
    return style.finish(figure, keys, words + _reading(ds))


def _exponents(ds: xr.Dataset, axes: Axes, looks: list[style.Look]) -> None:
    for row, look in enumerate(looks):
        if np.isfinite(array(ds, "claim_number")[row]):
            axes.plot(array(ds, "claim_number")[row], row, **CLAIMED, linestyle="")
        axes.plot(array(ds, "late_exponent_predicted")[row], row, **THEORY)
        axes.plot(array(ds, "limit_exponent")[row], row, **GREATEST)
        measured, error = (array(ds, f"late_exponent_{part}")[row] for part in ("measured", "stderr"))
        style.points(axes, look, measured, row, xerr=2 * error)
    words = [f"{look.label}\n{v}" for look, v in zip(looks, array(ds, "claim_verdict"), strict=True)]
    axes.set_xlabel("Exponent of $L$")
    style.rows(axes, words, fontsize=6.5)


QUANTITIES = (("log_stream", "layers_passed", r"$\|\partial\,\mathrm{loss}/\partial x\|$", "Layers passed"),
              ("log_down", "layer", r"$\|\partial\,\mathrm{loss}/\partial W_\mathrm{down}\|_F$", "Layer (from 0)"))
CLAIM: dict[str, Any] = {"color": "0.72", "linewidth": 2.5, "zorder": 1}


@kind("attenuation", "gradients from the top of a stack to its bottom",
      coordinates("layers_passed layer") | on("case", "qk_factor", "stream_claim_number")
      | on("case layers_passed", "log_stream_predicted") | on("case layer", "log_down_predicted"))  # fmt: skip
def attenuation(ds: xr.Dataset) -> style.Page:
    factors = list(dict.fromkeys(array(ds, "qk_factor")))
    figure, grid = style.panels(2, len(factors), 2.1, style.page(len(factors)))
    looks = captions.looks(ds)
    for row, (name, along, label, x_label) in zip(grid, QUANTITIES, strict=True):
        x = array(ds, along)
        for axes, factor in zip(row, factors, strict=True):
            every = []
            for k in np.flatnonzero(array(ds, "qk_factor") == factor).tolist():
                every.append(curves.norms(curves.select(ds, name, (k,))))
                curves.draw(axes, looks[k], x, every[-1], slice(None))
                rate = array(ds, "stream_claim_number")[k]
                if array(ds, "stream_claim")[k] == "G10":
                    axes.plot(x, every[-1]["predicted"][-1] * np.exp(rate * (x[-1] - x)), **CLAIM)
            curves.log_scale([axes], every)
            scales.integers(axes, 5)
            axes.set(xlabel=x_label, title="Uniform attention" if factor == 0 else f"Softmax, q·k × {factor:g}²")
        row[0].set_ylabel(label)
    keys = curves.both(list(dict(zip(array(ds, "placement"), looks, strict=True)).values()))
    keys.append(style.entry(**CLAIM, label="claimed for Post-LN: $(2/3)^{(L-l)/2}$"))
    words = "Above: gradient of the hidden state, rms over tokens; below: of the MLP's last matrix. Geometric means "
    words += "over seeds. Grey: what (2/3)^((L−l)/2) would make of Post-LN's gradient at the top. "
    return style.finish(figure, keys, words + _reading(ds))


@kind("identity-path", "the gradient's part that came down the skip connections",
      coordinates("depth sublayer") | on("case depth", "skip_share_predicted", "log_skip_predicted")
      | on("case sublayer", "branch_term_measured") | on("case", "identity_error"))  # fmt: skip
def identity_path(ds: xr.Dataset) -> style.Page:
    looks, depth = captions.looks(ds), array(ds, "depth")
    figure, ((share, skip, branch),) = style.panels(1, 3, 2.7, style.PAGE)
    points = curves.turns(len(depth), len(looks))
    shares, skips = [], []
    for p, look in enumerate(looks):
        shares.append(curves.select(ds, "skip_share", (p,)))
        curves.draw(share, look, depth, shares[-1], points[p])
        skips.append(curves.norms(curves.select(ds, "log_skip", (p,))))
        curves.draw(skip, look, depth, skips[-1], points[p])
        branch.errorbar(array(ds, "sublayer"), array(ds, "branch_term_measured")[p],
                        2 * array(ds, "branch_term_stderr")[p], **look.line, linewidth=0.8, elinewidth=0.7)  # fmt: skip
    curves.log_scale([share], shares)
    curves.log_scale([skip], skips)
    branch.set_yscale("log")
    share.set(title="Share of the skip path", ylabel=r"$\|s\|^2/(\|s\|^2+\|r\|^2)$", xlabel="Sublayers passed")
    skip.set(title="Its gradient over the top's", ylabel=r"$\|s_i\|/\|g_{2L}\|$", xlabel="Sublayers passed")
    branch.set(title="Every branch's term", ylabel=r"$\|J_i^T g_{i+1}\|/\|g_{2L}\|$", xlabel="Sublayer (from 0)")
    for axes in (share, skip, branch):
        scales.integers(axes, 5)
    words = "g = s + r at every depth: s came down the skip connections alone, r took a branch at least once; "
    words += f"largest ‖g − s − r‖/‖g‖ of all runs: {max(array(ds, 'identity_error')):.1e}. Right: measured. "
    return style.finish(figure, curves.both(looks), words + _reading(ds))


LAW: dict[str, Any] = {"marker": "x", "markersize": 4, "markeredgewidth": 0.9, "linestyle": "", "color": style.INK,
                       "zorder": 3, "markeredgecolor": style.INK}  # fmt: skip


@kind("crossover", "the last MLP's gradient over Pre-LN's, against its output's size",
      coordinates("down_factor") | on("case", "log_crossing_measured")
      | on("case down_factor", "log_ratio_predicted", "log_rms_a_predicted", "log_law_measured"))  # fmt: skip
def crossover(ds: xr.Dataset) -> style.Page:
    looks = captions.looks(ds)
    figure, ((axes,),) = style.panels(1, 1, 3.2, style.page(1))
    axes.axhline(1, color=style.INK, linewidth=0.6, zorder=1)
    every = []
    for p, look in enumerate(looks):
        ratio, size = (curves.norms(curves.select(ds, n, (p,))) for n in ("log_ratio", "log_rms_a"))
        every.append(ratio)
        predicted = {k: ratio[k] for k in ("predicted", "predicted_stderr")}
        curves.draw(axes, look, size["predicted"], predicted, slice(None))
        bars = {"bar": 2 * ratio["stderr"], "xerr": 2 * size["stderr"]}
        style.points(axes, look, size["measured"], ratio["measured"], **bars, zorder=2.5)
        axes.plot(size["measured"], np.exp(array(ds, "log_law_measured")[p]), **LAW)
        at, error = array(ds, "log_crossing_measured")[p], 2 * array(ds, "log_crossing_stderr")[p]
        if np.isfinite(at):
            axes.axvspan(np.exp(at - error), np.exp(at + error), color=look.colour, alpha=0.3, linewidth=0)
    curves.log_scale([axes], every)
    if not np.isfinite([array(ds, f"log_rms_a_{v}") for v in ("predicted", "measured")]).any():
        axes.set_xlim(0.1, 10.0)  # a logarithmic axis finds no limits of its own
    axes.set(xscale="log", xlabel="Size of the last MLP's output, rms $a$",
             ylabel="Gradient of the last $W_\\mathrm{down}$\nover that of Pre-LN")
    keys = [style.key(look, True) for look in looks]
    keys.append(style.entry(**LAW, label="closed form, from measured sizes"))
    words = "Bars in the background: where the measured ratio is 1, ± 2 standard errors. The order Post > Pre > Peri "
    claim, condition = fact(ds, "order_claim"), fact(ds, "order_condition")
    words += f"is the claim of the literature: {claim}: {condition}. "
    return style.finish(figure, keys, words + _reading(ds))

"""Signals over depth and training: variance, gradients of layers, angular distances, gains of output norms, and the
largest activations. Figures 1, 6, 7, 9, 11, 14, 15 and 39 of the Peri-LN paper."""

from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

from . import curves, groups, scales, style
from .angular import colourbar, heatmaps
from .certificate import FP16
from .dataset import array, coordinates, on, seeds_text

SURGE = (0.0, 0.04, 0.2, 0.5, 1.0)  # shown records as fractions of the steps; the surge is early


@groups.kind("figure-1-variance", "variance over depth and training",
             coordinates("group record depth") | on("group record depth", "variance_measured", "variance_stderr")
             | on("group depth", "variance_predicted"), groups.rows)  # fmt: skip
def variance(ds: xr.Dataset, shown: list[int]) -> style.Page:
    at = groups.records(ds, SURGE)
    styles, depth, step = groups.styles(ds, shown), array(ds, "depth"), array(ds, "record")
    number = len(at) + 1
    figure, panels = style.small_multiples(number, 2.15, "Sublayers passed", "Hidden-state variance",
                                           threes=number > 4, width=style.PAGE, sharey=True)  # fmt: skip
    points = curves.alternating(len(depth), len(styles))
    for axes, r in zip(panels, at, strict=False):
        for g, curve_style, marked in zip(shown, styles, points, strict=True):
            mean, error = (array(ds, f"variance_{part}")[g, r] for part in ("measured", "stderr"))
            line, linewidth = (array(ds, "variance_predicted")[g], 1.3) if step[r] == 0 else (mean, 0.7)
            axes.plot(depth, line, **curve_style.line, linewidth=linewidth)
            groups.measured(axes, curve_style, depth[marked], mean[marked], error[marked])
        axes.set_title("Before training" if step[r] == 0 else f"After {step[r]:g} step{'' if step[r] == 1 else 's'}")
        axes.set_xlim(-0.02 * depth[-1], 1.02 * depth[-1])
    for g, curve_style in zip(shown, styles, strict=True):
        top = (array(ds, f"variance_{v}")[g, :, -1] for v in ("measured", "stderr"))
        groups.measured(panels[-1], curve_style, step, *top, linestyle=curve_style.dash, linewidth=0.8)
    panels[-1].set_title("At the top of the stack")
    groups.step_axis(panels[-1], step[-1])
    measured, predicted = array(ds, "variance_measured")[shown], array(ds, "variance_predicted")[shown]
    every = np.concatenate([measured, predicted[:, None]], axis=1)
    scales.log_axis(panels, every)
    keys = [style.key(s, True) for s in styles]
    keys += [style.entry(color=style.INK, linewidth=1.3, label="before training: theory"),
             style.entry(color=style.INK, linewidth=0.7, marker="o", markersize=4.5, label="measured")]  # fmt: skip
    words = (
        f"Mean over held-out tokens of $\\mathrm{{Var}}_D(x)$. Markers{curves.marker_note(points[0])}: geometric mean "
        f"of {seeds_text(ds)}, ± 2 standard errors. Lines: before training, theory for random weights; otherwise they "
        f"join the markers. {laws(ds, shown)}"
    )
    return groups.finish(figure, ds, keys, words, ["1"], shown)


def laws(ds: xr.Dataset, shown: list[int]) -> str:
    """Returns a sentence about the growth laws after training, with the number of seeds and the misfit."""
    if "growth_law" not in ds or "growth_misfit" not in ds:
        return ""
    words = []
    for g, curve_style in zip(shown, groups.styles(ds, shown), strict=True):
        found = [str(law) for law in array(ds, "growth_law")[g]]
        counts = [law_text(ds, g, law, found) for law in dict.fromkeys(found) if law]
        if counts:
            words.append(f"{curve_style.label} {', '.join(counts)}")
    if not words:
        return ""
    return (
        "Law fitted to the variance from depth 2 to the top after training (number of seeds; largest rms residual of "
        f"the logarithm): {'; '.join(words)}. No law fits if the residual is above 10 %."
    )


def law_text(ds: xr.Dataset, g: int, law: str, found: list[str]) -> str:
    """Returns text such as "linear (3; 2.2 %)": a law, the number of seeds and the misfit."""
    names = [str(name) for name in array(ds, "law")]
    seeds = [s for s, name in enumerate(found) if name == law]
    misfits = array(ds, "growth_misfit")[g][seeds]
    misfit = misfits[:, names.index(law)] if law in names else misfits.min(axis=1)
    return f"{law} ({len(seeds)}; {100 * misfit.max():.2g} %)"


@groups.kind("figure-7-gradients", "gradient of every layer before and after training",
             coordinates("group record layer")
             | on("group record layer", "layer_gradient_measured", "layer_gradient_stderr")
             | on("group layer", "layer_gradient_predicted"), groups.rows)  # fmt: skip
def layer_gradients(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles = groups.styles(ds, shown)
    figure, panels = style.small_multiples(
        len(shown), 1.95, "Layer (from 0)", "Squared gradient norm\nof a layer's matrices (nat²)",
        threes=True, sharex=True, sharey=True)  # fmt: skip
    layer, mean, error = (array(ds, n) for n in ("layer", "layer_gradient_measured", "layer_gradient_stderr"))
    for axes, g, curve_style in zip(panels, shown, styles, strict=True):
        groups.predicted(axes, curve_style.colour, ds, layer, "layer_gradient", g)
        groups.measured(axes, curve_style, layer, mean[g, 0], error[g, 0], **curve_style.hollow, markeredgewidth=0.9)
        groups.measured(axes, curve_style, layer, mean[g, -1], error[g, -1], linestyle="-", linewidth=0.7, zorder=2.6)
        axes.set_title(curve_style.label)
    means, errors = (values[shown][:, [0, -1]] for values in (mean, error))
    theory = array(ds, "layer_gradient_predicted")[shown][:, None]
    scales.log_axis(panels, np.concatenate([means, theory], axis=1), groups.bars(means, errors))
    marks: dict[str, Any] = {"color": "0.3", "marker": "o", "markersize": 4.5, "markeredgecolor": "0.3",
                             "linestyle": ""}  # fmt: skip
    keys = [style.entry(color="0.3", linewidth=1.3, label="before training, theory"),
            style.entry(**marks, markerfacecolor="white", label="before training, measured"),
            style.entry(**marks | {"linestyle": "-"}, linewidth=0.7,
                   label=f"after {array(ds, 'record')[-1]:g} steps, measured")]  # fmt: skip
    words = (
        f"Gradient of the loss on the held-out windows. Markers: geometric mean of {seeds_text(ds)}, ± 2 standard "
        "errors. Theory: random weights, all windows in one batch; band (if wider than the line): at most ± 2 standard "
        "errors of the prediction."
    )
    return groups.finish(figure, ds, keys, words, ["7"], shown)


SHARES = (0.0, 0.2, 0.5, 1.0)
MARKERS = "os^D"


@groups.kind("figure-9-angles", "angular distances before and after training",
             coordinates("group record depth") | on("group record depth other_depth", "angular_distance_measured"),
             groups.MAIN)  # fmt: skip
def angles(ds: xr.Dataset, shown: list[int]) -> style.Page:
    shown = shown + groups.rows(ds, "frozen")
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
        f"Arccos(cosine)/π of the stream at two depths, mean over held-out tokens and {seeds_text(ds)}; dark: small "
        "distance."
    )
    return groups.finish(figure, ds, [], words, ["F10a", "F10b"], shown)


@groups.kind("figure-9-gains", "gains of output norms during training",
             coordinates("group record sublayer") | on("group record sublayer", "gain_b_measured", "gain_b_stderr"),
             ("peri",))  # fmt: skip
def gains(ds: xr.Dataset, shown: list[int]) -> style.Page:
    shown = shown + groups.rows(ds, "frozen")
    sublayer, at = array(ds, "sublayer"), groups.records(ds, SHARES)
    figure, (row,) = style.panels(1, len(shown), 2.6, style.page(len(shown)), sharey=True)
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(at)))
    keys = []
    for r, colour, marker in zip(at, colours, MARKERS, strict=False):
        options: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.8, "linewidth": 0.7}
        keys.append(style.entry(**options, label=f"after {array(ds, 'record')[r]:g} steps"))
        for axes, g in zip(row, shown, strict=True):
            mean, error = array(ds, "gain_b_measured")[g, r], array(ds, "gain_b_stderr")[g, r]
            axes.errorbar(sublayer, mean, 2 * error, elinewidth=0.8, **options)
    for axes, g in zip(row, shown, strict=True):
        axes.set(title=groups.label(ds, g), xlabel="Sublayer (from 0)")
        scales.integers(axes, 6)
        if not np.isfinite(array(ds, "gain_b_measured")[g]).any():
            scales.note_no_finite_value(axes)
    row[0].set_ylabel("Mean gain of the output norm")
    words = (
        f"Gains of norm B, mean over features and {seeds_text(ds)}, ± 2 standard errors. Even sublayers: attention; "
        "odd sublayers: MLP."
    )
    return groups.finish(figure, ds, keys, words, ["F11a", "F11b"], shown)


@groups.kind("figure-11-extremes", "the hundred largest activations during training",
             coordinates("group record") | on("group seed record", "top_first", "top_last"), groups.TWO)  # fmt: skip
def extremes(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles, step = groups.styles(ds, shown), array(ds, "record")
    figure, ((axes,),) = style.panels(1, 1, 2.9, style.PAGE)
    for g, curve_style in zip(shown, styles, strict=True):
        for low, high in zip(array(ds, "top_last")[g], array(ds, "top_first")[g], strict=True):
            axes.fill_between(step, low, high, color=curve_style.colour, alpha=0.18, linewidth=0)
            axes.plot(step, high, **curve_style.line, linewidth=0.9)
            axes.plot(step, low, **curve_style.line, linewidth=0.5)
    scales.log_axis([axes], np.concatenate([array(ds, "top_first")[shown], array(ds, "top_last")[shown]]))
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 2 * FP16))
    axes.yaxis.set_major_locator(LogLocator(numticks=10))  # the axis extends beyond the data
    axes.yaxis.set_major_formatter(LogFormatterSciNotation())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(FP16, color="#B00000", linewidth=0.9)
    axes.annotate(f"largest number of FP16, {FP16:g}", (0.01, FP16), (0, -2), xycoords=("axes fraction", "data"),
                  textcoords="offset points", va="top", fontsize=6.5, color="#B00000")  # fmt: skip
    groups.step_axis(axes, step[-1])
    axes.set_ylabel("Largest $|x|$ of the stream")
    keys = [style.patch(facecolor=s.colour, alpha=0.4, linewidth=0, label=f"{s.label}, largest to 100th largest")
            for s in styles]
    words = "Over all depths, held-out tokens and features; one band per seed."
    return groups.finish(figure, ds, keys, words, ["11"], shown)

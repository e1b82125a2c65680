"""Growth of the second moment during training, compared with Eq. 4 of the Peri-LN paper, which omits the cosine of
stream and branch, and with random weights that have the trained scales (T15)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds, seeds_text

REQUIRED = (
    coordinates("group record depth")
    | on("group record depth", "second_moment_measured", "second_moment_stderr", "eq4_measured")
    | on("group depth", "second_moment_predicted")
    | on("group seed record", "cosine_share")
)
SHARES = (0.0, 0.2, 1.0)
# Shades of a colour that no placement uses.
STEPS = (style.Style("", "#C9A227", "o"), style.Style("", "#8C6D1F", "s"), style.Style("", "#3B2A0A", "^"))
DASHES, DOTS, RANDOM = (0, (5, 1.8)), (0, (1, 1.3)), "#CC79A7"


@groups.kind("growth", "the stream's second moment, with the paper's Eq. 4 and random weights", REQUIRED, groups.rows)
def growth(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles, at, step = groups.styles(ds, shown), groups.records(ds, SHARES), array(ds, "record")
    figure, panels = style.small_multiples(len(shown), 2.15, "Sublayers passed", "Second moment", threes=True)
    for axes, g, curve_style in zip(panels, shown, styles, strict=True):
        _panel(axes, ds, g, at)
        axes.set_title(curve_style.label)
    keys = [style.entry(color=STEPS[0].colour, linewidth=1.3, label="theory, before training")]
    for r, curve_style in zip(at, STEPS, strict=False):
        keys.append(style.entry(**curve_style.marks | {"linestyle": DASHES}, linewidth=1.0,
                                label=f"{step[r]:g} steps: measured, Eq. 4 dashed"))  # fmt: skip
    words = (f"Markers: second moment of the stream on held-out tokens, geometric mean of {seeds_text(ds)}, ± 2 "
             "standard errors. Dashed: Eq. 4 of the Peri-LN paper, growth without the cosine of stream and branch, "
             "with the measured branches; the gap is due to alignment of branches with the stream.")  # fmt: skip
    if "scaled_second_moment" in ds:
        keys.append(style.entry(color=RANDOM, linewidth=1.0, linestyle=DOTS,
                                label="random weights of the trained scales"))  # fmt: skip
        words += (" Dotted, after training, one line per seed: theory for random weights with the trained scale of "
                  "every matrix and all gains.")  # fmt: skip
    return groups.finish(figure, ds, keys, words, ["growth"], shown)


@groups.kind("eq-4-gap", "effect of the cosine of stream and branch at the top over training", REQUIRED, groups.rows)
def gap(ds: xr.Dataset, shown: list[int]) -> style.Page:
    styles, step = groups.styles(ds, shown), array(ds, "record")
    figure, ((axes,),) = style.panels(1, 1, 2.6, style.page(1))
    for g, curve_style in zip(shown, styles, strict=True):
        axes.plot(step, array(ds, "cosine_share")[g].T, **curve_style.line, linewidth=0.8)
    axes.axhline(0, color=style.INK, linewidth=0.6)
    groups.step_axis(axes, step[-1])
    axes.set_ylabel("ln(second moment / Eq. 4) at the top")
    words = (
        "One line per seed: logarithm of the ratio of the second moment at the top of the stack to Eq. 4 of the paper, "
        "which omits the cosine of stream and branch. Above 0, branches are aligned with the stream."
    )
    return groups.finish(figure, ds, [style.key(s, False) for s in styles], words, ["growth"], shown)


def _panel(axes: Axes, ds: xr.Dataset, g: int, at: list[int]) -> None:
    depth = array(ds, "depth")
    mean, error = array(ds, "second_moment_measured")[g], array(ds, "second_moment_stderr")[g]
    drawn = [mean[at], array(ds, "eq4_measured")[g, at], array(ds, "second_moment_predicted")[g][None]]
    groups.predicted(axes, STEPS[0].colour, ds, depth, "second_moment", g)
    for r, curve_style in zip(at, STEPS, strict=False):
        groups.measured(axes, curve_style, depth, mean[r], error[r], markersize=3.6)
        axes.plot(depth, array(ds, "eq4_measured")[g, r], color=curve_style.colour, linestyle=DASHES, linewidth=1.0)
    if "scaled_second_moment" in ds:
        drawn.append(array(ds, "scaled_second_moment")[g])
        axes.plot(depth, drawn[-1].T, color=RANDOM, linestyle=DOTS, linewidth=1.0)
    scales.log_axis([axes], np.concatenate(drawn))


@groups.kind("growth-parts", "growth due to weight sizes and due to alignment",
             REQUIRED | on("group seed", "growth_from_directions"), groups.rows)  # fmt: skip
def parts(ds: xr.Dataset, shown: list[int]) -> style.Page:
    """Splits growth at the top of the stack into parts: sizes of matrices, of rows and columns, and alignment (T29)."""
    figure, ((axes,),) = style.panels(1, 1, 3.0, 4.6)
    kinds = (("growth_from_scales", "sizes of matrices, and gains", "#0072B2", "o", 0.2),
             ("growth_from_sizes_inside", "sizes of rows and columns", "#CC79A7", "D", 0.0),
             ("growth_from_alignment", "alignment, beyond sizes", "#D55E00", "s", -0.2))  # fmt: skip
    # The same growth split in the opposite order, with hollow markers.
    other = (("growth_from_scales_given_directions", "sizes, given directions", "#0072B2", "o", 0.3),
             ("growth_from_directions", "directions, at the sizes before training", "#D55E00", "s", -0.3))  # fmt: skip
    keys = []
    for name, label, colour, marker, shift in (*kinds, *other):
        options: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linestyle": "", "label": label}
        if abs(shift) > 0.2:
            options |= {"markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 0.9}
        for row, g in enumerate(shown):
            axes.plot(array(ds, name)[g], np.full(seeds(ds), row - shift), **options)
        keys.append(style.entry(**options))
    axes.axvline(0, color=style.INK, linewidth=0.6)
    style.rows(axes, [s.label for s in groups.styles(ds, shown)])
    axes.set_xlabel("ln of growth at the top during training (nat)")
    words = (
        "One marker per seed: parts of the log growth of the second moment at the top. Solid: random weights with the "
        "trained rms of every matrix and all gains, relative to the start of training; the additional effect of the "
        "sizes of rows and columns; and the rest, alignment. Hollow, in the opposite order: the trained directions "
        "with the initial sizes, and the additional effect of the trained sizes and gains. Either set adds up to the "
        "growth."
    )
    return groups.finish(figure, ds, keys, words, [], shown)

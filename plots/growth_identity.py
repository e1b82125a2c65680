"""Theory meets training: the second moment over depth against Eq. 4, which lacks the cosine of stream and branch, and
what of its growth weight scales explain (T15)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds, seeds_in_words

NEEDS = (
    coordinates("group record depth")
    | on("group record depth", "second_moment_measured", "second_moment_stderr", "eq4_measured")
    | on("group depth", "second_moment_predicted")
    | on("group seed record", "cosine_share")
)
SHARES = (0.0, 0.2, 1.0)
# Shades of one colour that no placement has.
STEPS = (style.Look("", "#C9A227", "o"), style.Look("", "#8C6D1F", "s"), style.Look("", "#3B2A0A", "^"))
DASHES, DOTS, RANDOM = (0, (5, 1.8)), (0, (1, 1.3)), "#CC79A7"


@groups.kind("growth", "second moment of the stream, and what Eq. 4 or no alignment would give", NEEDS, groups.rows)
def growth(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks, at, step = groups.looks(ds, shown), groups.records(ds, SHARES), array(ds, "record")
    figure, panels = style.small_multiples(len(shown), 2.15, "Sublayers passed", "Second moment", threes=True)
    for axes, g, look in zip(panels, shown, looks, strict=True):
        _panel(axes, ds, g, at)
        axes.set_title(look.label)
    keys = [style.entry(color=STEPS[0].colour, linewidth=1.3, label="theory, before training")]
    for r, look in zip(at, STEPS, strict=False):
        keys.append(style.entry(color=look.colour, marker=look.marker, markersize=look.size, linestyle=DASHES,
                           linewidth=1.0, label=f"{step[r]:g} steps: measured, Eq. 4 dashed"))  # fmt: skip
    words = (
        f"Markers: mean square of the stream on held-out tokens, geometric mean of {seeds_in_words(ds)}, ± 2 "
        "standard errors. Dashed: Eq. 4, the growth of the second moment without the cosine of stream and branch, "
        "with the measured branches; a gap is alignment of branches with the stream."
    )
    if "scaled_second_moment" in ds:
        keys.append(style.entry(color=RANDOM, linewidth=1.0, linestyle=DOTS,
                                label="random weights of the trained scales"))  # fmt: skip
        words += (" Dotted, at the end, seed by seed: theory for random weights with every matrix's trained scale and "
                  "all gains.")  # fmt: skip
    return groups.finish(figure, ds, keys, words, ["growth"], shown)


@groups.kind("eq-4-gap", "what the cosine of stream and branch adds at the top over training", NEEDS, groups.rows)
def gap(ds: xr.Dataset, shown: list[int]) -> style.Page:
    looks, step = groups.looks(ds, shown), array(ds, "record")
    figure, ((axes,),) = style.panels(1, 1, 2.6, style.page(1))
    for g, look in zip(shown, looks, strict=True):
        axes.plot(step, array(ds, "cosine_share")[g].T, **look.line, linewidth=0.8)
    axes.axhline(0, color=style.INK, linewidth=0.6)
    groups.step_axis(axes, step[-1])
    axes.set_ylabel("ln(second moment / Eq. 4) at the top")
    words = (
        "Every seed: what Eq. 4 of the paper, growth of the second moment without the cosine of stream and branch, "
        "misses at the top of the stack; above 0 branches are aligned with the stream."
    )
    return groups.finish(figure, ds, [style.key(look, False) for look in looks], words, ["growth"], shown)


def _panel(axes: Axes, ds: xr.Dataset, g: int, at: list[int]) -> None:
    depth = array(ds, "depth")
    mean, error = array(ds, "second_moment_measured")[g], array(ds, "second_moment_stderr")[g]
    drawn = [mean[at], array(ds, "eq4_measured")[g, at], array(ds, "second_moment_predicted")[g][None]]
    groups.predicted(axes, STEPS[0].colour, ds, depth, "second_moment", g)
    for r, look in zip(at, STEPS, strict=False):
        groups.measured(axes, look, depth, mean[r], error[r], markersize=3.6)
        axes.plot(depth, array(ds, "eq4_measured")[g, r], color=look.colour, linestyle=DASHES, linewidth=1.0)
    if "scaled_second_moment" in ds:
        drawn.append(array(ds, "scaled_second_moment")[g])
        axes.plot(depth, drawn[-1].T, color=RANDOM, linestyle=DOTS, linewidth=1.0)
    scales.log_axis([axes], np.concatenate(drawn))


@groups.kind("growth-parts", "growth as sizes of weights and as alignment",
             NEEDS | on("group seed", "growth_from_directions"), groups.rows)  # fmt: skip
def parts(ds: xr.Dataset, shown: list[int]) -> style.Page:
    """Growth at the top as what sizes of and inside matrices explain and what alignment adds, seed by seed (T29)."""
    figure, ((axes,),) = style.panels(1, 1, 3.0, 4.6)
    kinds = (("growth_from_scales", "sizes of matrices, and gains", "#0072B2", "o", 0.2),
             ("growth_from_sizes_inside", "sizes of rows and columns", "#CC79A7", "D", 0.0),
             ("growth_from_alignment", "alignment, beyond sizes", "#D55E00", "s", -0.2))  # fmt: skip
    # The other order: hollow.
    other = (("growth_from_scales_given_directions", "sizes, given directions", "#0072B2", "o", 0.3),
             ("growth_from_directions", "directions, at the sizes before training", "#D55E00", "s", -0.3))  # fmt: skip
    keys = []
    for name, words, colour, marker, shift in (*kinds, *other):
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linestyle": "", "label": words}
        if abs(shift) > 0.2:
            look |= {"markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 0.9}
        for row, g in enumerate(shown):
            axes.plot(array(ds, name)[g], np.full(seeds(ds), row - shift), **look)
        keys.append(style.entry(**look))
    axes.axvline(0, color=style.INK, linewidth=0.6)
    style.rows(axes, [look.label for look in groups.looks(ds, shown)])
    axes.set_xlabel("ln of growth at the top from before training to its end (nat)")
    words = (
        "Every seed: ln of the second moment at the top of random weights with the trained matrices' root mean squares "
        "and gains, over the measured one before training; what the sizes of every row and column add; and the rest, "
        "alignment. Their sum is the growth. Hollow, in the other order: the trained matrices at their sizes before "
        "training, and what the trained sizes and gains add; their sum is the growth too."
    )
    return groups.finish(figure, ds, keys, words, [], shown)

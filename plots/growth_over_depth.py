"""Variance over depth and training, all placements: the paper's Figures 1, 6, 14 and 15."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import curves, groups, scales, style
from .dataset import array, coordinates, on, seeds_in_words
from .makers import Makers

FIGURES = {"figure-1-variance": "variance over depth and training"}
NEEDS = (
    coordinates("group record depth")
    | on("group record depth", "variance_measured", "variance_stderr")
    | on("group depth", "variance_predicted")
    | on("claim", "claim_exhibit")
)
SHARES = (0.0, 0.04, 0.2, 0.5, 1.0)  # of the steps: the surge is early


def draw(ds: xr.Dataset) -> Makers:
    return {"figure-1-variance": partial(_figure, ds)} if groups.rows(ds) else {}


def _figure(ds: xr.Dataset) -> style.Page:
    shown, at = groups.rows(ds), groups.records(ds, SHARES)
    looks, depth, step = groups.looks(ds, shown), array(ds, "depth"), array(ds, "record")
    number = len(at) + 1
    figure, panels = style.small_multiples(number, 2.15, "Sublayers passed", "Hidden-state variance",
                                           (2, 3) if number > 4 else None, style.PAGE, sharey=True)  # fmt: skip
    points = curves.turns(len(depth), len(looks))
    for axes, r in zip(panels, at, strict=False):
        for g, look, some in zip(shown, looks, points, strict=True):
            _over_depth(axes, ds, g, r, look, some)
        axes.set_title("Before training" if step[r] == 0 else f"After {step[r]:g} steps")
        axes.set_xlim(-0.02 * depth[-1], 1.02 * depth[-1])
    for g, look in zip(shown, looks, strict=True):
        top = (array(ds, f"variance_{v}")[g, :, -1] for v in ("measured", "stderr"))
        groups.measured(panels[-1], look, step, *top, linestyle=look.dash, linewidth=0.8)
    panels[-1].set_title("At the top of the stack")
    groups.step_axis(panels[-1], step[-1])
    measured, predicted = array(ds, "variance_measured")[shown], array(ds, "variance_predicted")[shown]
    every = np.concatenate([measured, predicted[:, None]], axis=1)
    scales.log_axis(panels, every)
    keys = [style.key(look, True) for look in looks]
    keys += [style.entry(color=style.INK, linewidth=1.3, label="before training: theory"),
             style.entry(color=style.INK, linewidth=0.7, marker="o", markersize=4.5, label="measured")]  # fmt: skip
    words = (
        f"Mean over held-out tokens of $\\mathrm{{Var}}_D(x)$. Markers{curves.often(points[0])}: geometric mean of "
        f"{seeds_in_words(ds)}, ± 2 standard errors. Before training, lines are theory for random weights; "
        f"elsewhere they join the markers. {laws(ds, shown)}"
    )
    return groups.finish(figure, ds, keys, words, ["1"], shown)


def _over_depth(axes: Axes, ds: xr.Dataset, g: int, r: int, look: style.Look, some: slice) -> None:
    depth, mean, error = array(ds, "depth"), array(ds, "variance_measured")[g, r], array(ds, "variance_stderr")[g, r]
    line = array(ds, "variance_predicted")[g] if array(ds, "record")[r] == 0 else mean
    axes.plot(depth, line, **look.line, linewidth=1.3 if line is not mean else 0.7)
    groups.measured(axes, look, depth[some], mean[some], error[some])


def laws(ds: xr.Dataset, shown: list[int]) -> str:
    """Which law describes the growth at the end, of how many seeds, and how closely."""
    if "growth_law" not in ds or "growth_misfit" not in ds:
        return ""
    words = []
    for g, look in zip(shown, groups.looks(ds, shown), strict=True):
        found = [str(law) for law in array(ds, "growth_law")[g]]
        counts = [law_words(ds, g, law, found) for law in dict.fromkeys(found) if law]
        if counts:
            words.append(f"{look.label} {', '.join(counts)}")
    if not words:
        return ""
    return (
        "Law that describes the variance from depth 2 to the top after training (seeds; largest rms of the logarithm): "
        f"{'; '.join(words)}. None fits if its rms is above 10 %."
    )


def law_words(ds: xr.Dataset, g: int, law: str, found: list[str]) -> str:
    """ "linear (3; 2.2 %)" """
    names = [str(name) for name in array(ds, "law")]
    seeds = [s for s, name in enumerate(found) if name == law]
    misfits = array(ds, "growth_misfit")[g][seeds]
    misfit = misfits[:, names.index(law)] if law in names else misfits.min(axis=1)
    return f"{law} ({len(seeds)}; {100 * misfit.max():.2g} %)"

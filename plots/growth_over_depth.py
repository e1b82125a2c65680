"""Variance over depth and training, all placements: the paper's Figures 1, 6, 14 and 15."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from plots import curves, groups, scales, style
from plots.figures import Figures
from plots.results import Result

FIGURES = {"figure-1-variance": "variance over depth and training"}
NEEDS = ("group", "record", "depth", "variance_mean", "variance_stderr", "theory_variance", "claim_exhibit")
SHARES = (0.0, 0.04, 0.2, 0.5, 1.0)  # of the steps: the surge is early


def draw(result: Result) -> Figures:
    return Figures([("figure-1-variance", partial(_figure, result))] if groups.rows(result) else [])


def _figure(result: Result) -> style.Page:
    shown, at = groups.rows(result), groups.records(result, SHARES)
    looks, depth, step = groups.looks(result, shown), result["depth"], result["record"]
    number = len(at) + 1
    rows, columns = (2, 3) if number > 4 else style.multiples(number)
    figure, grid = style.panels(rows, columns, 2.15, style.PAGE, sharey=True)
    panels = [axes for row in grid for axes in row][:number]
    points = curves.turns(len(depth), len(looks))
    for axes, r in zip(panels, at, strict=False):
        for g, look, some in zip(shown, looks, points, strict=True):
            _over_depth(axes, result, g, r, look, some)
        axes.set_title("Before training" if step[r] == 0 else f"After {step[r]:g} steps")
        axes.set_xlim(-0.02 * depth[-1], 1.02 * depth[-1])
    style.label_outer(grid, number, "Sublayers passed", "Hidden-state variance")
    for g, look in zip(shown, looks, strict=True):
        top = (result[f"variance_{v}"][g, :, -1] for v in ("mean", "stderr"))
        groups.measured(panels[-1], look, step, *top, linestyle=look.dash, linewidth=0.8)
    panels[-1].set_title("At the top of the stack")
    groups.step_axis(panels[-1], step[-1])
    every = np.concatenate([result["variance_mean"][shown], result["theory_variance"][shown][:, None]], axis=1)
    scales.log_axis(panels, every)
    keys = [style.key(look, True) for look in looks]
    words = (
        f"Mean over held-out tokens of $\\mathrm{{Var}}_D(x)$. Markers{_often(points[0].step)}: geometric mean of "
        f"{result.seeds_in_words}, ± 2 standard errors. Before training, lines are theory for random weights; "
        f"elsewhere they join the markers. {laws(result, shown)}"
    )
    return groups.finish(figure, result, keys, words, ["1"], shown)


def _over_depth(axes: Axes, result: Result, g: int, r: int, look: style.Look, some: slice) -> None:
    depth, mean, error = result["depth"], result["variance_mean"][g, r], result["variance_stderr"][g, r]
    line = result["theory_variance"][g] if result["record"][r] == 0 else mean
    axes.plot(depth, line, color=look.colour, linestyle=look.dash, linewidth=1.3 if line is not mean else 0.7)
    groups.measured(axes, look, depth[some], mean[some], error[some])


def _often(stride: int) -> str:
    return "" if stride == 1 else f", one point in {stride} by turns"


def laws(result: Result, shown: list[int]) -> str:
    """Which law describes the growth at the end, of how many seeds, and how closely."""
    if "growth_law" not in result or "growth_misfit" not in result:
        return ""
    words = []
    for g, look in zip(shown, groups.looks(result, shown), strict=True):
        found = [str(law) for law in result["growth_law"][g]]
        counts = [law_words(result, g, law, found) for law in dict.fromkeys(found) if law]
        if counts:
            words.append(f"{look.label} {', '.join(counts)}")
    if not words:
        return ""
    return (
        "Law that describes the variance from depth 2 to the top after training (seeds; largest rms of the logarithm): "
        f"{'; '.join(words)}. None fits if its rms is above 10 %."
    )


def law_words(result: Result, g: int, law: str, found: list[str]) -> str:
    """ "linear (3; 2.2 %)" """
    names = [str(name) for name in result["law"]]
    seeds = [s for s, name in enumerate(found) if name == law]
    misfits = result["growth_misfit"][g][seeds]
    misfit = misfits[:, names.index(law)] if law in names else misfits.min(axis=1)
    return f"{law} ({len(seeds)}; {100 * misfit.max():.2g} %)"

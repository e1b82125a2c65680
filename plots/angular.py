"""Angular distance between the streams at two depths: theory above the diagonal, measurement below it."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from plots import captions, style
from plots.figures import Figures
from plots.results import Result

FIGURES = {"angular": "angular distance between the streams at two depths"}
NEEDS = ("depth", "angular_distance_predicted")


def draw(result: Result) -> Figures:
    return Figures((f"angular-{name}", partial(_heatmaps, result, i)) for i, name in enumerate(result["input"]))


def _heatmaps(result: Result, i: int) -> style.Page:
    predicted = result["angular_distance_predicted"][i]
    measured = result["angular_distance_measured"][i] if result.measured else predicted
    looks, depth = style.looks(result["placement"]), result["depth"]
    rows, columns = style.multiples(len(looks))
    side = min(2.4, (style.PAGE - 1.4) / columns)
    height = side + 0.27 + 0.35 / rows
    figure, grid = style.panels(rows, columns, height, columns * side + 1.4, "compressed", sharex=True, sharey=True)
    panels = [axes for row in grid for axes in row][: len(looks)]
    both = np.where(depth[:, None] >= depth[None, :], predicted, measured)  # rows run upwards
    highest = np.max(both, initial=0.0, where=np.isfinite(both)) or 0.5
    for axes, look, values in zip(panels, looks, both, strict=True):
        image = axes.imshow(values, origin="lower", cmap="viridis", vmin=0.0, vmax=highest, aspect="equal",
                            extent=(depth[0] - 0.5, depth[-1] + 0.5) * 2, interpolation="nearest")  # fmt: skip
        axes.set_title(look.label)
        axes.set_facecolor("0.85")
        axes.grid(False)
        axes.spines[["top", "right"]].set_visible(True)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    if result.measured:
        _name(panels[0], 0.04, 0.96, "theory", "left", "top")
        _name(panels[0], 0.96, 0.04, "simulation", "right", "bottom")
    bar = figure.colorbar(image, ax=panels, fraction=0.05, pad=0.02)
    bar.set_label("Angular distance")
    bar.outline.set_linewidth(0.6)
    style.label_outer(grid, len(looks), "Sublayers passed", "Sublayers passed")
    return style.finish(figure, [], caption(result, i))


def _name(axes: Axes, x: float, y: float, words: str, ha: str, va: str) -> None:
    outline = [withStroke(linewidth=1.8, foreground="white")]
    axes.text(x, y, words, transform=axes.transAxes, fontsize=6.5, ha=ha, va=va, path_effects=outline)


def caption(result: Result, i: int) -> str:
    words = style.title(style.INPUTS[result["input"][i]])
    words += ": arccos(cosine)/π of the stream at two depths, mean over tokens. "
    if result.measured:
        below = f"mean of {result.seeds_in_words}" if result.seeds > 1 else "one seed"
        words += f"Above the diagonal: theory. Below: {below}. "
    else:
        words += "Theory alone. "
    if not np.isfinite(result["angular_distance_predicted"][i]).all():
        words += "Grey: no finite value. "
    return words + captions.setting(result)

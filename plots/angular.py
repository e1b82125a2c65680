"""Angular distance between the streams at two depths: theory above the diagonal, measurement below it."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from . import captions, style
from .dataset import array, coordinates, is_measured, on, seeds, seeds_text
from .makers import inputs, kind


@kind("angular", "angular distance between the streams at two depths",
      coordinates("depth") | on("input placement depth other_depth", "angular_distance_predicted"), inputs)  # fmt: skip
def angular(ds: xr.Dataset, i: int) -> style.Page:
    predicted = array(ds, "angular_distance_predicted")[i]
    measured = array(ds, "angular_distance_measured")[i] if is_measured(ds) else predicted
    styles, depth = captions.styles(ds), array(ds, "depth")
    rows, columns = style.multiples(len(styles))
    side = min(2.4, (style.PAGE - 1.4) / columns)
    figure, panels = style.small_multiples(
        len(styles), side + 0.27 + 0.35 / rows, "Sublayers passed", "Sublayers passed", width=columns * side + 1.4,
        compress=True, sharex=True, sharey=True)  # fmt: skip
    both = np.where(depth[:, None] >= depth[None, :], predicted, measured)  # row index increases upwards
    image = heatmaps(panels, both, depth)
    for axes, curve_style in zip(panels, styles, strict=True):
        axes.set_title(curve_style.label)
    if is_measured(ds):
        _name(panels[0], 0.04, 0.96, "theory", "left", "top")
        _name(panels[0], 0.96, 0.04, "simulation", "right", "bottom")
    colourbar(figure, image, panels)
    words = style.title(style.INPUTS[array(ds, "input")[i]])
    words += ". Angular distance: arccos(cosine)/π of the stream at two depths, mean over tokens. "
    if is_measured(ds):
        measurement = f"mean of {seeds_text(ds)}" if seeds(ds) > 1 else "one seed"
        words += f"Above the diagonal: theory. Below: measurement, {measurement}. "
    else:
        words += "Theory only. "
    if not np.isfinite(predicted).all():
        words += "Grey: no finite value. "
    return style.finish(figure, [], words + captions.settings_text(ds))


def heatmaps(panels: Sequence[Axes], values: Sequence[np.ndarray] | np.ndarray, depth: np.ndarray) -> AxesImage:
    """Draws matrices of distances between two depths, one per panel, with a common colour scale."""
    highest = np.max(values, initial=0.0, where=np.isfinite(values)) or 0.5
    for axes, shown in zip(panels, values, strict=True):
        image = axes.imshow(shown, origin="lower", cmap="viridis", vmin=0.0, vmax=highest,
                            extent=(depth[0] - 0.5, depth[-1] + 0.5) * 2, interpolation="nearest")  # fmt: skip
        axes.set_facecolor("0.85")
        axes.grid(False)
        axes.spines[["top", "right"]].set_visible(True)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4, integer=True))
    return image


def colourbar(figure: style.Page, image: AxesImage, panels: list[Axes]) -> None:
    bar = figure.colorbar(image, ax=panels, fraction=0.05, pad=0.02)
    bar.set_label("Angular distance (half turns)")
    bar.outline.set_linewidth(0.6)


def _name(axes: Axes, x: float, y: float, words: str, ha: str, va: str) -> None:
    outline = [withStroke(linewidth=1.8, foreground="white")]
    axes.text(x, y, words, transform=axes.transAxes, fontsize=6.5, ha=ha, va=va, path_effects=outline)

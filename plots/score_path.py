"""The score path: its share of attention's gradient, and a theory of gradients that leaves it out (T9)."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, curves, scales, stream, style
from .dataset import array, coordinates, on, seeds_in_words
from .makers import Makers

WITHOUT = "log_grad_sq_without_scores_predicted"
FIGURES = {"score-share": "share of queries and keys in attention's gradient",
           "score-path": "gradients, and a theory without queries and keys"}  # fmt: skip
NEEDS = (
    coordinates("layer depth")
    | on("case depth", WITHOUT)
    | on("case layer", "score_share_predicted", "score_share_measured")
)
CONTROL: dict[str, Any] = {"color": "0.45", "linestyle": (0, (2, 1.5)), "linewidth": 1.1}


def draw(ds: xr.Dataset) -> Makers:
    return {"score-share": partial(_shares, ds), "score-path": partial(_gradients, ds)}


def _shares(ds: xr.Dataset) -> style.Page:
    looks, layer = captions.looks(ds), array(ds, "layer")
    figure, ((axes,),) = style.panels(1, 1, 2.8, style.page(1))
    for p, look in enumerate(looks):
        curves.draw(axes, look, layer, curves.select(ds, "score_share", (p,)), slice(None))
    axes.set(xlabel="Layer (from 0)", ylabel="Share of the score path\nin attention's gradient", ylim=(0, 1))
    scales.whole_numbers(axes, 6)
    words = "S/(S+V): S is the squared gradient that reaches attention's input through queries and keys, V that "
    words += "through values. " + reading(ds)
    return style.finish(figure, curves.both(looks), words)


def _gradients(ds: xr.Dataset) -> style.Page:
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
    return style.finish(figure, keys, words + reading(ds))


def reading(ds: xr.Dataset) -> str:
    words = "Lines: theory; bands, where wider than the line, ± 2 standard errors of the prediction. Markers: mean of "
    return f"{words}{seeds_in_words(ds)}, ± 2 standard errors. {captions.setting(ds)}"

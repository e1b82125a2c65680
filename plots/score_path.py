"""The score path: its share of attention's gradient, and a theory of gradients that leaves it out (T9)."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plots import captions, curves, style
from plots.figures import Figures
from plots.results import Result

WITHOUT = "log_grad_sq_without_scores_predicted"
FIGURES = {"score-share": "share of queries and keys in attention's gradient",
           "score-path": "gradients, and a theory without queries and keys"}  # fmt: skip
NEEDS = ("layer", "depth", "score_share_predicted", "score_share_measured", WITHOUT)
CONTROL: dict[str, Any] = {"color": "0.45", "linestyle": (0, (2, 1.5)), "linewidth": 1.1}


def draw(result: Result) -> Figures:
    return Figures((("score-share", partial(_shares, result)), ("score-path", partial(_gradients, result))))


def _shares(result: Result) -> style.Page:
    looks, layer = style.looks(result["placement"]), result["layer"]
    figure, ((axes,),) = style.panels(1, 1, 2.8, style.page(1))
    for p, look in enumerate(looks):
        curves.draw(axes, look, layer, curves.case(result, "score_share", p), slice(None))
    axes.set(xlabel="Layer (from 0)", ylabel="Share of the score path\nin attention's gradient", ylim=(0, 1))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    words = "S/(S+V): S is the squared gradient that reaches attention's input through queries and keys, V that "
    words += "through values. " + reading(result)
    return style.finish(figure, [style.key(look, True) for look in looks], words)


def _gradients(result: Result) -> style.Page:
    depth = result["depth"]

    def panel(axes: Axes, p: int, look: style.Look) -> None:
        curve = curves.norms({k: v / 2 for k, v in curves.case(result, "log_grad_sq", p).items()})
        curves.draw(axes, look, depth, curve, slice(None, None, 2))
        without = np.exp(result[WITHOUT][p] / 2)
        axes.plot(depth, without, **CONTROL)
        curves.log_scale([axes], [curve, {"predicted": without}])
        axes.set_title(f"{look.label}\nwhole theory: {result['verdict'][p]}\n"
                       f"without score path: {result['without_scores_verdict'][p]}", fontsize=7)  # fmt: skip

    figure = curves.per_placement(result, panel, 1.9, r"$\|\partial\,\mathrm{loss}/\partial x\|$")
    keys = [style.key(look, True) for look in style.looks(result["placement"])]
    keys.append(Line2D([], [], **CONTROL, label="without the score path"))
    words = "Gradient of the hidden state, rms over tokens, geometric means over seeds. Titles: the verdicts on "
    words += "theory, once whole, and once without what comes through queries and keys (dashed). "
    return style.finish(figure, keys, words + reading(result))


def reading(result: Result) -> str:
    words = "Lines: theory; bands, where wider than the line, ± 2 standard errors of the prediction. Markers: mean of "
    return f"{words}{result.seeds_in_words}, ± 2 standard errors. {captions.setting(result)}"

"""Wrong theories and the right one: how far each is from the limit at which it is rejected."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots import style
from plots.results import Result

NEEDS = ("theory", "configuration", "power_excess", "power_critical", "theory_is_true", "theory_rejected")
WRONG, TRUE = "#D55E00", "#009E73"
LEAST = 0.05  # a theory that is not a standard error beyond its allowance is drawn here


def margins(result: Result) -> np.ndarray:
    """Excess over the limit: above 1 a theory is rejected, by this factor. NaN where nothing was judged."""
    return result["power_excess"] / result["power_critical"]


def draw(result: Result) -> Iterator[tuple[str, Figure]]:
    margin = margins(result)
    order = sorted(range(len(margin)), key=lambda i: (result["theory_is_true"][i], result["configuration"][i]))
    figure, ((axes,),) = style.panels(1, 1, 0.8 + 0.19 * len(order), style.PAGE)
    for row, i in enumerate(order):
        colour = TRUE if result["theory_is_true"][i] else WRONG
        x = max(margin[i], LEAST) if np.isfinite(margin[i]) else LEAST
        rejected = bool(result["theory_rejected"][i])
        axes.plot([LEAST, x], [row, row], color=colour, linewidth=0.9, alpha=0.5)
        axes.plot([x], [row], marker="o", color=colour, markersize=4.5, markerfacecolor=colour if rejected else "white",
                  markeredgecolor=colour, markeredgewidth=1.0)  # fmt: skip
        words = result["by"][i] or "not judged"
        axes.annotate(words, (x, row), (5, 0), textcoords="offset points", va="center", fontsize=5.5, color=style.INK)
    axes.axvline(1.0, color=style.INK, linewidth=0.8)
    axes.set_yticks(range(len(order)), [f"{result['theory'][i]} ({result['configuration'][i]})" for i in order])
    axes.set(xscale="log", ylim=(len(order) - 0.4, -0.6), xlabel="Excess over the limit of rejection")
    axes.set_xlim(LEAST, 8 * max(10.0, np.nanmax(margin)))
    axes.grid(axis="y", visible=False)
    keys = [Line2D([], [], marker="o", linestyle="", color=c, label=words, markerfacecolor=f, markeredgecolor=c, ms=4.5)
            for c, f, words in ((WRONG, WRONG, "wrong theory, rejected"),
                                (WRONG, "white", "wrong theory, not rejected"),
                                (TRUE, "white", "right theory, not rejected"))]  # fmt: skip
    yield "wrong-theories", style.finish(figure, keys, caption(result))


def caption(result: Result) -> str:
    version, commit = result.attributes["version"], result.attributes["commit"]
    return (
        "Each theory against the configuration in brackets: standard errors beyond the allowance of the cell or "
        "contrast that says it most clearly (beside the point), over the number at which it is rejected (line). Wrong "
        "theories are told to one stack at a time, with the familywise error of the whole run. Theories within their "
        f"allowance are drawn at {LEAST:g}. Periscope {version}, commit {commit}."
    )

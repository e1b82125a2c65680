"""Wrong theories and the right one: how far each is from the limit at which it is rejected."""

from collections.abc import Iterator

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import StrMethodFormatter

from plots import style
from plots.results import Result

FIGURES = {"wrong-theories": "how clearly each wrong theory is rejected"}
NEEDS = ("theory", "configuration", "power_excess", "power_critical", "power_verdict", "theory_is_true",
         "theory_rejected")  # fmt: skip
WRONG, TRUE = "#D55E00", "#009E73"
LEAST = 0.05  # a theory that is not a standard error beyond its allowance is drawn here
MOST = 100.0  # and one that is rejected by far more than the limit here, with its number: it may be any, or infinite


def margins(result: Result) -> np.ndarray:
    """Excess over the limit: above 1 a theory is rejected, by this factor. NaN where nothing was judged."""
    return result["power_excess"] / result["power_critical"]


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    margin = margins(result)
    order = sorted(range(len(margin)), key=lambda i: (result["theory_is_true"][i], result["configuration"][i]))
    shown = np.clip(np.nan_to_num(margin, nan=LEAST, posinf=MOST), LEAST, MOST)
    figure, ((axes,),) = style.panels(1, 1, 0.8 + 0.19 * len(order), style.PAGE)
    for row, i in enumerate(order):
        colour = TRUE if result["theory_is_true"][i] else WRONG
        axes.plot([LEAST, shown[i]], [row, row], color=colour, linewidth=0.9, alpha=0.5)
        axes.plot([shown[i]], [row], marker=">" if margin[i] > MOST else "o", color=colour, markersize=4.5,
                  markerfacecolor=colour if result["theory_rejected"][i] else "white", markeredgecolor=colour,
                  markeredgewidth=1.0, zorder=3)  # fmt: skip
        axes.text(1.02, row, clearest(result, i), transform=axes.get_yaxis_transform(), va="center", fontsize=5.5,
                  color=style.INK)  # fmt: skip
    axes.axvline(1.0, color=style.INK, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(order)), [f"{result['theory'][i]} ({result['configuration'][i]})" for i in order])
    axes.set(xscale="log", ylim=(len(order) - 0.4, -0.6), xlabel="Excess over the limit of rejection")
    axes.set_xlim(0.8 * LEAST, 1.4 * MOST)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.grid(axis="y", visible=False)
    keys = [Line2D([], [], marker="o", linestyle="", color=c, label=words, markerfacecolor=f, markeredgecolor=c, ms=4.5)
            for c, f, words in ((WRONG, WRONG, "wrong theory, rejected"),
                                (WRONG, "white", "wrong theory, not rejected"),
                                (TRUE, TRUE, "right theory, rejected"),
                                (TRUE, "white", "right theory, not rejected"))]  # fmt: skip
    if not any(result["theory_is_true"].astype(bool) & result["theory_rejected"].astype(bool)):
        del keys[2]  # what should not be is explained only where it is
    yield "wrong-theories", style.finish(figure, keys, caption(result))


def clearest(result: Result, i: int) -> str:
    """What says most clearly what a theory is worth: "pre text: …", with what the verdict was if it did not reject."""
    margin = margins(result)[i]
    words = result["by"][i] or "not judged"
    if margin > MOST:
        words += f" (×{margin:.0e})".replace("e+0", "e") if np.isfinite(margin) else " (×∞)"
    return words if result["theory_rejected"][i] else f"{words}: {result['power_verdict'][i]}"


def caption(result: Result) -> str:
    return (
        "Each theory against the configuration in brackets: standard errors beyond the allowance of the cell or "
        "contrast that says it most clearly (at the right), over the number at which it is rejected (line at 1). Wrong "
        "theories are told to one stack at a time, with the familywise error of the whole run. Theories within their "
        f"allowance are drawn at {LEAST:g}, those beyond {MOST:g} (triangles) there, with their number. "
        f"{result.version}"
    )

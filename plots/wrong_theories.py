"""Wrong theories and the correct one: the deviation of each, relative to the rejection limit."""

import numpy as np
import xarray as xr
from matplotlib.ticker import StrMethodFormatter

from . import style
from .dataset import array, on, version
from .makers import kind

WRONG, TRUE = "#D55E00", "#009E73"
LEAST = 0.05  # smaller ratios are drawn here
MOST = 100.0  # larger or infinite ratios are drawn here, with their value as text


def margins(ds: xr.Dataset) -> np.ndarray:
    """Returns each theory's deviation over the rejection limit (above 1: the theory is rejected); NaN if not judged."""
    return array(ds, "power_excess") / array(ds, "power_critical")


@kind("wrong-theories", "excess of each theory relative to the rejection limit",
      on("row", "theory", "configuration", "power_excess", "power_critical", "power_verdict", "theory_is_true",
         "theory_rejected"))  # fmt: skip
def wrong_theories(ds: xr.Dataset) -> style.Page:
    margin = margins(ds)
    order = sorted(range(len(margin)), key=lambda i: (array(ds, "theory_is_true")[i], array(ds, "configuration")[i]))
    shown = np.clip(np.nan_to_num(margin, nan=LEAST, posinf=MOST), LEAST, MOST)
    figure, ((axes,),) = style.panels(1, 1, 0.8 + 0.19 * len(order), style.PAGE)
    for row, i in enumerate(order):
        colour = TRUE if array(ds, "theory_is_true")[i] else WRONG
        axes.plot([LEAST, shown[i]], [row, row], color=colour, linewidth=0.9, alpha=0.5)
        axes.plot([shown[i]], [row], marker=">" if margin[i] > MOST else "o", color=colour, markersize=4.5,
                  markerfacecolor=colour if array(ds, "theory_rejected")[i] else "white", markeredgecolor=colour,
                  markeredgewidth=1.0, zorder=3)  # fmt: skip
        axes.text(1.02, row, worst_test(ds, i), transform=axes.get_yaxis_transform(), va="center", fontsize=5.5,
                  color=style.INK)  # fmt: skip
    axes.axvline(1.0, color=style.INK, linewidth=0.8, zorder=1)
    style.rows(axes, [f"{array(ds, 'theory')[i]} ({array(ds, 'configuration')[i]})" for i in order])
    axes.set(xscale="log", xlabel="Excess relative to the rejection limit")
    axes.set_xlim(0.8 * LEAST, 1.4 * MOST)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    keys = [style.entry(marker="o", linestyle="", color=c, label=words, markerfacecolor=f, markeredgecolor=c, ms=4.5)
            for c, f, words in ((WRONG, WRONG, "wrong theory, rejected"),
                                (WRONG, "white", "wrong theory, not rejected"),
                                (TRUE, TRUE, "correct theory, rejected"),
                                (TRUE, "white", "correct theory, not rejected"))]  # fmt: skip
    if not any(array(ds, "theory_is_true").astype(bool) & array(ds, "theory_rejected").astype(bool)):
        del keys[2]  # no marker has this style
    words = (
        "Each theory's most significant test (named on the right) with the configuration in brackets: deviation beyond "
        "the tolerated bias, in standard errors, over the critical value (line at 1) for the familywise error of the "
        f"whole run. Smaller ratios are drawn at {LEAST:g}, larger ones (triangles) at {MOST:g} with their value. "
    )
    return style.finish(figure, keys, words + version(ds))


def worst_test(ds: xr.Dataset, i: int) -> str:
    """Returns the most significant test, "pre text: …", and the verdict if it is not a rejection."""
    margin = margins(ds)[i]
    words = array(ds, "power_worst_test")[i] or "not judged"
    if margin > MOST:
        words += f" (×{margin:.0e})".replace("e+0", "e") if np.isfinite(margin) else " (×∞)"
    return words if array(ds, "theory_rejected")[i] else f"{words}: {array(ds, 'power_verdict')[i]}"

"""Every tested claim of the paper as one number that it says is positive, in units of what would have been found."""

import textwrap
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from plots import groups, style
from plots.figures import Figures
from plots.results import Result

NEEDS = ("claim", "claim_exhibit", "claim_statement", "claim_verdict", "claim_mean", "claim_stderr", "claim_p",
         "claim_detectable")  # fmt: skip
MARKERS = {"holds": "o", "fails": "X", "not-shown": "s"}
DECIDED = 0.5  # claim_detectable is twice the mean at which a one-sided test decides
LEAST = 2.0  # the axis reaches that far on either side


def draw(result: Result) -> Figures:
    shown = [c for c, verdict in enumerate(result["claim_verdict"]) if verdict in MARKERS]
    return Figures([("claims", partial(_figure, result, shown))] if shown else [])


def _figure(result: Result, shown: list[int]) -> Figure:
    figure, ((axes,),) = style.panels(1, 1, 0.7 + 0.215 * len(shown), style.PAGE)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, error = (result[n] / result["claim_detectable"] for n in ("claim_mean", "claim_stderr"))
    axes.axvspan(-DECIDED, DECIDED, color="0.93", zorder=0)
    axes.axvline(0, color=style.INK, linewidth=0.7, zorder=1)
    axes.axvline(1, color=style.INK, linewidth=0.7, linestyle=":", zorder=1)
    for row, c in enumerate(shown):
        verdict = str(result["claim_verdict"][c])
        colour = groups.VERDICTS[verdict]
        axes.errorbar(mean[c], row, xerr=error[c], color=colour, marker=MARKERS[verdict], markersize=4.5, linestyle="",
                      elinewidth=0.9, zorder=3)  # fmt: skip
        axes.text(1.02, row, number(result, c), transform=axes.get_yaxis_transform(), va="center", fontsize=6,
                  color=colour)  # fmt: skip
        if not np.isfinite(mean[c]):
            axes.text(0, row, "no test", ha="center", va="center", fontsize=6, color=style.INK)
    sizes = np.abs(mean[shown])
    far = 1.3 * max(LEAST, np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
    axes.set_xscale("symlog", linthresh=1.0, linscale=1.2)
    ticks = [t for t in (0.5, 1, 2, 5, 20, 100, 1000) if t <= far]
    axes.xaxis.set_major_locator(FixedLocator([-t for t in ticks[::-1]] + [0] + ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_yticks(range(len(shown)), [name(result, c) for c in shown], fontsize=6)
    axes.set(xlim=(-far, far), ylim=(len(shown) - 0.4, -0.6),
             xlabel="Mean over seeds / mean that would be found with 95 % probability")  # fmt: skip
    axes.grid(axis="y", visible=False)
    keys = [Line2D([], [], color=colour, marker=MARKERS[verdict], markersize=5, linestyle="",
                   label=f"{groups.SPELT.get(verdict, verdict)} ({count(result, verdict)})")
            for verdict, colour in groups.VERDICTS.items()]  # fmt: skip
    return style.finish(figure, keys, caption(result))


def name(result: Result, c: int) -> str:
    return "\n".join(textwrap.wrap(f"{result['claim'][c]} {result['claim_statement'][c]}", 62))


def number(result: Result, c: int) -> str:
    """The mean and its standard error in their own units, and p."""
    chance = groups.chance(result["claim_p"][c])
    return f"{result['claim_mean'][c]:.3g} ± {result['claim_stderr'][c]:.2g}, {chance}"


def count(result: Result, verdict: str) -> int:
    return int((result["claim_verdict"] == verdict).sum())


def caption(result: Result) -> str:
    words = (
        f"Each claim is one number that it says is positive, over {result.seeds_in_words} (twins): mean ± one standard "
        "error, at the right in its own units with the p of a one-sided t test. Grey: not decided at 5 %, one way or "
        "the other; right of it a claim holds, left of it its opposite does. At 1 (dotted): the true mean that these "
        "seeds would have shown with 95 % probability. Tested one by one, without correction for their number. "
    )
    missing = [str(c) for c in result["claim"][result["claim_verdict"] == "not-run"]]
    words += f"Not run: {', '.join(missing)}. " if missing else ""
    return words + groups.run(result, rate=False)

"""Every tested claim of the paper as one number that it says is positive: how sure the runs are of its sign, in one
result of `reproduce` or, a column for each regime, in several."""

import textwrap
from typing import Any

import numpy as np
import xarray as xr

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds_in_words, version
from .makers import kind

MARKERS = {"holds": "o", "fails": "X", "not-shown": "s"}
LEVEL = 0.05  # of a claim's test, on each side, and of all claims' together
LEAST = 0.001  # the axis reaches to that p on either side
SMALLEST = 1e-12  # what is smaller is drawn there


def side(p: np.ndarray) -> np.ndarray:
    """Decades of p below 1/2, to the right; of 1 - p, to the left: 0 where neither sign is likelier than the other."""
    with np.errstate(invalid="ignore"):
        right, left = (np.log10(0.5 / np.maximum(chance, SMALLEST)) for chance in (p, 1 - p))
        return np.where(p <= 0.5, right, -left)


def tested(ds: xr.Dataset) -> dict[str, tuple[list[int]]]:
    shown = [c for c, verdict in enumerate(array(ds, "claim_verdict")) if verdict in MARKERS]
    return {"": (shown,)} if shown else {}


@kind("claims", "every tested claim of the paper",
      coordinates("claim")
      | on("claim", *(f"claim_{v}" for v in "exhibit statement verdict mean stderr p holm detectable".split())),
      tested)  # fmt: skip
def claims(ds: xr.Dataset, shown: list[int]) -> style.Page:
    figure, ((axes,),) = style.panels(1, 1, 0.7 + 0.3 * len(shown), style.PAGE)
    place = side(array(ds, "claim_p"))
    decided = float(side(np.array(LEVEL)))
    axes.axvspan(-decided, decided, color="0.93", zorder=0)
    axes.axvline(0, color=style.INK, linewidth=0.7, zorder=1)
    for row, c in enumerate(shown):
        verdict = str(array(ds, "claim_verdict")[c])
        colour = groups.VERDICTS[verdict]
        axes.plot(place[c], row, **mark(verdict, together(ds, c)), markeredgewidth=0.9, zorder=3)
        axes.text(1.02, row, number(ds, c), transform=axes.get_yaxis_transform(), va="center", fontsize=5.5,
                  color=colour)  # fmt: skip
        if not np.isfinite(place[c]):
            axes.text(0, row, "no test", ha="center", va="center", fontsize=6, color=style.INK,
                      bbox={"facecolor": "0.93", "edgecolor": "none", "pad": 1})
    finite = np.abs(place[shown])[np.isfinite(place[shown])]
    far = 1.08 * max(side(np.array(LEAST)), np.max(finite, initial=0.0))
    decades = (p for p in (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12) if side(np.array(p)) <= far)
    ticks = scales.apart([LEVEL, *decades], side, 0.25 * far)  # that the axis names on each side
    right = side(np.array(ticks))
    labels = [f"{p:g}" for p in ticks]
    axes.set_xticks([*-right[::-1], *right], [*labels[::-1], *labels])
    style.rows(axes, [name(ds, c) for c in shown], fontsize=6)
    axes.set(xlim=(-far, far), xlabel="p of the opposite ←    0.5    → p of the claim (both logarithmic)")
    counts = {verdict: (array(ds, "claim_verdict") == verdict).sum() for verdict in groups.VERDICTS}
    keys = [style.entry(**mark(verdict), label=f"{groups.SPELT.get(verdict, verdict)} ({n})")
            for verdict, n in counts.items()]  # fmt: skip
    keys += [style.entry(color=style.INK, marker="o", markersize=5, linestyle="", markeredgecolor=style.INK,
                    markerfacecolor=colour, markeredgewidth=0.9, label=words)
             for colour, words in ((style.INK, "filled: decided with all claims allowed for"),
                                   ("white", "hollow: decided alone, if at all"))]  # fmt: skip
    return style.finish(figure, keys, caption(ds))


def mark(verdict: str, is_filled: bool = True) -> dict[str, Any]:
    colour = groups.VERDICTS[verdict]
    return {"color": colour, "marker": MARKERS[verdict], "markersize": 5.0, "linestyle": "",
            "markeredgecolor": colour, "markerfacecolor": colour if is_filled else "white"}  # fmt: skip


def together(ds: xr.Dataset, c: int) -> bool:
    """Whether the claim is decided when the number of all that were tested is allowed for."""
    return bool(array(ds, "claim_holm")[c] <= LEVEL)


def name(ds: xr.Dataset, c: int, width: int = 66) -> str:
    return "\n".join(textwrap.wrap(f"{array(ds, 'claim')[c]} {array(ds, 'claim_statement')[c]}", width))


def mean(ds: xr.Dataset, c: int) -> str:
    value, error = array(ds, "claim_mean")[c], array(ds, "claim_stderr")[c]
    return f"{value:.3g} ± {error:.2g}" if np.isfinite(value) else "no value"


def number(ds: xr.Dataset, c: int) -> str:
    """The mean and its standard error in their own units, both p, and the detectable error."""
    found = array(ds, "claim_detectable")[c]
    found = f" [{found:.2g}]" if np.isfinite(found) else ""
    return f"{mean(ds, c)}{found}\n{groups.chances(ds, c)}"


def caption(ds: xr.Dataset) -> str:
    tests = int(np.isfinite(array(ds, "claim_p")).sum())
    words = (
        f"Each claim says that one number is positive, over {seeds_in_words(ds)}; at the right its mean ± one standard "
        "error, in brackets the smallest true mean that the test detects with 95 % probability. Grey: undecided by "
        "one-sided tests at 5 %; right of it a claim holds, left of it its opposite. Of "
        f"{tests} tested claims up to {2 * LEVEL * tests:.1f} would be decided by chance if every number were 0; "
        "filled: decided for all claims together (Holm's p at most 5 %, both sides, the second p at the right). "
    )
    for verdict, spelt in (("not-testable-here", "Not testable here"), ("not-run", "Not run")):
        missing = [str(c) for c in array(ds, "claim")[array(ds, "claim_verdict") == verdict]]
        words += f"{spelt}: {', '.join(missing)}. " if missing else ""
    return words + groups.run(ds, rate=False)


NOT_RUN = ("", "not-run")  # in a result, or at all


def ran(ds: xr.Dataset) -> dict[str, tuple[list[int]]]:
    ran = ~np.isin(array(ds, "claim_verdict"), NOT_RUN)
    rows = np.flatnonzero(ran.any(axis=0)).tolist()
    return {"": (rows,)} if rows else {}


@kind("claims-together", "every tested claim of the paper, in several regimes (--together)",
      coordinates("claim") | on("result", "regime") | on("claim", "claim_statement")
      | on("result claim", *(f"claim_{v}" for v in "verdict mean stderr p holm".split())), ran)  # fmt: skip
def claims_together(ds: xr.Dataset, rows: list[int]) -> style.Page:
    figure, ((axes,),) = style.panels(1, 1, 0.8 + 0.3 * len(rows), style.PAGE)
    results = array(ds, "result")
    for k in range(len(results)):
        one = ds.isel(result=k)
        for row, c in enumerate(rows):
            verdict = str(array(one, "claim_verdict")[c])
            colour = groups.VERDICTS.get(verdict, style.INK)
            if verdict in MARKERS:
                axes.plot(k + 0.06, row, **mark(verdict, together(one, c)), markeredgewidth=0.9)
            axes.text(k + 0.12, row, words(one, c), va="center", fontsize=5.5, color=colour)
    axes.set_xticks(np.arange(len(results)) + 0.5, ["\n".join(textwrap.wrap(str(name), 30)) for name in results])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    style.rows(axes, [name(ds, c, 58) for c in rows], fontsize=6)
    axes.set_xlim(0, len(results))
    axes.grid(visible=False)
    keys = [style.entry(**mark(verdict), label=groups.SPELT.get(verdict, verdict))
            for verdict in groups.VERDICTS]  # fmt: skip
    regimes = "; ".join(f"{name}: {regime}" for name, regime in zip(results, array(ds, "regime"), strict=True))
    caption = (
        f"Each claim says that one number is positive: mean ± one standard error over {seeds_in_words(ds)}, p of a "
        "one-sided test, and Holm's p of all claims of that result; filled: at most 5 %. "
        f"Regimes: {regimes}. {version(ds)}"
    )
    return style.finish(figure, keys, caption)


def words(ds: xr.Dataset, c: int) -> str:
    """ "6.83 ± 0.09, p < 0.001, of all 0.005", or why there is no test."""
    verdict = str(array(ds, "claim_verdict")[c])
    if verdict in NOT_RUN:
        return "not run"
    return f"{mean(ds, c)}\n{groups.chances(ds, c) if verdict in MARKERS else 'not testable here'}"

"""The tested claims of the Peri-LN paper, with p-values of one result of `reproduce`, or of several regimes."""

import textwrap
from typing import Any

import numpy as np
import xarray as xr

from . import groups, scales, style
from .dataset import array, coordinates, on, seeds_text, version
from .makers import kind

MARKERS = {"holds": "o", "fails": "X", "not-shown": "s"}
LEVEL = 0.05  # significance level of a claim's one-sided test, and of Holm's test of all claims
LEAST = 0.001  # the axis covers at least this p on both sides
SMALLEST = 1e-12  # smaller p are drawn here


def side(p: np.ndarray) -> np.ndarray:
    """Returns positions on the axis: decades of p below 1/2 to the right, decades of 1 - p below 1/2 to the left."""
    with np.errstate(invalid="ignore"):
        right, left = (np.log10(0.5 / np.maximum(value, SMALLEST)) for value in (p, 1 - p))
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
        axes.plot(place[c], row, **mark(verdict, is_decided_by_holm(ds, c)), markeredgewidth=0.9, zorder=3)
        axes.text(1.02, row, number(ds, c), transform=axes.get_yaxis_transform(), va="center", fontsize=5.5,
                  color=colour)  # fmt: skip
        if not np.isfinite(place[c]):
            axes.text(0, row, "no test", ha="center", va="center", fontsize=6, color=style.INK,
                      bbox={"facecolor": "0.93", "edgecolor": "none", "pad": 1})
    finite = np.abs(place[shown])[np.isfinite(place[shown])]
    far = 1.08 * max(side(np.array(LEAST)), np.max(finite, initial=0.0))
    decades = (p for p in (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12) if side(np.array(p)) <= far)
    ticks = scales.spaced([LEVEL, *decades], side, 0.25 * far)
    right = side(np.array(ticks))
    labels = [f"{p:g}" for p in ticks]
    axes.set_xticks([*-right[::-1], *right], [*labels[::-1], *labels])
    style.rows(axes, [name(ds, c) for c in shown], fontsize=6)
    axes.set(xlim=(-far, far), xlabel="p of the opposite ←    0.5    → p of the claim (logarithmic)")
    counts = {verdict: (array(ds, "claim_verdict") == verdict).sum() for verdict in groups.VERDICTS}
    keys = [style.entry(**mark(verdict), label=f"{groups.TITLES.get(verdict, verdict)} ({n})")
            for verdict, n in counts.items()]  # fmt: skip
    keys += [style.entry(color=style.INK, marker="o", markersize=5, linestyle="", markeredgecolor=style.INK,
                    markerfacecolor=colour, markeredgewidth=0.9, label=words)
             for colour, words in ((style.INK, "filled: decided with Holm's correction"),
                                   ("white", "hollow: not decided with it"))]  # fmt: skip
    return style.finish(figure, keys, caption(ds))


def mark(verdict: str, is_filled: bool = True) -> dict[str, Any]:
    colour = groups.VERDICTS[verdict]
    return {"color": colour, "marker": MARKERS[verdict], "markersize": 5.0, "linestyle": "",
            "markeredgecolor": colour, "markerfacecolor": colour if is_filled else "white"}  # fmt: skip


def is_decided_by_holm(ds: xr.Dataset, c: int) -> bool:
    """Returns whether the claim is decided with Holm's correction for the number of tested claims."""
    return bool(array(ds, "claim_holm")[c] <= LEVEL)


def name(ds: xr.Dataset, c: int, width: int = 66) -> str:
    return "\n".join(textwrap.wrap(f"{array(ds, 'claim')[c]} {array(ds, 'claim_statement')[c]}", width))


def mean(ds: xr.Dataset, c: int) -> str:
    value, error = array(ds, "claim_mean")[c], array(ds, "claim_stderr")[c]
    return f"{value:.3g} ± {error:.2g}" if np.isfinite(value) else "no value"


def number(ds: xr.Dataset, c: int) -> str:
    """Returns the mean, its standard error, the detectable error and both p-values as text."""
    detectable = array(ds, "claim_detectable")[c]
    text = f" [{detectable:.2g}]" if np.isfinite(detectable) else ""
    return f"{mean(ds, c)}{text}\n{groups.p_values(ds, c)}"


def caption(ds: xr.Dataset) -> str:
    tests = int(np.isfinite(array(ds, "claim_p")).sum())
    words = (
        f"Each claim states that a number is positive, tested with {seeds_text(ds)}. On the right: its mean ± one "
        "standard error and, in brackets, the smallest true mean that the test detects with 95 % probability. Grey: "
        "undecided by one-sided tests at 5 %; to the right the claim holds, to the left its opposite. If all numbers "
        f"were 0, up to {2 * LEVEL * tests:.1f} of {tests} tested claims would be decided by chance. Filled: decided "
        "with Holm's correction for all claims (two-sided p at most 5 %; the second p on the right). "
    )
    for verdict, title in (("not-testable-here", "Not testable here"), ("not-run", "Not run")):
        missing = [str(c) for c in array(ds, "claim")[array(ds, "claim_verdict") == verdict]]
        words += f"{title}: {', '.join(missing)}. " if missing else ""
    return words + groups.run(ds, rate=False)


NOT_RUN = ("", "not-run")  # verdicts of claims missing in one result, or not run


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
                axes.plot(k + 0.06, row, **mark(verdict, is_decided_by_holm(one, c)), markeredgewidth=0.9)
            axes.text(k + 0.12, row, cell_text(one, c), va="center", fontsize=5.5, color=colour)
    axes.set_xticks(np.arange(len(results)) + 0.5, ["\n".join(textwrap.wrap(str(name), 30)) for name in results])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    style.rows(axes, [name(ds, c, 58) for c in rows], fontsize=6)
    axes.set_xlim(0, len(results))
    axes.grid(visible=False)
    keys = [style.entry(**mark(verdict), label=groups.TITLES.get(verdict, verdict))
            for verdict in groups.VERDICTS]  # fmt: skip
    regimes = "; ".join(f"{name}: {regime}" for name, regime in zip(results, array(ds, "regime"), strict=True))
    caption = (
        f"Each claim states that a number is positive: mean ± one standard error over {seeds_text(ds)}, p of a "
        "one-sided test, and p with Holm's correction for all claims of the result; filled: the latter is at most 5 %. "
        f"Regimes: {regimes}. {version(ds)}"
    )
    return style.finish(figure, keys, caption)


def cell_text(ds: xr.Dataset, c: int) -> str:
    """Returns the mean and p-values of a claim, or the reason why there is no test."""
    verdict = str(array(ds, "claim_verdict")[c])
    if verdict in NOT_RUN:
        return "not run"
    return f"{mean(ds, c)}\n{groups.p_values(ds, c) if verdict in MARKERS else 'not testable here'}"

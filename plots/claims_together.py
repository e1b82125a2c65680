"""Claims of the paper in several results of `reproduce`: a column for each regime."""

import textwrap
from functools import partial

import numpy as np
import xarray as xr

from . import claims, groups, style
from .dataset import array, coordinates, on, seeds_in_words, version
from .makers import Makers

FIGURES = {"claims-together": "every tested claim of the paper, in several regimes (--together)"}
NEEDS = (
    coordinates("claim")
    | on("result", "regime")
    | on("claim", "claim_statement")
    | on("result claim", "claim_verdict", "claim_mean", "claim_stderr", "claim_p", "claim_holm")
)
NOT_RUN = ("", "not-run")  # in a result, or at all


def draw(ds: xr.Dataset) -> Makers:
    ran = ~np.isin(array(ds, "claim_verdict"), NOT_RUN)
    rows = np.flatnonzero(ran.any(axis=0)).tolist()
    return {"claims-together": partial(_figure, ds, rows)} if rows else {}


def _figure(ds: xr.Dataset, rows: list[int]) -> style.Page:
    figure, ((axes,),) = style.panels(1, 1, 0.8 + 0.3 * len(rows), style.PAGE)
    results = array(ds, "result")
    for k in range(len(results)):
        one = ds.isel(result=k)
        for row, c in enumerate(rows):
            verdict = str(array(one, "claim_verdict")[c])
            colour = groups.VERDICTS.get(verdict, style.INK)
            if verdict in claims.MARKERS:
                axes.plot(k + 0.06, row, **claims.mark(verdict, claims.together(one, c)), markeredgewidth=0.9)
            axes.text(k + 0.12, row, words(one, c), va="center", fontsize=5.5, color=colour)
    axes.set_xticks(np.arange(len(results)) + 0.5, ["\n".join(textwrap.wrap(str(name), 30)) for name in results])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_yticks(range(len(rows)), [claims.name(ds, c, 58) for c in rows], fontsize=6)
    axes.set(xlim=(0, len(results)), ylim=(len(rows) - 0.4, -0.6))
    axes.grid(visible=False)
    keys = [style.entry(**claims.mark(verdict), label=groups.SPELT.get(verdict, verdict))
            for verdict in groups.VERDICTS]  # fmt: skip
    regimes = "; ".join(f"{name}: {regime}" for name, regime in zip(results, array(ds, "regime"), strict=True))
    caption = (
        f"Each claim is one number that it says is positive: mean ± one standard error over {seeds_in_words(ds)} "
        "(twins), p of a one-sided test, and Holm's p of all claims of that result; filled: at most 5 %. "
        f"Regimes: {regimes}. {version(ds)}"
    )
    return style.finish(figure, keys, caption)


def words(ds: xr.Dataset, c: int) -> str:
    """ "6.83 ± 0.09, p < 0.001, of all 0.005", or why there is no test."""
    verdict = str(array(ds, "claim_verdict")[c])
    if verdict in NOT_RUN:
        return "not run"
    return f"{claims.mean(ds, c)}\n{groups.chances(ds, c) if verdict in claims.MARKERS else 'not testable here'}"

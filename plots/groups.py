"""What figures of `train` and `reproduce` share: which groups, records and claims they show, and how they say so."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from . import captions, makers, scales, style
from .dataset import array, config, fact_if_any, on, seeds, seeds_in_words

MAIN, TWO = ("post", "pre", "peri"), ("pre", "peri")
VERDICTS = {"holds": "#0072B2", "fails": "#D55E00", "not-shown": "#6E6E6E"}  # others are in captions only
SPELT = {"fails": "fails, its opposite shows", "not-shown": "not shown"}
OPTIMIZERS = {"adamw": "AdamW", "sgd": "SGD"}
HEAD = 9.0  # points per line above the panels


def rows(ds: xr.Dataset, study: str = "base", placements: Iterable[str] | None = None) -> list[int]:
    """The groups of a study, in the order of the file; with `placements` those of them, in that order."""
    of_study = [g for g, s in enumerate(array(ds, "study")) if s == study]
    if placements is None:
        return of_study
    return [g for p in placements for g in of_study if array(ds, "placement")[g] == p]


def kind(
    name: str, words: str, needs: makers.Needs, shown: Sequence[str] | Callable[[xr.Dataset], Sequence[Any]]
) -> Callable[[Callable[[xr.Dataset, Any], style.Page]], makers.Kind]:
    """Makes a kind of figures of `reproduce` of the function that draws what is `shown`, if anything is: groups of
    these placements, or what a function finds."""

    def cases(ds: xr.Dataset) -> dict[str, tuple[Any]]:
        found = shown(ds) if callable(shown) else rows(ds, placements=shown)
        return {"": (found,)} if found else {}

    return makers.kind(name, words, needs | on("claim", "claim_exhibit"), cases)


def looks(ds: xr.Dataset, shown: Sequence[int]) -> list[style.Look]:
    return style.looks([array(ds, "placement")[g] for g in shown])


def label(ds: xr.Dataset, g: int) -> str:
    """ "Peri-LN, output gains frozen" """
    placement = array(ds, "placement")[g]
    return style.looks([placement])[0].label + str(array(ds, "group")[g]).removeprefix(placement)


def records(ds: xr.Dataset, shares: Sequence[float]) -> list[int]:
    """The records nearest to these shares of the last one's step, each once."""
    step = array(ds, "record")
    return list(dict.fromkeys(int(np.argmin(np.abs(step - share * step[-1]))) for share in shares))


def bars(mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Returns the lower and upper ends of bars of two standard errors of the mean logarithm."""
    return np.array([mean * np.exp(-2 * error), mean * np.exp(2 * error)])


def measured(axes: Axes, look: style.Look, x: np.ndarray, mean: np.ndarray, error: np.ndarray, **other: Any) -> None:
    """A geometric mean over seeds as markers; bars of two standard errors of the mean logarithm, up and down."""
    style.points(axes, look, x, mean, np.abs(bars(mean, error) - mean), **{"zorder": 2.5} | other)


def predicted(axes: Axes, colour: str, ds: xr.Dataset, x: np.ndarray, name: str, g: int) -> None:
    """A group's prediction as a line, with a band of two standard errors where the result has these."""
    theory = array(ds, f"{name}_predicted")[g]
    axes.plot(x, theory, color=colour, linewidth=1.3)
    if f"{name}_predicted_stderr" in ds:
        margin = 2 * array(ds, f"{name}_predicted_stderr")[g]
        axes.fill_between(x, theory - margin, theory + margin, color=colour, alpha=0.25, lw=0)


def step_axis(axes: Axes, last: float) -> None:
    """Steps from 0 on, on a scale of square roots: early records stand apart, and late ones keep most of the width."""
    axes.set_xscale("function", functions=(scales.root, scales.square))
    axes.set_xlim(-0.0004 * last, 1.05 * last)
    round_steps = sorted({k * 10.0**d for d in range(9) for k in (1, 2, 5) if k * 10.0**d <= last})
    ticks = scales.apart([0.0, *round_steps], scales.root, 0.15 * last**0.5)
    axes.set_xticks(ticks, [f"{step:g}" for step in ticks])
    axes.set_xlabel("Steps done (scale of roots)")


def chance(p: float) -> str:
    """ "p = 0.012" """
    if not np.isfinite(p):
        return "no test"
    return "p < 0.001" if p < 0.0005 else "p > 0.999" if p > 0.9995 else f"p = {p:.3f}"


def chances(ds: xr.Dataset, c: int) -> str:
    """A claim's p, and Holm's over all claims: "p = 0.012, of all 0.31"."""
    alone, holm = chance(array(ds, "claim_p")[c]), array(ds, "claim_holm")[c]
    if not np.isfinite(holm):
        return alone
    return f"{alone}, of all {'< 0.001' if holm < 0.0005 else f'{holm:.2g}'}"


def verdicts(ds: xr.Dataset, exhibits: Iterable[str]) -> list[tuple[str, str, str]]:
    """Of the tested claims of these exhibits, or of these names: verdict, and "F4a holds (p = 0.001, of all 0.03)", and
    the statement."""
    named = np.isin(array(ds, "claim_exhibit"), list(exhibits)) | np.isin(array(ds, "claim"), list(exhibits))
    wanted = named & np.isin(array(ds, "claim_verdict"), list(VERDICTS))
    lines = []
    for c in np.flatnonzero(wanted).tolist():
        verdict = str(array(ds, "claim_verdict")[c])
        words = f"{array(ds, 'claim')[c]} {SPELT.get(verdict, verdict)} ({chances(ds, c)})"
        lines.append((verdict, words, str(array(ds, "claim_statement")[c])))
    return lines


def claims_above(figure: style.Page) -> None:
    """Writes the verdicts on the paper's claims above the panels of their figure (--claims)."""
    width, height = figure.get_size_inches()
    lines = [(verdict, line) for verdict, claim, statement in figure.claims
             for line in textwrap.wrap(f"{claim}: {statement}", int(18 * width), subsequent_indent="    ",
                                       break_on_hyphens=False)]  # fmt: skip
    if not lines:
        return
    figure.set_size_inches(width, height + HEAD * len(lines) / 72)
    figure.suptitle("\n".join("·" for _ in lines), fontsize=7, alpha=0.0, linespacing=HEAD / 7)  # keeps their place
    for i, (verdict, line) in enumerate(lines):
        down = ScaledTranslation(0, -(4 + HEAD * i) / 72, figure.dpi_scale_trans)
        figure.text(0.02, 1.0, line, color=VERDICTS[verdict], fontsize=7, va="top",
                    transform=figure.transFigure + down)  # fmt: skip
    figure.caption = f"Claims: one-sided tests over seeds, and Holm's p of all that were tested. {figure.caption}"


def diverged(ds: xr.Dataset, shown: Sequence[int]) -> str:
    """Which of the groups lost runs, whose later records no mean has."""
    lost = {label(ds, g): int(np.isfinite(array(ds, "diverged_at")[g]).sum()) for g in shown}
    words = [f"{name} ({n} of {seeds(ds)} seeds)" for name, n in lost.items() if n]
    return f"Diverged: {', '.join(words)}; means are of the seeds that have the record. " if words else ""


def run(ds: xr.Dataset, rate: bool = True) -> str:
    """How it was trained: the sentence before captions.setting(result)."""
    train = config(ds)["train"]
    profile = "Short profile (--quick): " if fact_if_any(ds, "quick") == 1 else ""
    regime = fact_if_any(ds, "regime") or (  # of `reproduce`: where its claims were tested
        f"rate {train['lr']:g}, {train['steps']} steps of {train['batch']} sequences, "
        f"corpus {PurePath(train['corpus']).name}")  # fmt: skip
    settings = [part for part in str(regime).split(", ") if rate or not part.startswith("rate ")]
    optimizer = OPTIMIZERS.get(train["optimizer"], train["optimizer"])
    parts = [profile + optimizer, *settings, seeds_in_words(ds), config(ds)["run"]["dtype"]]
    return f"{', '.join(parts)}. {captions.setting(ds)}"


def finish(
    figure: style.Page, ds: xr.Dataset, keys: Sequence[Artist], words: str, exhibits: Sequence[str],
    shown: Sequence[int], rate: bool = True,
) -> style.Page:  # fmt: skip
    """The frame of every figure of `reproduce`: its claims, legend, caption with what is drawn and what was run."""
    figure.claims = verdicts(ds, exhibits)
    return style.finish(figure, keys, f"{words} {diverged(ds, shown)}{run(ds, rate)}")

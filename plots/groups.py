"""Shared functions of figures of `train` and `reproduce`: selection of groups, records and claims, and captions."""

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
from .dataset import array, config, on, scalar_or_none, seeds, seeds_text

MAIN, TWO = ("post", "pre", "peri"), ("pre", "peri")
VERDICTS = {"holds": "#0072B2", "fails": "#D55E00", "not-shown": "#6E6E6E"}  # other verdicts are only in captions
TITLES = {"fails": "fails, its opposite holds", "not-shown": "undecided"}
OPTIMIZERS = {"adamw": "AdamW", "sgd": "SGD"}
HEAD = 9.0  # points per line above the panels


def rows(ds: xr.Dataset, study: str = "base", placements: Iterable[str] | None = None) -> list[int]:
    """Returns the groups of a study in file order, or only those of `placements`, in the order of `placements`."""
    of_study = [g for g, s in enumerate(array(ds, "study")) if s == study]
    if placements is None:
        return of_study
    return [g for p in placements for g in of_study if array(ds, "placement")[g] == p]


def kind(
    name: str, description: str, required: makers.RequiredVariables,
    shown: Sequence[str] | Callable[[xr.Dataset], Sequence[Any]],
) -> Callable[[Callable[[xr.Dataset, Any], style.Page]], makers.Kind]:  # fmt: skip
    """Decorator that makes a kind of figures of `reproduce` from a drawing function, which receives the groups of the
    placements `shown`, or the value returned by the function `shown`. If this is empty, nothing is drawn."""

    def cases(ds: xr.Dataset) -> dict[str, tuple[Any]]:
        found = shown(ds) if callable(shown) else rows(ds, placements=shown)
        return {"": (found,)} if found else {}

    return makers.kind(name, description, required | on("claim", "claim_exhibit"), cases)


def styles(ds: xr.Dataset, shown: Sequence[int]) -> list[style.Style]:
    return style.styles([array(ds, "placement")[g] for g in shown])


def label(ds: xr.Dataset, g: int) -> str:
    """Returns a group's title, such as "Peri-LN, output gains frozen"."""
    placement = array(ds, "placement")[g]
    return style.styles([placement])[0].label + str(array(ds, "group")[g]).removeprefix(placement)


def records(ds: xr.Dataset, shares: Sequence[float]) -> list[int]:
    """Returns the records nearest to these fractions of the last record's step, without duplicates."""
    step = array(ds, "record")
    return list(dict.fromkeys(int(np.argmin(np.abs(step - share * step[-1]))) for share in shares))


def bars(mean: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Returns the lower and upper ends of error bars: ± 2 standard errors of the mean logarithm."""
    return np.array([mean * np.exp(-2 * error), mean * np.exp(2 * error)])


def measured(
    axes: Axes, curve_style: style.Style, x: np.ndarray, mean: np.ndarray, error: np.ndarray, **other: Any
) -> None:
    """Draws geometric means over seeds as markers with bars of ± 2 standard errors of the mean logarithm."""
    style.points(axes, curve_style, x, mean, np.abs(bars(mean, error) - mean), **{"zorder": 2.5} | other)


def predicted(axes: Axes, colour: str, ds: xr.Dataset, x: np.ndarray, name: str, g: int) -> None:
    """Draws a group's prediction as a line, with a band of ± 2 standard errors if available."""
    theory = array(ds, f"{name}_predicted")[g]
    axes.plot(x, theory, color=colour, linewidth=1.3)
    if f"{name}_predicted_stderr" in ds:
        margin = 2 * array(ds, f"{name}_predicted_stderr")[g]
        axes.fill_between(x, theory - margin, theory + margin, color=colour, alpha=0.25, lw=0)


def step_axis(axes: Axes, last: float) -> None:
    """Sets up an x axis of steps from 0 with a square-root scale, which separates early records."""
    axes.set_xscale("function", functions=(scales.signed_sqrt, scales.signed_square))
    axes.set_xlim(-0.0004 * last, 1.05 * last)
    round_steps = sorted({k * 10.0**d for d in range(9) for k in (1, 2, 5) if k * 10.0**d <= last})
    ticks = scales.spaced([0.0, *round_steps], scales.signed_sqrt, 0.15 * last**0.5)
    axes.set_xticks(ticks, [f"{step:g}" for step in ticks])
    axes.set_xlabel("Steps done (square-root scale)")


def p_text(p: float) -> str:
    """Returns text such as "p = 0.012"."""
    if not np.isfinite(p):
        return "no test"
    return "p < 0.001" if p < 0.0005 else "p > 0.999" if p > 0.9995 else f"p = {p:.3f}"


def p_values(ds: xr.Dataset, c: int) -> str:
    """Returns a claim's p-values without and with Holm's correction, such as "p = 0.012, Holm 0.31"."""
    single, holm = p_text(array(ds, "claim_p")[c]), array(ds, "claim_holm")[c]
    if not np.isfinite(holm):
        return single
    return f"{single}, Holm {'< 0.001' if holm < 0.0005 else f'{holm:.2g}'}"


def verdicts(ds: xr.Dataset, exhibits: Iterable[str]) -> list[tuple[str, str, str]]:
    """Returns verdict, text ("F4a holds (p = 0.001, Holm 0.03)") and statement of each tested claim of `exhibits`."""
    named = np.isin(array(ds, "claim_exhibit"), list(exhibits)) | np.isin(array(ds, "claim"), list(exhibits))
    wanted = named & np.isin(array(ds, "claim_verdict"), list(VERDICTS))
    lines = []
    for c in np.flatnonzero(wanted).tolist():
        verdict = str(array(ds, "claim_verdict")[c])
        words = f"{array(ds, 'claim')[c]} {TITLES.get(verdict, verdict)} ({p_values(ds, c)})"
        lines.append((verdict, words, str(array(ds, "claim_statement")[c])))
    return lines


def claims_above(figure: style.Page) -> None:
    """Writes the verdicts on a figure's claims above its panels (--claims)."""
    width, height = figure.get_size_inches()
    lines = [(verdict, line) for verdict, claim, statement in figure.claims
             for line in textwrap.wrap(f"{claim}: {statement}", int(18 * width), subsequent_indent="    ",
                                       break_on_hyphens=False)]  # fmt: skip
    if not lines:
        return
    figure.set_size_inches(width, height + HEAD * len(lines) / 72)
    # An invisible title reserves the space.
    figure.suptitle("\n".join("·" for _ in lines), fontsize=7, alpha=0.0, linespacing=HEAD / 7)
    for i, (verdict, line) in enumerate(lines):
        down = ScaledTranslation(0, -(4 + HEAD * i) / 72, figure.dpi_scale_trans)
        figure.text(0.02, 1.0, line, color=VERDICTS[verdict], fontsize=7, va="top",
                    transform=figure.transFigure + down)  # fmt: skip
    figure.caption = f"Claims: one-sided tests over seeds, without and with Holm's correction. {figure.caption}"


def diverged(ds: xr.Dataset, shown: Sequence[int]) -> str:
    """Returns a sentence about the groups with diverged runs, or ""."""
    counts = {label(ds, g): int(np.isfinite(array(ds, "diverged_at")[g]).sum()) for g in shown}
    words = [f"{name} ({n} of {seeds(ds)} seeds)" for name, n in counts.items() if n]
    return f"Diverged: {', '.join(words)}; means exclude a seed from its divergence on. " if words else ""


def run(ds: xr.Dataset, rate: bool = True) -> str:
    """Returns the sentence about the training, followed by captions.settings_text."""
    train = config(ds)["train"]
    profile = "Short profile (--quick): " if scalar_or_none(ds, "quick") == 1 else ""
    regime = scalar_or_none(ds, "regime") or (  # stored by `reproduce`
        f"rate {' and '.join(f'{lr:g}' for lr in np.atleast_1d(train['lr']))}, "
        f"{train['steps']} steps of {train['batch']} sequences, "
        f"corpus {PurePath(train['corpus']).name}")  # fmt: skip
    settings = [part for part in str(regime).split(", ") if rate or not part.startswith("rate ")]
    optimizer = OPTIMIZERS.get(train["optimizer"], train["optimizer"])
    parts = [profile + optimizer, *settings, seeds_text(ds), config(ds)["run"]["dtype"]]
    return f"{', '.join(parts)}. {captions.settings_text(ds)}"


def finish(
    figure: style.Page, ds: xr.Dataset, keys: Sequence[Artist], words: str, exhibits: Sequence[str],
    shown: Sequence[int], rate: bool = True,
) -> style.Page:  # fmt: skip
    """Adds claims, legend and caption to a figure of `reproduce`."""
    figure.claims = verdicts(ds, exhibits)
    return style.finish(figure, keys, f"{words} {diverged(ds, shown)}{run(ds, rate)}")

"""Stacks side by side: variance at the top, gradient ratio, largest entry with the limits of formats, bits lost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from . import captions, curves, scales, style
from .dataset import array, is_measured, on, seeds_text
from .makers import inputs, kind

FORMATS = ("fp8_e4m3", "fp16")  # limits shown in the panel of largest entries
RING: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 8.5, "markerfacecolor": "none",
                        "markeredgecolor": style.INK, "markeredgewidth": 0.8}  # fmt: skip
FEW = 30.0  # ratio of the ends of an axis with plain numbers as ticks
MOST = 64  # stacks that fit on a page of 40 cm


def at_top(ds: xr.Dataset, version: str, i: int) -> np.ndarray:
    """Returns the variance of every stack after its last sublayer; NaN if it overflows there."""
    predicted, values = (array(ds, f"variance_{v}")[i] for v in ("predicted", version))
    complete = np.isfinite(np.where(np.isfinite(predicted).any(-1, keepdims=True), predicted, values))
    return np.array([row[np.flatnonzero(known)[-1]] if known.any() else np.nan
                     for row, known in zip(values, complete, strict=True)])  # fmt: skip


def scalars(name: str) -> Callable[[xr.Dataset, str, int], np.ndarray]:
    return lambda ds, version, i: array(ds, f"{name}_{version}")[i]


PANELS = {
    "Variance at the top": (at_top, "log"),
    "Gradient norm,\ninput over top": (scalars("gradient_ratio"), "log"),
    "Largest entry": (scalars("largest"), "log"),
    "Bits lost": (scalars("bits_lost"), "linear"),
}


@kind("comparison", "stacks side by side: variance, gradient ratio, largest entry and bits lost",
      on("input placement", "largest_predicted", "bits_lost_predicted", "gradient_ratio_predicted")
      | on("input placement depth", "variance_predicted"),
      lambda ds: inputs(ds) if 2 <= ds.sizes["placement"] <= MOST else {})  # fmt: skip
def comparison(ds: xr.Dataset, i: int) -> style.Page:
    styles = captions.styles(ds)
    versions = ("predicted", "measured") if is_measured(ds) else ("predicted",)
    values = {title: {v: read(ds, v, i) for v in versions} for title, (read, _) in PANELS.items()}
    every = {title: np.concatenate(list(found.values())) for title, found in values.items()}
    shown = [title for title, found in every.items() if np.isfinite(found).any()] or list(PANELS)
    rows = range(len(styles))
    figure, (panels,) = style.panels(1, len(shown), 1.0 + 0.22 * len(styles), style.page(len(shown)))
    for axes, title in zip(panels, shown, strict=True):
        for version, of_stacks in values[title].items():
            for row, value in zip(rows, of_stacks, strict=True):
                axes.plot([value], [row], **(styles[row].marks if version == "predicted" else RING))
        axes.set(title=title, xscale=PANELS[title][1])
        if PANELS[title][1] == "log":
            axes.xaxis.set_major_locator(LogLocator(numticks=4))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(0.0, 1.1 * np.max(every[title], initial=1.0, where=np.isfinite(every[title])))
        axes.margins(x=0.12)
        style.rows(axes, [s.label for s in styles] if axes is panels[0] else [""] * len(styles))
        if title == "Largest entry":
            limits(axes, ds, i)
        low, high = axes.get_xlim()
        if PANELS[title][1] == "log" and high / low < FEW:
            scales.plain_log_ticks(axes.xaxis, low, high, 3)
        if not np.isfinite(every[title]).any():
            scales.note_no_finite_value(axes)
    keys = [style.entry(color=style.INK, marker="o", linestyle="", label="theory")]
    if is_measured(ds):
        keys.append(style.entry(label="measured", **RING))
    return style.finish(figure, keys, caption(ds, i))


def limits(axes: Axes, ds: xr.Dataset, i: int) -> None:
    """Draws the largest numbers of formats as vertical lines."""
    largest, margin = array(ds, "largest_predicted")[i], array(ds, "format_margin_predicted")[i]
    known = np.isfinite(largest)
    for name in FORMATS if known.any() else ():
        limit = (margin[:, list(array(ds, "format")).index(name)] * largest)[known][0]
        axes.axvline(limit, color="#B00000", linewidth=0.8)
        axes.annotate(style.format_name(name), (limit, 1.0), (-1.5, -2), xycoords=("data", "axes fraction"),
                      textcoords="offset points", fontsize=5.5, color="#B00000", ha="right", va="top",
                      rotation=90)  # fmt: skip


def caption(ds: xr.Dataset, i: int) -> str:
    words = (
        f"{curves.input_title(ds, i)}. Variance: of the stream over features, mean over tokens. Gradient norm: of the "
        "loss's gradient with respect to the stream, rms over tokens. Largest entry: of the stream at any depth and of "
        "sums before norm C, over all tokens and features; lines: largest numbers of formats. Bits lost: log₂ of the "
        "rms of αx over that of βb, largest over sublayers; their sum keeps the precision of the larger term. x: "
        "stream, b: branch, α, β: scales of the placement."
    )
    if is_measured(ds):
        words += f" Measured: means of {seeds_text(ds)} (gradients: geometric)."
    return f"{words} {captions.settings_text(ds)}"

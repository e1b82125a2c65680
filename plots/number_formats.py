"""Number formats (claim C5): signal-to-quantisation-noise ratios over depth, the variance law, and massive features."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.lines import Line2D

from . import captions, scales, style
from .dataset import array, config, coordinates, on
from .makers import kind

NEEDS = (
    coordinates("format features site")
    | on("stack format features site place", "sqnr", "sqnr_stderr", "second_moment_drift")
    | on("stack format features", "overflow_seeds")
)
MARKERS = 13  # along one curve


def by_input(ds: xr.Dataset) -> dict[str, tuple[list[int], str]]:
    """The stacks of every input, and its name."""
    every = list(map(str, array(ds, "input")))
    return {name: ([i for i, other in enumerate(every) if other == name], name) for name in every}


def by_site(ds: xr.Dataset, site: str) -> dict[str, tuple[list[int], str, str]]:
    """The stacks of every input, its name and the site, if that is there."""
    return {name: (*found, site) for name, found in by_input(ds).items() if site in array(ds, "site")}


def formats_of(ds: xr.Dataset) -> list[int]:
    """Positions of the formats, without the run in f64 that they are compared with."""
    return [i for i, name in enumerate(array(ds, "format")) if name != "fp64"]


def _markers(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, MARKERS)).round().astype(int))


def _noise(ds: xr.Dataset, stacks: list[int], name: str, site: str) -> style.Page:
    """One panel per format: the SQNR of the stream, or of its gradient, at every depth."""
    formats = formats_of(ds)
    looks = [captions.looks(ds)[i] for i in stacks]
    place = list(array(ds, "site")).index(site)
    predicted = site == "x_out" and "stream_sqnr_predicted" in ds
    figure, panels = style.small_multiples(len(formats), 1.6, "Sublayers passed", "SQNR (dB)", align=True)
    overflowed = False
    for axes, f in zip(panels, formats, strict=False):
        for i, look in zip(stacks, looks, strict=True):
            # The last place is behind the stack, the first one its input, which was rounded once.
            values, error = (array(ds, name)[i, f, 0, place, 1:-1] for name in ("sqnr", "sqnr_stderr"))
            depth = np.arange(1, len(values) + 1)
            if predicted:
                curve = array(ds, "stream_sqnr_predicted")[i, f, 0, 1:]
                axes.plot(depth, curve, **look.line, linewidth=1.2)
            at = _markers(len(values))
            style.points(axes, look, depth[at], values[at], 2 * error[at], markersize=0.8 * look.size)
            prefix = "grad_overflow" if site.startswith("grad") else "overflow"
            if array(ds, f"{prefix}_seeds")[i, f, 0] > 0:
                overflowed = True
                axes.axvline(array(ds, f"{prefix}_sublayer")[i, f, 0] + 1, **look.line, linewidth=0.8)
        shown = array(ds, "sqnr")[stacks][:, f, 0, place, :-1]
        axes.set_title(style.format_name(array(ds, "format")[f]))
        if not np.isfinite(shown).any():
            scales.nothing_finite(axes)
    keys = [style.key(look, True) if predicted else _marker(look) for look in looks]
    what = "the residual stream" if site == "x_out" else "the gradient of the residual stream"
    words = f"Signal-to-quantisation-noise ratio of {what} against the same pass in FP64, {style.INPUTS[name]}; "
    words += f"markers: mean over {config(ds)['run']['seeds']} seeds, bars ± 2 standard errors (mostly hidden). "
    if predicted:
        words += (
            "Lines: predicted from the pass in FP64, to first order, exact where the loss reads the stream; "
            "below, too low where gradients are not isotropic. None for FP32, whose sums it leaves out. "
        )
    if overflowed:
        words += "Vertical lines: the first overflow. "
    return style.finish(figure, keys, words + _held(ds) + captions.setting(ds))


noise = kind("noise", "signal-to-quantisation-noise ratio over depth", NEEDS, lambda ds: by_site(ds, "x_out"))(_noise)
gradient_noise = kind("gradient-noise", "signal-to-quantisation-noise ratio of gradients over depth", NEEDS,
                      lambda ds: by_site(ds, "grad x_out"))(_noise)  # fmt: skip


def _marker(look: style.Look) -> Line2D:
    return style.entry(**look.marks, label=look.label)


def _held(ds: xr.Dataset) -> str:
    own = config(ds)["formats"]
    covers = ", ".join(own["covers"]) or "all tensors, in 8 bits or fewer what matrices read and their weights"
    return f"Held in the format: {covers}; the rest in {style.format_name(own['rest'])}; sums in {own['accumulate']}. "


@kind("law", "second moments in number formats", NEEDS | on("stack depth", "second_moment_predicted"), by_input)
def law(ds: xr.Dataset, stacks: list[int], name: str) -> style.Page:
    """The stream's mean square: in FP64 over theory, then one panel per format, over that in FP64."""
    formats = list(range(len(array(ds, "format"))))
    looks = [captions.looks(ds)[i] for i in stacks]
    site = list(array(ds, "site")).index("x_out")
    figure, panels = style.small_multiples(len(formats), 1.7, "Sublayers passed", "Ratio − 1", align=True)
    for axes, f in zip(panels, formats, strict=False):
        exact = array(ds, "format")[f] == "fp64"
        for rank, (i, look) in enumerate(zip(stacks, looks, strict=True)):
            theory, band = array(ds, "second_moment_predicted")[i], 2 * array(ds, "second_moment_predicted_stderr")[i]
            depth = np.arange(len(theory))
            if exact:
                axes.fill_between(depth, -band / theory, band / theory, color=look.colour, alpha=0.2, linewidth=0)
                values = array(ds, "second_moment")[i, f, 0, site, :-1] / theory - 1
                bars = 2 * array(ds, "second_moment_stderr")[i, f, 0, site, :-1] / theory
            else:
                values = array(ds, "second_moment_drift")[i, f, 0, site, :-1]
                bars = 2 * array(ds, "second_moment_drift_stderr")[i, f, 0, site, :-1]
            at = _markers(len(theory))
            shift = 0.012 * len(theory) * (rank - 0.5 * (len(stacks) - 1))
            style.points(axes, look, depth[at] + shift, values[at], bars[at], markersize=0.7 * look.size)
        axes.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
        verdicts = [str(array(ds, "verdict" if exact else "drift_verdict")[i, f]) for i in stacks]
        words = verdicts[0] if len(set(verdicts)) == 1 else textwrap.fill(", ".join(verdicts), 22)
        over = "FP64 over theory" if exact else f"{style.format_name(array(ds, 'format')[f])} over FP64"
        axes.set_title(f"{over}\n{words}", fontsize=6.5)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        axes.yaxis.get_offset_text().set_fontsize(6)
    keys = [*map(_marker, looks), style.patch(color=style.INK, alpha=0.2, linewidth=0, label="theory ± 2 s.e.")]
    order = ", ".join(look.label for look in looks)
    words = ("Mean square of the residual stream: in FP64 over its prediction at this width, in a "
             f"format over that of the same seeds in FP64; {style.INPUTS[name]}, mean over "
             f"{config(ds)['run']['seeds']} seeds, bars ± 2 standard errors, markers shifted sideways. "
             f"Under the titles: the verdicts, {order}; one rounding of the stream is allowed for. ")  # fmt: skip
    return style.finish(figure, keys, words + _held(ds) + captions.setting(ds))


@kind("massive", "what massive features of the input cost in number formats",
      NEEDS | on("stack format", "massive_branch_cost"), by_input)  # fmt: skip
def massive(ds: xr.Dataset, stacks: list[int], name: str) -> style.Page:
    """How many decibels massive features cost the modules' outputs and the stream."""
    formats = formats_of(ds)
    looks = [captions.looks(ds)[i] for i in stacks]
    figure, (row,) = style.panels(1, 2, 2.2, style.PAGE)
    for axes, place, words in zip(row, ("branch", "stream"), ("Modules' outputs", "Residual stream"), strict=True):
        for rank, (i, look) in enumerate(zip(stacks, looks, strict=True)):
            shift = 0.22 * (rank - 0.5 * (len(stacks) - 1))
            loss = array(ds, f"massive_{place}_cost")[i, formats]
            bars = 2 * array(ds, f"massive_{place}_cost_stderr")[i, formats]
            style.points(axes, look, np.arange(len(formats)) + shift, loss, bars)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        names = [style.format_name(name) for name in array(ds, "format")[formats]]
        axes.set_xticks(range(len(formats)), names, rotation=25, ha="right")
        axes.set(title=words, ylabel="SQNR lost (dB)")
    own = config(ds)["formats"]
    words = (f"What {own['massive_features']} feature(s) of the input, {own['massive']:g} times as large, cost in "
             f"signal-to-quantisation-noise ratio: plain minus massive, seed by seed, {style.INPUTS[name]}; bars ± 2 "
             "standard errors. Left: mean over sublayers; right: behind the last one. ")  # fmt: skip
    return style.finish(figure, [_marker(look) for look in looks], words + _held(ds) + captions.setting(ds))

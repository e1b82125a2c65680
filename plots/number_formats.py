"""Number formats (claim C5): signal-to-quantization-noise ratios over depth, the variance law, and massive features."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.lines import Line2D

from . import captions, scales, style
from .dataset import array, config, coordinates, on, version
from .makers import kind

REQUIRED = (
    coordinates("format features site")
    | on("stack format features site place", "sqnr", "sqnr_stderr", "second_moment_drift")
    | on("stack format features", "overflow_seeds")
)
THRESHOLD = 10 * np.log10(3)  # dB
MARKERS = 13  # maximum number of markers per curve


def by_input(ds: xr.Dataset) -> dict[str, tuple[list[int], str]]:
    """Maps the name of each input to its stacks and the name itself."""
    every = list(map(str, array(ds, "input")))
    return {name: ([i for i, other in enumerate(every) if other == name], name) for name in every}


def by_site(ds: xr.Dataset, site: str) -> dict[str, tuple[list[int], str, str]]:
    """Maps the name of each input to its stacks, the name and `site`; empty if the result lacks the site."""
    return {name: (*found, site) for name, found in by_input(ds).items() if site in array(ds, "site")}


def formats_of(ds: xr.Dataset) -> list[int]:
    """Returns the indices of the formats, without the reference run in f64."""
    return [i for i, name in enumerate(array(ds, "format")) if name != "fp64"]


def _markers(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, MARKERS)).round().astype(int))


def _noise(ds: xr.Dataset, stacks: list[int], name: str, site: str) -> style.Page:
    """Draws one panel per format with the SQNR of the stream, or of its gradient, over depth."""
    formats = formats_of(ds)
    styles = [captions.styles(ds)[i] for i in stacks]
    place = list(array(ds, "site")).index(site)
    predicted = site == "x_out" and "stream_sqnr_predicted" in ds
    figure, panels = style.small_multiples(len(formats), 1.6, "Sublayers passed", "SQNR (dB)", align=True)
    overflowed = False
    for axes, f in zip(panels, formats, strict=False):
        for i, curve_style in zip(stacks, styles, strict=True):
            # Omits the first place (the input, which is rounded once) and the last place (after the stack).
            values, error = (array(ds, name)[i, f, 0, place, 1:-1] for name in ("sqnr", "sqnr_stderr"))
            depth = np.arange(1, len(values) + 1)
            if predicted:
                curve = array(ds, "stream_sqnr_predicted")[i, f, 0, 1:]
                axes.plot(depth, curve, **curve_style.line, linewidth=1.2)
            at = _markers(len(values))
            style.points(axes, curve_style, depth[at], values[at], 2 * error[at], markersize=0.8 * curve_style.size)
            prefix = "grad_overflow" if site.startswith("grad") else "overflow"
            if array(ds, f"{prefix}_seeds")[i, f, 0] > 0:
                overflowed = True
                axes.axvline(array(ds, f"{prefix}_sublayer")[i, f, 0] + 1, **curve_style.line, linewidth=0.8)
        shown = array(ds, "sqnr")[stacks][:, f, 0, place, :-1]
        axes.set_title(style.format_name(array(ds, "format")[f]))
        if not np.isfinite(shown).any():
            scales.note_no_finite_value(axes)
    keys = [style.key(s, True) if predicted else _marker(s) for s in styles]
    signal = "the residual stream" if site == "x_out" else "the gradient of the residual stream"
    words = f"Signal-to-quantization-noise ratio of {signal} relative to the same pass in FP64, {_passes(ds, name)}. "
    if predicted:
        words += (
            "Lines: first-order prediction from the pass in FP64, exact where the loss reads the stream, and too low "
            "further upstream if gradients are not isotropic. It omits rounding of sums, so FP32 has no prediction. "
        )
    if overflowed:
        words += "Vertical lines: first overflow. "
    return style.finish(figure, keys, words + _storage(ds) + _settings(ds))


noise = kind("noise", "signal-to-quantization-noise ratio over depth", REQUIRED,
             lambda ds: by_site(ds, "x_out"))(_noise)  # fmt: skip
gradient_noise = kind("gradient-noise", "signal-to-quantization-noise ratio of gradients over depth", REQUIRED,
                      lambda ds: by_site(ds, "grad x_out"))(_noise)  # fmt: skip


def _marker(curve_style: style.Style) -> Line2D:
    return style.entry(**curve_style.marks, label=curve_style.label)


def _passes(ds: xr.Dataset, name: str) -> str:
    """Describes the passes that the markers show."""
    if "checkpoint" in ds.attrs:
        return 'one pass on given tokens; "random": Gaussian weights with the root mean square of every given matrix'
    return f"{style.INPUTS[name]}; markers: mean over {config(ds)['run']['seeds']} seeds, bars ± 2 standard errors"


def _settings(ds: xr.Dataset) -> str:
    if "checkpoint" not in ds.attrs:
        return captions.settings_text(ds)
    stack = captions.stacks(ds)[0]
    sizes = (f"{stack[f'model.{key}']}" for key in ("layers", "width"))
    words = "{}: {} layers, width {}, {} tokens. ".format(array(ds, "placement")[0], *sizes, stack["input.tokens"])
    return words + version(ds)


def _storage(ds: xr.Dataset) -> str:
    own = config(ds)["formats"]
    covers = ", ".join(own["covers"]) or "all tensors (formats of 8 bits or fewer: only matrices and their inputs)"
    return f"Stored in the format: {covers}; others in {style.format_name(own['rest'])}; sums in {own['accumulate']}. "


@kind("products", "signal-to-quantization-noise ratio of every product with a matrix",
      coordinates("format matrix") | on("stack format features matrix layer", "product_sqnr", "product_sqnr_predicted"),
      lambda ds: {"": (0,)} if "checkpoint" in ds.attrs else {})  # fmt: skip
def products(ds: xr.Dataset, stack: int) -> style.Page:
    """Draws one panel per format: the SQNR of single products, measured and as predicted for Gaussian weights."""
    formats, names = formats_of(ds), [str(name) for name in array(ds, "matrix")]
    shown = [name for name in names if name in style.MATRICES and np.isfinite(_product(ds, stack, names, name)).any()]
    figure, panels = style.small_multiples(len(formats), 1.6, "Layer", "SQNR (dB)", align=True)
    for axes, f in zip(panels, formats, strict=False):
        for name in shown:
            matrix = style.Style(name, *style.MATRICES[name])
            predicted, measured = (_product(ds, stack, names, name, v)[f] for v in ("_predicted", ""))
            layer = np.arange(len(measured))
            axes.plot(layer, predicted, **matrix.line, linewidth=1.0)
            at = _markers(len(layer))
            style.points(axes, matrix, layer[at], measured[at], markersize=matrix.size - 1.5)
        axes.set_title(style.format_name(array(ds, "format")[f]))
    keys = [style.key(style.Style(f"W_{name}", *style.MATRICES[name]), True) for name in shown]
    words = ("Signal-to-quantization-noise ratio of single products x Wᵀ relative to FP64, with x the product's input "
             "in FP64. Markers: both factors rounded to the format; lines: predicted for a Gaussian W with the same "
             "root mean square. ")  # fmt: skip
    return style.finish(figure, keys, words + _storage(ds) + _settings(ds))


def _product(ds: xr.Dataset, stack: int, names: list[str], name: str, version: str = "") -> np.ndarray:
    """Returns the SQNR of a matrix's product by format and layer, with plain input."""
    return array(ds, f"product_sqnr{version}")[stack, :, 0, names.index(name)]


@kind("gradient-threshold", "gradient of every layer's matrices relative to its noise, and the threshold of learning",
      coordinates("format") | on("stack format features layer", "layer_gradient_sqnr", "layer_gradient_sqnr_stderr"),
      by_input)  # fmt: skip
def gradient_threshold(ds: xr.Dataset, stacks: list[int], name: str) -> style.Page:
    """Draws one panel per format with the SQNR of the gradients of every layer's matrices."""
    formats, styles = formats_of(ds), [captions.styles(ds)[i] for i in stacks]
    figure, panels = style.small_multiples(len(formats), 1.6, "Layer", "SQNR (dB)", align=True)
    for axes, f in zip(panels, formats, strict=False):
        for i, curve_style in zip(stacks, styles, strict=True):
            sqnr, error = (array(ds, f"layer_gradient_sqnr{v}")[i, f, 0] for v in ("", "_stderr"))
            at = _markers(len(sqnr))
            axes.plot(sqnr, color=curve_style.colour, linewidth=0.8)
            style.points(axes, curve_style, at, sqnr[at], 2 * error[at], markersize=0.8 * curve_style.size)
        axes.axhline(THRESHOLD, color=style.INK, linewidth=0.8, linestyle="--", zorder=1)
        axes.set_title(style.format_name(array(ds, "format")[f]))
    words = ("Signal-to-quantization-noise ratio of the loss's gradient with respect to all matrices of a layer, "
             f"relative to the same pass in FP64, {_passes(ds, name)}. Dashed: a gradient of √3 times its noise (4.8 "
             "dB), below which training in the format becomes less effective (arXiv 2505.19115). ")  # fmt: skip
    return style.finish(figure, [_marker(s) for s in styles], words + _storage(ds) + _settings(ds))


@kind("law", "second moments in number formats", REQUIRED | on("stack depth", "second_moment_predicted"), by_input)
def law(ds: xr.Dataset, stacks: list[int], name: str) -> style.Page:
    """Draws the stream's second moment: in FP64 relative to theory, and in each format relative to FP64."""
    formats = list(range(len(array(ds, "format"))))
    styles = [captions.styles(ds)[i] for i in stacks]
    site = list(array(ds, "site")).index("x_out")
    figure, panels = style.small_multiples(len(formats), 1.7, "Sublayers passed", "Ratio − 1", align=True)
    for axes, f in zip(panels, formats, strict=False):
        is_fp64 = array(ds, "format")[f] == "fp64"
        for rank, (i, curve_style) in enumerate(zip(stacks, styles, strict=True)):
            theory, band = array(ds, "second_moment_predicted")[i], 2 * array(ds, "second_moment_predicted_stderr")[i]
            depth = np.arange(len(theory))
            if is_fp64:
                band = band / theory
                axes.fill_between(depth, -band, band, color=curve_style.colour, alpha=0.2, linewidth=0)
                values = array(ds, "second_moment")[i, f, 0, site, :-1] / theory - 1
                bars = 2 * array(ds, "second_moment_stderr")[i, f, 0, site, :-1] / theory
            else:
                values = array(ds, "second_moment_drift")[i, f, 0, site, :-1]
                bars = 2 * array(ds, "second_moment_drift_stderr")[i, f, 0, site, :-1]
            at = _markers(len(theory))
            shift = 0.012 * len(theory) * (rank - 0.5 * (len(stacks) - 1))
            style.points(axes, curve_style, depth[at] + shift, values[at], bars[at], markersize=0.7 * curve_style.size)
        axes.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
        verdicts = [str(array(ds, "verdict" if is_fp64 else "drift_verdict")[i, f]) for i in stacks]
        words = verdicts[0] if len(set(verdicts)) == 1 else textwrap.fill(", ".join(verdicts), 22)
        over = "FP64 over theory" if is_fp64 else f"{style.format_name(array(ds, 'format')[f])} over FP64"
        axes.set_title(f"{over}\n{words}", fontsize=6.5)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        axes.yaxis.get_offset_text().set_fontsize(6)
    keys = [*map(_marker, styles), style.patch(color=style.INK, alpha=0.2, linewidth=0, label="theory ± 2 s.e.")]
    order = ", ".join(s.label for s in styles)
    words = ("Second moment of the residual stream: in FP64 over its prediction at this width, and in a format over "
             f"FP64 with the same seeds; {style.INPUTS[name]}, mean over {config(ds)['run']['seeds']} seeds, "
             "bars ± 2 standard errors, markers shifted horizontally. Second line of the titles: the verdicts "
             f"({order}), which tolerate one rounding of the stream. ")  # fmt: skip
    return style.finish(figure, keys, words + _storage(ds) + captions.settings_text(ds))


@kind("massive", "loss of SQNR due to massive features of the input",
      REQUIRED | on("stack format", "massive_branch_cost"), by_input)  # fmt: skip
def massive(ds: xr.Dataset, stacks: list[int], name: str) -> style.Page:
    """Draws the loss of SQNR due to massive features, in modules' outputs and in the stream."""
    formats = formats_of(ds)
    styles = [captions.styles(ds)[i] for i in stacks]
    figure, (row,) = style.panels(1, 2, 2.2, style.PAGE)
    for axes, place, words in zip(row, ("branch", "stream"), ("Modules' outputs", "Residual stream"), strict=True):
        for rank, (i, curve_style) in enumerate(zip(stacks, styles, strict=True)):
            shift = 0.22 * (rank - 0.5 * (len(stacks) - 1))
            loss = array(ds, f"massive_{place}_cost")[i, formats]
            bars = 2 * array(ds, f"massive_{place}_cost_stderr")[i, formats]
            style.points(axes, curve_style, np.arange(len(formats)) + shift, loss, bars)
        axes.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
        names = [style.format_name(name) for name in array(ds, "format")[formats]]
        axes.set_xticks(range(len(formats)), names, rotation=25, ha="right")
        axes.set(title=words, ylabel="SQNR lost (dB)")
    own = config(ds)["formats"]
    words = (f"Loss of signal-to-quantization-noise ratio if {own['massive_features']} feature(s) of the input are "
             f"{own['massive']:g} times as large: plain minus massive, paired by seed, {style.INPUTS[name]}; bars ± 2 "
             "standard errors. Left: mean over sublayers; right: after the last sublayer. ")  # fmt: skip
    return style.finish(figure, [_marker(s) for s in styles], words + _storage(ds) + captions.settings_text(ds))

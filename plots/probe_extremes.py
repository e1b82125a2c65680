"""Results of `probe`: the largest activations of the stream, and margins to the limits of number formats."""

from typing import Any

import numpy as np
import xarray as xr

from . import scales, style
from .dataset import array, on
from .makers import kind
from .probe import MEASURED, caption

REQUIRED = (
    on("depth rank", "extreme_value", "extreme_over_median")
    | on("signal sublayer", "signal_maximum")
    | on("format", "format_largest")
)
AROUND = {"A_out": ("#56B4E9", "^"), "f_out": ("#E69F00", "s"), "B_out": ("#CC79A7", "D"), "x_out": ("#000000", "v"),
          "r_out": ("#882255", ">")}  # fmt: skip
INSIDE = {"q": ("#0072B2", "o"), "k": ("#56B4E9", "^"), "v": ("#009E73", "s"), "mixed": ("#000000", "D"),
          "gate": ("#E69F00", "v"), "up": ("#D55E00", "<"), "hidden": ("#CC79A7", "P")}  # fmt: skip
FORMATS = ("fp16", "fp8_e5m2", "fp8_e4m3")


@kind("massive", "the largest activations of a checkpoint", REQUIRED)
def massive(ds: xr.Dataset) -> style.Page:
    depth, values, ratio = array(ds, "depth"), np.abs(array(ds, "extreme_value")), array(ds, "extreme_over_median")
    figure, (row,) = style.panels(1, 2, 3.0, style.PAGE)
    left, right = row
    left.plot(depth, ratio[:, 1:], color="0.7", marker=".", markersize=4.5, markeredgewidth=0, linestyle="")
    left.plot(depth, ratio[:, 0], **MEASURED)
    scales.log_axis([left], ratio)
    low, high = left.get_ylim()
    if high > 300:
        left.axhline(1000, color=style.INK, linewidth=0.8, linestyle=":")
        left.set_ylim(low, max(high, 1500))
    left.set_ylabel("$|x|$ over the median of $|x|$")
    token, feature = array(ds, "extreme_token"), array(ds, "extreme_feature")
    largest = np.max(values, initial=0.0, where=np.isfinite(values)) or 1.0
    size = _area(values / largest)
    points = right.scatter(token, feature, c=np.broadcast_to(depth[:, None], token.shape), s=size, cmap="viridis",
                           linewidths=0.3, edgecolors="white", zorder=3)  # fmt: skip
    right.set(xlabel="Token", ylabel="Feature")
    scales.integers(right, 6)
    figure.colorbar(points, ax=right, pad=0.02).set_label("Sublayers passed")
    scales.depth_axis(left, depth[-1])
    keys = [style.entry(**MEASURED, label="largest"),
            style.entry(color="0.7", marker=".", markersize=4, linestyle="",
                   label=f"the next {values.shape[1] - 1}")]  # fmt: skip
    keys += [style.entry(color=style.INK, marker="o", markersize=_area(share) ** 0.5, linestyle="",
                    label=f"right: $|x|$ = {share * largest:.2g}") for share in (1.0, 0.5, 0.25)]  # fmt: skip
    words = (f"The {values.shape[1]} largest activations of the stream at every depth. Left: ratio to the median; "
             "above 1000 times the median and |x| > 100 an activation is massive (Sun et al. 2024). Right: their "
             f"positions; larger dots for larger |x|. {_top(ds)}")  # fmt: skip
    return style.finish(figure, keys, caption(ds, words))


def _area(share: Any) -> Any:
    """Returns the area of a dot in square points for a share of the largest activation."""
    return 6 + 44 * share


def _top(ds: xr.Dataset) -> str:
    """Returns a sentence about the overall largest activation."""
    values = np.abs(array(ds, "extreme_value"))
    if not np.isfinite(values).any():
        return "No activation is finite."
    top = np.unravel_index(np.nanargmax(values), values.shape)
    token = int(array(ds, "extreme_token")[top])
    text = str(array(ds, "token_text")[token]).replace("$", r"\$")  # escapes dollar signs for mathtext
    where = f"token {token}" + (f" (“{text}”)" if text.strip() else f" (id {int(array(ds, 'token_id')[token])})")
    value, feature = array(ds, "extreme_value")[top], int(array(ds, "extreme_feature")[top])
    return f"The largest activation, {value:.4g}, is at {where}, feature {feature}."


@kind("margins", "largest signals compared with the limits of number formats", REQUIRED)
def margins(ds: xr.Dataset) -> style.Page:
    sublayer, signals, formats = array(ds, "sublayer"), list(array(ds, "signal")), list(array(ds, "format"))
    figure, (row,) = style.panels(1, 2, 3.6, style.PAGE, sharey=True)
    drawn = []
    for axes, markers, title in zip(row, (AROUND, INSIDE), ("Around the modules", "Inside the modules"), strict=True):
        found = {name: array(ds, "signal_maximum")[signals.index(name)] for name in markers if name in signals}
        for words, curve in _distinct(found).items():
            colour, marker = markers[words.split(", ")[-1]]
            finite = np.isfinite(curve)
            options: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 0.7}
            axes.plot(sublayer[finite], curve[finite], label=words, **options)
            drawn.append(curve)
        style.panel_legend(axes, axes.get_lines(), 2)
        axes.set(title=title, xlabel="Sublayer (from 0)")
        scales.integers(axes, 6)
    largest = {f: float(array(ds, "format_largest")[formats.index(f)]) for f in FORMATS}
    scales.log_axis(row[:1], np.concatenate([[1.2 * largest["fp16"]], *drawn]))
    for axes in row:
        for name, value in largest.items():
            axes.axhline(value, color="#B00000", linewidth=0.8, linestyle=":" if name == "fp8_e5m2" else "-")
    for name, below in (("fp16", False), ("fp8_e5m2", True), ("fp8_e4m3", True)):
        row[0].annotate(f"{style.format_name(name)}: {largest[name]:g}", (0.02, largest[name]), (0, -2 if below else 1),
                        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=6.5, color="#B00000",
                        va="top" if below else "bottom")  # fmt: skip
    row[0].set_ylabel("Largest $|x|$")
    words = ("Largest magnitude of every signal over all tokens and features; horizontal lines: largest numbers of "
             "formats. A_out: the module's input, after norm A if there is one; f_out: the module's output; B_out: the "
             "output after norm B; x_out: the stream after the sublayer and its norm C; r_out: ResiDual's second "
             "stream; q, k, v, mixed: inside attention; gate, up, hidden: inside the MLP.")  # fmt: skip
    return style.finish(figure, [], caption(ds, words))


def _distinct(curves: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the finite curves; identical ones (no norm between the sites) are merged under joined names."""
    names: dict[str, list[str]] = {}
    for name, curve in curves.items():
        if np.isfinite(curve).any():
            same = next((n for n in names if np.array_equal(curves[n], curve, equal_nan=True)), name)
            names.setdefault(same, []).append(name)
    return {", ".join(equal): curves[first] for first, equal in names.items()}

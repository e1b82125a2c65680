"""Width ladder (T23): measurements over 1/width with a fitted parabola, compared with the theory of infinite width, and
the error of the theory as a function of width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from . import captions, scales, style
from .dataset import array, config, coordinates, on
from .makers import kind

REQUIRED = (
    coordinates("ladder_width inverse_width quantity")
    | on("quantity", "limit_predicted", "limit_measured")
    | on("quantity ladder_width", "ladder_measured", "ladder_stderr")
    | on("quantity inverse_width", "fit")
)
DECADE = 10
CURVE, THEORY = "#0072B2", "#D55E00"
MEASURED: dict[str, Any] = {"color": CURVE, "marker": "o", "markersize": 4, "linestyle": ""}
STATISTICS = {"second_moment": "second moment", "variance": "variance", "token_cosine": "token cosine",
              "log_grad_sq": "log ‖gradient‖²", "score_share": "score path's share"}  # fmt: skip
PLACES = {"x_out": "stream", "r_out": "second stream", "f_out attention": "attention's output",
          "f_out mlp": "MLP's output"}  # fmt: skip


Cases = dict[str, tuple[str, str, list[int]]]  # placement, input and positions of quantities


def checked(ds: xr.Dataset, wanted: Callable[[str], bool] = lambda quantity: True) -> Cases:
    """Returns the means over depth that have a verdict, by stack."""
    found: Cases = {}
    columns = (array(ds, name) for name in ("quantity", "quantity_placement", "quantity_input", "limit_verdict"))
    for i, (quantity, placement, name, verdict) in enumerate(zip(*columns, strict=True)):
        if " mean over " in quantity and verdict != "not-checked" and wanted(quantity):
            safe = "".join(c if c.isalnum() or c in "-+" else "_" for c in placement)
            found.setdefault(f"{safe}-{name}", (placement, name, []))[2].append(i)
    return found


def is_of_gradients(quantity: str) -> bool:
    return quantity.startswith(("log_grad_sq", "score_share"))


def over_decades(ds: xr.Dataset) -> Cases:
    return checked(ds) if array(ds, "ladder_width").max() >= DECADE * array(ds, "ladder_width").min() else {}


def _panels(
    ds: xr.Dataset, rows: list[int], panel: Callable[[xr.Dataset, Axes, int], None], x: str, y: str
) -> style.Page:
    figure, panels = style.small_multiples(len(rows), 1.55, x, y, align=True)
    for axes, i in zip(panels, rows, strict=True):
        panel(ds, axes, i)
    return figure


def _limits(ds: xr.Dataset, placement: str, name: str, rows: list[int]) -> style.Page:
    figure = _panels(ds, rows, _panel, "1 / width", "Measured − theory")
    keys = [
        style.entry(**MEASURED, label="measured"),
        style.entry(color=CURVE, linewidth=1.2, label="fitted parabola"),
        style.patch(color=CURVE, alpha=0.2, linewidth=0, label="± 2 standard errors"),
        style.entry(color=THEORY, marker="D", markersize=4.5, linestyle="", label="theory, infinite width"),
    ]
    words = (
        f"{style.styles([placement])[0].label}, {style.INPUTS[name]}: measured minus theory of infinite width, mean "
        f"over depth (moments: relative to theory), against 1/width; {config(ds)['ladder']['seeds']} seeds per width, "
        "bars ± 2 standard errors. The parabola's value at 0 is compared with theory; titles: quantity and verdict. "
    )
    return style.finish(figure, keys, words + captions.settings_text(ds))


signals = kind("signals", "limits of infinite width: signals", REQUIRED,
               lambda ds: checked(ds, lambda quantity: not is_of_gradients(quantity)))(_limits)  # fmt: skip
gradients = kind("gradients", "limits of infinite width: gradients", REQUIRED,
                 lambda ds: checked(ds, is_of_gradients))(_limits)  # fmt: skip


@kind("errors", "distance from the theory of infinite width", REQUIRED, over_decades)
def errors(ds: xr.Dataset, placement: str, name: str, rows: list[int]) -> style.Page:
    figure = _panels(ds, rows, _error_panel, "Width", "|measured − theory|")
    keys = [
        style.entry(**MEASURED, label="measured"),
        style.entry(color=CURVE, linewidth=1.2, label="fitted part b/width + c/width²"),
        style.entry(color=THEORY, linewidth=1.0, linestyle=(0, (4, 2)), label="standard error of the theory"),
    ]
    words = (
        f"{style.styles([placement])[0].label}, {style.INPUTS[name]}: |measured − theory of infinite width| for "
        "means over depth (moments: relative to theory), and the fitted finite-width part; "
        f"{config(ds)['ladder']['seeds']} seeds per width, bars ± 2 standard errors. Numbers in the panels: the error "
        "at the largest width. "
    )
    return style.finish(figure, keys, words + captions.settings_text(ds))


def _error_panel(ds: xr.Dataset, axes: Axes, i: int) -> None:
    width = array(ds, "ladder_width")
    error, bar = np.abs(deviation(ds, i, array(ds, "ladder_measured")[i])), 2 * array(ds, "ladder_stderr")[i]
    theory = array(ds, "limit_predicted_stderr")[i]
    inverse = array(ds, "inverse_width")
    is_finite_width = inverse > 0
    fit = np.abs(array(ds, "fit")[i] - array(ds, "limit_measured")[i])[is_finite_width]
    low = max(min(error.min(), bar.min()) / 3, 1e-300)
    axes.plot(1 / inverse[is_finite_width], fit, color=CURVE, linewidth=1.2)
    axes.errorbar(width, error, [np.minimum(bar, np.maximum(error - low, 0)), bar], **MEASURED, elinewidth=0.9)
    axes.axhline(theory, color=THEORY, linewidth=1.0, linestyle=(0, (4, 2)))
    axes.set(xscale="log", yscale="log", xlim=(width.min() / 1.5, width.max() * 1.5),
             ylim=(low, 2 * (error + bar).max()))  # fmt: skip
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(name_of(array(ds, "quantity")[i]), fontsize=6.5)
    axes.text(0.97, 0.95, f"{error[-1]:.1g} ± {bar[-1] / 2:.1g}", transform=axes.transAxes, ha="right", va="top",
              fontsize=6, color=style.INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    axes.tick_params(labelsize=6)


def deviation(ds: xr.Dataset, i: int, values: np.ndarray) -> np.ndarray:
    """Returns values minus theory."""
    return values - array(ds, "limit_predicted")[i]


def name_of(quantity: str) -> str:
    """Returns a title for a quantity: "MLP's output, second moment" for "second_moment f_out mean over mlp"."""
    test, over = quantity.split(" mean over ")
    statistic, place = test.split(" ")
    words = STATISTICS.get(statistic, statistic)
    if statistic == "score_share":
        return words
    where = PLACES.get(place) or PLACES.get(f"{place} {over}") or f"$W_{{{place}}}$"
    return f"{where}, {words}"


def _panel(ds: xr.Dataset, axes: Axes, i: int) -> None:
    x, inverse = 1 / array(ds, "ladder_width"), array(ds, "inverse_width")
    fit, band = deviation(ds, i, array(ds, "fit")[i]), 2 * array(ds, "fit_stderr")[i]
    axes.fill_between(inverse, fit - band, fit + band, color=CURVE, alpha=0.2, linewidth=0)
    axes.plot(inverse, fit, color=CURVE, linewidth=1.2)
    axes.errorbar(x, deviation(ds, i, array(ds, "ladder_measured")[i]), 2 * array(ds, "ladder_stderr")[i], **MEASURED,
                  elinewidth=0.9)  # fmt: skip
    axes.errorbar([0], [0], [2 * array(ds, "limit_predicted_stderr")[i]], color=THEORY, marker="D", markersize=4.5,
                  elinewidth=0.9, zorder=4)  # fmt: skip
    axes.axhline(0, color=style.INK, linewidth=0.5, zorder=1)
    axes.set_title(f"{name_of(array(ds, 'quantity')[i])}\n{array(ds, 'limit_verdict')[i]}", fontsize=6.5)
    axes.set_xscale("function", functions=(scales.signed_sqrt, scales.signed_square))
    axes.set_xlim(-0.0001 * x.max(), 1.1 * x.max())
    ticks = scales.spaced([0.0, *sorted(x, reverse=True)], scales.signed_sqrt, 0.22 * np.sqrt(x.max()))
    axes.set_xticks(ticks, ["0" if v == 0 else f"1/{1 / v:g}" for v in ticks])
    axes.tick_params(labelsize=6)

"""How close random sublayers come to each bound: the distribution of gradient over bound."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from . import style, verify
from .dataset import array, on
from .makers import Figures

FIGURES = {"bound_ratios": "how close gradients come to their bounds"}
NEEDS = (
    on("statement", "statement", "ratio_largest")
    | on("log_ratio", "log_ratio")
    | on("statement log_ratio", "ratio_histogram")
    | on("statement width", "width_ratio_limit")
)
LOWEST, FLOOR = 1e-3, 1e-6
LINE: dict[str, Any] = {"color": style.INK, "linewidth": 0.8, "zorder": 1.5}


def draw(ds: xr.Dataset) -> Figures:
    return Figures([("bound_ratios", partial(_figure, ds))])


def _figure(ds: xr.Dataset) -> style.Page:
    figure, (row,) = style.panels(1, 2, 3.4, style.PAGE, sharey=True)
    for axes, words, bounds in zip(row, ("Bounds as stated", "Sharp bounds"), (verify.STATED, verify.SHARP),
                                   strict=True):  # fmt: skip
        _panel(ds, axes, bounds)
        axes.set(title=words, xlabel=r"$\|\partial\,loss/\partial W_2\|_F$ over bound")
        keys = [Line2D([], [], color=b.look.colour, linestyle=b.look.dash, linewidth=1.3, label=b.label)
                for b in bounds.values()]  # fmt: skip
        style.panel_legend(axes, [*keys, Line2D([], [], **LINE, label="the bound")])
    row[0].set_ylabel("Share of cases per decade")
    return style.finish(figure, [], caption(ds))


def density(ds: xr.Dataset, statement: int) -> np.ndarray:
    """Share of the cases per decade of the ratio, in the file's bins."""
    counts = array(ds, "ratio_histogram")[statement]
    per_bin = array(ds, "log_ratio")[1] - array(ds, "log_ratio")[0]
    return counts / max(counts.sum(), 1.0) / per_bin


def _panel(ds: xr.Dataset, axes: Axes, bounds: dict[str, verify.Bound]) -> None:
    half = 0.5 * (array(ds, "log_ratio")[1] - array(ds, "log_ratio")[0])
    edges = 10.0 ** np.append(array(ds, "log_ratio") - half, array(ds, "log_ratio")[-1] + half)
    top = LOWEST
    for name, bound in bounds.items():
        k = verify.index(ds, name)
        shown = density(ds, k)
        axes.stairs(np.where(shown > 0, shown, FLOOR), edges, color=bound.look.colour, linestyle=bound.look.dash,
                    linewidth=1.1, baseline=None)  # fmt: skip
        if np.isfinite(array(ds, "ratio_largest")[k]):
            axes.plot(
                array(ds, "ratio_largest")[k], 0.0045, color=bound.look.colour, marker="v", markersize=5, zorder=3
            )
            top = max(top, array(ds, "ratio_largest")[k])
    axes.axvline(1.0, **LINE)
    axes.set(xscale="log", yscale="log", xlim=(LOWEST, max(2.0, 1.6 * top)), ylim=(3e-3, 60))


def caption(ds: xr.Dataset) -> str:
    paper, review = (verify.index(ds, k) for k in ("C.2-whole", "G4-whole"))
    return (
        "Left: the paper's bounds, of which no gradient can use more than √2/4 = "
        f"{array(ds, 'width_ratio_limit')[paper, 1]:.3f}, and the reviews' form, which "
        f"{array(ds, 'violations')[review]:,.0f} of {array(ds, 'cases')[review]:,.0f} cases break. Right: the "
        "sharp forms with √2 (1 − p of the label). Triangles: the largest ratio seen. Cases whose bound is zero or "
        "infinite are left out. "
    ) + verify.run(ds)

"""How close random sublayers come to each bound: the distribution of gradient over bound."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from plots import style, verify
from plots.results import Result

FIGURES = {"bound_ratios": "how close gradients come to their bounds"}
NEEDS = ("statement", "log_ratio", "ratio_histogram", "ratio_largest", "width_ratio_limit")
LOWEST, FLOOR = 1e-3, 1e-6
LINE: dict[str, Any] = {"color": style.INK, "linewidth": 0.8, "zorder": 1.5}


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    figure, (row,) = style.panels(1, 2, 3.4, style.PAGE, sharey=True)
    for axes, words, bounds in zip(row, ("Bounds as stated", "Sharp bounds"), (verify.STATED, verify.SHARP),
                                   strict=True):  # fmt: skip
        _panel(result, axes, bounds)
        axes.set(title=words, xlabel=r"$\|\partial\,loss/\partial W_2\|_F$ over bound")
        keys = [Line2D([], [], color=b.look.colour, linestyle=b.look.dash, linewidth=1.3, label=b.label)
                for b in bounds.values()]  # fmt: skip
        style.panel_legend(axes, [*keys, Line2D([], [], **LINE, label="the bound")])
    row[0].set_ylabel("Share of cases per decade")
    yield "bound_ratios", style.finish(figure, [], caption(result))


def density(result: Result, statement: int) -> np.ndarray:
    """Share of the cases per decade of the ratio, in the file's bins."""
    counts = result["ratio_histogram"][statement]
    per_bin = result["log_ratio"][1] - result["log_ratio"][0]
    return counts / max(counts.sum(), 1.0) / per_bin


def _panel(result: Result, axes: Axes, bounds: dict[str, verify.Bound]) -> None:
    half = 0.5 * (result["log_ratio"][1] - result["log_ratio"][0])
    edges = 10.0 ** np.append(result["log_ratio"] - half, result["log_ratio"][-1] + half)
    top = LOWEST
    for name, bound in bounds.items():
        k = verify.index(result, name)
        shown = density(result, k)
        axes.stairs(np.where(shown > 0, shown, FLOOR), edges, color=bound.look.colour, linestyle=bound.look.dash,
                    linewidth=1.1, baseline=None)  # fmt: skip
        if np.isfinite(result["ratio_largest"][k]):
            axes.plot(result["ratio_largest"][k], 0.0045, color=bound.look.colour, marker="v", markersize=5, zorder=3)
            top = max(top, result["ratio_largest"][k])
    axes.axvline(1.0, **LINE)
    axes.set(xscale="log", yscale="log", xlim=(LOWEST, max(2.0, 1.6 * top)), ylim=(3e-3, 60))


def caption(result: Result) -> str:
    paper, review = (verify.index(result, k) for k in ("C.2-whole", "G4-whole"))
    return (
        "Left: the paper's bounds, of which no gradient can use more than √2/4 = "
        f"{result['width_ratio_limit'][paper, 1]:.3f}, and the reviews' form, which "
        f"{result['violations'][review]:,.0f} of {result['cases'][review]:,.0f} cases break. Right: the sharp forms "
        "with √2 (1 − p of the label). Triangles: the largest ratio seen. Cases whose bound is zero or infinite are "
        "left out. "
    ) + verify.run(result)

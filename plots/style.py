"""What all figures share: one look per placement, sizes for a paper, and the frame of legend and caption."""

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

matplotlib.rcParams.update({
    "font.size": 8, "axes.titlesize": 8.5, "axes.labelsize": 8, "legend.fontsize": 7.5,
    "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4, "ytick.minor.width": 0.4,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "0.9", "grid.linewidth": 0.5, "axes.axisbelow": True,
    "lines.markeredgecolor": "white", "lines.markeredgewidth": 0.4,
    "legend.frameon": False, "legend.handlelength": 3.2, "legend.columnspacing": 1.6,
    "savefig.dpi": 200, "svg.hashsalt": "periscope",
})  # fmt: skip

PAGE = 7.0  # inches: the text width of a page
INK = "0.3"  # what is neither frame nor data
INPUTS = {"gaussian": "Gaussian input", "tokens": "random-token input", "text": "text input"}


@dataclass(frozen=True)
class Look:
    """How a placement is named and drawn in every figure."""

    label: str
    colour: str
    marker: str
    dash: str | tuple = "-"

    @property
    def size(self) -> float:
        """Points. Markers of little area are drawn larger."""
        return {"P": 5.8, "X": 5.6, "*": 7.0, "d": 5.4, ".": 8.0}.get(self.marker, 4.5)


# Colours of Okabe and Ito, and of Tol's muted set. Placements whose curves coincide at initialisation (Post-LN, A+C
# and both DeepNorms; Peri-LN and B-only; Pre-LN and Mix-LN) differ in lightness, dash and marker.
LOOKS = {
    "none": Look("No norm", "#777777", "X", ":"),
    "post": Look("Post-LN", "#00579B", "o"),
    "pre": Look("Pre-LN", "#D55E00", "s", (0, (8, 1.2))),
    "peri": Look("Peri-LN", "#009E73", "^"),
    "b-only": Look("B-only", "#000000", "v", (0, (4, 2.5))),
    "a+c": Look("A+C", "#CC79A7", "D", (0, (4, 2.5))),
    "deepnorm": Look("DeepNorm", "#332288", "P", (0, (1, 2))),
    "deepnorm-glm": Look("DeepNorm (GLM)", "#CC6677", "p", (0, (2, 1))),
    "mix": Look("Mix-LN", "#E69F00", "h", (0, (6, 1.5, 1, 1.5))),
    "lns": Look("LNS", "#56B4E9", "d"),
    "depth-scaled": Look("Depth-scaled", "#999933", "<", (0, (6, 1.5, 1, 1.5))),
    "residual-dual": Look("ResiDual", "#882255", ">", (0, (3, 1.5, 1, 1.5, 1, 1.5))),
}
FORMER_NAMES = {"residual": "residual-dual"}  # as result files may still have them
FREE_FORM = (("#117733", "*"), ("#AA4499", "."), ("#661100", "8"), ("#44AA99", "H"))


def looks(placements: Sequence[str]) -> list[Look]:
    """The look of each placement of a file. Free-form ones are told apart by their order."""
    known = dict(LOOKS) | {former: LOOKS[name] for former, name in FORMER_NAMES.items()}
    for i, table in enumerate(p for p in dict.fromkeys(placements) if p not in known):
        keys = json.loads(table)
        norms = "+".join(position for position in "ABC" if keys[position]) or "no norm"
        label = f"{norms}, α = {keys['alpha']:g}, β = {keys['beta']:g}"
        known[table] = Look(label, *FREE_FORM[i % len(FREE_FORM)], (0, (5, 1.5)))
    return [known[p] for p in placements]


def title(words: str) -> str:
    return words[0].upper() + words[1:]


def page(columns: int) -> float:
    """The width of a figure with that many panels side by side, which a legend must fit too."""
    return PAGE if columns > 1 else 4.6


def panels(
    rows: int, columns: int, height: float, width: float, layout: str = "constrained", **keywords
) -> tuple[Figure, list[list[Axes]]]:
    """Rows of panels, `height` inches each. The layout "compressed" is for panels of fixed aspect."""
    figure = Figure(figsize=(width, rows * height), layout=layout)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06)
    return figure, figure.subplots(rows, columns, squeeze=False, **keywords).tolist()


def multiples(number: int) -> tuple[int, int]:
    """Rows and columns of small multiples."""
    rows = math.ceil(number / 4)
    return rows, math.ceil(number / rows)


def label_outer(grid: Sequence[Sequence[Axes]], used: int, x: str, y: str) -> None:
    """Labels the outer panels of small multiples and removes those that are not used."""
    columns = len(grid[0])
    for i, axes in enumerate(axes for row in grid for axes in row):
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        if i % columns == 0:
            axes.set_ylabel(y)
        if i // columns == len(grid) - 1:
            axes.set_xlabel(x)
        if i + columns >= used:
            axes.tick_params(labelbottom=True)
        if i >= used:
            axes.remove()


def plain_log_ticks(axes: Axes, low: float, high: float) -> None:
    """Plain numbers on a logarithmic y axis that spans few decades: 1, 2, 5, 10, … or, within one, round ones."""
    if not (high / low < 2e3 and low > 1e-4):
        return
    axis = axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high / low > 6 else MaxNLocator(6))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def log_axis(panels: Sequence[Axes], values: np.ndarray) -> None:
    """A logarithmic y axis around the finite positive ones of `values`; without any, frames that say so."""
    exponents = np.log10(values[np.isfinite(values) & (values > 0)])
    low, high = (exponents.min(), exponents.max()) if exponents.size else (-1.0, 1.0)
    margin = max(0.06 * (high - low), math.log10(1.15))
    for axes in panels:
        axes.set_yscale("log")
        axes.set_ylim(10 ** max(low - margin, -300.0), 10 ** min(high + margin, 300.0))  # within the numbers of f64
        if exponents.size:
            plain_log_ticks(axes, 10**low, 10**high)
        else:
            nothing_finite(axes)


def nothing_finite(axes: Axes) -> None:
    """Says in an empty frame why it is empty: a run that diverged from the start has no value to show."""
    axes.tick_params(axis="y", which="both", left=False, labelleft=False)
    axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center", va="center", fontsize=7, color=INK,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})


def key(look: Look, measured: bool, note: str = "") -> Line2D:
    """A placement in a legend: the line of theory, and the marker of measurement if there is one."""
    marker = look.marker if measured else ""
    return Line2D([], [], color=look.colour, linestyle=look.dash, linewidth=1.3, marker=marker, markersize=look.size,
                  label=look.label + note)  # fmt: skip


def finish(figure: Figure, keys: Sequence[Artist], caption: str) -> Figure:
    """Puts the legend and the caption below the panels. The figure grows by their height."""
    width, height = figure.get_size_inches()
    columns, legend = 1, 0.0
    if keys:
        widest = max(len(str(k.get_label())) for k in keys)
        columns = min(len(keys), max(1, int(width / (0.06 * widest + 0.66))))
        rows = math.ceil(len(keys) / columns)
        columns = math.ceil(len(keys) / rows)
        legend = 0.165 * rows + 0.1
    lines = textwrap.wrap(caption, int(20 * width))
    below = legend + 0.112 * len(lines) + 0.1
    total = height + below
    figure.set_size_inches(width, total)
    figure.get_layout_engine().set(rect=(0, below / total, 1, height / total))
    if keys:
        figure.legend(handles=list(keys), ncols=columns, loc="upper center", bbox_to_anchor=(0.5, below / total),
                      borderaxespad=0.3)  # fmt: skip
    figure.text(0.5, (below - legend - 0.04) / total, "\n".join(lines), ha="center", va="top", fontsize=6.5, color=INK)
    return figure

"""Shared elements of figures: the style of each placement, sizes for papers, legends and captions."""

import io
import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox, ScaledTranslation

# matplotlib's settings while a figure is made or drawn; the caller's settings are restored.
SETTINGS: Any = {
    "font.size": 8, "axes.titlesize": 8.5, "axes.labelsize": 8, "legend.fontsize": 7.5,
    "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4, "ytick.minor.width": 0.4,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "0.9", "grid.linewidth": 0.5, "axes.axisbelow": True,
    "lines.markeredgecolor": "white", "lines.markeredgewidth": 0.4,
    "legend.frameon": False, "legend.handlelength": 3.2, "legend.columnspacing": 1.6,
    "savefig.dpi": 200, "svg.hashsalt": "periscope",
    "figure.autolayout": False, "figure.constrained_layout.use": False,
}  # fmt: skip

PAGE = 7.0  # inches: the text width of a page
PANEL = 4.6  # inches: a figure of one panel
NARROWEST, WIDEST = 3.0, 20.0  # inches
# Minimum panel widths in inches, for small multiples and for few panels with longer titles. Rows are broken to fit.
MULTIPLE_LEAST, PANEL_LEAST, FEW = 1.55, 2.0, 4
INK = "0.3"  # colour of reference lines and texts
INPUTS = {"gaussian": "Gaussian input", "tokens": "random-token input", "text": "text input"}


@dataclass(frozen=True)
class Style:
    """Label, colour, marker and dash pattern of a placement."""

    label: str
    colour: str
    marker: str
    dash: Any = "-"

    @property
    def size(self) -> float:
        """Marker size in points; markers with a small area are drawn larger."""
        return {"P": 5.8, "X": 5.6, "*": 7.0, "d": 5.4, ".": 8.0}.get(self.marker, 4.5)

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.dash}

    @property
    def marks(self) -> dict[str, Any]:
        """Keywords for markers without a line."""
        return {"color": self.colour, "linestyle": "", "marker": self.marker, "markersize": self.size}

    @property
    def hollow(self) -> dict[str, Any]:
        return self.marks | {"markerfacecolor": "white", "markeredgecolor": self.colour}


# Colours of Okabe and Ito, and of Tol's muted set. Placements whose curves coincide at initialisation (Post-LN, A+C
# and both DeepNorms; Peri-LN and B-only; Pre-LN and Mix-LN) differ in lightness, dash and marker. Markers are unique
# within each class of blocks.py; there are too few markers to be unique overall.
STYLES = {
    "none": Style("No norm", "#777777", "X", ":"),
    "post": Style("Post-LN", "#00579B", "o"),
    "pre": Style("Pre-LN", "#D55E00", "s", (0, (8, 1.2))),
    "peri": Style("Peri-LN", "#009E73", "^"),
    "b-only": Style("B-only", "#000000", "v", (0, (4, 2.5))),
    "a+c": Style("A+C", "#CC79A7", "D", (0, (4, 2.5))),
    "deepnorm": Style("DeepNorm", "#332288", "P", (0, (1, 2))),
    "deepnorm-glm": Style("DeepNorm (GLM)", "#CC6677", "p", (0, (2, 1))),
    "mix": Style("Mix-LN", "#E69F00", "h", (0, (6, 1.5, 1, 1.5))),
    "lns": Style("LNS", "#56B4E9", "d"),
    "depth-scaled": Style("Depth-scaled", "#999933", "<", (0, (6, 1.5, 1, 1.5))),
    "residual-dual": Style("ResiDual", "#882255", ">", (0, (3, 1.5, 1, 1.5, 1, 1.5))),
    "keel": Style("KEEL", "#0F8B8D", "s", (0, (8, 1.2))),
    "beam": Style("Beam", "#AA3377", "o", (0, (1, 2))),
    "u-mup": Style("u-µP", "#6A3D9A", "v", (0, (4, 2.5))),
    "hybridnorm": Style("HybridNorm", "#8C510A", "^", (0, (6, 1.5, 1, 1.5))),
    "sub-ln": Style("Sub-LN", "#0077BB", "D", (0, (2, 1))),
    "ngpt": Style("nGPT", "#D8A31A", "v", (0, (3, 1.5, 1, 1.5, 1, 1.5))),
    "layer-scale": Style("LayerScale", "#B15928", "^", (0, (1, 2))),
    "muse-spark": Style("Muse Spark", "#4D4D4D", "*"),
    "parallel": Style("Parallel", "#EE3377", "o", (0, (2, 1))),
    "parallel-two": Style("Parallel (two norms)", "#225555", "P", (0, (1, 2))),
    "span": Style("SpanNorm", "#5E8C31", "d", (0, (4, 2.5))),
    "x0": Style("x₀ injection", "#222255", "D", (0, (3, 1.5, 1, 1.5, 1, 1.5))),
    "hyper": Style("Hyper-Connections", "#8CB800", "p", (0, (6, 1.5, 1, 1.5))),
}
# Colours (Okabe and Ito) and markers of the matrices.
MATRICES = {"q": ("#56B4E9", "v"), "k": ("#0072B2", "^"), "v": ("#009E73", "o"), "o": ("#E69F00", "s"),
            "gate": ("#CC79A7", "P"), "up": ("#882255", "D"), "down": ("#D55E00", "X"),
            "attention_gate": ("#777777", "h")}  # fmt: skip
VARIANTS = ("o", "D", "X", "s", "P", "v")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.2)), (0, (1.2, 1)), (0, (6, 1.5, 1, 1.5)))
FREE_FORM = (("#117733", "*"), ("#AA4499", "."), ("#661100", "8"), ("#44AA99", "H"), ("#DDCC77", "X"), ("#7F7F7F", "*"),
             ("#4477AA", "."), ("#EE8866", "8"))  # fmt: skip


def styles(labels: Iterable[str], placements: Sequence[str] = ()) -> list[Style]:
    """Returns the style of each stack of a file. A label is a placement, a custom placement as JSON, a recipe or a
    user-defined name, optionally with differing keys, as in "peri, qk_norm full". Without `placements`,
    placements are read from the labels. Stacks with the same placement differ in shade, marker and dash."""
    every = [str(label) for label in labels]
    placement_of = dict(zip(every, placements or [_parts(label)[0] for label in every], strict=True))
    known = dict(STYLES)
    for label, placement in placement_of.items():
        base = _parts(label)[0]
        if placement not in known:  # a custom placement or a user-defined name gets a separate style
            placement_of[label] = base
        if placement_of[label] not in known:
            rank = len(known) - len(STYLES)
            known[base] = Style(_title_of(base), *FREE_FORM[rank % len(FREE_FORM)], (0, (5, 1.5)))
    found: dict[str, Style] = {}
    counts: dict[str, int] = {}  # number of stacks so far, by placement
    for label, placement in placement_of.items():
        base, rest = _parts(label)
        style, rank = known[placement], counts.get(placement, 0)
        counts[placement] = rank + 1
        if rank:
            shape = VARIANTS[rank % len(VARIANTS)], DASHES[rank % len(DASHES)]
            style = Style(style.label, shade(style.colour, rank), *shape)
        title_text = style.label if base == placement else _title_of(base)
        text = f"{title_text}, {rest}" if rest else title_text
        found[label] = replace(style, label=text.replace("$", r"\$"))  # escapes dollar signs for mathtext
    return [found[label] for label in every]


def _parts(name: str) -> tuple[str, str]:
    """Splits a label into its placement, custom placement, recipe or name, and the differing keys."""
    form = _form(name)
    end = form[1] if form else name.find(", ")
    return (name[:end], name[end:].removeprefix(", ")) if end >= 0 else (name, "")


def _form(label: str) -> tuple[dict[str, Any], int] | None:
    """Returns the custom placement that starts a label, and its end; None for a name, even one such as "{mine"."""
    try:
        form, end = json.JSONDecoder().raw_decode(label)
    except json.JSONDecodeError:
        return None
    return (form, end) if isinstance(form, dict) and form.keys() & {"A", "attention"} else None


def _title_of(name: str) -> str:
    """Returns the title of a stack without a predefined style."""
    form = _form(name)
    return _rule(form[0] if form else name)


def _rule(table: Any) -> str:
    """Describes a placement: its name, the placements of both kinds of modules, or its norms and scales."""
    if isinstance(table, str) or "name" in table:
        name = table if isinstance(table, str) else table["name"]
        return STYLES[name].label if name in STYLES else name
    if "attention" in table:
        return f"{_rule(table['attention'])} attention, {_rule(table['mlp'])} MLP"
    norms = "+".join(position for position in "ABC" if table[position]) or "no norm"
    alpha, beta = (value if isinstance(value, str) else f"{value:g}" for value in (table["alpha"], table["beta"]))
    return f"{norms}, α = {alpha}, β = {beta}"


def shade(colour: str, rank: int) -> str:
    """Returns the colour of stack or seed `rank`: the placement's, then alternately lighter and darker shades."""
    if rank == 0:
        return colour
    target = np.ones(3) if rank % 2 else np.zeros(3)
    share = 0.45 if rank < 3 else 0.65
    red, green, blue = (1 - share) * np.array(to_rgb(colour)) + share * target
    return to_hex((red, green, blue))


def format_name(word: str) -> str:
    """Returns the title of a number format, such as "FP8 E4M3"."""
    return word.upper().replace("_", " ")


def title(words: str) -> str:
    return words[0].upper() + words[1:]


class Page(Figure):
    """A figure with its caption and its claims (verdict, text, statement). The caption is drawn only by caption_below,
    the claims only by groups.claims_above."""

    caption = ""
    claims: Sequence[tuple[str, str, str]] = ()
    below = 0.0  # inches for the legend and the caption below the panels

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.broken: list[list[Axes]] = []  # left-most panels of each broken row

    def draw(self, renderer: RendererBase) -> None:
        """Draws the figure with SETTINGS, because ticks are created here."""
        with matplotlib.rc_context(SETTINGS):
            super().draw(renderer)

    def savefig(self, fname: Any, **keywords: Any) -> None:
        with matplotlib.rc_context(SETTINGS):
            super().savefig(fname, **keywords)

    def _repr_png_(self) -> bytes:
        """Displays the figure in notebooks, which otherwise display only figures of pyplot."""
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=144)
        return stream.getvalue()


class ReproducibleLayout(ConstrainedLayoutEngine):
    """Constrained layout with reproducible positions.

    matplotlib's solver orders its equations by memory address. The last bits of positions therefore vary between
    processes, and with them the names of clip paths in SVG files.
    """

    def execute(self, fig: Figure) -> None:
        super().execute(fig)
        for axes in fig.axes:
            in_layout = axes.get_in_layout()
            bounds = [round(side, 9) for side in axes.get_position(True).bounds]
            axes.set_position(Bbox.from_bounds(*bounds), "original")
            axes.set_in_layout(in_layout)  # set_position removes the axes from the layout


@contextmanager
def use_width(inches: float | None) -> Iterator[None]:
    """Context in which figures get this width; None: 7 inches, or 4.6 for one panel."""
    global PAGE, PANEL
    before = PAGE, PANEL
    if inches is not None:
        PAGE = PANEL = inches
    try:
        yield
    finally:
        PAGE, PANEL = before


def page(columns: int) -> float:
    """Returns the width of a figure with `columns` panels per row."""
    return PAGE if columns > 1 else PANEL


def panels(
    rows: int, columns: int, height: float, width: float, compress: bool = False, **keywords: Any
) -> tuple[Page, list[list[Axes]]]:
    """Returns a figure and its rows of panels, each `height` inches high. `compress` is for panels of fixed aspect.

    If the width is too small for the columns, each row is broken into several rows of the figure; the returned lists
    still have `rows` and `columns`.
    """
    least = PANEL_LEAST if rows * columns <= FEW and width < 7 else MULTIPLE_LEAST
    fitting = max(1, min(columns, int(width / least)))
    per_row = -(-columns // fitting)
    layout = ReproducibleLayout(w_pad=0.06, h_pad=0.06, compress=compress)
    figure = Page(figsize=(width, rows * per_row * height), layout=layout)
    if per_row == 1:
        return figure, figure.subplots(rows, columns, squeeze=False, **keywords).tolist()
    keywords.pop("width_ratios", None)
    grid = figure.subplots(rows * per_row, fitting, squeeze=False, **keywords)
    flat = [[axes for line in grid[r * per_row : (r + 1) * per_row] for axes in line] for r in range(rows)]
    for row in flat:
        for axes in row[columns:]:
            axes.remove()
        for axes in row[:columns]:
            axes.tick_params(labelbottom=True)
        figure.broken.append(row[:columns:fitting])
    return figure, [row[:columns] for row in flat]


def multiples(number: int) -> tuple[int, int]:
    """Returns rows and columns for small multiples: up to four columns, as far as they fit on the page."""
    rows = math.ceil(number / max(1, min(4, int(PAGE / MULTIPLE_LEAST))))
    return rows, math.ceil(number / rows)


def small_multiples(
    number: int, height: float, x: str, y: str, threes: bool = False, width: float | None = None, align: bool = False,
    **keywords: Any,
) -> tuple[Page, list[Axes]]:  # fmt: skip
    """Returns a figure of equal panels with labels on the outer panels: three per row, or as chosen by `multiples`."""
    rows, columns = (math.ceil(number / 3), min(3, number)) if threes else multiples(number)
    figure, grid = panels(rows, columns, height, width or (PAGE if threes else page(columns)), **keywords)
    every = [axes for row in grid for axes in row]
    for i, axes in enumerate(every):
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        if i % columns == 0:
            axes.set_ylabel(y)
        if i + columns >= number:  # no panel below
            axes.set_xlabel(x)
            axes.tick_params(labelbottom=True)
        if i >= number:
            axes.remove()
    if align:
        figure.align_ylabels(every[:number:columns])
    return figure, every[:number]


def entry(**keywords: Any) -> Line2D:
    """Returns a line or marker for a legend."""
    return Line2D([], [], **keywords)


def patch(**keywords: Any) -> Patch:
    """Returns a filled rectangle for a legend."""
    return Patch(**keywords)


def theory_and_measurement(label: str = "line: theory, marker: measured") -> Line2D:
    """Returns the legend entry that explains lines and markers."""
    return Line2D([], [], color=INK, linewidth=1.3, marker="o", markersize=4.5, label=label)


def points(axes: Axes, curve_style: Style, x: Any, y: Any, bar: Any = None, **other: Any) -> None:
    """Draws markers with error bars."""
    axes.errorbar(x, y, bar, **curve_style.marks | {"elinewidth": 0.9} | other)


def rows(axes: Axes, labels: Sequence[str], **other: Any) -> None:
    """Sets up one labelled row per item, from top to bottom."""
    axes.set_yticks(range(len(labels)), labels, **other)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def key(curve_style: Style, measured: bool, note: str = "") -> Line2D:
    """Returns a placement's legend entry: the line of theory and, if `measured`, the marker of measurement."""
    marker = curve_style.marker if measured else ""
    return Line2D([], [], **curve_style.line, linewidth=1.3, marker=marker, markersize=curve_style.size,
                  label=curve_style.label + note)


def finish(figure: Page, keys: Sequence[Artist], caption: str) -> Page:
    """Adds the legend below the panels, which increases the figure's height, and sets the caption."""
    figure.caption = caption
    for first, *others in figure.broken:
        for axes in others:
            axes.set_ylabel(axes.get_ylabel() or first.get_ylabel())
    if not keys:
        return figure
    width, _ = figure.get_size_inches()
    labels = [plain(str(k.get_label())) for k in keys]
    columns = _columns([max(map(len, label.split("\n"))) for label in labels], width)
    rows = math.ceil(len(keys) / columns)
    figure.legend(handles=list(keys), ncols=columns, loc="upper center", borderaxespad=0.3)
    _grow(figure, 0.165 * rows * max(1 + label.count("\n") for label in labels) + 0.14)
    return figure


def _columns(lengths: Sequence[int], width: float) -> int:
    """Returns the largest number of non-empty legend columns that fit into `width` inches."""
    for columns in range(len(lengths), 1, -1):
        widest = [max(part) for part in np.array_split(lengths, columns)]
        is_full = columns == math.ceil(len(lengths) / math.ceil(len(lengths) / columns))
        if is_full and sum(0.06 * length + 0.66 for length in widest) <= width:
            return columns
    return 1


def panel_legend(axes: Axes, keys: Sequence[Artist], columns: int = 1) -> None:
    """Adds a legend for one panel below its x label."""
    below = ScaledTranslation(0, -30 / 72, axes.figure.dpi_scale_trans)
    axes.legend(handles=list(keys), ncols=columns, loc="upper center", borderaxespad=0.0, bbox_to_anchor=(0.5, 0.0),
                bbox_transform=axes.transAxes + below)  # fmt: skip


def _grow(figure: Page, inches: float) -> float:
    """Extends the figure at the bottom. Returns the upper edge of the new space as a fraction of the height."""
    width, height = figure.get_size_inches()
    total = height + inches
    figure.below += inches
    figure.set_size_inches(width, total)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, figure.below / total, 1, 1 - figure.below / total))
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0.5, figure.below / total))
    return inches / total


def caption_below(figure: Page) -> None:
    """Draws the caption below the legend, wrapped to the figure's width, and extends the figure by its height."""
    width, _ = figure.get_size_inches()
    text = figure.text(0.5, 0.0, "", ha="center", va="top", fontsize=6.5, color=INK)
    text.set_in_layout(False)
    for columns in range(int(20 * width), 10, -1):
        lines = textwrap.wrap(figure.caption, columns, break_on_hyphens=False)
        text.set_text("\n".join(lines))
        if text.get_window_extent().width <= (width - 0.1) * figure.dpi:
            break
    text.set_y(_grow(figure, 0.112 * len(lines) + 0.1))


def plain(text: str) -> str:
    """Converts mathtext between dollar signs to plain text: "$W_\\mathrm{down}$" to "W_down"."""
    parts = re.split(r"(?<!\\)\$", text)
    for k in range(1, len(parts) - 1, 2):
        for mark, letter in (("\\,", " "), ("\\partial", "∂"), ("\\|", "‖"), ("\\alpha", "α"), ("\\beta", "β")):
            parts[k] = parts[k].replace(mark, letter)
        parts[k] = re.sub(r"(?:\\mathrm|(?<=_))\{([^}]*)\}", r"\1", parts[k]).replace("\\", "")
    return "".join(parts).replace(r"\$", "$")

"""The first optimizer steps: growth of the stream, predicted from batches and random weights (T28), and measured."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from . import captions, curves, groups, scales, style
from .dataset import array, coordinates, on
from .makers import kind

REQUIRED = (
    coordinates("placement step depth sublayer weight")
    | on("placement", "verdict", "verdict_reason", "holds_until", "stopped_by")
    | on("placement step depth", "second_moment_measured", "second_moment_predicted", "coherent_predicted")
    | on("placement step sublayer", "branch_cosine_measured", "branch_cosine_predicted")
    | on("placement step", "loss_change_measured", "loss_change_predicted")
    | on("placement step weight layer", "update_measured", "update_predicted")
)
SHIFT = 0.07  # distance between the markers of two matrices, in steps
COHERENT, REST = 0.55, 0.2  # opacity of the two parts of the predicted stream


@kind("first-steps", "the stream in the first steps: prediction in two parts, cosines of branches, and measurement",
      REQUIRED)  # fmt: skip
def surge(ds: xr.Dataset) -> style.Page:
    styles, step, depth = captions.styles(ds), array(ds, "step"), array(ds, "depth")
    figure, grid = style.panels(4, len(styles), 1.95, style.PAGE)
    overs, cosines = [], []
    for p, curve_style in enumerate(styles):
        top, over, cosine, loss = (row[p] for row in grid)
        last = _last(ds, p)
        _parts(top, ds, p, curve_style)
        top.set_title(curves.panel_title(curve_style, str(array(ds, "verdict")[p])))
        shown = curves.select(ds, "second_moment", (p, last))
        overs.append(shown)
        curves.draw(over, curve_style, depth, shown, slice(None))
        hollow = curve_style.hollow | {"markersize": curve_style.size - 1}
        over.plot(depth, array(ds, "second_moment_measured")[p, 0], **hollow, zorder=2.2)
        over.set_title(f"After step {step[last]:g}")
        cosines.append(curves.select(ds, "branch_cosine", (p, last)))
        curves.draw(cosine, curve_style, array(ds, "sublayer"), cosines[-1], slice(None))
        cosine.set_title(f"After step {step[last]:g}")
        change = _until(ds, p, curves.select(ds, "loss_change", (p, slice(None))))
        curves.draw(loss, curve_style, step, change, slice(None))
        for axes in (top, loss):
            _steps(axes, step)
        for axes, words in ((over, "Sublayers passed"), (cosine, "Sublayer (from 0)")):
            axes.set_xlabel(words)
            scales.integers(axes, 5)
    for axes, shown in zip(grid[1], overs, strict=True):  # separate scales: placements differ by orders of magnitude
        scales.log_axis([axes], np.concatenate([v for k, v in shown.items() if k in ("measured", "predicted")]))
    for axes in (*grid[2], *grid[3]):
        axes.axhline(0.0, color=style.INK, linewidth=0.6)
    names = ("E[x²] at the top", "E[x²]", "Cosine of branch and stream", "Change of the loss")
    for row, words in zip(grid, names, strict=True):
        row[0].set_ylabel(words)
    keys: list[Line2D | Patch] = [style.key(s, True) for s in styles]
    keys += [style.patch(color=style.INK, alpha=COHERENT, lw=0, label="theory: coherent part (along the gradients)"),
             style.patch(color=style.INK, alpha=REST, lw=0, label="theory: rest"),
             style.entry(color=style.INK, linestyle="", marker="o", markersize=4, markerfacecolor="white",
                    markeredgecolor=style.INK, label="measured before training")]  # fmt: skip
    words = "Row 1: second moment at the top of the stack on held-out windows; line: theory; dark: its part along the "
    words += "gradients. Rows 2 and 3: over depth, after the last step for which the theory is valid. Row 4: change of "
    words += "the loss [nat] on these windows since the start of training. "
    return style.finish(figure, keys, words + _explanation(ds))


def _parts(axes: Axes, ds: xr.Dataset, p: int, curve_style: style.Style) -> None:
    """Draws the final stream over steps: predicted parts stacked, their sum as a line, measurements as markers."""
    step, end = array(ds, "step"), _last(ds, p) + 1
    curve = _until(ds, p, curves.select(ds, "second_moment", (p, slice(None), -1)))
    coherent = array(ds, "coherent_predicted")[p, :, -1]
    rest = curve["predicted"] - coherent
    axes.fill_between(step[:end], 0, rest[:end], color=curve_style.colour, alpha=REST, lw=0)
    axes.fill_between(step[:end], rest[:end], curve["predicted"][:end], color=curve_style.colour, alpha=COHERENT, lw=0)
    curves.draw(axes, curve_style, step, curve, slice(None))
    axes.set_ylim(bottom=0)


@kind("first-steps-matrices", "effect of every matrix's update on its product, predicted and measured", REQUIRED)
def matrices(ds: xr.Dataset) -> style.Page:
    styles, step, names = captions.styles(ds), array(ds, "step"), [str(n) for n in array(ds, "weight")]
    figure, (panels,) = style.panels(1, len(styles), 2.6, style.PAGE, sharey=True)
    drawn = []
    for p, (axes, curve_style) in enumerate(zip(panels, styles, strict=True)):
        for w, name in enumerate(names):
            matrix = style.Style(name, *style.MATRICES[name])
            curve = {v: _over_layers(ds, v, p, w) for v in ("measured", "stderr", "predicted", "predicted_stderr")}
            curve = {v: values[1:] for v, values in _until(ds, p, curve).items()}
            drawn += [curve["measured"], curve["predicted"]]
            predicted = {v: curve[v] for v in ("predicted", "predicted_stderr")}
            curves.draw(axes, matrix, step[1:], predicted, slice(None))
            shifted = step[1:] + SHIFT * (w - (len(names) - 1) / 2)  # so that similar matrices do not overlap
            style.points(axes, matrix, shifted, curve["measured"], 2 * curve["stderr"], zorder=2.5, elinewidth=0.7,
                         markersize=matrix.size - 1)  # fmt: skip
        axes.set_title(curves.panel_title(curve_style, str(array(ds, "verdict")[p])))
        _steps(axes, step)
        axes.set_xlim(0.5, step[-1] + 0.5)
    panels[0].set_ylabel(r"Mean square of an entry of $(W-W_0)h$")
    scales.log_axis(panels, np.concatenate(drawn))
    keys = [style.key(style.Style(f"W_{name}", *style.MATRICES[name]), True) for name in names]
    words = "Change of each matrix's output since the start of training, for its inputs h on held-out windows, mean "
    words += "over layers; the markers of a step are shifted horizontally. Lines: theory. "
    return style.finish(figure, keys, words + _explanation(ds))


def _over_layers(ds: xr.Dataset, suffix: str, p: int, w: int) -> np.ndarray:
    """Returns the mean over layers for a matrix, by step. Standard errors are averaged too, which is
    exact if the errors of a seed or replicate are fully correlated over layers."""
    of_layers = array(ds, f"update_{suffix}")[p, :, w]
    return of_layers[:, np.isfinite(of_layers).any(axis=0)].mean(axis=1)


def _until(ds: xr.Dataset, p: int, curve: curves.Curve) -> curves.Curve:
    """Restricts a curve's prediction to the steps for which the theory is valid."""
    is_valid = np.arange(len(array(ds, "step"))) <= _last(ds, p)
    return curve | {k: np.where(is_valid, v, np.nan) for k, v in curve.items() if k.startswith("predicted")}


def _last(ds: xr.Dataset, p: int) -> int:
    """Returns the last step for which the theory is valid, or the last step if there is no theory."""
    last = array(ds, "holds_until")[p]
    return int(last) if np.isfinite(last) else len(array(ds, "step")) - 1


def _steps(axes: Axes, step: np.ndarray) -> None:
    axes.set_xlabel("Steps done")
    scales.integers(axes, 6)
    axes.set_xlim(-0.03 * step[-1], 1.03 * step[-1])


def _explanation(ds: xr.Dataset) -> str:
    """Explains lines and markers, the end of the theory's validity and missing verdicts, and describes the run."""
    words = "Bands: ± 2 standard errors of the prediction; markers: mean over seeds, ± 2 standard errors. "
    step = array(ds, "step")
    for p, curve_style in enumerate(captions.styles(ds)):
        stopped, reason = (str(array(ds, name)[p]) for name in ("stopped_by", "verdict_reason"))
        if stopped and _last(ds, p) < len(step) - 1:
            words += f"{curve_style.label}: theory valid up to step {step[_last(ds, p)]:g} ({stopped}). "
        if array(ds, "verdict")[p] == "not-checked" and reason:
            words += f"{curve_style.label} was not checked: {reason}. "
    return words + groups.run(ds)

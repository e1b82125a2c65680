"""The first optimizer steps: how the stream grows, predicted from batches and random weights alone (T28), and
measured."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from . import captions, curves, groups, scales, style
from .dataset import array, coordinates, on
from .makers import kind

NEEDS = (
    coordinates("placement step depth sublayer weight")
    | on("placement", "verdict", "verdict_reason", "holds_until", "stopped_by")
    | on("placement step depth", "second_moment_measured", "second_moment_predicted", "coherent_predicted")
    | on("placement step sublayer", "branch_cosine_measured", "branch_cosine_predicted")
    | on("placement step", "loss_change_measured", "loss_change_predicted")
    | on("placement step weight layer", "update_measured", "update_predicted")
)
# Of the matrices: Okabe and Ito's colours, and a marker each.
MATRICES = {"q": ("#56B4E9", "v"), "k": ("#0072B2", "^"), "v": ("#009E73", "o"), "o": ("#E69F00", "s"),
            "gate": ("#CC79A7", "P"), "up": ("#882255", "D"), "down": ("#D55E00", "X"),
            "attention_gate": ("#777777", "h")}  # fmt: skip
BESIDE = 0.07  # steps between the markers of two matrices
COHERENT, REST = 0.55, 0.2  # how much of a placement's colour the parts of its stream have


@kind("first-steps", "the stream in the first steps: theory's two parts, cosines of branches, and the measured stream",
      NEEDS)  # fmt: skip
def surge(ds: xr.Dataset) -> style.Page:
    looks, step, depth = captions.looks(ds), array(ds, "step"), array(ds, "depth")
    figure, grid = style.panels(4, len(looks), 1.95, style.PAGE)
    overs, cosines = [], []
    for p, look in enumerate(looks):
        top, over, cosine, loss = (row[p] for row in grid)
        last = _last(ds, p)
        _parts(top, ds, p, look)
        top.set_title(curves.titled(look, str(array(ds, "verdict")[p])))
        shown = curves.select(ds, "second_moment", (p, last))
        overs.append(shown)
        curves.draw(over, look, depth, shown, slice(None))
        over.plot(depth, array(ds, "second_moment_measured")[p, 0], **look.hollow | {"markersize": look.size - 1},
                  zorder=2.2)  # fmt: skip
        over.set_title(f"After step {step[last]:g}")
        cosines.append(curves.select(ds, "branch_cosine", (p, last)))
        curves.draw(cosine, look, array(ds, "sublayer"), cosines[-1], slice(None))
        cosine.set_title(f"After step {step[last]:g}")
        curves.draw(loss, look, step, _until(ds, p, curves.select(ds, "loss_change", (p, slice(None)))), slice(None))
        for axes in (top, loss):
            _steps(axes, step)
        for axes, words in ((over, "Sublayers passed"), (cosine, "Sublayer (from 0)")):
            axes.set_xlabel(words)
            scales.integers(axes, 5)
    for axes, shown in zip(grid[1], overs, strict=True):  # placements differ by orders of magnitude
        scales.log_axis([axes], np.concatenate([v for k, v in shown.items() if k in ("measured", "predicted")]))
    for axes in (*grid[2], *grid[3]):
        axes.axhline(0.0, color=style.INK, linewidth=0.6)
    names = ("E[x²] at the top", "E[x²]", "Cosine of branch and stream", "Change of the loss")
    for row, words in zip(grid, names, strict=True):
        row[0].set_ylabel(words)
    keys: list[Line2D | Patch] = [style.key(look, True) for look in looks]
    keys += [style.patch(color=style.INK, alpha=COHERENT, lw=0, label="theory: follows the gradients"),
             style.patch(color=style.INK, alpha=REST, lw=0, label="theory: the rest"),
             style.entry(color=style.INK, linestyle="", marker="o", markersize=4, markerfacecolor="white",
                    markeredgecolor=style.INK, label="measured before training")]  # fmt: skip
    words = "Top: second moment at the top of the stack on the held-out windows; line: theory, of which the dark part "
    words += "follows the gradients. Below, over depth: after the last step that the theory holds for. Last: the loss "
    words += "[nat] on these windows less that before training. "
    return style.finish(figure, keys, words + _reading(ds))


def _parts(axes: Axes, ds: xr.Dataset, p: int, look: style.Look) -> None:
    """The stream at the top over the steps: theory's parts stacked, its sum as a line, measurement as markers."""
    step, end = array(ds, "step"), _last(ds, p) + 1
    curve = _until(ds, p, curves.select(ds, "second_moment", (p, slice(None), -1)))
    coherent = array(ds, "coherent_predicted")[p, :, -1]
    rest = curve["predicted"] - coherent
    axes.fill_between(step[:end], 0, rest[:end], color=look.colour, alpha=REST, lw=0)
    axes.fill_between(step[:end], rest[:end], curve["predicted"][:end], color=look.colour, alpha=COHERENT, lw=0)
    curves.draw(axes, look, step, curve, slice(None))
    axes.set_ylim(bottom=0)


@kind("first-steps-matrices", "what every matrix adds to its product in the first steps, theory and measured", NEEDS)
def matrices(ds: xr.Dataset) -> style.Page:
    looks, step, names = captions.looks(ds), array(ds, "step"), [str(n) for n in array(ds, "weight")]
    figure, (panels,) = style.panels(1, len(looks), 2.6, style.PAGE, sharey=True)
    drawn = []
    for p, (axes, look) in enumerate(zip(panels, looks, strict=True)):
        for w, name in enumerate(names):
            matrix = style.Look(name, *MATRICES[name])
            curve = {v: _over_layers(ds, v, p, w) for v in ("measured", "stderr", "predicted", "predicted_stderr")}
            curve = {v: values[1:] for v, values in _until(ds, p, curve).items()}
            drawn += [curve["measured"], curve["predicted"]]
            predicted = {v: curve[v] for v in ("predicted", "predicted_stderr")}
            curves.draw(axes, matrix, step[1:], predicted, slice(None))
            aside = step[1:] + BESIDE * (w - (len(names) - 1) / 2)  # matrices that grow alike would hide each other
            style.points(axes, matrix, aside, curve["measured"], 2 * curve["stderr"], zorder=2.5, elinewidth=0.7,
                         markersize=matrix.size - 1)  # fmt: skip
        axes.set_title(curves.titled(look, str(array(ds, "verdict")[p])))
        _steps(axes, step)
        axes.set_xlim(0.5, step[-1] + 0.5)
    panels[0].set_ylabel(r"Mean square of an entry of $(W-W_0)h$")
    scales.log_axis(panels, np.concatenate(drawn))
    keys = [style.key(style.Look(f"W_{name}", *MATRICES[name]), True) for name in names]
    words = "What training has added to each matrix's product with what it reads on the held-out windows, mean over "
    words += "layers; markers of a step stand beside each other. Lines: theory. "
    return style.finish(figure, keys, words + _reading(ds))


def _over_layers(ds: xr.Dataset, version: str, p: int, w: int) -> np.ndarray:
    """The mean over layers of a matrix's numbers, by step. The layers of a seed, and of a chain, may err alike: the
    error is as if they did."""
    of_layers = array(ds, f"update_{version}")[p, :, w]
    return of_layers[:, np.isfinite(of_layers).any(axis=0)].mean(axis=1)


def _until(ds: xr.Dataset, p: int, curve: curves.Curve) -> curves.Curve:
    """A curve over the steps whose prediction ends where the theory stops."""
    held = np.arange(len(array(ds, "step"))) <= _last(ds, p)
    return curve | {k: np.where(held, v, np.nan) for k, v in curve.items() if k.startswith("predicted")}


def _last(ds: xr.Dataset, p: int) -> int:
    """The last step that the theory holds for; the last of all where there is no theory."""
    held = array(ds, "holds_until")[p]
    return int(held) if np.isfinite(held) else len(array(ds, "step")) - 1


def _steps(axes: Axes, step: np.ndarray) -> None:
    axes.set_xlabel("Steps done")
    scales.integers(axes, 6)
    axes.set_xlim(-0.03 * step[-1], 1.03 * step[-1])


def _reading(ds: xr.Dataset) -> str:
    """How to read lines and markers, where theory stops, why there is no verdict, and what was run."""
    words = "Bands: ± 2 standard errors of the prediction; markers: mean over seeds, ± 2 standard errors. "
    step = array(ds, "step")
    for p, look in enumerate(captions.looks(ds)):
        stopped, reason = (str(array(ds, name)[p]) for name in ("stopped_by", "verdict_reason"))
        if stopped and _last(ds, p) < len(step) - 1:
            words += f"{look.label}: theory stops after step {step[_last(ds, p)]:g} ({stopped}). "
        if array(ds, "verdict")[p] == "not-checked" and reason:
            words += f"{look.label} was not checked: {reason}. "
    return words + groups.run(ds)

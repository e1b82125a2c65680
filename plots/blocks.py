"""Many placements in one figure: variance, gradient and angle over depth of the most different ones, by class."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, curves, scales, stream, style
from .dataset import array, config, is_measured, on, seeds_in_words
from .makers import inputs, kind

FEWEST, SHOWN = 9, 12  # fewer stacks are readable in one panel; more than twelve are not in a page of classes

# Stacks of a class differ at initialisation by the sizes of their branches and, where nothing is normed behind the
# addition, by a gauge: a factor of the whole stream that every norm takes off again. Free forms are of the last class.
CLASSES = {
    "Sums of branches\n(norm A)": ("none", "pre", "lns", "depth-scaled", "u-mup", "layer-scale", "parallel",
                                   "parallel-two", "x0", "hyper"),
    "Sums of normed\nbranches (norm B)": ("peri", "b-only", "sub-ln", "beam"),
    "Norm on the stream\n(norm C)": ("post", "a+c", "deepnorm", "deepnorm-glm", "keel", "hybridnorm", "ngpt", "span",
                                     "residual-dual"),
    "Stream that forgets\n(α² + β² = 1)": ("muse-spark",),
    "Rules that change": ("mix",),
}  # fmt: skip
RULES_THAT_CHANGE = list(CLASSES)[-1]


@dataclass(frozen=True)
class Curves:
    """What a stack does over depth: the numbers of layers passed, and three curves of them. The angle is between the
    stream and the stack's input, and the variance is over the input's: nGPT's stream is of length 1."""

    layers: np.ndarray
    variance: curves.Curve
    gradient: curves.Curve
    angle: curves.Curve

    def all(self) -> tuple[curves.Curve, ...]:
        return self.variance, self.gradient, self.angle


def class_of(placement: str) -> str:
    """Returns the class of a stack by its placement, "peri" or "peri, qk_norm full"; free forms are of the last one."""
    base = placement.partition(", ")[0]
    return next((title for title, names in CLASSES.items() if base in names), RULES_THAT_CHANGE)


def read(ds: xr.Dataset, i: int, p: int) -> Curves:
    """The curves of one stack, at the depths that it has: side-by-side blocks have one addition for each layer."""
    sizes, gradients = curves.select(ds, "variance", (i, p)), stream.norms(ds, "log_grad_sq", (i, p))
    at_input = next((sizes[v][0] for v in ("predicted", "measured") if v in sizes and sizes[v][0] > 0), 1.0)
    sizes = {k: v / at_input for k, v in sizes.items()}
    angle = {v: array(ds, f"angular_distance_{v}")[i, p, 0] for v in ("predicted", "measured")
             if f"angular_distance_{v}" in ds}  # fmt: skip
    angle = {**{error: np.zeros_like(angle["predicted"]) for error in ("predicted_stderr", "stderr")}, **angle}
    finite = np.any([np.isfinite(sizes[v]) for v in ("predicted", "measured") if v in sizes], axis=0)
    depths = int(np.max(np.nonzero(finite), initial=1)) + 1
    layers = np.arange(depths) * (config(ds)["stacks"][p]["model"]["layers"] / (depths - 1))
    return Curves(layers, *({k: v[:depths] for k, v in curve.items()} for curve in (sizes, gradients, angle)))


def difference(a: Curves, b: Curves) -> float:
    """How different two stacks are: the largest difference, over layers passed, of the logarithms of the stream's
    standard deviation and gradient, or of its angle to the input in radians. By theory, and of angles that it does not
    give by measurement. NaN where one has a curve without either."""
    at = np.arange(min(a.layers[-1], b.layers[-1]) + 1)

    def shown(c: Curves) -> np.ndarray:
        known = [curve["predicted"] if curves.is_predicted(curve) else curve.get("measured", curve["predicted"])
                 for curve in c.all()]  # fmt: skip
        sizes, gradients, angle = (np.interp(at, c.layers, values) for values in known)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([0.5 * np.log(sizes), np.log(gradients), np.pi * angle])

    return float(np.max(np.abs(shown(a) - shown(b))))


def most_different(
    every: list[Curves], classes: list[str], first: int = 0
) -> tuple[list[int], dict[int, tuple[int, float]]]:
    """Which stacks to show: `first` if it is known, then of every class the one that differs most from all that are
    shown, then of all of them. And to each that is left out the nearest one shown, with their difference. Those without
    one of the curves are not among them."""
    whole = [p for p, c in enumerate(every) if np.isfinite(difference(c, c))]
    apart = {p: {q: difference(every[p], every[q]) for q in whole} for p in whole}
    shown = [first] if first in whole else whole[:1]
    rounds = [*dict.fromkeys(classes), *[""] * SHOWN]
    for wanted in rounds:
        left = [p for p in whole if p not in shown and wanted in ("", classes[p])]
        if len(shown) < SHOWN and left and not (wanted and any(classes[p] == wanted for p in shown)):
            shown.append(max(left, key=lambda p: min(apart[p][q] for q in shown)))
    nearest = {p: min(((q, apart[p][q]) for q in shown), key=lambda pair: pair[1]) for p in whole if p not in shown}
    return sorted(shown), nearest


@kind("blocks", "the twelve most different of many placements: variance, gradient and angle over depth",
      stream.NEEDS | stream.GRADIENTS | on("input placement depth other_depth", "angular_distance_predicted"),
      lambda ds: inputs(ds) if ds.sizes["placement"] >= FEWEST else {})  # fmt: skip
def blocks(ds: xr.Dataset, i: int) -> style.Page:
    labels, names = [str(label) for label in array(ds, "placement")], captions.placements(ds)
    every = [read(ds, i, p) for p in range(len(names))]
    first = names.index("pre") if "pre" in names else 0
    shown, nearest = most_different(every, [class_of(name) for name in names], first)
    rows = [(title, [p for p in shown if class_of(names[p]) == title]) for title in CLASSES]
    rows = [(title, members) for title, members in rows if members]
    order = [p for _, members in rows for p in members]
    looks = dict(zip(order, style.looks([labels[p] for p in order], [names[p] for p in order]), strict=True))
    figure, grid = style.panels(len(rows), 3, 1.55, style.PAGE, sharex=not _narrow())
    for (title, members), row in zip(rows, grid, strict=True):
        for p in members:
            stack = every[p]
            stride = max(1, len(stack.layers) // 8)
            for axes, curve in zip(row, stack.all(), strict=True):
                curves.draw(axes, looks[p], stack.layers, curve, slice(members.index(p) % stride, None, stride))
        row[0].set_ylabel(title)
    _scales(grid, [every[p] for p in order])
    keys = [style.key(looks[p], is_measured(ds)) for p in order]
    keys += [style.theory_and_measurement()] if is_measured(ds) else []
    return style.finish(figure, keys, caption(ds, i, every, shown, nearest))


def _narrow() -> bool:
    return style.PAGE < 3 * style.MULTIPLE_LEAST


def _scales(grid: list[list[Axes]], drawn: list[Curves]) -> None:
    """Titles of the columns, and one scale for each of them, so that classes can be compared."""
    titles = ("Variance over the input's", "Norm of its gradient", "Angle to the input, in half turns")
    titles = ("Variance", "Gradient", "Angle") if _narrow() else titles
    for column, title in enumerate(titles):
        panels = [row[column] for row in grid]
        for axes in panels if _narrow() else panels[:1]:
            axes.set_title(title)
        for axes in panels if _narrow() else panels[-1:]:
            axes.set_xlabel("Layers passed")
        for axes in panels:
            scales.integers(axes, 5)
        if column < 2:
            curves.log_scale(panels, [c.all()[column] for c in drawn])
            continue
        values = np.concatenate([c.angle[v] for c in drawn for v in ("predicted", "measured") if v in c.angle])
        highest = np.max(values, initial=0.0, where=np.isfinite(values))
        for axes in panels:
            axes.set_ylim(0.0, 1.08 * highest or 0.5)
            if not np.isfinite(values).any():
                scales.nothing_finite(axes)


def caption(ds: xr.Dataset, i: int, every: list[Curves], shown: list[int],
            nearest: dict[int, tuple[int, float]]) -> str:  # fmt: skip
    labels = [look.label for look in captions.looks(ds)]
    words = [f"{curves.input_title(ds, i)}. Lines: theory, with bands of ± 2 standard errors where wider."]
    if is_measured(ds):
        words.append(
            f"Markers: means of {seeds_in_words(ds)} (of gradients geometric), ± 2 standard errors; angles have none."
        )
    words.append(
        "Variance: of the stream, over its input's. Gradient: norm of the loss's with respect to the stream, rms over "
        "tokens. Angle: arccos(cosine)/π of the stream and the stack's input, mean over tokens."
    )
    joined = [labels[p] for p in shown if not curves.is_predicted(every[p].angle)]
    if joined and is_measured(ds):
        words.append(f"Theory gives none of {', '.join(joined)}: markers are joined.")
    if nearest:
        left = [f"{labels[p]} ({labels[q]}, {d:.2g})" for p, (q, d) in sorted(nearest.items(), key=lambda kv: kv[1][1])]
        words.append(
            f"The {len(shown)} most different of {len(labels)} stacks. Not shown, with the nearest one shown and their "
            "largest difference over depth, of the logarithm of the stream's standard deviation or gradient or of the "
            f"angle in radians: {', '.join(left)}."
        )
    missing = [labels[p] for p in range(len(labels)) if p not in shown and p not in nearest]
    if missing:
        words.append(f"Without one of the curves, and not shown: {', '.join(missing)}.")
    return " ".join([*words, captions.setting(ds)])

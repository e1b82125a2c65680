"""Many placements in one figure, by class: variance, gradient and angle over depth, of stacks that differ most."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from . import captions, curves, scales, stream, style
from .dataset import array, config, is_measured, on, seeds_text
from .makers import inputs, kind

FEWEST, SHOWN = 9, 12  # the figure needs at least 9 stacks, and shows at most 12

# At initialisation, stacks of a class differ in the sizes of their branches and, without norm C, in a constant factor
# of the whole stream, which norms remove. Custom placements belong to the last class.
CLASSES = {
    "Sums of branches\n(norm A)": ("none", "pre", "lns", "depth-scaled", "u-mup", "layer-scale", "parallel",
                                   "parallel-two", "x0", "hyper"),
    "Sums of normed\nbranches (norm B)": ("peri", "b-only", "sub-ln", "beam"),
    "Norm on the stream\n(norm C)": ("post", "a+c", "deepnorm", "deepnorm-glm", "keel", "hybridnorm", "ngpt", "span",
                                     "residual-dual"),
    "Decaying stream\n(α² + β² = 1)": ("muse-spark",),
    "Rules vary over layers": ("mix",),
}  # fmt: skip
VARYING_RULES = list(CLASSES)[-1]


@dataclass(frozen=True)
class Curves:
    """Curves of a stack over the number of layers passed. The variance is relative to the input's variance, because
    nGPT's stream has length 1; the angle is between the stream and the stack's input."""

    layers: np.ndarray
    variance: curves.Curve
    gradient: curves.Curve
    angle: curves.Curve

    def all(self) -> tuple[curves.Curve, ...]:
        return self.variance, self.gradient, self.angle


def class_of(placement: str) -> str:
    """Returns the class of a placement such as "peri" or "peri, qk_norm full"; the last class for custom placements."""
    base = placement.partition(", ")[0]
    return next((title for title, names in CLASSES.items() if base in names), VARYING_RULES)


def read(ds: xr.Dataset, i: int, p: int) -> Curves:
    """Returns the curves of one stack at its depths; parallel blocks have one addition per layer."""
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
    """Returns the largest difference over layers: in the logarithm of the stream's standard deviation or gradient, or
    in its angle to the input (radians). Measurements replace missing predictions; NaN if both are missing."""
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
    """Selects the stacks to show: `first`, then one from every class, then any others. Each is the candidate that
    differs most from those selected before. Also returns the nearest shown stack and difference, by omitted stack."""
    complete = [p for p, c in enumerate(every) if np.isfinite(difference(c, c))]
    distance = {p: {q: difference(every[p], every[q]) for q in complete} for p in complete}
    shown = [first] if first in complete else complete[:1]
    rounds = [*dict.fromkeys(classes), *[""] * SHOWN]
    for wanted in rounds:
        rest = [p for p in complete if p not in shown and wanted in ("", classes[p])]
        if len(shown) < SHOWN and rest and not (wanted and any(classes[p] == wanted for p in shown)):
            shown.append(max(rest, key=lambda p: min(distance[p][q] for q in shown)))
    nearest = {p: min(((q, distance[p][q]) for q in shown), key=lambda pair: pair[1])
               for p in complete if p not in shown}  # fmt: skip
    return sorted(shown), nearest


@kind("blocks", "the twelve most different of many placements: variance, gradient and angle over depth",
      stream.REQUIRED | stream.GRADIENTS | on("input placement depth other_depth", "angular_distance_predicted"),
      lambda ds: inputs(ds) if ds.sizes["placement"] >= FEWEST else {})  # fmt: skip
def blocks(ds: xr.Dataset, i: int) -> style.Page:
    labels, names = [str(label) for label in array(ds, "placement")], captions.placements(ds)
    every = [read(ds, i, p) for p in range(len(names))]
    first = names.index("pre") if "pre" in names else 0
    shown, nearest = most_different(every, [class_of(name) for name in names], first)
    rows = [(title, [p for p in shown if class_of(names[p]) == title]) for title in CLASSES]
    rows = [(title, members) for title, members in rows if members]
    order = [p for _, members in rows for p in members]
    styles = dict(zip(order, style.styles([labels[p] for p in order], [names[p] for p in order]), strict=True))
    figure, grid = style.panels(len(rows), 3, 1.55, style.PAGE, sharex=not _narrow())
    for (title, members), row in zip(rows, grid, strict=True):
        for p in members:
            stack = every[p]
            stride = max(1, len(stack.layers) // 8)
            for axes, curve in zip(row, stack.all(), strict=True):
                curves.draw(axes, styles[p], stack.layers, curve, slice(members.index(p) % stride, None, stride))
        row[0].set_ylabel(title)
    _scales(grid, [every[p] for p in order])
    keys = [style.key(styles[p], is_measured(ds)) for p in order]
    keys += [style.theory_and_measurement()] if is_measured(ds) else []
    return style.finish(figure, keys, caption(ds, i, every, shown, nearest))


def _narrow() -> bool:
    return style.PAGE < 3 * style.MULTIPLE_LEAST


def _scales(grid: list[list[Axes]], drawn: list[Curves]) -> None:
    """Sets the titles of the columns and a common scale per column."""
    titles = ("Variance relative to the input", "Gradient norm", "Angle to the input (half turns)")
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
                scales.note_no_finite_value(axes)


def caption(ds: xr.Dataset, i: int, every: list[Curves], shown: list[int],
            nearest: dict[int, tuple[int, float]]) -> str:  # fmt: skip
    labels = [s.label for s in captions.styles(ds)]
    words = [f"{curves.input_title(ds, i)}. Lines: theory; bands (if wider than the line): ± 2 standard errors."]
    if is_measured(ds):
        words.append(
            f"Markers: means of {seeds_text(ds)} (gradients: geometric), ± 2 standard errors; angles without errors."
        )
    words.append(
        "Variance: of the stream, relative to the input. Gradient: norm of the loss's gradient with respect to the "
        "stream, rms over tokens. Angle: arccos(cosine)/π of the stream and the stack's input, mean over tokens."
    )
    joined = [labels[p] for p in shown if not curves.is_predicted(every[p].angle)]
    if joined and is_measured(ds):
        words.append(f"No predicted angle for {', '.join(joined)}, whose markers are joined.")
    if nearest:
        rest = [f"{labels[p]} ({labels[q]}, {d:.2g})" for p, (q, d) in sorted(nearest.items(), key=lambda kv: kv[1][1])]
        words.append(
            f"The {len(shown)} most different of {len(labels)} stacks. Not shown (nearest stack shown, and their "
            "largest difference over depth of the logarithm of the stream's standard deviation or gradient, or of the "
            f"angle in radians): {', '.join(rest)}."
        )
    missing = [labels[p] for p in range(len(labels)) if p not in shown and p not in nearest]
    if missing:
        words.append(f"Not shown because a curve is missing: {', '.join(missing)}.")
    return " ".join([*words, captions.settings_text(ds)])

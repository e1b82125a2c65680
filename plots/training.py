"""Results of `train`: loss, gradient norm, and the variance of the stream over training and depth."""

from typing import Any

import numpy as np
import xarray as xr

from . import captions, groups, scales, style
from .dataset import array, coordinates, on, scalar_or_none, seeds
from .makers import kind


@kind("training", "loss, gradient norm and variance during training",
      coordinates("placement seed step record depth") | on("placement seed step", "loss", "grad_norm")
      | on("placement seed record", "validation_loss") | on("placement seed", "diverged_at")
      | on("placement seed record depth", "variance_measured"))  # fmt: skip
def training(ds: xr.Dataset) -> style.Page:
    step, record, depth = (array(ds, name) for name in ("step", "record", "depth"))
    figure, ((loss, gradient), (top, over_depth)) = style.panels(2, 2, 2.2, style.PAGE)
    variance = array(ds, "variance_measured")
    styles = captions.styles(ds)
    for p, curve_style in enumerate(styles):
        small: dict[str, Any] = {"linewidth": 0.8, "markersize": curve_style.size - 1}
        line_and_markers = curve_style.marks | curve_style.line | small
        loss.plot(step, array(ds, "loss")[p].T, color=curve_style.colour, linewidth=0.5, alpha=0.6)
        loss.plot(record, array(ds, "validation_loss")[p].T, **curve_style.marks | small, zorder=3, clip_on=False)
        gradient.plot(step, array(ds, "grad_norm")[p].T, color=curve_style.colour, linewidth=0.5, alpha=0.7)
        top.plot(record, variance[p, :, :, -1].T, **line_and_markers)
        over_depth.plot(depth, variance[p, :, -1].T, **line_and_markers)
        over_depth.plot(depth, variance[p, :, 0].T, **curve_style.hollow | small)
        if "variance_predicted" in ds:
            over_depth.plot(depth, array(ds, "variance_predicted")[p], **curve_style.line, linewidth=1.3)
    least_loss = scalar_or_none(ds, "loss_floor")
    if least_loss is not None:
        loss.axhline(least_loss, color=style.INK, linewidth=0.8, linestyle=":")
    scales.log_axis([gradient], array(ds, "grad_norm"))
    scales.log_axis([top], variance[..., -1])
    scales.log_axis([over_depth], variance[:, :, [0, -1]])
    for axes in (loss, gradient):
        axes.set(xlim=(0, record[-1]), xlabel="Steps done")
    groups.step_axis(top, record[-1])
    loss.set(ylabel="Loss (nat)", title="Training (lines), held-out (markers)")
    gradient.set(ylabel="Gradient norm", title="All gradients, before clipping")
    top.set(ylabel="Hidden-state variance", title="At the top of the stack")
    over_depth.set(xlabel="Sublayers passed", ylabel="Hidden-state variance",
                   title=f"Over depth, before training and after {record[-1]:g} steps")  # fmt: skip
    scales.integers(over_depth, 6)
    keys = [style.key(s, True) for s in styles]
    keys.append(style.entry(color=style.INK, linewidth=1.3, marker="o", markersize=4, markerfacecolor="white",
                       markeredgecolor=style.INK, label="before training: theory, measured"))  # fmt: skip
    keys.append(style.entry(color=style.INK, linewidth=0.8, marker="o", markersize=4,
                       label="during and after training"))  # fmt: skip
    if least_loss is not None:
        keys.append(style.entry(color=style.INK, linewidth=0.8, linestyle=":", label="lowest attainable loss"))
    counts = zip(styles, np.isfinite(array(ds, "diverged_at")).sum(axis=1), strict=True)
    diverged = [f"{curve_style.label} ({n} of {seeds(ds)} seeds)" for curve_style, n in counts if n]
    words = "One curve per seed; signals are recorded on held-out windows. Over depth: hollow markers before training, "
    words += "with lines for theory (random weights, infinite width); solid markers, joined by thin lines, after it. "
    words += f"Diverged: {', '.join(diverged)}. " if diverged else ""
    return style.finish(figure, keys, words + groups.run(ds))

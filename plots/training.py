"""What `train` recorded: loss, gradient norm, and the variance of the stream over training and depth."""

from typing import Any

import numpy as np
import xarray as xr

from . import captions, groups, scales, style
from .dataset import array, coordinates, fact_if_any, on, seeds
from .makers import kind


@kind("training", "loss, gradient norm and variance during training",
      coordinates("placement seed step record depth") | on("placement seed step", "loss", "grad_norm")
      | on("placement seed record", "validation_loss") | on("placement seed", "diverged_at")
      | on("placement seed record depth", "variance_measured"))  # fmt: skip
def training(ds: xr.Dataset) -> style.Page:
    step, record, depth = (array(ds, name) for name in ("step", "record", "depth"))
    figure, ((loss, gradient), (top, over_depth)) = style.panels(2, 2, 2.2, style.PAGE)
    variance = array(ds, "variance_measured")
    looks = captions.looks(ds)
    for p, look in enumerate(looks):
        small: dict[str, Any] = {"linewidth": 0.8, "markersize": look.size - 1}
        joined = look.marks | look.line | small
        loss.plot(step, array(ds, "loss")[p].T, color=look.colour, linewidth=0.5, alpha=0.6)
        loss.plot(record, array(ds, "validation_loss")[p].T, **look.marks | small, zorder=3, clip_on=False)
        gradient.plot(step, array(ds, "grad_norm")[p].T, color=look.colour, linewidth=0.5, alpha=0.7)
        top.plot(record, variance[p, :, :, -1].T, **joined)
        over_depth.plot(depth, variance[p, :, -1].T, **joined)
        over_depth.plot(depth, variance[p, :, 0].T, **look.hollow | small)
        if "variance_predicted" in ds:
            over_depth.plot(depth, array(ds, "variance_predicted")[p], **look.line, linewidth=1.3)
    floor = fact_if_any(ds, "loss_floor")
    if floor is not None:
        loss.axhline(floor, color=style.INK, linewidth=0.8, linestyle=":")
    scales.log_axis([gradient], array(ds, "grad_norm"))
    scales.log_axis([top], variance[..., -1])
    scales.log_axis([over_depth], variance[:, :, [0, -1]])
    for axes in (loss, gradient):
        axes.set(xlim=(0, record[-1]), xlabel="Steps done")
    groups.step_axis(top, record[-1])
    loss.set(ylabel="Loss (nat)", title="Training (lines), held out (markers)")
    gradient.set(ylabel="Gradient norm", title="All gradients, before clipping")
    top.set(ylabel="Hidden-state variance", title="At the top of the stack")
    over_depth.set(xlabel="Sublayers passed", ylabel="Hidden-state variance",
                   title=f"Over depth: before training and after {record[-1]:g} steps")  # fmt: skip
    scales.integers(over_depth, 6)
    keys = [style.key(look, True) for look in looks]
    keys.append(style.entry(color=style.INK, linewidth=1.3, marker="o", markersize=4, markerfacecolor="white",
                       markeredgecolor=style.INK, label="before training: theory, measured"))  # fmt: skip
    keys.append(style.entry(color=style.INK, linewidth=0.8, marker="o", markersize=4,
                       label="during and after training"))  # fmt: skip
    if floor is not None:
        keys.append(style.entry(color=style.INK, linewidth=0.8, linestyle=":", label="least loss of any predictor"))
    counts = zip(looks, np.isfinite(array(ds, "diverged_at")).sum(axis=1), strict=True)
    lost = [f"{look.label} ({n} of {seeds(ds)} seeds)" for look, n in counts if n]
    words = "Every seed on its own; records are of the held-out windows. Over depth, lines beside hollow markers "
    words += "are theory for random weights at infinite width; thin lines join solid ones. "
    words += f"Diverged: {', '.join(lost)}. " if lost else ""
    return style.finish(figure, keys, words + groups.run(ds))

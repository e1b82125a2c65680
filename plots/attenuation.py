"""Gradients from the top of a stack to its bottom, for uniform and real attention, beside the rate that
Xiong et al. state for Post-LN (claim G10)."""

from typing import Any

import numpy as np
import xarray as xr

from . import captions, curves, scales, score_path, style
from .dataset import array, coordinates, on
from .makers import one_figure

FIGURES = {"attenuation": "gradients from the top of a stack to its bottom"}
NEEDS = (
    coordinates("layers_passed layer")
    | on("case", "qk_factor", "claimed_rate")
    | on("case layers_passed", "log_stream_predicted")
    | on("case layer", "log_down_predicted")
)
QUANTITIES = (("log_stream", "layers_passed", r"$\|\partial\,\mathrm{loss}/\partial x\|$", "Layers passed"),
              ("log_down", "layer", r"$\|\partial\,\mathrm{loss}/\partial W_\mathrm{down}\|_F$", "Layer (from 0)"))
CLAIM: dict[str, Any] = {"color": "0.72", "linewidth": 2.5, "zorder": 1}


@one_figure("attenuation")
def draw(ds: xr.Dataset) -> style.Page:
    factors = list(dict.fromkeys(array(ds, "qk_factor")))
    figure, grid = style.panels(2, len(factors), 2.1, style.page(len(factors)))
    looks = captions.looks(ds)
    for row, (name, along, label, x_label) in zip(grid, QUANTITIES, strict=True):
        x = array(ds, along)
        for axes, factor in zip(row, factors, strict=True):
            every = []
            for k in np.flatnonzero(array(ds, "qk_factor") == factor).tolist():
                every.append(curves.norms(curves.select(ds, name, (k,))))
                curves.draw(axes, looks[k], x, every[-1], slice(None))
                rate = array(ds, "claimed_rate")[k]
                if array(ds, "claim")[k] == "G10":
                    axes.plot(x, every[-1]["predicted"][-1] * np.exp(rate * (x[-1] - x)), **CLAIM)
            curves.log_scale([axes], every)
            scales.whole_numbers(axes, 5)
            axes.set(xlabel=x_label, title="Uniform attention" if factor == 0 else f"Softmax, q·k × {factor:g}²")
        row[0].set_ylabel(label)
    keys = curves.both(list(dict(zip(array(ds, "placement"), looks, strict=True)).values()))
    keys.append(style.entry(**CLAIM, label="claimed for Post-LN: $(2/3)^{(L-l)/2}$"))
    words = "Above: gradient of the hidden state, rms over tokens; below: of the MLP's last matrix. Geometric means "
    words += "over seeds. Grey: what (2/3)^((L−l)/2) would make of Post-LN's gradient at the top. "
    return style.finish(figure, keys, words + score_path.reading(ds))

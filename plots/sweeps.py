"""Gathered sweeps: conversion to a result with one stack per cell, and a figure with one number per cell."""

import json
import math
from typing import Any

import numpy as np
import xarray as xr

from . import captions, scales, style
from .dataset import array, config, is_measured, on, places
from .makers import kind

MOST_STACKS = 24  # in figures over depth
MOST_CELLS = 4  # that are drawn one by one


def stacked(ds: xr.Dataset) -> xr.Dataset:
    """Returns a gathered sweep as a result whose stacks, along ``placement``, are the finished cells; other datasets
    unchanged. Stacks are named by the placement and the swept keys, as in "peri, layers 12"."""
    if "sweep" not in ds.attrs or "cell_status" not in ds or not {"input", "placement"} <= set(ds.dims):
        return ds
    swept = [str(name) for name in ds.dims if "." in str(name)]
    cells = ds.stack(cell=[*swept, "placement"], create_index=False)
    for name, variable in ds.variables.items():
        if "cell" in cells[name].dims:
            own = [d for d in variable.dims if d not in swept]
            order = ["cell" if d == "placement" else d for d in own] if "placement" in own else ["cell", *own]
            cells[name] = cells[name].transpose(*order)
    done = (cells.cell_status == "done").any([d for d in cells.cell_status.dims if d != "cell"])
    if "second_moment_predicted" in cells:  # a cell may have only some of the placements
        done &= cells.second_moment_predicted.notnull().any(["input", "depth"])
    cells = cells.isel(cell=np.flatnonzero(done.values))
    keys = [key for axis in json.loads(ds.attrs["sweep"])["axes"] for key in axis]
    settings: list[dict[str, Any]] = [{} for _ in range(cells.sizes["cell"])]
    fixed: dict[str, Any] = {}  # keys with a single value in these cells
    for key in keys:
        name = "placement" if key == "model.placement" and key not in cells.variables else key
        if name not in cells.variables or cells[name].dims not in ((), ("cell",)):
            continue
        values = np.atleast_1d(cells[name].values).tolist()
        if len(set(values)) == 1:
            fixed[key] = values[0]
            continue
        for table, value in zip(settings, values, strict=True):
            table[key] = value
    names = cells["cell_placement"].values.reshape(-1) if "cell_placement" in cells else cells["placement"].values
    labels = [f"{name}{suffix(table)}" for name, table in zip(names, settings, strict=True)]
    every = [fixed | table for table in settings]
    configuration = config(ds)
    attributes = {}
    for key in (key for key in keys if key in every[0] and key.partition(".")[0] not in captions.SECTIONS):
        section, _, name = key.partition(".")
        values = [table[key] for table in every]
        configuration.setdefault(section, {})[name] = max(values)
        if key == "run.seeds":  # for captions
            attributes["seeds"] = f"{min(values)} to {max(values)} seeds"
    common: list[dict[str, Any]] = configuration["stacks"]
    inputs: list[dict[str, Any]] = [{"input.kind": str(name)} for name in ds["input"].values]
    if "input.kind" in keys:  # a cell has one of the inputs
        common = common * len(inputs)
    per_input = len(common) // len(inputs)  # more than one if a cell has several placements
    configuration["stacks"] = [_stack(common[i * per_input + k % per_input], table | own)
                               for i, own in enumerate(inputs) for k, table in enumerate(every)]  # fmt: skip
    cells = cells.assign_attrs(config=json.dumps(configuration), **attributes)
    # Deeper stacks than the selected ones leave missing values at the end.
    cells = cells.isel({name: slice(0, len(complete)) for name, complete in places(cells) if name in cells.dims})
    cells = cells.drop_vars([n for n in ("placement", "placement_settings", "cell_placement") if n in cells])
    cells = cells.drop_vars("cell_status").assign(cell_status=("cell", np.full(len(labels), "done", dtype=object)))
    texts = np.array([json.dumps(table) for table in settings], dtype=object)
    return cells.rename(cell="placement").assign_coords(
        placement=np.array(labels, dtype=object), placement_settings=("placement", texts))  # fmt: skip


def suffix(table: dict[str, Any]) -> str:
    """Returns the end of a stack's label, such as ", layers 12"."""
    return "".join(f", {key.rpartition('.')[2]} {captions.value_text(value)}"
                   for key, value in table.items() if key != "model.placement")  # fmt: skip


def is_function(tables: list[dict[str, Any]], x: str, y: str) -> bool:
    """Returns whether stacks with the same value of the key `x` have the same value of the key `y`."""
    pairs = {(captions.value_text(table[x]), captions.value_text(table[y])) for table in tables}
    return len(pairs) == len({one for one, _ in pairs})


def single_cells(ds: xr.Dataset) -> dict[str, xr.Dataset]:
    """Returns the finished cells of a gathered sweep by name, such as "init.std-0.02", if there are at most four and
    their results do not consist of stacks; {"": ds} for other datasets."""
    swept = [str(name) for name in ds.dims if "." in str(name)]
    if "sweep" not in ds.attrs or "cell_status" not in ds or math.prod(ds.sizes[name] for name in swept) > MOST_CELLS:
        return {"": ds}
    cells = {}
    for place in np.ndindex(*(ds.sizes[name] for name in swept)):
        cell = ds.isel(dict(zip(swept, place, strict=True)))
        table = {name: cell[name].item() for name in swept}
        configuration = config(ds)
        configuration["stacks"] = [_stack(stack, table) for stack in configuration.get("stacks", ())]
        if (cell.cell_status == "done").all():
            name = "-".join(f"{key}-{captions.value_text(value)}" for key, value in table.items())
            attributes = {key: value for key, value in ds.attrs.items() if key != "sweep"}
            cells[name] = cell.drop_vars(["cell_status", *swept]).drop_attrs(deep=False).assign_attrs(
                attributes | {"config": json.dumps(configuration)})  # fmt: skip
    return cells


def _stack(common: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the keys of a stack: those that all stacks share, and its own."""
    own = {section: dict(keys) for section, keys in common.items()}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        if section in own:
            own[section][name] = value
    return own


def excess_of(ds: xr.Dataset) -> str:
    """Returns why a stacked sweep has no figures over depth, or ""."""
    count = ds.sizes["placement"] if "cell_status" in ds and "placement" in ds.dims else 0
    return "" if count <= MOST_STACKS else (
        f"found {count} stacks; expected at most {MOST_STACKS}: select values of swept keys, such as "
        "sel({'model.layers': [12]})")  # fmt: skip


def top(values: np.ndarray) -> np.ndarray:
    """Returns the last finite value along the last axis; stacks of a sweep may differ in depth."""
    last = values.shape[-1] - 1 - np.argmax(np.isfinite(values)[..., ::-1], axis=-1)
    return np.take_along_axis(values, last[..., None], -1)[..., 0]


def numbers(ds: xr.Dataset, version: str) -> dict[str, np.ndarray]:
    """Returns, by y label, the numbers [input, placement] of every stack, measured or predicted."""
    found = {}
    if f"second_moment_{version}" in ds:
        found["Mean square of x at the top"] = top(array(ds, f"second_moment_{version}"))
    if f"log_grad_sq_{version}" in ds:
        squares = array(ds, f"log_grad_sq_{version}")
        found["Gradient at the input\nover gradient at the top"] = np.exp((squares[..., 0] - top(squares)) / 2)
    return found


def x_key(tables: list[dict[str, Any]]) -> str:
    """Returns the swept key on the x axis: the number with the most values, else the first key."""
    counts = {key: len({table[key] for table in tables}) for key in tables[0]
              if all(isinstance(table[key], (int, float)) for table in tables)}  # fmt: skip
    return max(counts, key=lambda key: counts[key]) if counts else next(iter(tables[0]))


@kind("sweep", "a sweep: size of the stream and ratio of gradients of every stack, over a swept key",
      on("placement", "cell_status") | on("input placement depth", "second_moment_predicted"),
      lambda ds: {"": ()} if any(text != "{}" for text in array(ds, "placement_settings")) else {})  # fmt: skip
def sweep(ds: xr.Dataset) -> style.Page:
    tables = [json.loads(text) for text in array(ds, "placement_settings")]
    key = x_key(tables)
    inputs, names = array(ds, "input"), [str(name) for name in array(ds, "placement")]
    axis = next((list(one) for one in json.loads(ds.attrs["sweep"])["axes"] if key in one), [])
    zipped = [one for one in axis if one != key and one in tables[0] and is_function(tables, key, one)]
    along = [key, *zipped]  # these keys vary together
    lines: dict[str, list[int]] = {}  # stacks by the label without the keys on the x axis
    for p, (name, table) in enumerate(zip(names, tables, strict=True)):
        stack = name.removesuffix(suffix(table))
        rest = suffix({one: value for one, value in table.items() if one not in along})
        lines.setdefault(("" if stack == table[key] else stack) + rest or "stacks", []).append(p)
    predicted, measured = numbers(ds, "predicted"), numbers(ds, "measured")
    figure, grid = style.panels(len(predicted), len(inputs), 2.4, style.page(len(inputs)), sharex=True)
    every = style.styles(lines)
    words = [captions.value_text(table[key]) for table in tables]
    is_number = all(isinstance(table[key], (int, float)) for table in tables)
    places = list(dict.fromkeys(words))
    x = np.array([float(table[key]) if is_number else places.index(word)
                  for table, word in zip(tables, words, strict=True)])  # fmt: skip
    for row, (label, values) in zip(grid, predicted.items(), strict=True):
        for i, axes in enumerate(row):
            for curve_style, members in zip(every, lines.values(), strict=True):
                order = sorted(members, key=lambda p: x[p])
                axes.plot(x[order], values[i, order], **curve_style.line, linewidth=1.3)
                y = measured.get(label, values)[i, order]
                axes.plot(x[order], y, **curve_style.marks)
            if row is grid[0]:
                axes.set_title(style.title(style.INPUTS[inputs[i]]))
            if row is grid[-1]:
                axes.set_xlabel(" with ".join(along))
            if is_number and not (x % 1).any():
                scales.integers(axes, 6)
            if not is_number:
                axes.set_xticks(range(len(places)), places)
        row[0].set_ylabel(label)
        scales.log_axis(row, np.concatenate([values.ravel(), measured.get(label, values).ravel()]))
    has_measurement = is_measured(ds)
    keys = [style.key(curve_style, has_measurement) for curve_style in every] if len(lines) > 1 else []
    others = [json.dumps({k: v for k, v in table.items() if k not in along}) for table in tables]
    caption = (f"Every stack of a sweep over {' with '.join(along)}. Lines: theory"
               + ("; markers: measurement" * has_measurement) + ". "
               + captions.settings_text(ds.assign(placement_settings=("placement", others))))  # fmt: skip
    return style.finish(figure, keys, caption)

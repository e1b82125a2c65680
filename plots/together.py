"""Several results of stacks at initialisation as one, whose stacks are those of all: their curves in one figure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plots import captions
from plots.results import Result, ResultError

NEEDS = ("input", "placement", "depth", "variance_predicted")
MOST_KEYS = 2  # more than that many in a curve's name would not be read
NAMED = ("input", "site", "weight", "statistic")  # dimensions whose coordinates are united; others are filled up


def require(result: Result) -> None:
    """Refuses what is no result of `propagate` or `theory`."""
    missing = [name for name in NEEDS if name not in result]
    if missing or result.dimensions.get("variance_predicted") != ("input", "placement", "depth"):
        raise ResultError(f"{result.path}: --together draws results of `propagate` and `theory`; this is none of them")


def merged(found: Sequence[Result]) -> Result:
    """The results as one. Stacks are named by their placements and by what tells the results apart."""
    if len(found) == 1:
        return found[0]
    marks = names(found)
    stems = {result.path.stem for result in found}
    path = found[0].path.with_stem("-".join(sorted(stems)))
    axes = {name: list(dict.fromkeys(v for r in found if name in r for v in r[name])) for name in NAMED}
    sizes: dict[str, int] = {}
    for result in found:
        for name, values in result.variables.items():
            for dim, size in zip(result.dimensions[name], values.shape, strict=True):
                sizes[dim] = max(size, sizes.get(dim, 0))
    variables: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(n for r in found for n in r.variables):
        dims = next(r.dimensions[name] for r in found if name in r)
        if "placement" in dims and name != "placement":
            is_text = any(r[name].dtype.kind not in "fiub" for r in found if name in r)
            parts = [_filled(r, name, dims, axes, sizes, is_text) for r in found]
            variables[name] = np.concatenate(parts, axis=dims.index("placement"))
        elif dims == (name,) and name != "placement":
            longest = max((r for r in found if name in r), key=lambda r: r[name].size)
            variables[name] = np.array(axes[name], dtype=object) if name in axes else longest[name]
    labels = [f"{p}, {mark}" for result, mark in zip(found, marks, strict=True) for p in result["placement"]]
    variables["placement"] = np.array(labels, dtype=object)
    variables["placement_settings"] = np.array(_settings(found), dtype=object)
    stacks = [stack for result in found for stack in result.config["stacks"]]
    attributes = {k: v for k, v in found[0].attributes.items() if k not in ("config_differences", "theory_told")}
    attributes["commit"] = " and ".join(dict.fromkeys(str(result.attributes["commit"]) for result in found))
    seeds = list(dict.fromkeys(result.seeds for result in found))
    if len(seeds) > 1:
        attributes["seeds"] = f"{' or '.join(map(str, seeds))} seeds"
    return Result(path, variables, attributes, {**found[0].config, "stacks": stacks}, found[0].dimensions)


def _settings(found: Sequence[Result]) -> list[str]:
    """For every stack the keys in which not all are the same, as JSON. A file counts its stacks input by input."""
    tables = [
        table | _of_run(result) for result in found for table in captions.stacks(result)[: result["placement"].size]
    ]
    every = dict.fromkeys(key for table in tables for key in table)
    keys = [key for key in every if len({json.dumps(table.get(key)) for table in tables}) > 1]
    return [json.dumps({key: table.get(key) for key in keys}) for table in tables]


def _of_run(result: Result) -> dict[str, Any]:
    """What a file's stacks have in common and captions have to name where files differ in it."""
    run = result.config["run"]
    misled = captions.misled(result) or "as measured"
    return {"run.seeds": run["seeds"], "run.dtype": run["dtype"], "theory": misled}


def names(found: Sequence[Result]) -> list[str]:
    """What tells results apart: the keys in which they differ, at most two, else their folders or files."""
    tables = []
    for result in found:
        every = captions.stacks(result)
        tables.append({key: captions.shared(every, key) for key in every[0]} | _of_run(result))
    keys = dict.fromkeys(key for table in tables for key in table)
    differing = [key for key in keys if len({json.dumps(table.get(key)) for table in tables}) > 1
                 and key not in ("model.placement", "input.kind", "input.path")]  # fmt: skip
    if 0 < len(differing) <= MOST_KEYS:
        words = [", ".join(f"{key.split('.')[-1]} {_plain(table.get(key))}" for key in differing) for table in tables]
        if len(set(words)) == len(words):
            return words
    return _of_files([result.path for result in found])


def _of_files(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that differ: "mine/propagate" and "yours/propagate"."""
    parts = [path.absolute().with_suffix("").parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(p[-depth:]) for p in parts]
        if len(set(ends)) == len(ends):
            break
    same_stem = len({path.stem for path in paths}) == 1
    return [end.rpartition("/")[0] if same_stem and "/" in end else end for end in ends]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _filled(
    result: Result, name: str, dims: tuple[str, ...], axes: dict[str, list[str]], sizes: dict[str, int], is_text: bool
) -> np.ndarray:
    """A variable on the coordinates of all results: NaN, or no text, where this result has no value."""
    lengths = sizes | {d: len(names) for d, names in axes.items()} | {"placement": result["placement"].size}
    shape = tuple(lengths[d] for d in dims)
    values = result.variables.get(name)
    whole = np.full(shape, "", dtype=object) if is_text else np.full(shape, np.nan)
    if values is None:
        return whole
    places = [[axes[d].index(v) for v in result[d]] if d in axes else list(range(size))
              for d, size in zip(dims, values.shape, strict=True)]  # fmt: skip
    whole[np.ix_(*places)] = values
    return whole

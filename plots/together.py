"""Combines several results (--together): stacks of `propagate` and `theory` in the same figures, or the claims of
several results of `reproduce`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from . import captions
from .dataset import array, config, scalar_or_none, seeds
from .reader import ResultError

REQUIRED = ("input", "placement", "depth", "variance_predicted")
MOST_KEYS = 2  # maximum number of keys in a curve's label


def require(path: Path, ds: xr.Dataset, others: Iterable[xr.Dataset] = ()) -> None:
    """Raises ResultError unless all results are of `propagate` or `theory`, or all of `reproduce`."""
    if _has_claims(ds) and all(map(_has_claims, others)):
        return
    missing = [name for name in REQUIRED if name not in ds]
    if missing or ds["variance_predicted"].dims != ("input", "placement", "depth"):
        raise ResultError(f"{path}: --together expects results of `propagate`, `theory` or `reproduce`")
    if any(map(_has_claims, others)):
        raise ResultError(f"{path}: --together cannot combine `reproduce` with other results; draw them separately")


def _has_claims(ds: xr.Dataset) -> bool:
    return "claim_verdict" in ds and ds["claim_verdict"].dims == ("claim",)


def path(paths: Sequence[Path]) -> Path:
    """Returns the path of the combined result, named after all results, such as "propagate-theory.nc"."""
    return paths[0].with_stem("-".join(sorted({path.stem for path in paths})))


def merged(found: Mapping[Path, xr.Dataset], labels: Sequence[str] = ()) -> xr.Dataset:
    """Combines results. A stack's label is its placement and the label of its result: an entry of `labels`, or the
    differing keys if `labels` is empty. If a result has a single stack, the entry of `labels` is the whole label."""
    every = list(found.values())
    first = every[0]
    if all(map(_has_claims, every)):
        return _claims(every, labels or _regimes(every) or names(found))
    whole = _joined([ds[[n for n, v in ds.data_vars.items() if "placement" in v.dims]] for ds in every], "placement")
    whole = whole.assign({n: v for n, v in first.data_vars.items() if not v.dims})
    stacks = [label if labels and ds.sizes["placement"] == 1 else f"{p}, {label}"
              for ds, label in zip(every, labels or names(found), strict=True)
              for p in array(ds, "placement")]  # fmt: skip
    whole = whole.assign_coords(placement=np.array(stacks, dtype=object))
    whole["placement_settings"] = "placement", np.array(_settings(every), dtype=object)
    attributes = {k: v for k, v in first.attrs.items() if k not in ("config_differences", "theory_override")}
    settings = [stack for ds in every for stack in config(ds)["stacks"]]
    attributes["config"] = json.dumps({**config(first), "stacks": settings})
    attributes |= _differences(every)
    return whole.assign_attrs(attributes | _of_all(every))


def _of_all(every: Sequence[xr.Dataset]) -> dict[str, str]:
    """Returns the attributes with the commits and seeds of all results."""
    counts = list(dict.fromkeys(seeds(ds) for ds in every))
    words = {"seeds": f"{' or '.join(map(str, counts))} seeds"} if len(counts) > 1 else {}
    return words | {"commit": " and ".join(dict.fromkeys(str(ds.attrs["commit"]) for ds in every))}


def _joined(every: Sequence[xr.Dataset], along: str) -> xr.Dataset:
    """Concatenates results along a dimension, on the union of their coordinates; missing values are NaN or ""."""
    variables = [(str(name), v) for ds in every for name, v in ds.variables.items()]
    fill: dict[Any, Any] = {name: np.nan for name, _ in variables} | {n: "" for n, v in variables if v.dtype == object}
    united = {name: list(dict.fromkeys(value for ds in every if name in ds for value in ds[name].values))
              for name, v in variables if v.dims == (name,) and name != along}  # fmt: skip
    aligned = [ds.reindex({d: values for d, values in united.items() if d in ds.dims}, fill_value=fill) for ds in every]
    return xr.concat(aligned, along, data_vars="all", coords="minimal", compat="override", fill_value=fill,
                     join="exact", combine_attrs="drop")  # fmt: skip


def _regimes(every: Sequence[xr.Dataset]) -> list[str]:
    """Returns the parts in which the regimes of results differ, such as "σ√D 0.2"; [] if they are not unique."""
    parts = zip(*(str(scalar_or_none(ds, "regime")).split(", ") for ds in every), strict=False)
    words = [", ".join(own) for own in zip(*(part for part in parts if len(set(part)) > 1), strict=True)]
    return words if len(set(words)) == len(every) else []


def _claims(every: Sequence[xr.Dataset], labels: Sequence[str]) -> xr.Dataset:
    """Returns the claims of all results on the dimensions `result` and `claim`; missing values are "" or NaN."""
    of_claims = [ds[[n for n, v in ds.variables.items() if v.dims == ("claim",)]] for ds in every]
    whole = _joined([ds.reset_coords(set(ds.coords) - {"claim"}, drop=True) for ds in of_claims], "result")
    statements = np.array([max(column) for column in whole["claim_statement"].values.T], dtype=object)
    regimes = np.array([str(scalar_or_none(ds, "regime")) for ds in every], dtype=object)
    whole = whole.assign(claim_statement=("claim", statements), regime=("result", regimes))
    whole = whole.assign_coords(result=np.array(labels, dtype=object))
    return whole.assign_attrs(every[0].attrs | _of_all(every))


def _settings(found: Iterable[xr.Dataset]) -> list[str]:
    """Returns, for every stack, the keys in which stacks differ, as JSON. A file lists its stacks once per input."""
    tables = [table | _of_run(ds) for ds in found for table in captions.stacks(ds)[: ds.sizes["placement"]]]
    every = dict.fromkeys(key for table in tables for key in table)
    keys = [key for key in every if len({json.dumps(table.get(key)) for table in tables}) > 1]
    return [json.dumps({key: table.get(key) for key in keys}) for table in tables]


def _differences(found: Sequence[xr.Dataset]) -> dict[str, str]:
    """Returns the combined attribute config_differences: keys that differ from the default in some result and have one
    value in all stacks. Empty if a result lacks the attribute."""
    texts = [scalar_or_none(ds, "config_differences") for ds in found]
    if None in texts:
        return {}
    tables = [json.loads(text) | table | _of_run(ds)
              for ds, text in zip(found, texts, strict=True) for table in captions.stacks(ds)]  # fmt: skip
    keys = dict.fromkeys(key for text in texts for key in json.loads(text))
    common = {key: value for key in keys if (value := captions.shared(tables, key)) is not None}
    return {"config_differences": json.dumps(common)}


def _of_run(ds: xr.Dataset) -> dict[str, Any]:
    """Returns settings shared by all stacks of a file. Captions list them if files differ."""
    run = config(ds)["run"]
    overrides = captions.theory_overrides(ds) or "no overrides"
    return {"run.seeds": run["seeds"], "run.dtype": run["dtype"], "theory": overrides}


def names(found: Mapping[Path, xr.Dataset]) -> list[str]:
    """Returns distinct labels of results: at most two differing keys, or else their folders or files."""
    tables = []
    for ds in found.values():
        every = captions.stacks(ds)
        tables.append({key: captions.shared(every, key) for key in every[0]} | _of_run(ds))
    keys = dict.fromkeys(key for table in tables for key in table)
    differing = [key for key in keys if len({json.dumps(table.get(key)) for table in tables}) > 1
                 and key not in ("model.placement", "input.kind", "input.path")]  # fmt: skip
    if 0 < len(differing) <= MOST_KEYS:
        words = [", ".join(f"{key.split('.')[-1]} {captions.value_text(table.get(key))}" for key in differing)
                 for table in tables]  # fmt: skip
        if len(set(words)) == len(words):
            return words
    return _of_files(list(found))


def _of_files(paths: Sequence[Path]) -> list[str]:
    """Returns the shortest distinct ends of the paths, such as "mine/propagate" and "yours/propagate"."""
    parts = [path.absolute().with_suffix("").parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(p[-depth:]) for p in parts]
        if len(set(ends)) == len(ends):
            break
    same_stem = len({path.stem for path in paths}) == 1
    return [end.rpartition("/")[0] if same_stem and "/" in end else end for end in ends]


"""Several results as one: of stacks at initialisation, whose stacks are those of all, their curves in one figure; of
`reproduce` the claims, side by side."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from . import captions
from .dataset import array, config, fact_if_any, seeds
from .reader import ResultError

NEEDS = ("input", "placement", "depth", "variance_predicted")
MOST_KEYS = 2  # more than that many in a curve's name would not be read


def require(path: Path, ds: xr.Dataset, others: Iterable[xr.Dataset] = ()) -> None:
    """Refuses what is no result of `propagate` or `theory`, nor of `reproduce` as the others are."""
    if _has_claims(ds) and all(map(_has_claims, others)):
        return
    missing = [name for name in NEEDS if name not in ds]
    if missing or ds["variance_predicted"].dims != ("input", "placement", "depth"):
        raise ResultError(f"{path}: --together draws results of `propagate` and `theory`; this is none of them")
    if any(map(_has_claims, others)):
        raise ResultError(f"{path}: --together draws results of `reproduce` with their like alone; name them apart")


def _has_claims(ds: xr.Dataset) -> bool:
    return "claim_verdict" in ds and ds["claim_verdict"].dims == ("claim",)


def path(paths: Sequence[Path]) -> Path:
    """What the results together are called, from the names of all: beside the first, "propagate-theory.nc"."""
    return paths[0].with_stem("-".join(sorted({path.stem for path in paths})))


def merged(found: Mapping[Path, xr.Dataset], marks: Sequence[str] = ()) -> xr.Dataset:
    """Returns the results as one. A stack's label is its placement with what differs between the results, or with its
    result's text in `marks`; a single stack of a result has that text alone."""
    every = list(found.values())
    first = every[0]
    if all(map(_has_claims, every)):
        return _claims(every, marks or _regimes(every) or names(found))
    whole = _joined([ds[[n for n, v in ds.data_vars.items() if "placement" in v.dims]] for ds in every], "placement")
    whole = whole.assign({n: v for n, v in first.data_vars.items() if not v.dims})
    labels = [mark if marks and ds.sizes["placement"] == 1 else f"{p}, {mark}"
              for ds, mark in zip(every, marks or names(found), strict=True)
              for p in array(ds, "placement")]  # fmt: skip
    whole = whole.assign_coords(placement=np.array(labels, dtype=object))
    whole["placement_settings"] = "placement", np.array(_settings(every), dtype=object)
    attributes = {k: v for k, v in first.attrs.items() if k not in ("config_differences", "theory_override")}
    stacks = [stack for ds in every for stack in config(ds)["stacks"]]
    attributes["config"] = json.dumps({**config(first), "stacks": stacks})
    attributes |= _differences(every)
    return whole.assign_attrs(attributes | _of_all(every))


def _of_all(every: Sequence[xr.Dataset]) -> dict[str, str]:
    """The attributes that name commits and seeds of all results."""
    counts = list(dict.fromkeys(seeds(ds) for ds in every))
    words = {"seeds": f"{' or '.join(map(str, counts))} seeds"} if len(counts) > 1 else {}
    return words | {"commit": " and ".join(dict.fromkeys(str(ds.attrs["commit"]) for ds in every))}


def _joined(every: Sequence[xr.Dataset], along: str) -> xr.Dataset:
    """The results one after the other on the dimension `along`, on all coordinates that any of them has: NaN, or no
    text, where one has no value."""
    variables = [(str(name), v) for ds in every for name, v in ds.variables.items()]
    fill: dict[Any, Any] = {name: np.nan for name, _ in variables} | {n: "" for n, v in variables if v.dtype == object}
    united = {name: list(dict.fromkeys(value for ds in every if name in ds for value in ds[name].values))
              for name, v in variables if v.dims == (name,) and name != along}  # fmt: skip
    even = [ds.reindex({d: values for d, values in united.items() if d in ds.dims}, fill_value=fill) for ds in every]
    return xr.concat(even, along, data_vars="all", coords="minimal", compat="override", fill_value=fill,
                     join="exact", combine_attrs="drop")  # fmt: skip


def _regimes(every: Sequence[xr.Dataset]) -> list[str]:
    """What tells the regimes of results of `reproduce` apart, "σ√D 0.2"; nothing where it does not."""
    parts = zip(*(str(fact_if_any(ds, "regime")).split(", ") for ds in every), strict=False)
    words = [", ".join(own) for own in zip(*(part for part in parts if len(set(part)) > 1), strict=True)]
    return words if len(set(words)) == len(every) else []


def _claims(every: Sequence[xr.Dataset], labels: Sequence[str]) -> xr.Dataset:
    """The claims of every result, on `result` and `claim`; "" or NaN where a result lacks one."""
    of_claims = [ds[[n for n, v in ds.variables.items() if v.dims == ("claim",)]] for ds in every]
    whole = _joined([ds.reset_coords(set(ds.coords) - {"claim"}, drop=True) for ds in of_claims], "result")
    statements = np.array([max(column) for column in whole["claim_statement"].values.T], dtype=object)
    regimes = np.array([str(fact_if_any(ds, "regime")) for ds in every], dtype=object)
    whole = whole.assign(claim_statement=("claim", statements), regime=("result", regimes))
    whole = whole.assign_coords(result=np.array(labels, dtype=object))
    return whole.assign_attrs(every[0].attrs | _of_all(every))


def _settings(found: Iterable[xr.Dataset]) -> list[str]:
    """For every stack the keys in which not all are the same, as JSON. A file counts its stacks input by input."""
    tables = [table | _of_run(ds) for ds in found for table in captions.stacks(ds)[: ds.sizes["placement"]]]
    every = dict.fromkeys(key for table in tables for key in table)
    keys = [key for key in every if len({json.dumps(table.get(key)) for table in tables}) > 1]
    return [json.dumps({key: table.get(key) for key in keys}) for table in tables]


def _differences(found: Sequence[xr.Dataset]) -> dict[str, str]:
    """Returns the attribute config_differences of all results: keys that some result changes from the default and that
    have one value in all stacks. Empty if a result lacks the attribute."""
    said = [fact_if_any(ds, "config_differences") for ds in found]
    if None in said:
        return {}
    tables = [json.loads(text) | table | _of_run(ds)
              for ds, text in zip(found, said, strict=True) for table in captions.stacks(ds)]  # fmt: skip
    keys = dict.fromkeys(key for text in said for key in json.loads(text))
    common = {key: value for key in keys if (value := captions.shared(tables, key)) is not None}
    return {"config_differences": json.dumps(common)}


def _of_run(ds: xr.Dataset) -> dict[str, Any]:
    """What a file's stacks have in common and captions have to name where files differ in it."""
    run = config(ds)["run"]
    misled = captions.misled(ds) or "as measured"
    return {"run.seeds": run["seeds"], "run.dtype": run["dtype"], "theory": misled}


def names(found: Mapping[Path, xr.Dataset]) -> list[str]:
    """What tells results apart: the keys in which they differ, at most two, else their folders or files."""
    tables = []
    for ds in found.values():
        every = captions.stacks(ds)
        tables.append({key: captions.shared(every, key) for key in every[0]} | _of_run(ds))
    keys = dict.fromkeys(key for table in tables for key in table)
    differing = [key for key in keys if len({json.dumps(table.get(key)) for table in tables}) > 1
                 and key not in ("model.placement", "input.kind", "input.path")]  # fmt: skip
    if 0 < len(differing) <= MOST_KEYS:
        words = [", ".join(f"{key.split('.')[-1]} {captions.shown(table.get(key))}" for key in differing)
                 for table in tables]  # fmt: skip
        if len(set(words)) == len(words):
            return words
    return _of_files(list(found))


def _of_files(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that differ: "mine/propagate" and "yours/propagate"."""
    parts = [path.absolute().with_suffix("").parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(p[-depth:]) for p in parts]
        if len(set(ends)) == len(ends):
            break
    same_stem = len({path.stem for path in paths}) == 1
    return [end.rpartition("/")[0] if same_stem and "/" in end else end for end in ends]


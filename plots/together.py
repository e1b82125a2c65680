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
NAMED = ("input", "site", "weight", "statistic")  # dimensions whose coordinates are united; others are filled up


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
    united = {name: list(dict.fromkeys(v for ds in every if name in ds for v in array(ds, name))) for name in NAMED}
    sizes: dict[str, int] = {}
    for ds in every:
        for dim, size in ds.sizes.items():
            sizes[str(dim)] = max(size, sizes.get(str(dim), 0))
    columns: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name in dict.fromkeys(str(n) for ds in every for n in ds.variables):
        having = [ds for ds in every if name in ds]
        dims = tuple(map(str, having[0][name].dims))
        if "placement" in dims and name != "placement":
            is_text = any(array(ds, name).dtype.kind == "O" for ds in having)
            parts = [_filled(ds, name, dims, united, sizes, is_text) for ds in every]
            columns[name] = dims, np.concatenate(parts, axis=dims.index("placement"))
        elif dims == (name,) and name != "placement":
            longest = max((array(ds, name) for ds in having), key=len)
            columns[name] = dims, np.array(united[name], dtype=object) if name in united else longest
        elif not dims and name in first:
            columns[name] = dims, first[name].values
    labels = [mark if marks and ds.sizes["placement"] == 1 else f"{p}, {mark}"
              for ds, mark in zip(every, marks or names(found), strict=True)
              for p in array(ds, "placement")]  # fmt: skip
    columns["placement"] = ("placement",), np.array(labels, dtype=object)
    columns["placement_settings"] = ("placement",), np.array(_settings(every), dtype=object)
    attributes = {k: v for k, v in first.attrs.items() if k not in ("config_differences", "theory_told")}
    stacks = [stack for ds in every for stack in config(ds)["stacks"]]
    attributes["config"] = json.dumps({**config(first), "stacks": stacks})
    attributes |= _differences(every)
    attributes["commit"] = " and ".join(dict.fromkeys(str(ds.attrs["commit"]) for ds in every))
    counts = list(dict.fromkeys(seeds(ds) for ds in every))
    if len(counts) > 1:
        attributes["seeds"] = f"{' or '.join(map(str, counts))} seeds"
    return xr.Dataset(columns, attrs=attributes)


def _regimes(every: Sequence[xr.Dataset]) -> list[str]:
    """What tells the regimes of results of `reproduce` apart, "σ√D 0.2"; nothing where it does not."""
    parts = zip(*(str(fact_if_any(ds, "regime")).split(", ") for ds in every), strict=False)
    words = [", ".join(own) for own in zip(*(part for part in parts if len(set(part)) > 1), strict=True)]
    return words if len(set(words)) == len(every) else []


def _claims(every: Sequence[xr.Dataset], labels: Sequence[str]) -> xr.Dataset:
    """The claims of every result, on `result` and `claim`; "" or NaN where a result lacks one."""
    first = every[0]
    united = {"claim": list(dict.fromkeys(c for ds in every for c in array(ds, "claim")))}
    columns: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name in dict.fromkeys(str(n) for ds in every for n in ds.variables if ds[n].dims == ("claim",)):
        is_text = any(name in ds and array(ds, name).dtype.kind == "O" for ds in every)
        parts = [_filled(ds, name, ("claim",), united, {}, is_text) for ds in every]
        columns[name] = ("result", "claim"), np.stack(parts)
    columns["claim"] = ("claim",), np.array(united["claim"], dtype=object)
    statements = columns["claim_statement"][1]
    columns["claim_statement"] = ("claim",), np.array([max(column) for column in statements.T], dtype=object)
    columns["regime"] = ("result",), np.array([str(fact_if_any(ds, "regime")) for ds in every], dtype=object)
    columns["result"] = ("result",), np.array(labels, dtype=object)
    counts = list(dict.fromkeys(seeds(ds) for ds in every))
    attributes = dict(first.attrs) | {"commit": " and ".join(dict.fromkeys(str(ds.attrs["commit"]) for ds in every))}
    if len(counts) > 1:
        attributes["seeds"] = f"{' or '.join(map(str, counts))} seeds"
    return xr.Dataset(columns, attrs=attributes)


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
        words = [", ".join(f"{key.split('.')[-1]} {_plain(table.get(key))}" for key in differing) for table in tables]
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


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _filled(
    ds: xr.Dataset, name: str, dims: tuple[str, ...], united: dict[str, list[str]], sizes: dict[str, int], is_text: bool
) -> np.ndarray:
    """A variable on the coordinates of all results: NaN, or no text, where this result has no value."""
    lengths = sizes | {d: len(every) for d, every in united.items()} | {"placement": ds.sizes.get("placement", 0)}
    shape = tuple(lengths[d] for d in dims)
    whole = np.full(shape, "", dtype=object) if is_text else np.full(shape, np.nan)
    if name not in ds:
        return whole
    values = array(ds, name)
    places = [[united[d].index(v) for v in array(ds, d)] if d in united else list(range(size))
              for d, size in zip(dims, values.shape, strict=True)]  # fmt: skip
    whole[np.ix_(*places)] = values
    return whole

"""Captions: sentences about a run's size, the keys that affect its curves, and the version of Periscope."""

import json
from collections.abc import Iterator
from typing import Any

import xarray as xr

from . import style
from .dataset import array, config, is_measured, scalar, scalar_or_none, version

NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
MLPS = {"swiglu": "SwiGLU", "geglu": "GeGLU", "relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}
SCHEMES = {"lecun": "LeCun", "he": "He", "xavier": "Xavier"}
SECTIONS = ("model", "init", "input")
# Keys that captions describe in words, that legends show, or that do not affect numbers.
DESCRIBED = ("model.layers", "model.width", "model.mlp", "model.norm", "model.placement", "init.scheme", "input.kind",
        "input.tokens", "input.path", "input.second_moment", "run.seeds")  # fmt: skip
SHOWN_BY_PANELS = ("input.kind", "input.path")


def settings_text(ds: xr.Dataset) -> str:
    """Returns the last sentences of a caption: size and keys of the run, overrides of the theory, and the version."""
    overrides = theory_overrides(ds)
    return f"{_size(ds)} {keys(ds)}{f'Theory with {overrides}. ' if overrides else ''}{version(ds)}"


def stacks(ds: xr.Dataset) -> list[dict[str, Any]]:
    """Returns the resolved keys of every stack, such as {"model.width": 64, ...}."""
    return [{f"{section}.{key}": value for section in SECTIONS for key, value in stack.get(section, {}).items()}
            for stack in config(ds)["stacks"]]  # fmt: skip


def placements(ds: xr.Dataset) -> list[str]:
    """Returns the placement of every stack, even if its label is a recipe or a user-defined name."""
    labels = [str(label) for label in array(ds, "placement")]
    if "placement_settings" not in ds:
        return labels
    common = shared(stacks(ds), "model.placement")
    found = [json.loads(text).get("model.placement", common) if text else common
             for text in array(ds, "placement_settings")]  # fmt: skip
    return [own if isinstance(own, str) else label for own, label in zip(found, labels, strict=True)]


def styles(ds: xr.Dataset) -> list[style.Style]:
    """Returns the curve style of every stack of a result; a recipe has the style of its placement."""
    return style.styles(array(ds, "placement"), placements(ds))


def shared(every: list[dict[str, Any]], key: str) -> Any:
    """Returns a key's value, or None if the stacks differ in it or do not have it."""
    values = {json.dumps(stack.get(key)) for stack in every}
    return every[0].get(key) if len(values) == 1 else None


def _size(ds: xr.Dataset) -> str:
    """Returns the sentence "24 layers, each attention and MLP, width 64, ..."."""
    every = stacks(ds)
    layers, width, mlp, norm = (shared(every, f"model.{key}") for key in ("layers", "width", "mlp", "norm"))
    tokens, scheme = shared(every, "input.tokens"), shared(every, "init.scheme")
    parts = []
    if layers is not None and "layers" not in ds:
        parts.append(f"{layers} layer{'s' * (layers > 1)}, each attention and MLP")
    if width is not None and "width" not in ds and "ladder_width" not in ds:
        parts.append(f"width {width}")
    size = shared(every, "input.second_moment")  # always stated, because it affects every curve near the input
    if tokens is not None:
        parts.append(f"{tokens} tokens" + (f" of second moment {size:g}" if size is not None else ""))
    parts += [names.get(value, value) for names, value in ((MLPS, mlp), (NORMS, norm)) if value is not None]
    if scheme is not None:
        std = shared(every, "init.std")
        spread = f" (std {std:g})" if scheme == "normal" and std is not None else ""
        parts.append(f"{SCHEMES.get(scheme, scheme)} init{spread}")
    if is_measured(ds) or "bias" in ds or "fit" in ds:
        parts.append(config(ds)["run"]["dtype"])
    return f"{style.title(', '.join(parts))}."


def keys(ds: xr.Dataset) -> str:
    """Returns sentences about the keys that differ from their defaults, and those in which the stacks differ."""
    every = stacks(ds)
    common = _common(ds, every)
    differing = "; ".join(f"{key}: {values}" for key, values in _differing(ds, every))
    return (f"{common}. " if common else "") + (f"Curves differ in {differing}. " if differing else "")


def _common(ds: xr.Dataset, every: list[dict[str, Any]]) -> str:
    """Lists the keys that differ from their defaults, or all keys if the attribute config_differences is missing."""
    differences = scalar_or_none(ds, "config_differences")
    if differences is not None:
        found = {k: v for k, v in json.loads(differences).items() if k not in DESCRIBED}
        return f"Non-default keys: {_listed(found)}" if found else ""
    found = {k: shared(every, k) for k in every[0] if k not in DESCRIBED and shared(every, k) is not None}
    return f"Keys: {_listed(found)}" if found else ""


def _differing(ds: xr.Dataset, every: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yields the keys in which stacks differ, with each value and the labels of its stacks."""
    if "placement_settings" in ds and "placement" in ds:
        labels = [s.label for s in styles(ds)]
        tables = [json.loads(text) if text else {} for text in array(ds, "placement_settings")]
    else:
        labels = [s.label for s in style.styles(_name(stack["model.placement"]) for stack in every)]
        tables = every
    for key in dict.fromkeys(key for table in tables for key in table if key not in SHOWN_BY_PANELS):
        values = [table.get(key) for table in tables]
        words = [style.styles([_name(v)])[0].label if key == "model.placement" else value_text(v) for v in values]
        if key != "theory" and all(_is_in_label(label, key, value) for label, value in zip(labels, words, strict=True)):
            if key != "model.placement" and len(set(words)) > 1:
                yield key, "see the legend"
            continue
        owners: dict[str, list[str]] = {}
        for label, value in zip(labels, words, strict=True):
            owners.setdefault(value, []).append(label)
        if len(owners) > 1:
            yield key, ", ".join(f"{value} ({_owners(names, labels)})" for value, names in owners.items())


def _is_in_label(label: str, key: str, value: str) -> bool:
    """Returns whether a curve's label contains the key's value: as its first part, or as "std 0.02"."""
    first, *others = label.split(", ")
    return value == first or label.startswith(value + ", ") or f"{key.rpartition('.')[2]} {value}" in others


def _owners(names: list[str], labels: list[str]) -> str:
    """Lists `names`; if they include all labels with the same first part, lists only this part."""
    found: list[str] = []
    first = {name: name[: name.rfind("}") + 1] or name.partition(", ")[0] for name in (*names, *labels)}
    for prefix in dict.fromkeys(first[name] for name in names):
        members = [name for name in dict.fromkeys(names) if first[name] == prefix]
        every = {label for label in labels if first[label] == prefix}
        found += [prefix] if set(members) == every else members
    return ("; " if any(", " in name for name in found) else ", ").join(found)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value_text(value)}" for key, value in values.items())


def value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else _name(value)


def theory_overrides(ds: xr.Dataset) -> str:
    """Returns the keys overridden for the theory and its planted fault as text, or ""."""
    if scalar_or_none(ds, "theory_override") is None:
        return ""
    override = json.loads(scalar(ds, "theory_override"))
    planted = [] if override["fault"] == "none" else [f"planted fault {override['fault']}"]
    return f"deliberate errors: {', '.join(override['set'] + planted)}"

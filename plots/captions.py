"""What captions say of a run: its size, every key that decides the curves, and which Periscope made it."""

import json
from collections.abc import Iterator
from typing import Any

import xarray as xr

from . import style
from .dataset import array, config, fact, fact_if_any, is_measured, version

NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
MLPS = {"swiglu": "SwiGLU", "geglu": "GeGLU", "relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}
SCHEMES = {"lecun": "LeCun", "he": "He", "xavier": "Xavier"}
SECTIONS = ("model", "init", "input")
# Said in words, by the placement's name in the legend, or of no effect on numbers.
SAID = ("model.layers", "model.width", "model.mlp", "model.norm", "model.placement", "init.scheme", "input.kind",
        "input.tokens", "input.path", "input.second_moment", "run.seeds")  # fmt: skip
OF_PANELS = ("input.kind", "input.path")


def setting(ds: xr.Dataset) -> str:
    """The last sentences of a caption: what was run, with which keys, and with which Periscope."""
    wrong = misled(ds)
    return f"{_size(ds)} {keys(ds)}{f'Theory is {wrong}. ' if wrong else ''}{version(ds)}"


def stacks(ds: xr.Dataset) -> list[dict[str, Any]]:
    """The resolved keys of every stack: {"model.width": 64, ...}."""
    return [{f"{section}.{key}": value for section in SECTIONS for key, value in stack.get(section, {}).items()}
            for stack in config(ds)["stacks"]]  # fmt: skip


def placements(ds: xr.Dataset) -> list[str]:
    """Returns the placement of every stack, also where a recipe or a user's name labels the stack."""
    labels = [str(label) for label in array(ds, "placement")]
    if "placement_settings" not in ds:
        return labels
    common = shared(stacks(ds), "model.placement")
    found = [json.loads(text).get("model.placement", common) if text else common
             for text in array(ds, "placement_settings")]  # fmt: skip
    return [own if isinstance(own, str) else label for own, label in zip(found, labels, strict=True)]


def looks(ds: xr.Dataset) -> list[style.Look]:
    """Returns the look of every stack of a result: recipes have those of their placements."""
    return style.looks(array(ds, "placement"), placements(ds))


def shared(every: list[dict[str, Any]], key: str) -> Any:
    """A key's value, None if the stacks differ in it or do not have it."""
    values = {json.dumps(stack.get(key)) for stack in every}
    return every[0].get(key) if len(values) == 1 else None


def _size(ds: xr.Dataset) -> str:
    """ "24 layers, each attention and MLP, width 64, ..." """
    every = stacks(ds)
    layers, width, mlp, norm = (shared(every, f"model.{key}") for key in ("layers", "width", "mlp", "norm"))
    tokens, scheme = shared(every, "input.tokens"), shared(every, "init.scheme")
    parts = []
    if layers is not None and "layers" not in ds:
        parts.append(f"{layers} layer{'s' * (layers > 1)}, each attention and MLP")
    if width is not None and "width" not in ds and "ladder_width" not in ds:
        parts.append(f"width {width}")
    size = shared(every, "input.second_moment")  # it decides every curve near the input, so it is always said
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
    """What else decides the curves: the keys that differ from their defaults, and those in which stacks differ."""
    every = stacks(ds)
    common = _common(ds, every)
    differing = "; ".join(f"{key}: {values}" for key, values in _differing(ds, every))
    return (f"{common}. " if common else "") + (f"Curves differ in {differing}. " if differing else "")


def _common(ds: xr.Dataset, every: list[dict[str, Any]]) -> str:
    """As the file says it, or, in a file that does not say what differs from defaults, all keys."""
    said = fact_if_any(ds, "config_differences")
    if said is not None:
        found = {k: v for k, v in json.loads(said).items() if k not in SAID}
        return f"Other than by default: {_listed(found)}" if found else ""
    found = {k: shared(every, k) for k in every[0] if k not in SAID and shared(every, k) is not None}
    return f"Keys: {_listed(found)}" if found else ""


def _differing(ds: xr.Dataset, every: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each key in which stacks differ: which value is whose."""
    if "placement_settings" in ds and "placement" in ds:
        labels = [look.label for look in looks(ds)]
        tables = [json.loads(text) if text else {} for text in array(ds, "placement_settings")]
    else:
        labels = [look.label for look in style.looks(_name(stack["model.placement"]) for stack in every)]
        tables = every
    for key in dict.fromkeys(key for table in tables for key in table if key not in OF_PANELS):
        values = [table.get(key) for table in tables]
        words = [style.looks([_name(v)])[0].label if key == "model.placement" else shown(v) for v in values]
        if key != "theory" and all(_tells(label, key, value) for label, value in zip(labels, words, strict=True)):
            if key != "model.placement" and len(set(words)) > 1:
                yield key, "as the legend says"
            continue
        owners: dict[str, list[str]] = {}
        for label, value in zip(labels, words, strict=True):
            owners.setdefault(value, []).append(label)
        if len(owners) > 1:
            yield key, ", ".join(f"{value} ({_owners(names, labels)})" for value, names in owners.items())


def _tells(label: str, key: str, value: str) -> bool:
    """Whether a curve's label says that key's value: as its first word, or as "std 0.02"."""
    first, *others = label.split(", ")
    return value == first or label.startswith(value + ", ") or f"{key.rpartition('.')[2]} {value}" in others


def _owners(names: list[str], labels: list[str]) -> str:
    """Labels for people; one word stands for all labels that begin with it, if all are there."""
    found: list[str] = []
    for word in dict.fromkeys(name.partition(", ")[0] for name in names):
        mine = [name for name in dict.fromkeys(names) if name.partition(", ")[0] == word]
        every = {label for label in labels if label.partition(", ")[0] == word}
        found += [word] if set(mine) == every else mine
    return ("; " if any(", " in name for name in found) else ", ").join(found)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {shown(value)}" for key, value in values.items())


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else _name(value)


def misled(ds: xr.Dataset) -> str:
    """What theory was given instead of the truth, or which mistake was planted in it."""
    if fact_if_any(ds, "theory_override") is None:
        return ""
    override = json.loads(fact(ds, "theory_override"))
    planted = [] if override["fault"] == "none" else [f"planted fault {override['fault']}"]
    return f"wrong on purpose: {', '.join(override['set'] + planted)}"

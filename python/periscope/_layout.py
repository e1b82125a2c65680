"""Where a model of transformers has its signals: which module's input or output is which signal follows from which
tensor holds which matrix or norm, for every family alike."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import InputError

if TYPE_CHECKING:
    from . import _periscope

OUT_OF = {"q": "q_projected", "k": "k_projected", "v": "v", "gate": "gate", "up": "up"}
_INTO = {"o": "mixed", "down": "hidden"}


@dataclass(frozen=True)
class Place:
    """Where a signal is: the input or output of a module, or some of its columns."""

    module: str
    is_input: bool
    sublayer: int
    signal: str
    columns: slice | None = None


@dataclass
class Layout:
    """What is recorded of a model."""

    facts: dict[str, Any]
    places: list[Place]
    matrices: dict[str, list[tuple[int, str, slice | None, bool]]]  # tensor: layer, matrix, its rows, transposed
    attention: dict[str, int]  # module: sublayer


def layout_of(model: Any, compiled: "_periscope.Model") -> Layout:
    """Finds the modules. Raises InputError where a signal of the stream has none."""
    from . import _periscope

    facts = json.loads(_periscope.layout(compiled))
    modules = dict(model.named_modules())
    by_sublayer: dict[int, dict[str, dict[str, Any]]] = {}
    for part in facts["parameters"]:
        by_sublayer.setdefault(part["sublayer"], {})[part["weight"]] = part
    layout = Layout(facts, [], {}, {})
    for sublayer in range(2 * facts["layers"]):
        _add_sublayer(layout, modules, sublayer, by_sublayer[sublayer])
    _add_end(layout, modules, by_sublayer[0])
    for part in facts["parameters"]:
        if part["weight"] in ("q", "k", "v", "o", "gate", "up", "down"):
            rows = slice(part["first"], part["first"] + part["rows"])
            layout.matrices.setdefault(part["tensor"], []).append(
                (part["sublayer"] // 2, part["weight"], rows, part["transposed"])
            )
    return layout


def _module_of(modules: dict[str, Any], part: dict[str, Any]) -> str:
    name = str(part["tensor"]).rpartition(".")[0]
    if name not in modules:
        raise InputError(f"model: no module {name!r} for the tensor {part['tensor']!r}; expected transformers' layout")
    return name


def _add_sublayer(layout: Layout, modules: dict[str, Any], sublayer: int, parts: dict[str, dict[str, Any]]) -> None:
    def add(weight: str, is_input: bool, signal: str, columns: slice | None = None) -> None:
        if weight not in parts:
            raise InputError(f"model: found no tensor {weight} in sublayer {sublayer}, by which to find its module; "
                             "expected norms with gains")  # fmt: skip
        layout.places.append(Place(_module_of(modules, parts[weight]), is_input, sublayer, signal, columns))

    rule = layout.facts["rules"][sublayer]
    first = "q" if sublayer % 2 == 0 else ("gate" if "gate" in parts else "up")
    last = "o" if sublayer % 2 == 0 else "down"
    if rule["norm_a"]:
        add("norm_a", True, "x_in")
        add("norm_a", False, "A_out")
    else:
        add(first, True, "x_in")
    for weight, signal in OUT_OF.items():
        if weight in parts:
            part = parts[weight]
            add(weight, False, signal, slice(part["first"], part["first"] + part["rows"]))
    add(last, True, _INTO[last])
    add(last, False, "f_out")
    if rule["norm_b"]:
        add("norm_b", False, "B_out")
    if rule["norm_c"]:
        add("norm_c", True, "sum")
        add("norm_c", False, "x_out")
    if sublayer % 2 == 0:
        layout.attention[_module_of(modules, parts["q"]).rpartition(".")[0]] = sublayer


def _add_end(layout: Layout, modules: dict[str, Any], of_the_stack: dict[str, dict[str, Any]]) -> None:
    """The stream behind the last sublayer: what the final norm reads, or what norm C has made."""
    last = 2 * layout.facts["layers"] - 1
    if layout.facts["rules"][last]["norm_c"]:
        return
    if "final_norm" not in of_the_stack:
        raise InputError("model: found neither a final norm nor norms behind the residual sums; expected one of them")
    layout.places.append(Place(_module_of(modules, of_the_stack["final_norm"]), True, last, "x_out"))

"""Locates the signals of a transformers model. In every family, a signal belongs to the module whose matrix or
norm reads or computes it."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import InputError

if TYPE_CHECKING:
    from . import _periscope

OUTPUT_OF = {"q": "q_projected", "k": "k_projected", "v": "v", "gate": "gate", "up": "up"}
_INPUT_OF = {"o": "mixed", "down": "hidden"}


class Place(NamedTuple):
    """Location of a signal in the input or output of a module."""

    sublayer: int
    signal: str
    columns: slice | np.ndarray | None = None  # columns of the tensor; None: all
    through: str | None = None  # matrix that maps the recorded gradient to the gradient of the module's input
    of_heads: bool = False  # the tensor is [sequences, tokens, heads, e]

    def view(self, x: Any) -> Any:
        """Returns the signal in a tensor, as [sequences, tokens, columns]."""
        if self.of_heads:
            return x.flatten(2)
        return x if self.columns is None else x[..., self.columns]


@dataclass
class Layout:
    """The signals of a model and their locations."""

    info: dict[str, Any]  # result of the compiled module's `layout`
    parts: dict[tuple[int, str], dict[str, Any]]  # parameters by sublayer (0 outside layers) and weight
    places: dict[tuple[str, bool], list[Place]] = field(default_factory=dict)  # by name of the module and is_input
    attention: dict[str, int] = field(default_factory=dict)  # sublayer by name of the attention module

    def are_keys_values(self, sublayer: int) -> bool:
        """Returns whether W_k and W_v are one tensor (Gemma 4)."""
        k, v = (self.parts.get((sublayer, weight), {"tensor": weight}) for weight in "kv")
        return k["tensor"] == v["tensor"] and k["first"] == v["first"]

    def matrices(self) -> list[dict[str, Any]]:
        """Returns the parameters that are matrices."""
        return [part for (_, weight), part in self.parts.items() if weight in OUTPUT_OF or weight in _INPUT_OF]


def module_name(part: dict[str, Any]) -> str:
    """Returns the name of the module that stores a parameter."""
    return str(part["tensor"]).rpartition(".")[0]


def features_of(part: dict[str, Any]) -> slice | np.ndarray:
    """Returns the output features of a tensor that store the parameter ``part``."""
    first, rows, block, stride = part["first"], part["rows"], part["block"], part["stride"]
    if block == stride:
        return slice(first, first + rows)
    return (first + stride * np.arange(rows // block)[:, None] + np.arange(block)).ravel()


def layout_of(model: Any, compiled: "_periscope.Model") -> Layout:
    """Returns the layout of a model. Raises InputError if the module of a signal cannot be identified."""
    from . import _periscope

    info = json.loads(_periscope.layout(compiled))
    modules = dict(model.named_modules())
    layout = Layout(info, {(part["sublayer"], part["weight"]): part for part in info["parameters"]})

    def module_of(part: dict[str, Any]) -> str:
        name = module_name(part)
        if name not in modules:
            raise InputError(f"model: no module {name!r} for the tensor {part['tensor']!r}; expected the module layout "
                             "of transformers")  # fmt: skip
        return name

    for sublayer, rule in enumerate(info["rules"]):
        weights = {weight for s, weight in layout.parts if s == sublayer}
        for weight, is_input, signal in _signals(sublayer, rule, weights):
            if weight not in weights:
                raise InputError(f"model: found no tensor {weight} in sublayer {sublayer}, so its module is unknown; "
                                 "expected norms with gains")  # fmt: skip
            part = layout.parts[(sublayer, weight)]
            place = Place(sublayer, signal)
            if OUTPUT_OF.get(weight) == signal:
                # Without norm A, the gradient of the module's input is a sum over the module's matrices.
                needs_gradient = weight in ("q", "k", "v") or not rule["norm_a"]
                place = Place(sublayer, signal, features_of(part), weight if needs_gradient else None)
            if not (weight in ("k", "v") and info["v_norm"][sublayer // 2]):
                layout.places.setdefault((module_of(part), is_input), []).append(place)
        if sublayer % 2 == 0:
            attention = module_of(layout.parts[(sublayer, "q")]).rpartition(".")[0]
            layout.attention[attention] = sublayer
            if info["v_norm"][sublayer // 2]:  # keys and values may be the same tensor before their norms
                for weight, is_input, signal in (("k", True, "k_projected"), ("v", True, "v_projected"),
                                                 ("v", False, "v")):  # fmt: skip
                    place = Place(sublayer, signal, None, weight if is_input else None, of_heads=True)
                    layout.places[(module_of({"tensor": f"{attention}.{weight}_norm.weight"}), is_input)] = [place]
    if not rule["norm_c"]:  # the last sublayer's output is the input of the final norm
        if (0, "final_norm") not in layout.parts:
            raise InputError("model: expected a final norm or norms after the residual sums, found neither")
        name = module_of(layout.parts[(0, "final_norm")])
        layout.places.setdefault((name, True), []).append(Place(sublayer, "x_out"))
    return layout


def _signals(sublayer: int, rule: dict[str, bool], weights: set[str]) -> list[tuple[str, bool, str]]:
    """Returns the signals of a sublayer: the weight that identifies the module, whether the signal is the module's
    input, and the signal's name."""
    is_attention = sublayer % 2 == 0
    first = "q" if is_attention else "gate" if "gate" in weights else "up"
    last = "o" if is_attention else "down"
    found = [("norm_a", True, "x_in"), ("norm_a", False, "A_out")] if rule["norm_a"] else [(first, True, "x_in")]
    found += [(weight, False, signal) for weight, signal in OUTPUT_OF.items() if weight in weights]
    found += [(last, True, _INPUT_OF[last]), (last, False, "f_out")]
    if rule["norm_b"]:
        found.append(("norm_b", False, "B_out"))
    if rule["norm_c"]:
        found += [("norm_c", True, "sum"), ("norm_c", False, "x_out")]
    return found

"""Where a model of transformers has its signals: which module's input or output is which signal follows from which
tensor holds which matrix or norm, for every family alike."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import InputError

if TYPE_CHECKING:
    from . import _periscope

OUT_OF = {"q": "q_projected", "k": "k_projected", "v": "v", "gate": "gate", "up": "up"}
_INTO = {"o": "mixed", "down": "hidden"}


class Place(NamedTuple):
    """A signal in the input or output of a module."""

    sublayer: int
    signal: str
    columns: slice | None = None  # None for all
    through: str | None = None  # matrix through which the recorded gradient goes on to the module's input


@dataclass
class Layout:
    """What is recorded of a model."""

    facts: dict[str, Any]
    parts: dict[tuple[int, str], dict[str, Any]]  # parameters by sublayer and weight; the stack's own are of sublayer 0
    places: dict[tuple[str, bool], list[Place]] = field(default_factory=dict)  # by module, and whether its input
    attention: dict[str, int] = field(default_factory=dict)  # sublayer by module

    def matrices(self) -> list[dict[str, Any]]:
        """Returns the parameters that are matrices."""
        return [part for (_, weight), part in self.parts.items() if weight in OUT_OF or weight in _INTO]


def layout_of(model: Any, compiled: "_periscope.Model") -> Layout:
    """Finds the modules. Raises InputError where a signal of the stream has none."""
    from . import _periscope

    facts = json.loads(_periscope.layout(compiled))
    modules = dict(model.named_modules())
    layout = Layout(facts, {(part["sublayer"], part["weight"]): part for part in facts["parameters"]})

    def module_of(part: dict[str, Any]) -> str:
        name = str(part["tensor"]).rpartition(".")[0]
        if name not in modules:
            raise InputError(f"model: no module {name!r} for the tensor {part['tensor']!r}; expected transformers' "
                             "layout")  # fmt: skip
        return name

    for sublayer, rule in enumerate(facts["rules"]):
        weights = {weight for of, weight in layout.parts if of == sublayer}
        for weight, is_input, signal in _signals(sublayer, rule, weights):
            if weight not in weights:
                raise InputError(f"model: found no tensor {weight} in sublayer {sublayer}, by which to find its "
                                 "module; expected norms with gains")  # fmt: skip
            part = layout.parts[(sublayer, weight)]
            place = Place(sublayer, signal)
            if OUT_OF.get(weight) == signal:
                # Without norm A, the sum over a module's matrices is the gradient of its input.
                is_followed = weight in ("q", "k", "v") or not rule["norm_a"]
                columns = slice(part["first"], part["first"] + part["rows"])
                place = Place(sublayer, signal, columns, weight if is_followed else None)
            layout.places.setdefault((module_of(part), is_input), []).append(place)
        if sublayer % 2 == 0:
            layout.attention[module_of(layout.parts[(sublayer, "q")]).rpartition(".")[0]] = sublayer
    if not rule["norm_c"]:  # the last sublayer's output is what the final norm reads
        if (0, "final_norm") not in layout.parts:
            raise InputError("model: found neither a final norm nor norms behind the residual sums; expected one of "
                             "them")  # fmt: skip
        name = module_of(layout.parts[(0, "final_norm")])
        layout.places.setdefault((name, True), []).append(Place(sublayer, "x_out"))
    return layout


def _signals(sublayer: int, rule: dict[str, bool], weights: set[str]) -> list[tuple[str, bool, str]]:
    """Returns the signals of a sublayer: the weight by which the module is found, whether it is the module's input, and
    its name."""
    is_attention = sublayer % 2 == 0
    first = "q" if is_attention else "gate" if "gate" in weights else "up"
    last = "o" if is_attention else "down"
    found = [("norm_a", True, "x_in"), ("norm_a", False, "A_out")] if rule["norm_a"] else [(first, True, "x_in")]
    found += [(weight, False, signal) for weight, signal in OUT_OF.items() if weight in weights]
    found += [(last, True, _INTO[last]), (last, False, "f_out")]
    if rule["norm_b"]:
        found.append(("norm_b", False, "B_out"))
    if rule["norm_c"]:
        found += [("norm_c", True, "sum"), ("norm_c", False, "x_out")]
    return found

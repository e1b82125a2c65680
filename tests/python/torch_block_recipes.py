"""Which norms and scales each placement has, sublayer by sublayer, written from the placements' own equations.

A sublayer is x+ = C(alpha x + beta B(f(s A(x)))). Sublayer i = 0 ... 2L - 1 of a stack of L layers is the attention of
layer i // 2 if i is even, else its MLP. What does not fit this form (two branches per addition, a skip from the start
of the layer, several streams) is named by `shape` and computed in torch_block_stack.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

KINDS = ("attention", "mlp")


@dataclass(frozen=True)
class Recipe:
    """One sublayer: which of the norms A, B, C it has, and its scales.

    `layer_scale` has a factor for every channel behind the module. `optional_a` is for SpanNorm, whose first sublayer
    some descriptions give a norm A: it is then taken from the file if it is there.
    """

    a: bool = False
    b: bool = False
    c: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    gain: float = 1.0
    layer_scale: bool = False
    optional_a: bool = False


def u_mup_scales(sublayer: int, layers: int) -> tuple[float, float]:
    """alpha and beta of u-muP (appendix G) with both ratios 1: tau^2 = 1/(depth/2 + sublayers before this one)."""
    depth = 2 * layers
    attentions_before, mlps_before = (sublayer + 1) // 2, sublayer // 2
    tau = 1 / math.sqrt(depth / 2 + attentions_before + mlps_before)
    return 1 / math.sqrt(1 + tau**2), tau / math.sqrt(1 + tau**2)


def named(name: str, sublayer: int, layers: int) -> Recipe:
    """The recipe of a named placement at one sublayer. Raises KeyError for a name without equation here."""
    layer = sublayer // 2
    pre, post = Recipe(a=True), Recipe(c=True)
    peri = Recipe(a=True, b=True)
    addition = sublayer + 2  # Beam counts the embedding as the first of its terms
    alpha_u, beta_u = u_mup_scales(sublayer, layers)
    table = {
        "none": Recipe(),
        "post": post,
        "pre": pre,
        "peri": peri,
        "b-only": Recipe(b=True),
        "a+c": Recipe(a=True, c=True),
        "deepnorm": replace(post, alpha=(2 * layers) ** 0.25),
        "deepnorm-glm": replace(post, alpha=(2 * layers) ** 0.5),
        "mix": post if layer < layers // 4 else pre,
        "lns": replace(pre, gain=1 / math.sqrt(layer + 1)),
        "depth-scaled": replace(pre, beta=1 / math.sqrt(2 * layers)),
        "residual-dual": post,
        "keel": pre if layer == 0 else Recipe(a=True, c=True, alpha=2.0 * layers),
        "beam": replace(peri, alpha=math.sqrt((addition - 1) / addition), beta=math.sqrt(1 / addition)),
        "u-mup": replace(pre, alpha=alpha_u, beta=beta_u),
        "hybridnorm": post if sublayer % 2 == 0 else Recipe(),
        "sub-ln": pre,
        "muse-spark": replace(peri, alpha=math.sqrt(0.75), beta=0.5),
        "ngpt": Recipe(b=True, c=True, alpha=0.95, beta=0.05),
        "layer-scale": Recipe(a=True, layer_scale=True),
        "parallel": pre,
        "parallel-two": pre,
        "span": replace(post, optional_a=sublayer == 0),
        "x0": pre,
        "hyper": pre,
    }
    return table[name]


EXPRESSIONS: dict[str, Callable[[int, int], float]] = {
    "2L": lambda layers, sublayer: 2.0 * layers,
    "1/sqrt(l+1)": lambda layers, sublayer: 1 / math.sqrt(sublayer + 1),
}
"""Scales that a configuration gives as expressions in L, the layers, and l, the index of the sublayer."""


def scale(value: float | str, sublayer: int, layers: int) -> float:
    """A scale's value: a number, or one of EXPRESSIONS."""
    return EXPRESSIONS[value](layers, sublayer) if isinstance(value, str) else float(value)


def recipe(placement: Any, sublayer: int, layers: int) -> Recipe:
    """The recipe of a placement as a configuration gives it: a name, a table of norms and scales, or one per kind."""
    if isinstance(placement, str):
        return named(placement, sublayer, layers)
    if set(placement) & set(KINDS):
        return recipe(placement[KINDS[sublayer % 2]], sublayer, layers)
    a, b, c = (bool(placement.get(key, False)) for key in "ABC")
    alpha, beta = (scale(placement.get(key, 1.0), sublayer, layers) for key in ("alpha", "beta"))
    return Recipe(a, b, c, alpha, beta)


def shape(placement: Any) -> str:
    """What a stack of this placement does beside single sublayers in a row: its name, or "single" for nothing."""
    shaped = ("residual-dual", "parallel", "parallel-two", "span", "x0", "hyper")
    return placement if placement in shaped else "single"

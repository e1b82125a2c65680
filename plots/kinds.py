"""All kinds of figures: which there are, and which of them a result has."""

from collections.abc import Callable, Hashable
from importlib import import_module
from types import ModuleType

import xarray as xr

# A kind is a module with `FIGURES`, what each of its figures shows; `NEEDS`, the variables without which none of them
# can be drawn, with their dimensions; and `draw`. The first of a result's kinds is the one that tells most about it.
KINDS = tuple(import_module(f".{name}", __package__) for name in """
    stream dilution agreement power angular blocks convergence
    weight_gradients score_path gradient_depth attenuation identity_path crossover verify probe
    probe_extremes certificate wrong_theories ladder number_formats growth_over_depth rate_sweeps
    stability layer_gradients redundancy decay_init extremes growth_identity final_losses claims
    claims_together training first_steps
""".split())


def names() -> list[str]:
    """The names of all figures, as --only takes them."""
    return list(dict.fromkeys(name for kind in KINDS for name in kind.FIGURES))


def family(name: str) -> str:
    """Returns the name of a figure as `names` has it: one that is drawn once per input ends with the input, as
    "agreement-text"."""
    return max((known for known in names() if name == known or name.startswith(f"{known}-")), key=len)


def of(ds: xr.Dataset) -> list[ModuleType]:
    """The kinds of figures whose variables are there, on the dimensions that they need: two kinds of results may have
    a variable of the same name. Where there is none, those are meant of which a selection has taken dimensions away."""

    def kinds(is_on: Callable[[set[Hashable], set[str]], bool]) -> list[ModuleType]:
        def is_there(name: str, where: tuple[str, ...]) -> bool:
            return name in ds and is_on(set(ds[name].dims), set(where))

        return [kind for kind in KINDS if all(is_there(name, where) for name, where in kind.NEEDS.items())]

    return kinds(lambda there, needed: there == needed) or kinds(lambda there, needed: there <= needed)

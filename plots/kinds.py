"""All kinds of figures: which there are, and which of them a result has."""

import operator
from collections.abc import Callable, Hashable
from importlib import import_module

import xarray as xr

from .makers import Kind

# In the order of the modules, and in each of the definitions: the first of a result's kinds tells most about it.
KINDS = tuple(value for name in """
    stream verdicts angular blocks convergence gradients verify probe probe_extremes certificate wrong_theories ladder
    number_formats trained losses growth_identity claims training first_steps
""".split() for value in vars(import_module(f".{name}", __package__)).values() if isinstance(value, Kind))  # fmt: skip


def names() -> list[str]:
    """The names of all kinds of figures, as --only takes them."""
    return list(dict.fromkeys(kind.name for kind in KINDS))


def family(name: str) -> str:
    """Returns the kind of a figure by its name, such as "agreement" for "agreement-text"."""
    return max((known for known in names() if name == known or name.startswith(f"{known}-")), key=len)


def of(ds: xr.Dataset) -> list[Kind]:
    """The kinds of figures whose variables are there, on the dimensions that they need: two kinds of results may have
    a variable of the same name. Where there is none, those are meant of which a selection has taken dimensions away."""

    def kinds(is_on: Callable[[set[Hashable], set[str]], bool]) -> list[Kind]:
        return [kind for kind in KINDS if all(
            name in ds and is_on(set(ds[name].dims), set(where)) for name, where in kind.needs.items())]  # fmt: skip

    return kinds(operator.eq) or kinds(operator.le)

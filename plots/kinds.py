"""All kinds of figures, and selection of the kinds that a result supports."""

import operator
from collections.abc import Callable, Hashable
from importlib import import_module

import xarray as xr

from .makers import Kind

# In the order of modules, then of definitions. The first kind that a result supports is the most informative one.
KINDS = tuple(value for name in """
    sweeps stream comparison verdicts angular blocks convergence gradients verify probe probe_extremes certificate
    wrong_theories ladder number_formats trained losses growth_identity claims training first_steps
""".split() for value in vars(import_module(f".{name}", __package__)).values() if isinstance(value, Kind))  # fmt: skip


def names() -> list[str]:
    """Returns the names of all kinds of figures, which are the values of --only."""
    return list(dict.fromkeys(kind.name for kind in KINDS))


def family(name: str) -> str:
    """Returns the name of a figure's kind, such as "agreement" for "agreement-text"."""
    return max((known for known in names() if name == known or name.startswith(f"{known}-")), key=len)


def of(ds: xr.Dataset) -> list[Kind]:
    """Returns the kinds of figures whose required variables the dataset has on the required dimensions (results of
    different kinds may share variable names). If no kind matches, dimensions may be missing because of a selection."""

    def kinds(is_on: Callable[[set[Hashable], set[str]], bool]) -> list[Kind]:
        return [kind for kind in KINDS if all(
            name in ds and is_on(set(ds[name].dims), set(dims)) for name, dims in kind.required.items())]  # fmt: skip

    return kinds(operator.eq) or kinds(operator.le)

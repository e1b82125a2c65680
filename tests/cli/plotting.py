"""Helpers for tests of figures: the packages of plots/requirements.txt, and figures by name."""

import subprocess
import sys

from program import ROOT, imported

for package in ("matplotlib", "netCDF4", "numpy", "PIL", "xarray"):
    imported(package, "plots/requirements.txt")


def draw(*words, cwd=ROOT):
    """Runs `python -m plots`."""
    return subprocess.run([sys.executable, "-m", "plots", *map(str, words)], capture_output=True, text=True, cwd=cwd,
                          timeout=300)


def figures_of(kind, ds):
    from plots.makers import drawn

    return {name: drawn(make) for name, make in kind.draw(ds).items()}


def figure_of(name, ds):
    from plots import kinds

    return next(figures_of(kind, ds)[name] for kind in kinds.of(ds) if kind.name == kinds.family(name))


def with_columns(ds, columns):
    """Returns the result with different values in some of its columns."""
    return ds.assign({name: (ds[name].dims, values) for name, values in columns.items()})

"""What the tests of figures need: the packages of plots/requirements.txt, and `plots` itself on the path.

A test that imports this is skipped (exit code 77) where a package is missing.
"""

import pathlib
import subprocess
import sys

try:
    import matplotlib  # noqa: F401
    import netCDF4  # noqa: F401
    import numpy
    import PIL  # noqa: F401
    import xarray
except ImportError:
    print("skipped: the packages of plots/requirements.txt are not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


def draw(*arguments):
    """Runs `python -m plots`."""
    return subprocess.run([sys.executable, "-m", "plots", *map(str, arguments)], capture_output=True, text=True,
                          cwd=ROOT, timeout=300)


def figures_of(kind, ds):
    """All figures of a kind, by name."""
    from plots.makers import drawn

    return {name: drawn(make) for name, make in kind.draw(ds).items()}


def figure_of(name, ds):
    """The figure of that name, of a kind that the result has."""
    from plots import kinds

    return next(figures_of(kind, ds)[name] for kind in kinds.of(ds) if kind.name == kinds.family(name))


class Asked(xarray.Dataset):
    """A result that remembers which variables it was asked for, and which were sought in it."""

    __slots__ = ("names", "sought")

    def __init__(self, ds):
        super().__init__(ds.data_vars, ds.coords, ds.attrs)
        self.names, self.sought = set(), set()

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.sought.add(name)
        return super().__contains__(name)


def with_columns(ds, columns):
    """The result with other values in some of its columns."""
    return ds.assign({name: (ds[name].dims, values) for name, values in columns.items()})


def plain(values):
    """The values of a variable of a file: numbers and flags as floats, NaN where there is none, and text."""
    values = numpy.ma.asarray(values)
    return numpy.ma.filled(values.astype(float), numpy.nan) if values.dtype.kind in "fiub" else numpy.asarray(values)

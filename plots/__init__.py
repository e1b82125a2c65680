"""Figures from Periscope's results: `python -m plots RESULTS_DIR --out FIGURES_DIR` for files, `plot` for a dataset.

Figures show measured and predicted values stored in the results; nothing is computed here. matplotlib is imported by
the first call. Its global settings and backend are not changed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .library import caption_of as caption_of
    from .library import figures as figures
    from .library import plot as plot

__all__ = ["caption_of", "figures", "plot"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(".library", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

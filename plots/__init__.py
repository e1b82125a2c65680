"""Figures from Periscope's results: `python -m plots RESULTS_DIR --out FIGURES_DIR` for files, `plot` for a dataset.

Results hold measured and predicted values alike. What is here draws them and computes nothing. matplotlib is imported
by the first call; its settings stay as they were, and it chooses no backend.
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

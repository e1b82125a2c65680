"""What a caller chooses about figures: which, how wide, in which files, and where their captions go."""

from dataclasses import dataclass

FORMATS = ("png", "svg", "pdf")
CAPTIONS = ("file", "below")
NARROWEST, WIDEST = 3.0, 20.0  # inches


@dataclass(frozen=True)
class Options:
    """Defaults are those of the command line. `only` holds names of figures; empty, all are drawn."""

    only: tuple[str, ...] = ()
    width: float | None = None  # inches; None: each figure's own, 7 or 4.6
    formats: tuple[str, ...] = ("png", "svg")
    caption: str = "file"
    claims: bool = False
    labels: tuple[str, ...] = ()  # of results drawn together, in their order; empty: what differs between them

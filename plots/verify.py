"""What the three figures of `periscope verify` share: how statements look, and the sentences about the run."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from . import style
from .dataset import array, fact, version


@dataclass(frozen=True)
class Bound:
    """A statement's name in figures, and its look."""

    label: str
    look: style.Look


# Distributions of Post-LN and Peri-LN nearly coincide: the one on top has gaps.
POST = replace(style.LOOKS["post"], dash=(0, (3, 2)))
STATED = {
    "C.2-whole": Bound("Paper, Peri-LN", style.LOOKS["peri"]),
    "C.3-whole": Bound("Paper, Post-LN", POST),
    "G4-whole": Bound("Reviews, Peri-LN: √(1/D)", style.LOOKS["a+c"]),
}
SHARP = {
    "T14a": Bound("Pre-LN, no final norm", style.LOOKS["pre"]),
    "T14b": Bound("Peri-LN, sharp", style.LOOKS["peri"]),
    "T14c": Bound("Post-LN, sharp", POST),
    "T14d": Bound("Final norm, unembedding", style.LOOKS["deepnorm"]),
}


def index(ds: xr.Dataset, statement: str) -> int:
    return int(np.flatnonzero(array(ds, "statement") == statement)[0])


def run(ds: xr.Dataset) -> str:
    """What was drawn at random, and with which Periscope."""
    scale = fact(ds, "verify_scale")
    scaled = "" if scale == 1 else f" Bounds that should hold multiplied by {scale:g} in the verdict."
    return (
        f"{fact(ds, 'verify_cases'):,} random sublayers: width 1 to 64, RMSNorm and LayerNorm, every MLP, "
        f"magnitudes 1e-6 to 1e6, f64.{scaled} {version(ds)}"
    )

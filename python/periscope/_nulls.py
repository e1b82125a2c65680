"""Theory for somebody else's model, to hold beside records of its training."""

from typing import Any

import xarray as xr

from ._run import CheckpointLike, TokensLike
from .verbs import probe


def at_init(checkpoint: CheckpointLike, tokens: TokensLike, **words: Any) -> xr.Dataset:
    """What theory predicts of the signals, and with ``backward=True`` of the gradients, of a model of this shape with
    random weights (T2–T11): ``second_moment_predicted``, ``second_moment_stderr``, … by depth, and by site and
    sublayer.

    ``checkpoint`` is a folder, a ``Model`` or a live model of transformers, ``tokens`` the ids of one sequence, or a
    file of them. ``init={"std": 0.02}`` says how the weights were drawn; ``words`` are further arguments of ``probe``.
    What theory does not model is missing.
    """
    return _predicted(checkpoint, tokens, "at_init", words)


def at_scales(checkpoint: CheckpointLike, tokens: TokensLike, **words: Any) -> xr.Dataset:
    """The same for random weights with the sizes that the model's matrices, gains and biases have now (T29). The
    difference to what is measured is the alignment of weights with each other and with the tokens."""
    return _predicted(checkpoint, tokens, "at_scales", words)


def _predicted(checkpoint: Any, tokens: Any, where: str, words: dict[str, Any]) -> xr.Dataset:
    ds = probe(checkpoint, tokens=tokens, draws=0, **words)
    names = {}
    for name in map(str, ds.data_vars):
        quantity, found, rest = name.rpartition(f"_{where}")
        if found and rest in ("", "_stderr"):
            names[name] = quantity + (rest or "_predicted")
    return ds[list(names)].rename(names)

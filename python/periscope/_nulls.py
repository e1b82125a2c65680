"""Predictions for a model that was trained elsewhere, for comparison with records of its training."""

from typing import Any

import xarray as xr

from ._run import CheckpointLike, TokensLike
from .errors import InputError
from .verbs import probe


def at_init(checkpoint: CheckpointLike, tokens: TokensLike, **options: Any) -> xr.Dataset:
    """Returns the predicted signals and, with ``backward=True``, gradients of a model of this shape with random weights
    (T2–T11): ``second_moment_predicted``, ``second_moment_stderr``, … by depth, and by site and sublayer.

    ``checkpoint`` is a folder, a ``Model`` or a transformers model, ``tokens`` the ids of one sequence or a file with
    them. ``init={"std": 0.02}`` sets the distribution of the weights; ``options`` are further arguments of ``probe``.
    Quantities that the theory does not support are omitted. Raises InputError if it supports none.
    """
    return _predicted(checkpoint, tokens, "at_init", options)


def at_scales(checkpoint: CheckpointLike, tokens: TokensLike, **options: Any) -> xr.Dataset:
    """Like ``at_init``, but for random weights whose matrices, gains and biases have the model's current scales
    (T29). The difference from the measurement is the alignment of weights with each other and with the tokens."""
    return _predicted(checkpoint, tokens, "at_scales", options)


def _predicted(checkpoint: Any, tokens: Any, where: str, options: dict[str, Any]) -> xr.Dataset:
    ds = probe(checkpoint, tokens=tokens, draws=0, **options)
    names = {}
    for name in map(str, ds.data_vars):
        quantity, found, rest = name.rpartition(f"_{where}")
        if found and rest in ("", "_stderr"):
            names[name] = quantity + (rest or "_predicted")
    if not names:
        key = "theory_unsupported" if where == "at_init" else f"{where.removeprefix('at_')}_theory_unsupported"
        raise InputError(f"{where}: found no prediction; {ds[key].item() if key in ds else 'theory is off'}")
    return ds[list(names)].rename(names)

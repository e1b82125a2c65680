"""Cosine of two tokens' hidden states over depth, all placements."""

from collections.abc import Iterator

from plots import style
from plots.curves import over_depth
from plots.results import Result

FIGURES = {"token_cosine": "cosine between tokens over depth"}
NEEDS = ("depth", "token_cosine_predicted", "token_cosine_predicted_stderr")


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    label = "Token cosine\n(mean over pairs of distinct tokens)"
    yield "token_cosine", over_depth(result, "token_cosine", label, log=False)

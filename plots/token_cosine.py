"""Cosine of two tokens' hidden states over depth, all placements."""

from collections.abc import Iterator

from plots import style
from plots.curves import Statistic, over_depth
from plots.results import Result

FIGURES = {"token_cosine": "cosine between tokens over depth"}
NEEDS = ("depth", "token_cosine_predicted", "token_cosine_predicted_stderr")
STATISTIC = Statistic("token_cosine", "Token cosine\n(mean over pairs of distinct tokens)", log=False)


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    yield "token_cosine", over_depth(result, STATISTIC)

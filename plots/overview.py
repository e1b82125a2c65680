"""Variance and gradient of the hidden state over depth, side by side: a run with --backward in one figure."""

from collections.abc import Iterator

from plots import curves, gradient, style, variance
from plots.results import Result

FIGURES = {"overview": "variance and gradient of the hidden state over depth"}
NEEDS = variance.NEEDS + gradient.NEEDS


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    statistics = variance.STATISTIC, gradient.STATISTIC
    yield "overview", curves.over_depth(result, *statistics, mean="mean (of gradients the geometric mean)")

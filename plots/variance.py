"""Hidden-state variance over depth, all placements: the lab's Figure 1 at initialisation."""

from collections.abc import Iterator

from plots import style
from plots.curves import Statistic, over_depth
from plots.results import Result

FIGURES = {"variance": "hidden-state variance over depth"}
NEEDS = ("depth", "variance_predicted", "variance_predicted_stderr")
STATISTIC = Statistic("variance", "Hidden-state variance\n" r"(mean over tokens of $\mathrm{Var}_D(x)$)")


def draw(result: Result) -> Iterator[tuple[str, style.Page]]:
    yield "variance", over_depth(result, STATISTIC)

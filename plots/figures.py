"""Several figures of one file, of which one may fail without taking the others along."""

from collections.abc import Callable, Iterable, Iterator

from plots import style


class FigureError(Exception):
    """A figure that cannot be drawn. The message is its name, __cause__ the reason."""


class Figures(Iterator[tuple[str, style.Page]]):
    """Names and figures, each drawn when it is asked for.

    A figure that cannot be drawn raises FigureError; the next call goes on with the one after it, which a generator
    could not do.
    """

    def __init__(self, makers: Iterable[tuple[str, Callable[[], style.Page]]]) -> None:
        self._makers = iter(list(makers))

    def __next__(self) -> tuple[str, style.Page]:
        name, make = next(self._makers)
        try:
            return name, make()
        except Exception as error:
            raise FigureError(name) from error

"""Progress bars with tqdm in terminals and notebooks; lines on standard error elsewhere or without tqdm."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._periscope import Snapshot


@contextmanager
def bar() -> Iterator[Callable[["Snapshot"], None]]:
    """Yields a function that shows snapshots of a run."""
    if sys.stderr is None or getattr(sys.stderr, "closed", False):
        yield lambda snapshot: None
        return
    if not _is_interactive():
        yield _lines()
        return
    try:
        with warnings.catch_warnings():  # tqdm warns in notebooks without ipywidgets
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        yield _lines()
        return
    shown: Any = tqdm(total=100, unit="%", bar_format="{desc} {bar} {percentage:3.0f}%{postfix}", file=sys.stderr)
    try:

        def show(snapshot: "Snapshot") -> None:
            for lines in snapshot.messages:
                tqdm.write(lines.rstrip("\n"), file=sys.stderr)
            shown.n = min(100.0, round(100 * snapshot.share, 1))
            shown.set_description_str(f"{snapshot.phase} {snapshot.label}".strip(), refresh=False)
            left = snapshot.seconds_left
            shown.set_postfix_str("" if left is None else f"about {_duration(left)} left", refresh=False)
            shown.refresh()

        yield show
    finally:
        shown.close()


def _is_interactive() -> bool:
    """Returns whether lines can be overwritten, as in a terminal or a notebook."""
    is_terminal = getattr(sys.stderr, "isatty", bool)  # a logger as sys.stderr may lack it
    return is_terminal() or type(sys.stderr).__module__.startswith("ipykernel.")


SECONDS = 10.0  # between printed lines


def _lines() -> Callable[["Snapshot"], None]:
    next_time = 0.0

    def show(snapshot: "Snapshot") -> None:
        for lines in snapshot.messages:
            print(lines.rstrip("\n"), file=sys.stderr)
        nonlocal next_time
        if time.monotonic() < next_time:
            return
        next_time = time.monotonic() + SECONDS
        print(f"{snapshot.phase}: {100 * snapshot.share:.0f} %  {snapshot.label}", file=sys.stderr, flush=True)

    return show


def _duration(seconds: float) -> str:
    for most, unit, name in ((100, 1, "s"), (6000, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"

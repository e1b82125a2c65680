"""The command line: finds result files, draws their figures, and reports written files and failures."""

import argparse
import difflib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path

from . import drawing, kinds, style

ABOUT = "Draws figures of Periscope's result files. Existing figures are replaced atomically."
CODES = """exit codes: 0 all figures were drawn; 1 a file could not be read, or a figure not drawn or written (named on
standard error; the others were drawn); 2 usage; 3 no result files found; 130, 143 stopped by SIGINT, SIGTERM"""


def _list_of(known: Sequence[str], kind: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.6)
                hint = f"nearest is {near[0]!r}" if near else f"expected {', '.join(known)}"
                raise argparse.ArgumentTypeError(f"unknown {kind} {name!r}; {hint}")
        return names

    return parse


def _width(text: str) -> float:
    try:
        width = float(text)
    except ValueError:
        width = float("nan")
    if not style.NARROWEST <= width <= style.WIDEST:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected inches from {style.NARROWEST:g} to {style.WIDEST:g} "
            "(one column of a page: about 3.3, full width: 7)")  # fmt: skip
    return width


class _List(argparse.Action):
    """Prints the names of all figures and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for kind in kinds.KINDS:
            print(f"{kind.name:<22} {kind.description}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=ABOUT, epilog=CODES)
    add = parser.add_argument
    add("paths", metavar="PATH", type=Path, nargs="+",
        help="a result file, or a folder to search for result files (*.nc)")  # fmt: skip
    add("--out", metavar="DIR", type=Path, required=True, help="folder for the figures")
    add("--only", metavar="NAME[,NAME]", type=_list_of(kinds.names(), "figure"), default=(),
        help="draw only these figures; see --list")  # fmt: skip
    add("--together", action="store_true",
        help="combine all results of `propagate` and `theory` in the same figures, labelled by the differences of "
             "their configurations or by their files; for results of `reproduce`, compare the claims")  # fmt: skip
    add("--label", metavar="TEXT", action="append", default=[], dest="labels",
        help="with --together: label of a result's curves, instead of its differing keys or file; give one per result, "
             "in the order of PATH")  # fmt: skip
    add("--claims", action="store_true",
        help="print the verdicts of the tested claims above the figures of `reproduce`")
    add("--width", metavar="INCHES", type=_width, default=None,
        help="width of every figure: about 3.3 for one column of a page, 7 for the full width (default: 7, or 4.6 for "
             "one panel)")  # fmt: skip
    add("--format", metavar="KIND[,KIND]", type=_list_of(drawing.FORMATS, "format"), default=("png", "svg"),
        dest="formats", help="png, svg, pdf (default: png,svg)")  # fmt: skip
    add("--caption", choices=drawing.CAPTIONS, default="file",
        help="file: caption in a text file next to the figure (default); below: caption inside the figure")
    add("--list", action=_List, nargs=0, help="print the names of all figures and exit")
    return parser


def _drawn(results: Sequence[tuple[list[Path], Path]], settings: drawing.Options) -> drawing.Reports:
    """Draws one result per processor at a time; yields their reports in the order of `results`."""
    started: deque[drawing.Reports] = deque()
    with ExitStack() as stack:
        for files, folder in results:
            if len(started) == len(os.sched_getaffinity(0)):
                yield from started.popleft()
            started.append(stack.enter_context(closing(drawing.draw(files, folder, settings))))
        yield from chain.from_iterable(started)


def _report(reports: Iterator[Path | drawing.Failed]) -> tuple[int, int]:
    """Prints written files and failures, and returns how many there are of each."""
    written = failed = 0
    for report in reports:
        if isinstance(report, drawing.Failed):
            print(report.message, file=sys.stderr, flush=True)
            failed += 1
        else:
            print(report, flush=True)
            written += 1
    return written, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws the figures and returns the exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    labels = tuple(chosen.labels)
    if labels and not chosen.together:
        parser.error("--label: only valid with --together")
    if len(set(labels)) < len(labels) or not all(label.strip() for label in labels):
        parser.error("--label: expected a different, non-empty text for each result")
    settings = drawing.Options(chosen.only, chosen.width, chosen.formats, chosen.caption, chosen.claims, labels)
    files: list[Path] = []
    failed = 0
    for path in chosen.paths:
        found = sorted(path.rglob("*.nc")) if path.is_dir() else [path] if os.path.lexists(path) else []
        if not found:
            reason = "no result files (*.nc) found" if path.is_dir() else "no such file or folder"
            print(f"{path}: {reason}", file=sys.stderr)
            failed += 1
        files += found
    files = list({os.path.abspath(file): file for file in files}.values())
    if not files:
        return 3
    if labels and len(labels) != len(files):
        parser.error(f"--label: expected one for each of {len(files)} results, found {len(labels)}: "
                     f"{', '.join(map(str, files))}")  # fmt: skip
    common = os.path.commonpath([os.path.abspath(p if p.is_dir() else p.parent) for p in chosen.paths])
    # Figures have the same folder structure below --out as the results below their common folder.
    results = [(files, chosen.out)] if chosen.together else [
        ([file], chosen.out / Path(os.path.abspath(file.parent)).relative_to(common)) for file in files]
    written, not_drawn = _report(_drawn(results, settings))
    failed += not_drawn
    if chosen.only and not written and not not_drawn:
        print(f"these results have no figure {', '.join(map(repr, chosen.only))}", file=sys.stderr)
        failed += 1
    return 1 if failed else 0

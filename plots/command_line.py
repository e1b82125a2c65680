"""The command line: finds result files, draws their figures, and says what was written and what failed."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from . import drawing, kinds, style

ABOUT = "Draws Periscope's result files. Figures are drawn anew each time, and replaced only by complete ones."
CODES = """exit codes: 0 all figures are drawn; 1 a file could not be read, or a figure not drawn or written: it is
named on standard error, and all others are drawn; 2 usage; 3 no PATH holds a result file; 130, 143 stopped by
SIGINT, SIGTERM"""


def _list_of(known: Sequence[str], what: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.4)
                hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(known)}"
                raise argparse.ArgumentTypeError(f"no {what} {name!r}; {hint}")
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
            "(a column of a page has about 3.3, its whole width 7)")  # fmt: skip
    return width


class _List(argparse.Action):
    """Prints the names of all figures and ends, as --help does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for kind in kinds.KINDS:
            print(f"{kind.name:<22} {kind.words}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=ABOUT, epilog=CODES)
    add = parser.add_argument
    add("paths", metavar="PATH", type=Path, nargs="+",
        help="a result file, or a folder that is searched for result files (*.nc)")  # fmt: skip
    add("--out", metavar="DIR", type=Path, required=True, help="folder for the figures")
    add("--only", metavar="NAME[,NAME]", type=_list_of(kinds.names(), "figure"), default=(),
        help="draw these figures alone; --list names them")  # fmt: skip
    add("--together", action="store_true",
        help="the curves of all results of `propagate` and `theory` in one figure each, told apart by what differs in "
             "their configurations, or by their files; of results of `reproduce` the claims, side by side")  # fmt: skip
    add("--label", metavar="TEXT", action="append", default=[], dest="labels",
        help="with --together, once for each result in the order of PATH: what its curves are called, in place of what "
             "differs or of its file")  # fmt: skip
    add("--claims", action="store_true",
        help="above the figures of `reproduce`, the verdicts of the claims that they show")
    add("--width", metavar="INCHES", type=_width, default=None,
        help="width of every figure: about 3.3 for one column of a page, 7 for its whole width (default: 7, or 4.6 for "
             "one panel)")  # fmt: skip
    add("--format", metavar="KIND[,KIND]", type=_list_of(drawing.FORMATS, "format"), default=("png", "svg"),
        dest="formats", help="png, svg, pdf (default: png,svg)")  # fmt: skip
    add("--caption", choices=drawing.CAPTIONS, default="file",
        help="file: a text file beside the figure, which itself carries none (default); below: in the figure")
    add("--list", action=_List, nargs=0, help="print the names of all figures and exit")
    return parser


def _report(reports: Iterator[Path | drawing.Failed]) -> tuple[int, int]:
    """Prints what was written and what failed. Returns how much there was of both."""
    written = failed = 0
    for report in reports:
        if isinstance(report, drawing.Failed):
            print(report.words, file=sys.stderr, flush=True)
            failed += 1
        else:
            print(report, flush=True)
            written += 1
    return written, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws and returns the exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    labels = tuple(chosen.labels)
    if labels and not chosen.together:
        parser.error("--label: expected with --together")
    if len(set(labels)) < len(labels) or not all(label.strip() for label in labels):
        parser.error("--label: expected a different, non-empty text for each result")
    settings = drawing.Options(chosen.only, chosen.width, chosen.formats, chosen.caption, chosen.claims, labels)
    files: list[Path] = []
    failed = 0
    for path in chosen.paths:
        here = sorted(path.rglob("*.nc")) if path.is_dir() else [path] if os.path.lexists(path) else []
        if not here:
            found = "no result file (*.nc) found" if path.is_dir() else "no such file or folder; expected results"
            print(f"{path}: {found}", file=sys.stderr)
            failed += 1
        files += here
    files = list({file.absolute(): file for file in files}.values())
    if not files:
        return 3
    if labels and len(labels) != len(files):
        parser.error(f"--label: found {len(labels)}; expected one for each of {len(files)} results: "
                     f"{', '.join(map(str, files))}")  # fmt: skip
    common = os.path.commonpath([os.path.abspath(p if p.is_dir() else p.parent) for p in chosen.paths])
    # Figures lie below --out as their results lie below the folder that all paths are in.
    results = [(files, chosen.out)] if chosen.together else [
        ([file], chosen.out / Path(os.path.abspath(file.parent)).relative_to(common)) for file in files]
    written, more = _report(report for some, out in results for report in drawing.draw(some, out, settings))
    failed += more
    if chosen.only and not written and not more:
        print(f"no figure {', '.join(map(repr, chosen.only))} in these results", file=sys.stderr)
        failed += 1
    return 1 if failed else 0

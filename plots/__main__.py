"""python -m plots RESULTS_DIR --out FIGURES_DIR"""

import argparse
import os
import signal
import sys
from pathlib import Path

from plots import drawing

ABOUT = "Draws Periscope's result files. Figures are drawn anew each time, and replaced only by complete ones."
CODES = """exit codes: 0 all figures are drawn; 1 a file could not be read, or a figure not drawn or written: it is
named on standard error, and all others are drawn; 2 usage; 3 RESULTS_DIR holds no result file; 130, 143 stopped by
SIGINT, SIGTERM"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m plots", description=ABOUT, epilog=CODES)
    parser.add_argument("results", metavar="RESULTS_DIR", type=Path,
                        help="folder that is searched for result files (*.nc)")  # fmt: skip
    parser.add_argument("--out", metavar="FIGURES_DIR", type=Path, required=True,
                        help="folder for the figures, as PNG and as SVG")  # fmt: skip
    arguments = parser.parse_args()
    files = sorted(arguments.results.rglob("*.nc"))
    if not files:
        found = "no result file (*.nc) found" if arguments.results.is_dir() else "no folder; expected one of results"
        print(f"{arguments.results}: {found}", file=sys.stderr)
        return 3
    status = 0
    for file in files:
        for report in drawing.draw(file, arguments.out / file.parent.relative_to(arguments.results)):
            if isinstance(report, drawing.Failed):
                print(report.words, file=sys.stderr, flush=True)
                status = 1
            else:
                print(report.path, flush=True)
    return status


def _stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)  # by an exception, so that what is being written is cleaned up


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    sys.stdout.reconfigure(errors="surrogateescape")  # a path is printed byte by byte as it is on the disk
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads the list of figures any more
        sys.exit(1)

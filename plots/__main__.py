"""Usage: python -m plots PATH... --out DIR, or from any folder: python /path/to/plots PATH... --out DIR"""

import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path

if not __package__:  # started by path: sys.path has this folder instead of its parent
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    __package__ = Path(__file__).resolve().parent.name

try:
    from . import command_line
except ModuleNotFoundError as error:  # a package of plots/requirements.txt is missing
    sys.exit(f"python -m plots: {error} (running {sys.executable}); use .venv/bin/python, which ./lab creates")


def _stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)  # raises an exception, so that temporary files are removed


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # prints the bytes of paths unchanged
    try:
        sys.exit(command_line.main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of stdout has closed the pipe
        sys.exit(1)

"""python -m plots PATH... --out DIR, or from any folder python /path/to/plots PATH... --out DIR"""

import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path

if not __package__:  # started by its path: Python has put this folder on the path of modules, not the one above it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    __package__ = Path(__file__).resolve().parent.name

try:
    from . import command_line
except ModuleNotFoundError as error:  # an interpreter without plots/requirements.txt
    sys.exit(f"python -m plots: {error} for {sys.executable}: start it with .venv/bin/python, which ./lab makes")


def _stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)  # by an exception, so that what is being written is cleaned up


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # a path is printed byte by byte as it is on the disk
    try:
        sys.exit(command_line.main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads the list of figures any more
        sys.exit(1)

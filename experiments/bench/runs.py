"""One run of stack_seconds, or of its peer in PyTorch at the same shape, each in a process of its own."""

import argparse
import json
import math
import pathlib
import subprocess

PEER = pathlib.Path(__file__).parent / "peers" / "stack_pytorch.py"
SHAPE = ("width", "heads", "kv_heads", "head_dim", "mlp_width", "vocab", "layers", "tokens", "seeds", "threads", "way")


def count(word):
    """A whole number from 1 on, as the type of an option."""
    try:
        number = int(word)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{word!r}: expected a whole number from 1 on")
    return number


def amount(word):
    """A finite number of at least 0, as the type of an option."""
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r}: expected a number of at least 0")
    return number


class RunError(Exception):
    """A program that failed. The message says which, and what it said last."""


def line_of(command):
    """The last line of a program's output, which is JSON."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    except OSError as error:
        raise RunError(f"{command[0]}: cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"{pathlib.Path(command[0]).name}: {said[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def flags(options):
    """warm_up=True, layers=2 as --warm-up --layers 2."""
    words = []
    for name, value in options.items():
        if value is not False:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words


def ours(build, **options):
    return line_of([build / "experiments" / "stack_seconds", *flags(options)])


def shape_of(build, **options):
    """The shape that `ours` would measure."""
    return line_of([build / "experiments" / "stack_seconds", *flags(options), "--dry-run"])


def peers(python, of_ours, **options):
    """The peer at the shape of a line of `ours`."""
    shape = {key: of_ours[key] for key in SHAPE}
    return line_of([python, PEER, json.dumps(shape), *flags(options)])


def peer_version(python):
    """The version of an interpreter's PyTorch."""
    command = [python, "-c", "import json, torch; print(json.dumps(torch.__version__))"]
    return line_of(command)

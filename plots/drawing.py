"""All figures of one result file, or of several together, drawn in a process of its own, so that a damaged file ends
nothing but itself."""

import multiprocessing
import os
import resource
import signal
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import xarray as xr

from . import groups, kinds, reader, style, together
from .dataset import whole_file
from .makers import Kind, made

FORMATS = ("png", "svg", "pdf")
CAPTIONS = ("file", "below")
PATIENCE = 600.0  # seconds for one file's reading, or for one figure
GRACE = 2.0  # seconds to clean up in
UNDATED: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Options:
    """What a caller chooses about figures. Defaults are those of the command line. `only` holds names of figures;
    empty, all are drawn."""

    only: tuple[str, ...] = ()
    width: float | None = None  # inches; None: each figure's own, 7 or 4.6
    formats: tuple[str, ...] = ("png", "svg")
    caption: str = "file"
    claims: bool = False
    labels: tuple[str, ...] = ()  # of results drawn together, in their order; empty: what differs between them


DEFAULT = Options()


@dataclass(frozen=True)
class Failed:
    """What could not be drawn, in one line that begins with the result file's name."""

    words: str


@dataclass(frozen=True)
class Begun:
    """What is being done with which file, for the message if it never ends: "reading it"."""

    words: str
    file: Path


def draw(
    files: Sequence[Path], folder: Path, options: Options = DEFAULT, patience: float = PATIENCE
) -> Iterator[Path | Failed]:
    """Draws all figures of `files`, of several files together, into `folder`, and says one by one which file was
    written and what failed."""
    context = multiprocessing.get_context("fork")
    reports, to_parent = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(files, folder, options, to_parent), daemon=True)
    child.start()
    to_parent.close()
    doing, file = "starting", files[0]
    try:
        while reports.poll(patience):
            report = reports.recv()
            if report is None:
                return
            if isinstance(report, Begun):
                doing, file = report.words, report.file
            else:
                yield report
        yield Failed(f"{file}: {doing} takes longer than {patience:g} s: left out")
    except EOFError:
        child.join()
        code = child.exitcode or 0
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        yield Failed(f"{file}: {doing} crashed ({end}); expected a NetCDF-4 file of Periscope")
    finally:
        child.terminate()  # it removes the figure that it is writing
        child.join(GRACE)
        child.kill()  # Python answers no signal while a library loops
        child.join()
        reports.close()


def _in_child(files: Sequence[Path], folder: Path, options: Options, to_parent: Connection) -> None:
    # What a library prints before it crashes, and what numpy says of overflowing data, is not the one line per failure
    # that this program promises. A crash is expected of bad files, so it leaves no core file either.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with style.use_width(options.width):
        for report in _reports(files, folder, options):
            to_parent.send(report)
    to_parent.send(None)


def _reports(files: Sequence[Path], folder: Path, options: Options) -> Iterator[Begun | Path | Failed]:
    found: dict[Path, xr.Dataset] = {}
    for file in files:
        yield Begun("reading it", file)
        try:
            ds = reader.read(file)
            if len(files) > 1 or options.labels:
                together.require(file, ds, found.values())
            found[file] = ds
        except reader.ResultError as error:
            yield Failed(str(error))
    if not found:
        return
    path = together.path(list(found))
    labels = dict(zip(files, options.labels, strict=True)) if options.labels else {}
    marks = [labels[file] for file in found if labels]
    ds = together.merged(found, marks) if len(found) > 1 or marks else found[path]
    there = kinds.of(ds)
    if not there:
        yield Failed(f"{path}: none of {len(kinds.KINDS)} figures finds the variables that it needs; expected those "
                     "that `periscope list --columns` names")  # fmt: skip
    for kind in there:
        if not options.only or kind.name in options.only:
            yield from figures_of(kind, ds, path, folder, options)


def figures_of(
    kind: Kind, ds: xr.Dataset, path: Path, folder: Path, options: Options = DEFAULT
) -> Iterator[Begun | Path | Failed]:
    """Draws what a kind of figures makes of the result of that path, and goes on behind one that fails."""
    yield Begun(f"drawing {kind.name}", path)
    try:
        makers = kind.draw(ds)
    except Exception as error:
        yield Failed(f"{path}: figure {kind.name}: {reason(error)}")
        return
    for name, make in makers.items():
        try:
            yield from save(made(make), folder / f"{path.stem}-{name}", options)
        except Exception as error:
            yield Failed(f"{path}: figure {name}: {reason(error)}")


def reason(error: BaseException) -> str:
    """One line of what went wrong."""
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r} in the file; expected a result of this version of Periscope"
    words = " ".join(str(error).split())
    return words if isinstance(error, OSError) else f"{type(error).__name__}: {words}"


def save(figure: style.Page, path: Path, options: Options = DEFAULT) -> Iterator[Path]:
    """Writes a figure in every format, and its caption as text unless it goes into the figure; each file complete or
    not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if options.claims:
        groups.claims_above(figure)
    if options.caption == "below":
        style.caption_below(figure)
    for kind in options.formats:
        image = partial(figure.savefig, format=kind, metadata=UNDATED.get(kind))
        yield _write(path.with_name(f"{path.name}.{kind}"), image)
        figure.set_layout_engine("none")  # all formats have one layout, which takes as long to find as a figure to draw
    if options.caption == "file":
        text = textwrap.fill(style.plain(figure.caption), 100, break_on_hyphens=False)
        yield _write(path.with_name(f"{path.name}.txt"), lambda stream: stream.write(f"{text}\n".encode()))


def _write(named: Path, write: Callable[[BinaryIO], object]) -> Path:
    target = named.resolve()  # behind a symbolic link, which stays one
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {named}: it is there and no regular file")
    with whole_file(target) as temporary, temporary.open("xb") as stream:
        write(stream)
    return named

"""Draws all figures of one result file, or of several combined ones, in a separate process, so that a crash caused by a
damaged file affects only its own figures."""

import multiprocessing
import os
import resource
import signal
import textwrap
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, BinaryIO

import xarray as xr

from . import groups, kinds, reader, style, sweeps, together
from .dataset import atomic_file
from .makers import Kind, drawn

FORMATS = ("png", "svg", "pdf")
CAPTIONS = ("file", "below")
TIMEOUT = 600.0  # seconds for reading a file or drawing a figure
GRACE = 2.0  # seconds for clean-up
UNDATED: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Options:
    """Drawing options; the defaults are those of the command line."""

    only: tuple[str, ...] = ()  # names of kinds of figures; empty: all
    width: float | None = None  # inches; None: 7, or 4.6 for one panel
    formats: tuple[str, ...] = ("png", "svg")
    caption: str = "file"
    claims: bool = False
    labels: tuple[str, ...] = ()  # labels of combined results, in order; empty: differing keys


DEFAULT = Options()


@dataclass(frozen=True)
class Failed:
    """Report of a failure; `message` is one line that begins with the name of the result file."""

    message: str


@dataclass(frozen=True)
class Started:
    """Report of the current activity, such as "reading", for the message about a timeout."""

    activity: str
    file: Path


Reports = Generator[Path | Failed, None, None]  # written paths and failures


def draw(files: Sequence[Path], folder: Path, options: Options = DEFAULT, timeout: float = TIMEOUT) -> Reports:
    """Starts drawing all figures of `files` into `folder`; several files are combined. Closing the reports stops it."""
    context = multiprocessing.get_context("fork")
    reports, to_parent = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(files, folder, options, to_parent), daemon=True)
    child.start()
    to_parent.close()
    received = _received(child, reports, files[0], timeout)
    next(received)  # enters its `try`, so that close() has an effect
    return received


def _received(child: BaseProcess, reports: Connection, file: Path, timeout: float) -> Reports:
    activity = "starting"
    try:
        yield file  # for `draw`
        while reports.poll(timeout):
            report = reports.recv()
            if report is None:
                return
            if isinstance(report, Started):
                activity, file = report.activity, report.file
            else:
                yield report
        yield Failed(f"{file}: {activity} takes longer than {timeout:g} s; skipped")
    except EOFError:
        child.join()
        code = child.exitcode or 0
        end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        yield Failed(f"{file}: {activity} crashed ({end}); expected a NetCDF-4 file of Periscope")
    finally:
        child.terminate()  # its handler removes unfinished files
        child.join(GRACE)
        child.kill()  # a library may block Python's signal handlers
        child.join()
        reports.close()


def _in_child(files: Sequence[Path], folder: Path, options: Options, to_parent: Connection) -> None:
    # Hides messages of crashing libraries and warnings of numpy, because each failure is reported in one line. Crashes
    # are expected for damaged files, so core files are disabled.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with style.use_width(options.width):
        for report in _reports(files, folder, options):
            to_parent.send(report)
    to_parent.send(None)


def _reports(files: Sequence[Path], folder: Path, options: Options) -> Iterator[Started | Path | Failed]:
    found: dict[Path, xr.Dataset] = {}
    for file in files:
        yield Started("reading", file)
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
    found_labels = [labels[file] for file in found if labels]
    ds = together.merged(found, found_labels) if len(found) > 1 or found_labels else found[path]
    results = {"": sweeps.stacked(ds)}
    if not (available := _available(results[""])):
        results = sweeps.single_cells(ds)
        available = [kind for one in list(results.values())[:1] for kind in _available(one)]
    if not available:
        yield Failed(f"{path}: no figure supports its variables; expected a result with the columns of "
                     "`periscope list --columns`")  # fmt: skip
    for name, one in results.items():
        named = path.with_name(f"{path.stem}-{name}.nc") if name else path
        for kind in available:
            if not options.only or kind.name in options.only:
                yield from figures_of(kind, one, named, folder, options)


def _available(ds: xr.Dataset) -> list[Kind]:
    return [kind for kind in kinds.of(ds) if kind.name == "sweep" or not sweeps.excess_of(ds)]


def figures_of(
    kind: Kind, ds: xr.Dataset, path: Path, folder: Path, options: Options = DEFAULT
) -> Iterator[Started | Path | Failed]:
    """Draws all figures of a kind for a result read from `path`; continues after failures."""
    yield Started(f"drawing {kind.name}", path)
    try:
        makers = kind.draw(ds)
    except Exception as error:
        yield Failed(f"{path}: figure {kind.name}: {reason(error)}")
        return
    for name, make in makers.items():
        try:
            yield from save(drawn(make), folder / f"{path.stem}-{name}", options)
        except Exception as error:
            yield Failed(f"{path}: figure {name}: {reason(error)}")


def reason(error: BaseException) -> str:
    """Returns the error as one line of text."""
    if isinstance(error, KeyError):
        return f"no variable {error.args[0]!r} in the file; expected a result of this version of Periscope"
    words = " ".join(str(error).split())
    return words if isinstance(error, OSError) else f"{type(error).__name__}: {words}"


def save(figure: style.Page, path: Path, options: Options = DEFAULT) -> Iterator[Path]:
    """Writes a figure in every format, and its caption to a text file unless it is part of the figure; atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if options.claims:
        groups.claims_above(figure)
    if options.caption == "below":
        style.caption_below(figure)
    figure.set_dpi(style.SETTINGS["savefig.dpi"])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # every format has the layout of the PNG, even if no PNG is written
    for kind in options.formats:
        image = partial(figure.savefig, format=kind, metadata=UNDATED.get(kind))
        yield _write(path.with_name(f"{path.name}.{kind}"), image)
    if options.caption == "file":
        text = textwrap.fill(style.plain(figure.caption), 100, break_on_hyphens=False)
        yield _write(path.with_name(f"{path.name}.txt"), lambda stream: stream.write(f"{text}\n".encode()))


def _write(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    target = path.resolve()  # replaces the target of a symbolic link, not the link
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {path}: it exists and is not a regular file")
    with atomic_file(target) as temporary, temporary.open("xb") as stream:
        write(stream)
    return path

"""All figures of one result file, drawn in a process of its own, so that a damaged file ends nothing but itself."""

import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from plots import (
    agreement,
    angular,
    attenuation,
    bound_ratios,
    bound_width,
    certificate,
    claims,
    convergence,
    cost,
    crossover,
    decay_init,
    dilution,
    extremes,
    final_losses,
    gradient,
    gradient_depth,
    growth_identity,
    growth_over_depth,
    identity_path,
    ladder,
    layer_gradients,
    massive,
    number_formats,
    power,
    probe,
    rate_sweeps,
    redundancy,
    results,
    score_path,
    stability,
    token_cosine,
    training,
    variance,
    weight_gradients,
    wrong_theories,
)
from plots.figures import FigureError

KINDS = (variance, token_cosine, dilution, agreement, power, angular, convergence, gradient, weight_gradients,
         score_path, gradient_depth, attenuation, identity_path, crossover, bound_ratios, bound_width, massive,
         probe, certificate, wrong_theories, ladder, number_formats, growth_over_depth, rate_sweeps, stability,
         layer_gradients, redundancy, decay_init, extremes, growth_identity, final_losses, claims, training,
         cost)  # fmt: skip
WITHOUT_FIGURES = ("soundness",)  # kinds of results that no figure shows
PATIENCE = 600.0  # seconds for one file's reading, or for one figure
GRACE = 2.0  # seconds to clean up in


@dataclass(frozen=True)
class Written:
    """A figure's file."""

    path: Path


@dataclass(frozen=True)
class Failed:
    """What could not be drawn, in one line that begins with the result file's name."""

    words: str


@dataclass(frozen=True)
class Begun:
    """What is being done, for the message if it never ends: "reading it"."""

    words: str


def draw(file: Path, folder: Path, patience: float = PATIENCE) -> Iterator[Written | Failed]:
    """Draws all figures of `file` into `folder`, and says one by one what was written and what failed."""
    context = multiprocessing.get_context("fork")
    reports, to_parent = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(file, folder, to_parent), daemon=True)
    child.start()
    to_parent.close()
    doing = "starting"
    try:
        while reports.poll(patience):
            report = reports.recv()
            if report is None:
                return
            if isinstance(report, Begun):
                doing = report.words
            else:
                yield report
        yield Failed(f"{file}: {doing} takes longer than {patience:g} s: left out")
    except EOFError:
        child.join()
        end = signal.Signals(-child.exitcode).name if child.exitcode < 0 else f"exit code {child.exitcode}"
        yield Failed(f"{file}: {doing} crashed ({end}); expected a NetCDF-4 file of Periscope")
    finally:
        child.terminate()  # it removes the figure that it is writing
        child.join(GRACE)
        child.kill()  # Python answers no signal while a library loops
        child.join()
        reports.close()


def _in_child(file: Path, folder: Path, to_parent: Connection) -> None:
    # What a library prints before it crashes, and what numpy says of overflowing data, is not the one line per failure
    # that this program promises. A crash is expected of bad files, so it leaves no core file either.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    to_parent.send(Begun("reading it"))
    try:
        result = results.read(file)
    except results.ResultError as error:
        to_parent.send(Failed(str(error)))
        to_parent.send(None)
        return
    kinds = [kind for kind in KINDS if all(name in result for name in kind.NEEDS)]
    if not kinds and result.attributes.get("result") not in WITHOUT_FIGURES:
        to_parent.send(Failed(f"{file}: none of {len(KINDS)} figures finds the variables that it needs; expected those "
                              "that `periscope list --columns` names"))  # fmt: skip
    for kind in kinds:
        for report in figures_of(kind, result, folder):
            to_parent.send(report)
    to_parent.send(None)


def figures_of(kind: ModuleType, result: results.Result, folder: Path) -> Iterator[Begun | Written | Failed]:
    """Draws what a kind of figures makes of a result, and goes on behind one that fails."""
    short = kind.__name__.rpartition(".")[2]
    yield Begun(f"drawing {short}")
    drawn = iter(kind.draw(result))
    name = short
    while True:
        try:
            name = short
            name, figure = next(drawn)
            for path in save(figure, folder / f"{result.path.stem}-{name}"):
                yield Written(path)
        except StopIteration:
            return
        except Exception as error:
            if isinstance(error, FigureError):
                name = str(error)
            yield Failed(f"{result.path}: figure {name}: {_reason(error.__cause__ or error)}")


def _reason(error: BaseException) -> str:
    """One line of what went wrong."""
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r} in the file; expected a result of this version of Periscope"
    words = " ".join(str(error).split())
    return words if isinstance(error, OSError) else f"{type(error).__name__}: {words}"


def save(figure: Figure, path: Path) -> Iterator[Path]:
    """Writes a figure as PNG and as SVG, each complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for kind, keywords in (("png", {}), ("svg", {"metadata": {"Date": None}})):
        named = path.with_name(f"{path.name}.{kind}")
        target = named.resolve()  # behind a symbolic link, which stays one
        if target.exists() and not target.is_file():
            raise OSError(f"cannot write {named}: it is there and no regular file")
        temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with temporary.open("xb") as stream:
                figure.savefig(stream, format=kind, **keywords)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        yield named

"""Sweeps: a study for every cell of a grid of configurations."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from . import _periscope, _run, dataset
from ._progress import bar
from .config import Config, ConfigLike, settings
from .errors import ConfigError, short, utf8, whole

if TYPE_CHECKING:
    import xarray as xr

Grid = Mapping[str, Iterable[Any]]


def sweep(study: str, base: ConfigLike = None, *, grid: Grid | None = None, zip: Grid | Iterable[Grid] = (),
          out: _run.PathLike | None = None, **flags: Any) -> "Sweep":  # fmt: skip
    """Plans a study for every combination of values of some keys.

    ``ps.sweep("propagate", base, grid={"model.layers": [12, 24], "model.placement": ["pre", "peri"]}).run().gather()``
    returns one dataset, in which every swept key is a dimension. Finished cells are stored, so a sweep with the same
    folder computes only cells that are missing. Raises ConfigError for invalid keys and values.

    Arguments:
        study: Name of the study, such as "propagate" or "gradients depth".
        base: Configuration of all cells: Config, dictionary of keys, or path of a TOML file.
        grid: Keys with their values; cells are all combinations, the last key varying fastest.
        zip: Keys whose values vary together, or a list of such groups; a group is one dimension.
        out: Folder of the sweep. Default: a temporary folder, removed with the returned object.
        flags: Flags of the study, such as ``backward=True``.
    """
    groups: list[Grid] = [{key: values} for key, values in (grid or {}).items()]
    groups += [zip] if isinstance(zip, Mapping) else zip
    axes = [settings({key: _listed(key, values) for key, values in group.items()}) for group in groups]
    given = Config.of(base)
    known = {flag["name"].replace("-", "_"): flag for flag in _run._study(study).get("flags", ())}
    if unknown := [name for name in flags if known and name not in known]:
        raise ConfigError(f"{unknown[0]}: expected a flag of {study}: {', '.join(known)}")
    words = {known[name]["name"]: w for name, value in flags.items()
             if name in known and (w := _run._words(known[name], value)) is not None}  # fmt: skip
    request = _run.request(file=given.file, entries=settings(given.keys), flags=words)
    temporary = tempfile.TemporaryDirectory(prefix="periscope-sweep-") if out is None else None
    folder = utf8("out", os.path.abspath(temporary.name if out is None else out))  # type: ignore[union-attr]
    return Sweep(folder, json.loads(_periscope.sweep_plan(folder, study, request, axes)), temporary)


def _listed(key: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ConfigError(f"{key} = {short(values)}: expected a list of values")
    return list(values)


def run_shard(folder: str, index: int, count: int, threads: int = 0, retry: bool = False) -> dict[str, Any]:
    """Computes the missing cells of part ``index`` (from 1) of ``count`` of the sweep in ``folder``. Returns the number
    of its cells by state. Executors call this function, so it can be pickled."""
    return dict(json.loads(_periscope.sweep_run(folder, (index, count), threads, retry, _run._argv())))


class Sweep:
    """A planned sweep, made by `sweep`."""

    def __init__(self, folder: str, plan: dict[str, Any],
                 temporary: "tempfile.TemporaryDirectory[str] | None" = None) -> None:  # fmt: skip
        #: Folder of the plan and the cells.
        self.folder = folder
        #: Number of ``cells``, of ``invalid`` and of ``done`` ones, estimated ``core_hours`` and ``memory`` [bytes].
        self.plan = plan
        self._temporary = temporary

    def run(self, executor: Executor | None = None, *, shards: int | None = None, threads: int | None = None,
            retry: bool = False, progress: _run.Progress = False) -> "Sweep":  # fmt: skip
        """Computes the missing cells and returns the sweep.

        Arguments:
            executor: Any ``concurrent.futures.Executor``, also of dask, Parsl, mpi4py or submitit, whose processes
                see the folder. Default: this process. Processes must be started with "spawn" or "forkserver".
            shards: Number of parts for the executor. Default: four for each of its workers.
            threads: Threads of a part; default: 1 with an executor, else all.
            retry: Compute failed cells again.
            progress: As in studies; without an executor only.
        """
        count = 0 if threads is None else whole("threads", threads, 0, 1024)
        if executor is None:
            reporter: AbstractContextManager[Any] = bar() if progress is True else nullcontext(progress or None)
            with reporter as on_progress:
                _periscope.sweep_run(self.folder, (1, 1), count, retry, _run._argv(), on_progress)
            return self
        workers = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        parts = min(self.plan["cells"], 4 * workers if shards is None else whole("shards", shards, 1, 10**6))
        futures = [executor.submit(run_shard, self.folder, k + 1, parts, count or 1, retry) for k in range(parts)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return self

    def status(self) -> dict[str, Any]:
        """Returns the numbers of cells by state, whether the sweep is ``complete``, and the first ``failures``."""
        return dict(json.loads(_periscope.sweep_status(self.folder)))

    def gather(self, partial: bool = False, columns: Iterable[str] = ()) -> "xr.Dataset":
        """Returns all cells as one dataset. Every swept key is a dimension of its name; the values of model.placement
        and input.kind use ``placement`` and ``input``. Depths of different lengths are padded with missing values.

        Arguments:
            partial: Also gather an incomplete sweep; ``cell_status`` tells which cells are done.
            columns: Columns to gather; default: all.
        """
        result = _periscope.sweep_gather(self.folder, partial, [utf8("columns", name) for name in columns])
        return dataset.of_result(result, _run._argv())

    def __repr__(self) -> str:
        return f"Sweep({self.folder!r}, {self.plan['cells']} cells)"

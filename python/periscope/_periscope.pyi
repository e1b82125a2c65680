"""The compiled module, for internal use by the package."""

from collections.abc import Callable, Sequence
from typing import Any

class Snapshot:
    """Progress of a run."""

    @property
    def phase(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def share(self) -> float: ...
    @property
    def steps_done(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def seconds_left(self) -> float | None: ...
    @property
    def messages(self) -> list[str]: ...

class Model:
    """A model in memory: the text of config.json, and tensors."""

    def __init__(
        self,
        name: str,
        config: str,
        tensors: dict[str, tuple[str, list[int], Any]],
        copy: bool = True,
        ignore_keys: Sequence[str] = (),
    ) -> None: ...
    @property
    def name(self) -> str: ...

class Request:
    """Parameters of a run."""

    file: str
    entries: Sequence[str]
    settings: Sequence[str]
    theory_settings: Sequence[str]
    run: dict[str, list[str]]
    force: bool
    flags: dict[str, list[str]]
    model: Model

class Result:
    """Result of a study."""

    @property
    def file(self) -> str: ...
    @property
    def json_file(self) -> bool: ...
    @property
    def out(self) -> str: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def table(self) -> str: ...
    def variables(self) -> dict[str, tuple[str, list[str], list[int], Any, str, str, bool]]: ...
    def attributes(self, argv: Sequence[str]) -> str: ...
    def json(self, argv: Sequence[str]) -> str: ...

def check(model: Model | None, folder: str, ignored: Sequence[str], ignore_keys: Sequence[str]) -> str: ...
def description() -> str: ...
def citation(result: dict[str, str]) -> str: ...
def parameters(file: str, entries: Sequence[str]) -> list[tuple[str, list[int]]]: ...
def resolve(file: str, entries: Sequence[str]) -> str: ...
def run(
    name: str,
    request: Request,
    on_progress: Callable[[Snapshot], object] | None = None,
    on_record: Callable[[dict[str, Any]], object] | None = None,
) -> Result: ...
def stop_all() -> None: ...
def layout(model: Model) -> str: ...
def replay(
    model: Model,
    lengths: Sequence[int],
    ids: Sequence[int],
    labels: Sequence[int],
    signals: Sequence[tuple[int, str, bool, Any]],
    gradients: Sequence[tuple[int, str, float]],
    logits: Any,
    dtype: str,
    unit_roundoff: float,
    top: int,
) -> Result: ...
def commit(result: Result, on_progress: Callable[[Snapshot], object] | None = None) -> None: ...
def sweep_plan(
    folder: str,
    study: str,
    base: Request,
    axes: Sequence[Sequence[str]],
    on_progress: Callable[[Snapshot], object] | None = None,
) -> str: ...
def sweep_run(
    folder: str,
    shard: tuple[int, int],
    threads: int,
    retry: bool,
    argv: Sequence[str],
    on_progress: Callable[[Snapshot], object] | None = None,
) -> str: ...
def sweep_status(folder: str) -> str: ...
def sweep_gather(
    folder: str, partial: bool, columns: Sequence[str], on_progress: Callable[[Snapshot], object] | None = None
) -> Result: ...

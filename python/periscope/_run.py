"""Runs studies in the compiled module."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _periscope, _text, _toml, dataset
from ._progress import bar
from .config import Config, ConfigLike, flat, settings
from .describe import description
from .errors import CheckFailed, ConfigError, short, utf8, whole

if TYPE_CHECKING:
    import xarray as xr

    from .model import Model

PathLike = str | os.PathLike[str]
CheckpointLike = Union[PathLike, "Model", Config, Mapping[str, Any]]
TokensLike = PathLike | Iterable[int]
TokenizerLike = PathLike | Callable[[str], Any] | Any
Progress = bool | Callable[[_periscope.Snapshot], object]

CHECK_FAILED = 4
DIVERGED = 5


@dataclass(frozen=True)
class Record:
    """Values recorded from one stack during training."""

    run: str  #: name of the run, e.g. "peri-seed0"
    placement: str
    seed: int
    step: int  #: number of steps done
    steps: int  #: number of steps of the whole training
    loss: float  #: loss of the last step [nat]; NaN before the first
    grad_norm: float  #: gradient norm of the last step before clipping; NaN before the first
    values: dict[str, list[float]]  #: recorded values by column of ``columns("train")`` without its suffix


def run(name: str, given: Mapping[str, Any]) -> "xr.Dataset":
    """Runs the study ``name`` with the keyword arguments of its function in ``verbs.py`` and returns its dataset."""
    study = _study(name)
    sections = [section["name"] for section in description()["sections"]]
    result, ds = results(
        name,
        given["config"],
        set_words=settings(flat({section: given[section] for section in sections if given.get(section) is not None})),
        flags={flag["name"]: given[flag["name"].replace("-", "_")] for flag in study["flags"]},
        common={word: given[word] for word in study["common"] if word in given and word != "config"},
        theory_words=settings(flat(given.get("theory_set") or {})),
        progress=given["progress"],
        callback=given.get("callback"),
    )
    if given["check"] and result.exit_code in (CHECK_FAILED, DIVERGED):
        failure = "a stack diverged" if result.exit_code == DIVERGED else "a check failed"
        raise CheckFailed(f"{name}: {failure}\n{result.table}", ds)
    return ds


def results(
    name: str,
    config: ConfigLike,
    *,
    flags: Mapping[str, Any],
    common: Mapping[str, Any],
    set_words: Iterable[str] = (),
    theory_words: Iterable[str] = (),
    progress: Progress = False,
    callback: Callable[[Record], object] | None = None,
) -> tuple[_periscope.Result, "xr.Dataset"]:
    """Runs a study and returns the result of the compiled module and the dataset. ``set_words`` and ``theory_words``
    are settings of the form "key=value"."""
    model = None
    if "checkpoint" in flags:
        from .model import model_name

        if config is None and isinstance(flags["checkpoint"], (Config, Mapping)):  # a call such as certify(config)
            config, flags = flags["checkpoint"], {**flags, "checkpoint": None}
        model, folder = model_name(flags["checkpoint"])
        flags = _text.encoded({**flags, "checkpoint": folder})
    given = Config.of(_configured(name, config))
    known = {flag["name"]: flag for flag in _study(name)["flags"]}
    words = {flag: w for flag, value in flags.items() if (w := _words(known[flag], value)) is not None}
    compiled_request = request(
        file=given.file,
        entries=settings(given.keys),
        settings=[utf8("--set", w) for w in set_words],
        theory_settings=[utf8("--theory-set", w) for w in theory_words],
        flags=words,
        **({} if model is None else {"model": model}),
        **_common(common),
    )
    reporter: AbstractContextManager[Any] = bar() if progress is True else nullcontext(progress or None)
    with reporter as on_progress:
        on_record = None if callback is None else lambda record: callback(Record(**record))
        result = _periscope.run(name, compiled_request, on_progress, on_record)
        ds = _finished(result, on_progress)
    return result, ds


def request(**given: Any) -> _periscope.Request:
    """Returns a request of the compiled module with these attributes."""
    result = _periscope.Request()
    for name, value in given.items():
        setattr(result, name, value)
    return result


def _study(name: str) -> dict[str, Any]:
    return next((study for study in description()["studies"] if study["name"] == name), {})


def _configured(name: str, config: ConfigLike) -> ConfigLike:
    """Returns the configuration, or by default the study's own configuration file."""
    own = _study(name).get("configuration", "")
    if config is not None or not own:
        return config
    folder = Path(__file__).parent
    candidates = (folder / "configs" / Path(own).name, folder.parents[1] / own)
    return next((path for path in candidates if path.is_file()), own)


def _finished(result: _periscope.Result, on_progress: Callable[[_periscope.Snapshot], object] | None) -> "xr.Dataset":
    """Writes the files of a run, if it has a folder for results, and returns its dataset."""
    ds = dataset.of_result(result, _argv())
    if result.out and result.file:
        os.makedirs(result.out, exist_ok=True)
        path = os.path.join(result.out, result.file)
        dataset.write(ds, path + ".nc")
        if result.json_file:
            dataset.write_text(result.json(_argv()) + "\n", path + ".json")
    _periscope.commit(result, on_progress)
    return ds


def _common(common: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the common arguments of studies as attributes of Request: force, and the run flags as text."""
    given = {name: value for name, value in common.items() if value is not None}
    for name, least, most in (("seed", 0, 2**63 - 1), ("seeds", 1, 2**31 - 1), ("threads", 0, 2**31 - 1)):
        if name in given:
            given[name] = whole(name, given[name], least, most)
    for name in ("out", "device", "dtype", "memory"):
        if name in given:
            given[name] = utf8(name, str(given[name]) if name == "memory" else given[name])
    if given.get("out"):
        given["out"] = utf8("out", os.path.abspath(given["out"]))  # the process may change its working directory
        os.makedirs(given["out"], exist_ok=True)
    return {"force": given.pop("force", False), "run": {name: [str(value)] for name, value in given.items()}}


def _words(flag: dict[str, Any], value: Any) -> list[str] | None:
    """Returns the command-line words of a flag, or None if it is not given."""
    name = flag["name"].replace("-", "_")
    value = _text.one_sequence(name, value) if name in ("tokens", "labels") else _toml.plain(name, value)
    if value is None or (value is False and flag["toggle"]):
        return None
    if flag["toggle"]:
        if value is not True:
            raise ConfigError(f"{name} = {short(value)}: expected True or False")
        return []
    if isinstance(value, str):
        return [utf8(name, value)]
    if flag["number"] and isinstance(value, (int, float)) and not isinstance(value, bool):
        return [repr(value)]
    if name == "stacks" and isinstance(value, list):
        return [one if isinstance(one, str) else _toml.text(name, one) for one in value]
    if isinstance(value, list) and not flag["number"]:
        return [_joined(name, flag, value)]
    expected = "a number" if flag["number"] else "a list of text" if flag["list"] else "text, a path or a list"
    raise ConfigError(f"{name} = {short(value)}: expected {expected}")


def _joined(name: str, flag: dict[str, Any], values: list[Any]) -> str:
    """Joins list values with commas: texts for list flags, integers for token ids."""
    kind = str if flag["list"] else int if name in ("tokens", "labels") else None
    for value in values:
        if kind is None or not isinstance(value, kind) or isinstance(value, bool):
            raise ConfigError(f"{name}: found {short(value)} in the list; expected "
                              f"{'texts' if flag['list'] else 'whole numbers'}")  # fmt: skip
    if not values:
        raise ConfigError(f"{name} = []: expected at least one")
    return ",".join(map(str, values))


def _argv() -> list[str]:
    """Returns the command line of the process as valid UTF-8."""
    return [os.fsencode(str(word)).decode(errors="replace") for word in getattr(sys, "argv", [])]

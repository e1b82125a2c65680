"""Configurations of studies."""

import copy
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Union

from . import _periscope, _toml
from .describe import description
from .errors import ConfigError, utf8

_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
ConfigLike = Union["Config", Mapping[str, Any], str, "os.PathLike[str]", None]


def flat(keys: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Flattens ``{"model": {"width": 8}, "run.seeds": 4}`` to ``{"model.width": 8, "run.seeds": 4}``."""
    found: dict[str, Any] = {}
    sections = {section["name"] for section in description()["sections"]}
    if not isinstance(keys, Mapping):
        raise ConfigError(f"{within or 'configuration'}: found {type(keys).__name__}; expected a table of keys")
    for name, value in keys.items():
        if not isinstance(name, str):
            raise ConfigError(f"{within or 'configuration'}: expected key names of type str, found {name!r}")
        full = within + name
        if not _NAME.fullmatch(full):
            raise ConfigError(f"unknown key {full!r}: expected one of the keys that periscope.keys() lists")
        is_section = full in sections or (not within and isinstance(value, Mapping) and "." not in name)
        if not is_section:
            found[full] = _toml.plain(full, value)
        elif isinstance(value, Mapping):
            found.update(flat(value, full + "."))
        else:
            raise ConfigError(f"{full} = {_toml.text(full, value)}: expected a table of keys")
    return found


def settings(keys: Mapping[str, Any]) -> list[str]:
    """Returns flat keys as "key=TOML"."""
    return [f"{key}={_toml.text(key, value)}" for key, value in keys.items()]


class Config:
    """A configuration, checked on construction.

    ``Config({"model": {"width": 128, "heads": 4}, "run": {"seeds": 8}})``. Keys may be written flat ("model.width"). A
    list for a key of model, init or input makes a sweep. ``Config.read(path)`` reads a TOML file. ``periscope.keys()``
    lists every key with its default and meaning.

    Raises ConfigError, with ``key``, ``found`` and ``expected``, for keys and values that no study accepts. Keys that a
    study ignores are allowed, so that several studies can share a configuration.
    """

    def __init__(self, keys: Mapping[str, Any] | None = None, *, file: "str | os.PathLike[str] | None" = None) -> None:
        self._file = "" if file is None else utf8("config", file)
        self._keys = flat({} if keys is None else keys)
        self._resolve()

    @classmethod
    def read(cls, path: "str | os.PathLike[str]") -> "Config":
        """Reads a TOML file. Relative paths in it are relative to the file."""
        return cls(file=path)

    @classmethod
    def of(cls, config: ConfigLike) -> "Config":
        """Converts the ``config`` argument of a study: a Config, a dictionary, None, or the path of a TOML file, which
        the study reads later."""
        if isinstance(config, Config):
            return config
        if config is None or isinstance(config, Mapping):
            return cls(config)
        if isinstance(config, (str, os.PathLike)):
            unread = cls.__new__(cls)
            unread._file, unread._keys = utf8("config", config), {}
            return unread
        raise ConfigError(f"config: found {type(config).__name__}; expected a Config, a dictionary or a path")

    def replace(self, keys: Mapping[str, Any] | None = None, /, **sections: Mapping[str, Any]) -> "Config":
        """Returns a copy with new values: ``replace({"model.width": 256})`` or ``replace(model={"width": 256})``."""
        changed = Config.__new__(Config)
        changed._file = self._file
        changed._keys = {**self._keys, **flat(keys or {}), **flat(sections)}
        changed._resolve()
        return changed

    def _resolve(self) -> str:
        return _periscope.resolve(self._file, settings(self._keys))

    @property
    def file(self) -> str:
        """Path of the TOML file, or ""."""
        return self._file

    @property
    def keys(self) -> dict[str, Any]:
        """Keys set in addition to the file, flat: ``{"model.width": 256}``."""
        return copy.deepcopy(self._keys)

    def resolved(self) -> dict[str, Any]:
        """Returns all keys of all stacks with their values, including defaults, in the form stored in results."""
        return dict(json.loads(self._resolve()))

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the stack's parameters by name, as ``Model`` expects them; a matrix is [out, in].
        Raises ConfigError for several stacks."""
        return {name: tuple(shape) for name, shape in _periscope.parameters(self._file, settings(self._keys))}

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and (self._file, self._keys) == (other._file, other._keys)

    __hash__ = None  # type: ignore[assignment]  # values may be lists

    def __repr__(self) -> str:
        parts = [repr(self._keys)] if self._keys else []
        if self._file:
            parts.append(f"file={self._file!r}")
        return f"Config({', '.join(parts)})"

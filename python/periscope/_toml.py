"""Conversion of Python values to TOML text, which the compiled module parses."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import ConfigError, short, utf8

_LARGEST = 2**63
_DEEPEST = 16  # maximum nesting of tables and lists; keys need three levels


def plain(key: str, value: Any, depth: int = 0) -> Any:
    """Converts a value to Python scalars, lists and dictionaries. Accepts paths, and arrays and scalars of numpy, torch
    or jax. Raises ConfigError if the nesting is too deep."""
    if depth > _DEEPEST:
        raise ConfigError(f"{key}: found more than {_DEEPEST} levels of nested tables or lists; expected fewer")
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (bool, int, float, str, bytes, Mapping)) and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(key, item, depth + 1) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray)):
        return [plain(key, item, depth + 1) for item in value]
    if isinstance(value, str):
        return str.__str__(value)  # converts members of a string enumeration
    kind = next((k for k in (bool, int, float) if isinstance(value, k)), None)
    return value if kind is None else kind(value)  # converts members of an enumeration and numpy scalars


def text(key: str, value: Any) -> str:
    """Returns ``value`` as TOML. Raises ConfigError, naming ``key``, for values that TOML cannot represent."""
    return _text(key, plain(key, value))


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise ConfigError(f"{key} = {value}: expected a 64-bit integer")
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _string(key, value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ConfigError(f"{key} = {short(value)}: expected key names of type str, found {name!r}")
        entries = (f"{_string(key, k)} = {_text(f'{key}.{k}', v)}" for k, v in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(key, item) for item in value) + "]"
    raise ConfigError(f"{key} = {short(value)}: expected a number, text, boolean, list or table, "
                      f"found {type(value).__name__}")  # fmt: skip


def _string(key: str, value: str) -> str:
    """Returns a TOML basic string: like a JSON string, but U+007F must be escaped too."""
    return json.dumps(utf8(key, value), ensure_ascii=False).replace("\x7f", "\\u007F")

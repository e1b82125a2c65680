"""Exceptions."""

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr


class Error(Exception):
    """Base class of Periscope's exceptions. ``exit_code`` is the exit code of the program for this error."""

    exit_code = 1


class _InvalidValue(Error, ValueError):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.key, self.found, self.expected = parts_of(message)


class ConfigError(_InvalidValue):
    """An invalid setting or argument.

    ``key`` is the setting ("model.width") or argument ("max_tokens"), ``found`` the text of its value and ``expected``
    the description of valid values; each is None if the message has no such part.
    """

    exit_code = 2


class InputError(_InvalidValue):
    """An invalid file, checkpoint or array."""

    exit_code = 3


def short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 60 else words[:57] + "..."


def whole(name: str, value: Any, least: int = 1, most: int = 2**31 - 1) -> int:
    """Converts an integer of Python, numpy or torch. Raises ConfigError, naming the argument, for other values."""
    try:
        number = value.__index__()
    except AttributeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number <= most:
        raise ConfigError(f"{name} = {value!r}: expected a whole number from {least} to {most}")
    return int(number)


def utf8(name: str, words: "str | bytes | os.PathLike[Any]") -> str:
    """Returns a text or path as a string. Raises ConfigError, naming the argument, if the value has a different type,
    cannot be encoded as UTF-8, or contains U+0000."""
    if not isinstance(words, (str, bytes, os.PathLike)):
        raise ConfigError(f"{name} = {words!r}: expected text or a path")
    text = os.fsdecode(words)
    try:
        if b"\0" not in text.encode():
            return text
    except UnicodeEncodeError:
        pass
    raise ConfigError(f"{name} = {text!r}: expected text that UTF-8 can encode, without U+0000")


class Stopped(Error):
    """Raised if a run is stopped before it has a result."""

    exit_code = 75


class CheckFailed(Error):
    """Raised with ``check=True`` if the theory is rejected, a bound is violated, or a requirement is not met.
    ``dataset`` is the result."""

    exit_code = 4

    def __init__(self, message: str, dataset: "xr.Dataset") -> None:
        super().__init__(message)
        self.dataset = dataset

    def __reduce__(self) -> tuple[type, tuple[str, "xr.Dataset"]]:
        return type(self), (str(self), self.dataset)


_KEY = r"(?P<key>\[?[A-Za-z_][\w.\-]*\]?)"
_AT = r"^(?:\S+:\d+: )?" + _KEY  # after an optional "FILE:LINE: "
_PATTERNS = (
    # "model.widht = 3: unknown key …" or "unknown key model.widht: expected …; nearest is model.width"
    re.compile(r"(?:^[\w.\-]+ ?= ?(?P<found>.*): )?unknown key " + _KEY + r": (?:expected )?(?P<expected>.*)$", re.S),
    re.compile(_AT + r" ?= ?(?P<found>.*?): (?:.*?\b)?expected (?P<expected>.*)$", re.S),
    re.compile(_AT + r" (?P<found>.+?): (?:.*?\b)?expected (?P<expected>.*)$", re.S),
    re.compile(_AT + r": (?:found (?P<found>.*?)[,;] )?(?:.*?\b)?expected (?P<expected>.*)$", re.S),
    re.compile(_AT + r"(?: ?= ?(?P<found>.*?))?: (?P<expected>.*)$", re.S),
    re.compile(_AT + r" has no effect(?P<found>)(?:.*?\bexpected)? (?P<expected>.*)$", re.S),
)


def parts_of(message: str) -> tuple[str | None, str | None, str | None]:
    """Extracts the key, the found value and the expected values from an error message."""
    for pattern in _PATTERNS:
        match = pattern.search(message)
        if match:
            return match["key"].strip("[]"), match["found"] or None, match["expected"].strip() or None
    return None, None, None


_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")


def in_python(message: str) -> str:
    """Translates a message of the program to Python: ``--max-tokens`` becomes ``max_tokens``, and ``--set`` is removed,
    because in Python, sections are arguments."""
    message = re.sub(r"(?<![\w-])--set (?=\S)", "", message)
    return _FLAG.sub(lambda match: match[1].replace("-", "_"), message)


def error_of(message: str, exit_code: int) -> Error:
    """Returns the exception for an error of the compiled module, which calls this function."""
    kinds: dict[int, type[Error]] = {kind.exit_code: kind for kind in (ConfigError, InputError, Stopped)}
    error = kinds.get(exit_code, Error)(in_python(message))
    error.exit_code = exit_code
    return error

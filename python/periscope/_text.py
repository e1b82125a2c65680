"""Encodes text with tokenizer.json of a checkpoint's folder or with a Python tokenizer."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ._toml import plain
from .errors import ConfigError, InputError, utf8


def encoded(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces ``text`` by ``tokens`` in a study's flags if Python must encode the text.

    Without ``tokenizer`` this is the case if the checkpoint's folder has tokenizer.json and no tok*.bin, which the
    program reads itself. Raises ConfigError and InputError.
    """
    given = dict(flags)
    text, tokenizer = given.get("text"), given.get("tokenizer")
    is_path = tokenizer is None or isinstance(tokenizer, (str, os.PathLike))
    if text is None:
        if not is_path:
            raise ConfigError("tokenizer: has no effect without text; expected text too")
        return given
    if given.get("tokens") is not None:
        raise ConfigError("text: expected either text or tokens, found both")
    if is_path:
        path = tokenizer if tokenizer is not None else _tokenizer_file(given.get("checkpoint"))
        if path is None or not os.fspath(path).endswith(".json"):
            return given
        tokenizer = _read(Path(path))
    given["tokens"] = _ids(tokenizer, _content(Path(utf8("text", text))))
    given["text"] = given["tokenizer"] = None
    return given


def one_sequence(name: str, values: Any) -> Any:
    """Returns the ids of one sequence, or of a batch of one sequence. Raises ConfigError for several sequences."""
    values = plain(name, values)
    sequences = [item for item in values if isinstance(item, list)] if isinstance(values, list) else []
    if len(sequences) > 1:
        raise ConfigError(f"{name}: found {len(sequences)} sequences; expected one, of shape [T] or [1, T]")
    return sequences[0] if sequences and len(values) == 1 else values


def _tokenizer_file(checkpoint: Any) -> Path | None:
    """Returns the path of a checkpoint's tokenizer.json; None if the file is missing or the folder has a tok*.bin."""
    if not isinstance(checkpoint, (str, os.PathLike)):
        return None
    folder = Path(checkpoint)
    path = folder / "tokenizer.json"
    return path if path.is_file() and not any(folder.glob("tok*.bin")) else None


def _read(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ConfigError(
            f"text: {path} needs the package tokenizers (pip install tokenizers); or pass "
            "as tokenizer a function from text to token ids"
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise InputError(f"{path}: {error}; expected a tokenizer file of the package tokenizers") from None


def _content(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise InputError(f"text {path}: not a regular file; expected a text file")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"text {path}: {error.strerror}; expected a text file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"text {path}: byte {error.start} is not UTF-8; expected UTF-8") from None


def _ids(tokenizer: Callable[[str], Any] | Any, text: str) -> list[int]:
    """Encodes text with a `tokenizers.Tokenizer`, a Transformers tokenizer, or a function."""
    encode = getattr(tokenizer, "encode", tokenizer)
    answer = encode(text)
    ids = getattr(answer, "ids", answer)
    if isinstance(ids, Mapping) and "input_ids" in ids:
        ids = ids["input_ids"]
    ids = one_sequence("tokenizer", ids)
    if not isinstance(ids, Iterable) or isinstance(ids, (str, bytes)):
        raise ConfigError(f"tokenizer: it returned {type(answer).__name__}; expected a list of token ids")
    items = list(ids)
    for item in items:
        if not hasattr(item, "__index__"):
            raise ConfigError(f"tokenizer: it returned the id {item!r}; expected whole numbers")
    return [int(item) for item in items]

"""Text for models whose tokenizer is no file of llama2.c: the folder's tokenizer.json, or any tokenizer of Python."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ._toml import plain
from .errors import ConfigError, InputError, utf8


def encoded(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a study that reads tokens, with ``tokens`` in place of ``text`` where Python has the tokenizer.

    Without ``tokenizer``, that is where the checkpoint's folder has a tokenizer.json and no tok*.bin, which the program
    reads itself. Raises ConfigError and InputError.
    """
    given = dict(flags)
    text, tokenizer = given.get("text"), given.get("tokenizer")
    is_path = tokenizer is None or isinstance(tokenizer, (str, os.PathLike))
    if text is None:
        if not is_path:
            raise ConfigError("tokenizer: does nothing without text; expected text too")
        return given
    if given.get("tokens") is not None:
        raise ConfigError("text: found tokens too; expected one of them")
    if is_path:
        path = tokenizer if tokenizer is not None else _of_folder(given.get("checkpoint"))
        if path is None or not os.fspath(path).endswith(".json"):
            return given
        tokenizer = _read(Path(path))
    given["tokens"] = _ids(tokenizer, _content(Path(utf8("text", text))))
    given["text"] = given["tokenizer"] = None
    return given


def one_sequence(name: str, values: Any) -> Any:
    """Returns the ids of one sequence, or of a batch of one sequence. Raises ConfigError for several sequences."""
    values = plain(name, values)
    sequences = [one for one in values if isinstance(one, list)] if isinstance(values, list) else []
    if len(sequences) > 1:
        raise ConfigError(f"{name}: found {len(sequences)} sequences; expected one, of shape [T] or [1, T]")
    return sequences[0] if sequences and len(values) == 1 else values


def _of_folder(checkpoint: Any) -> Path | None:
    """The tokenizer.json that a checkpoint's text needs."""
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
            f"text: {path} needs the package tokenizers (pip install tokenizers); expected that, or "
            "tokenizer=a function from text to ids"
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises Exception itself
        raise InputError(f"{path}: {error}; expected a tokenizer of the package tokenizers") from None


def _content(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise InputError(f"text {path}: found no regular file; expected a text file")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"text {path}: {error.strerror}; expected a text file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"text {path}: byte {error.start} is no UTF-8; expected UTF-8") from None


def _ids(tokenizer: Callable[[str], Any] | Any, text: str) -> list[int]:
    """The ids, from a Tokenizer of the package tokenizers, one of transformers, or a function."""
    encode = getattr(tokenizer, "encode", tokenizer)
    answer = encode(text)
    ids = getattr(answer, "ids", answer)
    if isinstance(ids, Mapping) and "input_ids" in ids:
        ids = ids["input_ids"]
    ids = one_sequence("tokenizer", ids)
    if not isinstance(ids, Iterable) or isinstance(ids, (str, bytes)):
        raise ConfigError(f"tokenizer: found {type(answer).__name__} from it; expected a list of token ids")
    found = list(ids)
    for one in found:
        if not hasattr(one, "__index__"):
            raise ConfigError(f"tokenizer: found {one!r} among its ids; expected whole numbers")
    return [int(one) for one in found]

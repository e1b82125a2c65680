"""Checks of stored weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _periscope
from ._run import CheckpointLike
from .errors import ConfigError, Error, utf8
from .model import model_name


@dataclass(frozen=True)
class Finding:
    """A fault of the weights. ``kind`` is "non-finite", "gains", "eps", "zeros", "repeated-rows", "mean-rows",
    "outliers" or "tied-copies"."""

    kind: str
    tensor: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.tensor}: {self.found}; expected {self.expected}"


class WeightsError(Error):
    """Raised by ``assert_healthy``. ``findings`` are the faults."""

    exit_code = 4

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = list(findings)

    def __reduce__(self) -> tuple[type, tuple[list[Finding]]]:
        return type(self), (self.findings,)


def check(
    checkpoint: CheckpointLike, *, ignore: str | Sequence[str] = (), ignore_key: str | Sequence[str] = ()
) -> list[Finding]:
    """Returns the faults of the weights of a folder, a ``Model`` or a transformers model, as ``periscope info --check``
    reports them; without the kinds in ``ignore``.

    ``ignore_key`` are unknown keys of config.json to accept. ``pandas.DataFrame(ps.check("DIR"))`` is a table.
    """
    compiled, folder = model_name(checkpoint)
    if compiled is None and folder is None:
        raise ConfigError("checkpoint: found None; expected a folder or a periscope.Model")
    kinds, keys = ([words] if isinstance(words, str) else list(words) for words in (ignore, ignore_key))
    place = "" if compiled is not None else utf8("checkpoint", folder)
    return [Finding(**found) for found in json.loads(_periscope.check(compiled, place, kinds, keys))]


def assert_healthy(checkpoint: CheckpointLike, **options: Any) -> None:
    """Raises ``WeightsError`` if ``check``, with the same arguments, finds faults; for tests of a conversion."""
    if findings := check(checkpoint, **options):
        raise WeightsError(findings)

"""Build backend: scikit-build-core, with the commit recorded in source distributions."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scikit_build_core import build as base
from scikit_build_core.build import *  # noqa: F403  # the other hooks

ROOT = Path(__file__).parents[2]
COMMIT = ROOT / "COMMIT"  # read by experiments/engine/settings/write_build_info.cmake


@contextmanager
def _commit_file() -> Iterator[None]:
    """Creates the file COMMIT temporarily. An unpacked source distribution already has one, which is used."""
    if COMMIT.exists() and not (ROOT / ".git").exists():
        yield
        return
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        commit = done.stdout.strip() if done.returncode == 0 else "unknown"
    except OSError:
        commit = "unknown"
    COMMIT.write_text(commit + "\n")
    try:
        yield
    finally:
        COMMIT.unlink()


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Builds a source distribution that contains the file COMMIT."""
    with _commit_file():
        return base.build_sdist(sdist_directory, config_settings)

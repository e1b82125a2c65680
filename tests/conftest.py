"""Fixtures of all Python tests: a folder with a small configuration, and the Python module of the build."""

import os
import sys

import pytest

pytest.register_assert_rewrite("program", "checkpoint_files", "planted_results", "studies")

from program import BUILD, LIST, SMALL  # noqa: E402

sys.path.insert(0, str(BUILD / "python"))
os.environ["PYTHONPATH"] = str(BUILD / "python")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder of a test, with `SMALL` in small.toml and `LIST` in list.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "list.toml").write_text(LIST)
    return tmp_path

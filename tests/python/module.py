"""Helpers for tests of the Python module."""

import contextlib
import os
import subprocess
import sys
import tomllib

import pytest

from program import imported

imported("periscope._periscope", "python/requirements.txt")

import periscope as ps  # noqa: E402

SMALL = {"model.layers": 2, "model.width": 16, "model.heads": 2, "model.vocab": 40, "input.tokens": 6,
         "model.mlp_width": 24, "init.scheme": "lecun"}


@contextlib.contextmanager
def rejected(name, kind=None, key=None):
    """Expects an InputError, or a ConfigError with this key, whose message contains `name`."""
    with pytest.raises(kind or (ps.InputError if key is None else ps.ConfigError)) as caught:
        yield
    assert name in str(caught.value) and key in (None, getattr(caught.value, "key", None)), caught.value


def python(code, *words, timeout=120, **environment):
    """Runs code after `import periscope as ps` in a new interpreter, and expects exit code 0."""
    done = subprocess.run([sys.executable, "-c", f"import periscope as ps\n{code}", *words], capture_output=True,
                          text=True, timeout=timeout, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done


def run_module(*words, code=0):
    """Runs `python -m periscope`."""
    done = subprocess.run([sys.executable, "-m", "periscope", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def called(words, **more):
    """Calls the module with the arguments of a command line."""
    names, flags, sections, words = [], {}, {}, list(words)
    while words:
        word = words.pop(0)
        if word == "--set":
            key, _, text = words.pop(0).partition("=")
            try:
                value = tomllib.loads(f"v = {text}")["v"]
            except tomllib.TOMLDecodeError:
                value = text
            *section, name = key.split(".")
            table = sections
            for part in section:
                table = table.setdefault(part, {})
            table[name] = value
        elif word.startswith("--"):
            value = words.pop(0) if words and not words[0].startswith("--") else True
            listed = word in ("--tokens", "--format")
            value = [int(t) if t.isdigit() else t for t in value.split(",")] if listed else value
            flags[word[2:].replace("-", "_")] = int(value) if str(value).isdigit() and word != "--figure" else value
        elif "/" in word:
            flags["checkpoint"] = word
        elif names == ["compare"]:
            flags.setdefault("stacks", []).append(word)
        else:
            names.append(word.replace("-", "_"))
    return getattr(ps, "_".join(names))(**sections, **flags, **more)


def settled(ds):
    """Returns a result without the attribute that differs between equal runs."""
    return ds.assign_attrs(circumstances="")

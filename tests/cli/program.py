"""Runs the program under test, and reads its results as datasets."""

import dataclasses
import hashlib
import importlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PERISCOPE_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "periscope"
FIXTURES = ROOT / "tests" / "checkpoint" / "fixtures"
SHARED = ROOT.parent / "shared"
STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

SMALL = """
[model]
layers = 2
width = 32
heads = 2
kv_heads = 1
mlp_width = 48
placement = ["pre", "peri"]
[init]
scheme = "lecun"
[input]
tokens = 6
[run]
seeds = 4
"""
THREE = SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]')
# Small sweeps.
SWEEPS = """
[gradients]
layers = [1, 2, 4]
qk_factors = [0.0, 1.0]
down_factors = [0.05, 0.5, 5.0]
[ladder]
widths = [32, 64, 96, 128]
seeds = 8
"""
# A list of configurations and theories, with one wrong theory for small.toml.
LIST = """
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=16"]
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
"""
CONFIG = ("--config", "small.toml")
SECTIONS = "model|init|input|run|theory|agreement|ladder|gradients|formats|train|first_steps"
# Flags whose arguments are settings.
PREFIXES = ("--set", "--theory-set", "--vary", "--grid", "--zip")
SETTING = re.compile(rf"({SECTIONS})\.[^=]*=")


def words_of(*words):
    """Flattens words and nested tuples of words to a command line. Inserts `--set` before settings such as
    `model.width=8`, unless a flag for settings precedes them."""
    found = []
    for word in words:
        if isinstance(word, (tuple, list)):
            found += words_of(*word)
            continue
        word = os.fspath(word) if isinstance(word, pathlib.Path) else str(word)
        if SETTING.match(word) and (not found or found[-1] not in PREFIXES):
            found.append("--set")
        found.append(word)
    return found


sets = words_of  # returns the --set flags of settings
TRAIN = words_of("--corpus", "synthetic", "train.steps=3", "train.batch=2", "model.vocab=64", "input.kind=tokens")
# A quick run of every study, with `SMALL` and `SWEEPS` in small.toml and `LIST` in list.toml.
STUDIES = {
    **{name: [*name.split(), *CONFIG]
       for name in ("propagate", "theory", "ladder", "gradients attenuation", "gradients identity-path",
                    "gradients score-path", "gradients crossover")},
    "gradients depth": words_of("gradients", "depth", CONFIG, "theory.gradient_tolerance=0.5"),
    "formats": words_of("formats", CONFIG, 'formats.format=["bf16"]', "theory.replicates=8"),
    "power": ["power", "--config", "list.toml"],
    "train": ["train", *CONFIG, *TRAIN],
    "first-steps": words_of("first-steps", CONFIG, TRAIN, "first_steps.neurons=16"),
    "certify": words_of("certify", CONFIG, "--measure", "model.placement=pre", "input.kind=tokens"),
    "reproduce": words_of("reproduce", "--quick", "--figure", "4", "model.layers=2", "model.width=16", "model.heads=2",
                          "model.vocab=40", "input.tokens=6", "train.steps=10"),
    "compare": ["compare", "pre", "peri", "--measure", *CONFIG],
    "verify": ["verify", "--cases", "200", "--starts", "4"],
    "probe": ["probe", str(FIXTURES / "llama"), "--tokens", "1,2,3", "--draws", "2", "--backward"],
}


@dataclasses.dataclass
class Done:
    """A finished program: its words, its exit code, and standard output and error as text."""

    words: list
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def ds(self):
        return dataset(self.json)


def memory_limit(size):
    """Returns a value for the argument `before` of `run`: limits the address space of the process to `size` bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))


def run(*words, code=0, program=PROGRAM, env=None, before=None, timeout=300, **options):
    """Runs the program and expects one of the exit codes `code`, None for any. Adds `env` to the environment."""
    command = [str(program), *words_of(*words)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    done = subprocess.run(command, text=True, errors="surrogateescape", preexec_fn=before, timeout=timeout, check=False,
                          env={**os.environ, **(env or {})}, **streams)
    found = Done(command, done.returncode, done.stdout, done.stderr)
    codes = code if isinstance(code, tuple) else (code,)
    assert code is None or found.code in codes, f"exit code {found.code}, expected {code}: {command}\n{found.err}"
    return found


def result(*words, **options):
    """Returns the dataset that a study prints; `options` as for `run`."""
    return run(*words, "--json", "--quiet", **options).ds


def rejected(*words, code=2, names=(), **options):
    """Expects an exit code, no standard output, and a message of one line that contains all of `names`."""
    done = run(*words, code=code, **options)
    assert (done.out or "", done.err.count("\n")) == ("", 1), done
    for name in (names,) if isinstance(names, (str, pathlib.Path)) else names:
        assert str(name) in done.err, done
    return done


def start(*words, ignoring=(), program=PROGRAM, **options):
    """Starts the program with default actions for stopping signals, except that it ignores those in `ignoring`. Tests
    run by nohup would otherwise pass on an ignored SIGHUP, and background jobs of a shell an ignored SIGINT."""
    def set_signals():
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)
    return subprocess.Popen([str(program), *words_of(*words)], preexec_fn=set_signals, text=True,
                            errors="surrogateescape", **options)


def library(name):
    """Returns the variable that preloads a library of the tests."""
    return {"LD_PRELOAD": str(BUILD / "tests" / f"lib{name}.so")}


def dataset(answer):
    """Returns the result that `--json` prints; missing numbers are NaN."""
    import numpy as np
    import xarray as xr

    def variable(column):
        values = np.array(column["data"], dtype=object)
        kind = {"str": object, "bool": bool, "int64": "int64"}.get(column["dtype"], float)
        kind = float if kind is not object and None in values.flat else kind
        return tuple(column["dims"]), values.astype(kind), column["attrs"]

    coords, columns = ({name: variable(c) for name, c in answer[part].items()} for part in ("coords", "data_vars"))
    return xr.Dataset(columns, coords, answer["attrs"])


def fact(ds, name="config"):
    """Returns an attribute that holds JSON."""
    return json.loads(ds.attrs[name])


def stack_of(ds):
    """Returns the first stack of the resolved configuration."""
    return fact(ds)["stacks"][0]


def differing(one, other):
    """Returns the names of columns that differ in any bit, or that only one result has, except coordinates."""
    return {str(name) for name in one.data_vars.keys() | other.data_vars.keys()
            if name not in one or name not in other or not one.variables[name].equals(other.variables[name])}


def contents(folder):
    """Returns the hashes of all files below a folder, by relative path."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}


def cached(out, finished=False):
    """Returns the cached tasks in an output folder, or the records of finished runs if `finished`."""
    tasks = [path for path in pathlib.Path(out).glob("cache/*/*") if path.suffix != ".tmp"]
    return sorted(path for path in tasks if path.name.startswith("finished-") == finished)


def unavailable(reason):
    """Skips a test or a file of tests; fails if PERISCOPE_FULL=1."""
    import pytest

    if os.environ.get("PERISCOPE_FULL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def imported(name, requirements):
    """Imports a module; without it the tests are `unavailable`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        return unavailable(f"{error}: the packages of {requirements} are not installed")

"""Runs the program under test; its path is the test script's first argument."""

import hashlib
import itertools
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
BINARY = pathlib.Path(sys.argv.pop(1)).resolve()

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
# What studies sweep, small.
SWEEPS = """
[gradients]
layers = [1, 2, 4]
qk_factors = [0.0, 1.0]
down_factors = [0.05, 0.5, 5.0]
[ladder]
widths = [32, 64, 96, 128]
seeds = 8
"""
# A list of wrong theories about `SMALL`, in small.toml.
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
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "fixtures"


def sets(*settings):
    """Returns the flags that set these keys."""
    return [word for setting in settings for word in ("--set", setting)]


TRAIN = ["--corpus", "synthetic", *sets("train.steps=3", "train.batch=2", "model.vocab=64", "input.kind=tokens")]
# A quick run of every study, in a folder with `SMALL` and `SWEEPS` in small.toml and `LIST` in list.toml.
STUDIES = {
    **{name: [*name.split(), "--config", "small.toml"]
       for name in ("propagate", "theory", "ladder", "gradients attenuation", "gradients identity-path",
                    "gradients score-path", "gradients crossover")},
    "gradients depth": ["gradients", "depth", "--config", "small.toml", *sets("theory.gradient_tolerance=0.5")],
    "formats": ["formats", "--config", "small.toml", *sets('formats.format=["bf16"]', "theory.replicates=8")],
    "power": ["power", "--config", "list.toml"],
    "train": ["train", "--config", "small.toml", *TRAIN],
    "first-steps": ["first-steps", "--config", "small.toml", *TRAIN, *sets("first_steps.neurons=16")],
    "certify": ["certify", "--config", "small.toml", "--measure", *sets("model.placement=pre", "input.kind=tokens")],
    "reproduce": ["reproduce", "--quick", "--figure", "4", *sets("model.layers=2", "model.width=16", "model.heads=2",
                                                                 "model.vocab=40", "input.tokens=6", "train.steps=10")],
    "verify": ["verify", "--cases", "200"],
    "probe": ["probe", str(FIXTURES / "llama"), "--tokens", "1,2,3", "--draws", "2", "--backward"],
}  # fmt: skip


def run(*arguments, cwd=None, environment=None):
    return subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=300,
                          env=environment)


def start_program(*arguments, ignoring=(), **options):
    """The program in a process of its own, with the default action of signals that stop it, but for those that it is to
    ignore: a test that nohup started has SIGHUP ignored, one in the background of a shell script SIGINT, and children
    inherit that. Every test that does not wait for the program's end starts it by this."""
    def set_signals():
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)
    return subprocess.Popen([str(BINARY), *map(str, arguments)], preexec_fn=set_signals, **options)


def run_json(*arguments, cwd=None):
    """The JSON object on standard output, which must hold nothing else; and the exit code."""
    done = run(*arguments, "--json", cwd=cwd)
    return json.loads(done.stdout), done.returncode


def run_result(*arguments, cwd=None):
    """The Result that a study prints with --json, and the exit code."""
    answer, code = run_json(*arguments, cwd=cwd)
    return Result(answer), code


class Result:
    """A result as --json prints it, read by columns and labels; numpy is not at hand everywhere."""

    def __init__(self, answer, chosen=()):
        self.attrs = answer["attrs"]
        self.config = json.loads(self.attrs["config"])
        self.variables = answer["coords"] | answer["data_vars"]
        self._answer, self._chosen = answer, dict(chosen)  # dimension: position

    def __contains__(self, name):
        return name in self.variables

    def __getitem__(self, name):
        """The values of a column, nested by the dimensions on which no position is chosen; None for missing ones."""
        def chosen(data, dims):
            if not dims:
                return float(data) if data in ("Infinity", "-Infinity") else None if data == "NaN" else data
            if dims[0] in self._chosen:
                return chosen(data[self._chosen[dims[0]]], dims[1:])
            return [chosen(one, dims[1:]) for one in data]
        return chosen(self.variables[name]["data"], self.variables[name]["dims"])

    def get(self, name, default=None):
        return self[name] if name in self else default

    def data(self):
        """All values but coordinates, by column."""
        return {name: self[name] for name in self._answer["data_vars"]}

    def fact(self, name):
        """An attribute that is JSON."""
        return json.loads(self.attrs[name])

    def stacks(self):
        """The part of every stack."""
        return self.each(*(name for name in ("input", "placement", "seed") if self._runs_over(name)))

    def _runs_over(self, name):
        """Whether the stacks of a result are on this dimension; the seeds of stacks of `propagate` are not."""
        return name in self._answer["dims"] and (name != "seed" or self.attrs["result"] == "train")

    def at(self, **labels):
        """The part of the result at these coordinates."""
        found = {name: self.variables[name]["data"].index(label) for name, label in labels.items()}
        return Result(self._answer, self._chosen | found)

    def each(self, *dimensions):
        """The parts of the result at every position on these dimensions, the last one fastest."""
        lengths = [range(self._answer["dims"][name]) for name in dimensions]
        return [Result(self._answer, self._chosen | dict(zip(dimensions, positions, strict=True)))
                for positions in itertools.product(*lengths)]


def contents(folder):
    """Names of a folder's files and hashes of what is in them, short enough to be printed. {} of no folder."""
    if not folder.exists():
        return {}
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}


def cached(out, finished=False):
    """The cached tasks of a folder for results; of finished runs if `finished`."""
    tasks = [path for path in pathlib.Path(out).glob("cache/*/*") if path.suffix != ".tmp"]
    return sorted(path for path in tasks if path.name.startswith("finished-") == finished)


class FolderTest(unittest.TestCase):
    """Every test has a folder of its own, with `STACK` in the file `config`."""

    STACK = SMALL

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.config = self.folder / "small.toml"
        self.config.write_text(self.STACK)
        (self.folder / "list.toml").write_text(LIST)


class SharedFolderTest(unittest.TestCase):
    """The tests of a class share a folder, in which `setUpClass` puts what all of them look at."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()

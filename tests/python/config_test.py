"""Configurations and errors in Python."""

import contextlib
import json
import math
import os
import pickle
import shlex
import subprocess
import sys
import tomllib
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

import golden
from module import ps, rejected
from periscope import _periscope, _run, _toml
from periscope.model import compiled
from program import FIXTURES, memory_limit

SMALL = {"model": {"layers": 2, "width": 32, "heads": 2}, "input": {"tokens": 8}, "run": {"seeds": 4}}
LLAMA = FIXTURES / "llama"


def round_trip(value):
    return tomllib.loads(f"value = {_toml.text('key', value)}")["value"]


def test_toml_values_round_trip():
    for value in (True, False, 0, -1, 2**63 - 1, -(2**63), 0.1, 1e-6, 1e22, 5e-324, 1.7976931348623157e308, [1, 2],
                  [[True], ["a"]], {"A": True, "alpha": 1.0, "a b": {"c": []}}, "", "a'b\"c\\d\n\t", -math.inf):
        assert (round_trip(value), type(round_trip(value))) == (value, type(value))
    assert (math.copysign(1, round_trip(-0.0)), math.isnan(round_trip(math.nan))) == (-1, True)
    every = "".join(chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000)
    for start in range(0, len(every), 50_000):
        assert round_trip(every[start : start + 50_000]) == every[start : start + 50_000]


class Size(IntEnum):
    LARGE = 64


@pytest.mark.parametrize(("value", "plain"), [
    (np.float64(0.1), 0.1), (np.float32(0.5), 0.5), (np.int8(3), 3), (np.bool_(True), True), (Size.LARGE, 64),
    (Path("a/b"), "a/b"), ((1, 2), [1, 2]), (np.array([1, 2]), [1, 2]), (np.str_("pre"), "pre"), (range(3), [0, 1, 2])])
def test_numbers_text_and_sequences_of_other_types_are_converted(value, plain):
    assert round_trip(value) == plain


@pytest.mark.parametrize("value", [None, b"bytes", object(), 1j, [None], {"a": None}, {1: 2}, 2**63, "\ud800"])
def test_values_without_a_toml_form_are_rejected_by_key(value):
    with rejected("model.width", ps.ConfigError):
        _toml.text("model.width", value)


def test_tables_and_flat_keys_are_equivalent():
    assert ps.Config(SMALL) == ps.Config({"model.layers": 2, "model.width": 32, "model.heads": 2, "input.tokens": 8,
                                          "run.seeds": 4})
    limits = ps.Config({"agreement": {"familywise_error": 0.02, "power_limit": {"variance": 0.1}}})
    assert limits.keys == {"agreement.familywise_error": 0.02, "agreement.power_limit.variance": 0.1}
    placement = {"A": True, "alpha": 0.5, "name": "mine"}
    assert ps.Config({"model": {"placement": placement}}).keys == {"model.placement": placement}


def test_keys_override_a_file(folder):
    path = folder / "run.toml"
    path.write_text("[model]\nlayers = 3\nwidth = 64\nheads = 4\n")
    model = ps.Config.read(path).replace(model={"width": 32}).resolved()["stacks"][0]["model"]
    assert (model["layers"], model["width"]) == (3, 32)
    path.write_text("[model]\nlayers = 3\nwidht = 64\n")
    with rejected("run.toml:3", key="model.widht"):
        ps.Config.read(path)
    with pytest.raises(ps.ConfigError):
        ps.Config.read("no/such/file.toml")


def test_configurations_own_their_keys():
    placements = ["pre", "peri"]
    config = ps.Config({"model.placement": placements})
    placements.append("post")
    config.keys["model.placement"].append("post")
    assert config.keys == {"model.placement": ["pre", "peri"]}
    assert config.replace({"model.placement": "post"}).keys != config.keys == {"model.placement": ["pre", "peri"]}
    once = ps.Config({"model.placement": (one for one in ("pre", "peri"))})
    assert len(once.resolved()["stacks"]) == len(config.resolved()["stacks"])
    assert ps.Config({"run.seeds": np.array(4)}) == ps.Config({"run.seeds": 4})
    endless = []
    endless.append(endless)
    for odd in ({"model.width=16#": 32}, {"model": {"width#": 1}}, {"": 1}, "text", [1], {"model.width": endless}):
        with pytest.raises(ps.ConfigError):
            ps.Config(odd)


def test_keyword_arguments_override_and_must_have_an_effect():
    assert ps.theory(SMALL, model={"layers": 3}).sizes["depth"] == 7
    with rejected("input.kind", key="input.correlation"):
        ps.theory(SMALL, input={"kind": "tokens", "correlation": 0.5})
    ps.theory(ps.Config(SMALL).replace({"ladder.seeds": 8}))  # a configuration may have keys of other studies
    with rejected("verify", key="run.backward"):
        ps.verify(cases=10, run={"backward": True})


def test_stacks_to_compare_are_names_tables_and_placements():
    ds = ps.compare(["llama", "keel", {"model.recipe": "llama", "init": {"std": 0.01}}, {"A": True, "C": True}],
                    {"model.layers": 2, "model.width": 32, "model.heads": 2, "input.tokens": 6})  # fmt: skip
    assert list(ds.placement.values) == ["llama", "keel", "llama, std 0.01", "{A = true, C = true}"]
    assert "comparison-gaussian" in ps.figures(ds)
    with rejected("nearest is keel", ps.ConfigError):
        ps.compare(["llama", "kel"])


def test_a_theory_override_is_judged():
    ds = ps.propagate(SMALL, model={"rope": True}, theory_set={"init.down_factor": 3.0}, seeds=8)
    table = ps.verdicts(ds)
    assert (ds.attrs["exit_code"], list(table.verdict)) == (4, ["disagrees"])
    assert (table.worst_z[0], table.critical[0]) == (ds.worst_z, ds.worst_critical)
    assert abs(table.worst_z[0]) > table.critical[0] > 0


def test_rejections_have_the_message_of_the_program():
    seen = 0
    for name, entries in golden.parsed(golden.result_path("rejected").read_text()).items():
        command, _, row = name.partition(": ")
        key, _, text = shlex.split(row)[0].partition("=") if command == "theory" and "=" in row else ("", "", "")
        message = entries["table"][0] if key else ""
        # These messages are about the syntax of the command line.
        if not key or "invalid TOML" in message or "empty part" in message or key == "model" or "U+0000" in message:
            continue
        try:
            value = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            value = text
        seen += 1
        with pytest.raises(ps.ConfigError) as raised:
            ps.theory({**SMALL, "init": {"scheme": "lecun"}, key: value})
        assert str(raised.value) == message.removeprefix("periscope: ").removeprefix("--set "), name
        assert raised.value.exit_code == 2 and raised.value.key and raised.value.expected, name
    assert seen > 75


@pytest.mark.parametrize(("call", "key"), [
    (lambda: ps.propagate(SMALL, dump=True), "dump"), (lambda: ps.propagate(SMALL, backward=0), "backward"),
    *((lambda ids=ids: ps.probe(LLAMA, tokens=ids), "tokens") for ids in (
        True, [], b"123", ["1,2", 3], np.array([[1, 2], [3, 4]]), [[1], 2], np.array([True, False]))),  # last: a mask
    *((lambda top=top: ps.probe(LLAMA, tokens=[1], top=top), "top") for top in (True, [1])),
    (lambda: ps.certify(config=SMALL, format=True), "format"), (lambda: ps.verify(cases=True), "cases"),
    (lambda: ps.propagate(SMALL, memory=10**400), "memory"), (lambda: ps.propagate(SMALL, memory="much"), "memory"),
    (lambda: ps.propagate(SMALL, out=5), "out"), (lambda: ps.propagate(SMALL, out="a\0"), "out"),
    (lambda: ps.Model(SMALL, [1]), "weights"), (lambda: ps.Model(SMALL, {"\udcff": np.ones(2)}), "weights"),
    (lambda: ps.Model(SMALL, {}, name=5), "name"), (lambda: ps.propagate(SMALL, seeds=0), "seeds"),
    (lambda: ps.propagate(SMALL, seed=-1), "seed"), (lambda: ps.propagate(SMALL, seeds=2.5), "seeds"),
    (lambda: ps.propagate(SMALL, dtype="f8"), "run.dtype"), (lambda: ps.certify(config=SMALL, length=0), "length"),
    (lambda: ps.probe("no/such/folder", tokens=[1], draws=3, no_theory=True), "draws"),
    *((lambda keys=keys: compiled("name", "{}", {}, True, keys), "ignore_keys") for keys in (5, [5])),
])
def test_invalid_arguments_are_rejected(call, key):
    with rejected("", key=key):
        call()


def test_arguments_of_numpy_types_are_accepted_and_unknown_names_rejected():
    ds = ps.probe(LLAMA, tokens=np.array([1, 2]), top=np.int64(3), no_theory=np.bool_(True))
    assert ds.sizes["rank"] == 3
    for batch in (np.array([[1, 2]]), [[1, 2]], [np.array([1, 2])], ((1, 2),)):
        same = ps.probe(LLAMA, tokens=batch, top=3, no_theory=True)
        assert list(same.token_id) == [1, 2] and same.second_moment_measured.equals(ds.second_moment_measured)
    with pytest.raises(ps.ConfigError):
        _periscope.run("propagate", _run.request(flags={"dump": []}))
    with rejected("propagate", ps.ConfigError):
        _periscope.run("propagat", _run.request())
    with rejected("no/such/folder"):
        ps.probe("no/such/folder", tokens=[1])


ODD = "odd\udcff"


@pytest.mark.parametrize(("call", "key"), [
    (lambda: ps.theory(SMALL, out=ODD), "out"), (lambda: ps.theory(ps.Config(SMALL), out=Path(ODD)), "out"),
    (lambda: ps.theory(ps.Config(SMALL), out=os.fsencode(ODD)), "out"),
    (lambda: ps.theory({**SMALL, "run.out": ODD}), "run.out"),
    (lambda: ps.theory(ps.Config(SMALL), run={"out": ODD}), "run.out"), (lambda: ps.theory(ODD), "config"),
    (lambda: ps.Config.read(ODD), "config"), (lambda: ps.propagate(SMALL, dump=ODD), "dump"),
    (lambda: ps.probe(ODD, tokens=[1]), "checkpoint"), (lambda: ps.dataset.write(ps.theory(SMALL), ODD), "path"),
])
def test_paths_that_are_not_utf8_are_rejected_before_writing(call, key):
    before = os.listdir()
    with rejected("UTF-8", key=key):
        call()
    assert os.listdir() == before


def test_paths_of_results_may_be_bytes_and_must_exist(folder):
    ps.theory(SMALL, out=b"bytes")
    assert (folder / "bytes" / "theory.nc").is_file()
    with pytest.raises(FileNotFoundError):
        ps.dataset.write(ps.theory(SMALL), "no/such.nc")
    os.mkdir(ODD)
    with contextlib.chdir(ODD), rejected("", key="out"):
        ps.theory(SMALL, out="here")


def test_errors_survive_pickling():
    with pytest.raises(ps.CheckFailed) as raised:
        ps.propagate(SMALL, theory_set={"init.down_factor": 3.0}, seeds=8, check=True)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.dataset.attrs["exit_code"]) == (str(raised.value), 4)
    with pytest.raises(ps.CheckFailed, match="diverged") as raised:
        ps.propagate(SMALL, init={"std": 1e37}, fail_on_divergence=True, check=True)
    assert raised.value.dataset.attrs["exit_code"] == 5
    error = pickle.loads(pickle.dumps(ps.ConfigError("model.width = 0: expected more")))
    assert (error.key, error.found, error.expected) == ("model.width", "0", "more")


VALUES = ["nan", "inf", "-inf", "1e308", "1e-308", "-0.0", "0", "1", "-1", "-2147483648", "2147483647", "2147483648",
          "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e5", "", "many", "true", "[]", "[1]",
          "[1, 1]", "[nan]", "[-9223372036854775808]", "{}", "{A = 1}", '"\\u0000"', "1979-05-27", "'\x1b[2J'",
          "x" * 10000, "[" * 5000, "9" * 400]
TINY = ["model.layers=1", "model.width=8", "model.heads=2", "model.vocab=16", "model.mlp_width=16", "input.tokens=3",
         "run.seeds=2", "run.threads=1"]
# Prints a line before and after every case, so that a crash is attributed to its case.
RUNS = """
import json, sys, time
from periscope import _periscope, errors
from periscope._run import request
from periscope.describe import description
small, values = json.loads(sys.stdin.read())
keys = [key["name"] for section in description()["sections"] for key in section["keys"]]
for key, value in [(key, value) for key in keys for value in values]:
    print(json.dumps([key, value[:60]]), flush=True)
    begin = time.monotonic()
    try:
        _periscope.run("theory", request(entries=small, settings=[f"{key}={value}"]))
        message, code = "", 0
    except errors.Error as error:
        message, code = str(error), error.exit_code
    print(json.dumps([message, code, time.monotonic() - begin]), flush=True)
"""


def fault(key, message, code, seconds):
    """Returns a description of the fault in the outcome of a run, or None."""
    if seconds > 10:
        return f"{seconds:.0f} s"
    if code not in ((0, 1, 2, 3) if key == "run.out" else (0, 2, 3)):  # 1: a folder that cannot be written to
        return f"exit code {code}: {message[:500]}"
    if code in (0, 1) or (key in message and len(message) <= 1000):
        return None
    return f"the message lacks the key or is too long: {message[:2000]!r}"


def test_extreme_values_of_every_key_are_accepted_or_rejected_by_name():
    done = subprocess.run([sys.executable, "-c", RUNS], input=json.dumps([TINY, VALUES]), capture_output=True,
                          text=True, preexec_fn=memory_limit(3 << 30), timeout=240)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, ""), lines[-1]
    outcomes = list(zip(lines[::2], lines[1::2], strict=True))
    assert len(outcomes) > 1000
    assert [f"{key}={value}: {what}" for (key, value), end in outcomes if (what := fault(key, *end))] == []



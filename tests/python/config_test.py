"""Configurations and errors in Python. Usage: config_test.py"""

import contextlib
import math
import os
import pickle
import shlex
import sys
import tempfile
import tomllib
import unittest
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from studies import rejected

import periscope as ps
from periscope import _periscope, _run, _toml
from periscope.model import compiled

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
import golden  # noqa: E402

SMALL = {"model": {"layers": 2, "width": 32, "heads": 2}, "input": {"tokens": 8}, "run": {"seeds": 4}}


class Toml(unittest.TestCase):
    def round_trip(self, value: Any) -> Any:
        return tomllib.loads(f"value = {_toml.text('key', value)}")["value"]

    def test_values_come_back_as_they_were(self) -> None:
        for value in (True, False, 0, -1, 2**63 - 1, -(2**63), 0.1, 1e-6, 1e22, 5e-324, 1.7976931348623157e308,
                      [1, 2], [[True], ["a"]], {"A": True, "alpha": 1.0, "a b": {"c": []}}, "", "a'b\"c\\d\n\t"):
            self.assertEqual(self.round_trip(value), value)
            self.assertEqual(type(self.round_trip(value)), type(value))
        self.assertEqual(math.copysign(1, self.round_trip(-0.0)), -1)
        self.assertTrue(math.isnan(self.round_trip(math.nan)))
        self.assertEqual(self.round_trip(-math.inf), -math.inf)

    def test_every_character_comes_back(self) -> None:
        every = "".join(chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000)
        for start in range(0, len(every), 50_000):
            part = every[start : start + 50_000]
            self.assertEqual(self.round_trip(part), part)

    def test_what_others_call_numbers_text_and_lists(self) -> None:
        class Size(IntEnum):
            LARGE = 64

        for value, plain in ((np.float64(0.1), 0.1), (np.float32(0.5), 0.5), (np.int8(3), 3), (np.bool_(True), True),
                             (Size.LARGE, 64), (Path("a/b"), "a/b"), ((1, 2), [1, 2]), (np.array([1, 2]), [1, 2]),
                             (np.str_("pre"), "pre"), (range(3), [0, 1, 2])):  # fmt: skip
            self.assertEqual(self.round_trip(value), plain)

    def test_what_toml_has_no_form_for_is_named(self) -> None:
        for value in (None, b"bytes", object(), 1j, [None], {"a": None}, {1: 2}, 2**63, "\ud800"):
            with rejected("model.width", ps.ConfigError):
                _toml.text("model.width", value)


class Configurations(unittest.TestCase):
    def test_tables_and_flat_keys_are_the_same(self) -> None:
        self.assertEqual(ps.Config(SMALL), ps.Config({"model.layers": 2, "model.width": 32, "model.heads": 2,
                                                      "input.tokens": 8, "run.seeds": 4}))  # fmt: skip
        limits = ps.Config({"agreement": {"familywise_error": 0.02, "power_limit": {"variance": 0.1}}})
        self.assertEqual(limits.keys, {"agreement.familywise_error": 0.02, "agreement.power_limit.variance": 0.1})
        mine = ps.Config({"model": {"placement": {"A": True, "alpha": 0.5, "name": "mine"}}})
        self.assertEqual(mine.keys, {"model.placement": {"A": True, "alpha": 0.5, "name": "mine"}})

    def test_a_file_with_keys_on_top(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.toml"
            path.write_text("[model]\nlayers = 3\nwidth = 64\nheads = 4\n")
            config = ps.Config.read(path).replace(model={"width": 32})
            resolved = config.resolved()["stacks"][0]
            self.assertEqual((resolved["model"]["layers"], resolved["model"]["width"]), (3, 32))
            path.write_text("[model]\nlayers = 3\nwidht = 64\n")
            with rejected("run.toml:3: unknown key model.widht", key="model.widht"):
                ps.Config.read(path)
        with self.assertRaises(ps.ConfigError):
            ps.Config.read("no/such/file.toml")

    def test_replace_leaves_the_original(self) -> None:
        config = ps.Config(SMALL)
        self.assertEqual(config.replace({"model.width": 64}).keys["model.width"], 64)
        self.assertEqual(config.keys["model.width"], 32)

    def test_keyword_arguments_are_on_top_and_have_to_act(self) -> None:
        ds = ps.theory(SMALL, model={"layers": 3})
        self.assertEqual(ds.sizes["depth"], 7)
        with rejected("input.correlation has no effect otherwise", ps.ConfigError):
            ps.theory(SMALL, input={"kind": "tokens", "correlation": 0.5})
        ps.theory(ps.Config(SMALL).replace({"ladder.seeds": 8}))  # of a configuration they may be for others
        with rejected("run.backward has no effect in verify", ps.ConfigError):
            ps.verify(cases=10, run={"backward": True})

    def test_theory_can_be_told_something_else(self) -> None:
        ds = ps.propagate(SMALL, model={"rope": True}, theory_set={"init.down_factor": 3.0}, seeds=8)
        self.assertEqual(ds.attrs["exit_code"], 4)
        table = ps.verdicts(ds)
        self.assertEqual(list(table.verdict), ["disagrees"])
        self.assertEqual((table.worst_z[0], table.critical[0]), (ds.worst_z.item(), ds.worst_critical.item()))
        self.assertGreater(abs(table.worst_z[0]), table.critical[0])
        self.assertGreater(table.critical[0], 0.0)


class Errors(unittest.TestCase):
    def test_what_the_program_rejects_is_rejected_with_its_words(self) -> None:
        seen = 0
        for name, entries in golden.parsed(golden.result_path("rejected").read_text()).items():
            command, _, row = name.partition(": ")
            key, _, text = shlex.split(row)[0].partition("=") if command == "theory" and "=" in row else ("", "", "")
            message = entries["table"][0] if key else ""
            try:
                value = tomllib.loads(f"v = {text}")["v"]
            except tomllib.TOMLDecodeError:
                value = text
            # Some are of a command line, and Python's own values have no such form.
            if not key or "invalid TOML" in message or "empty part" in message or key == "model" or "U+0000" in message:
                continue
            seen += 1
            with self.subTest(name):
                with self.assertRaises(ps.ConfigError) as raised:
                    ps.theory({**SMALL, "init": {"scheme": "lecun"}, key: value})
                error = raised.exception
                self.assertEqual(str(error), message.removeprefix("periscope: ").removeprefix("--set "))
                self.assertTrue(error.exit_code == 2 and error.key and error.expected, error)
        self.assertGreater(seen, 75)

    def test_odd_values_of_arguments_are_refused(self) -> None:
        folder = Path(__file__).parents[1] / "checkpoint" / "fixtures" / "llama"
        for call, key in (
            (lambda: ps.propagate(SMALL, dump=True), "dump"),
            (lambda: ps.propagate(SMALL, backward=0), "backward"),
            (lambda: ps.probe(folder, tokens=True), "tokens"),
            (lambda: ps.probe(folder, tokens=[]), "tokens"),
            (lambda: ps.probe(folder, tokens=b"123"), "tokens"),
            (lambda: ps.probe(folder, tokens=["1,2", 3]), "tokens"),
            (lambda: ps.probe(folder, tokens=np.array([[1, 2], [3, 4]])), "tokens"),
            (lambda: ps.probe(folder, tokens=[[1], 2]), "tokens"),
            (lambda: ps.probe(folder, tokens=np.array([True, False])), "tokens"),  # a mask
            (lambda: ps.probe(folder, tokens=[1], top=True), "top"),
            (lambda: ps.probe(folder, tokens=[1], top=[1]), "top"),
            (lambda: ps.certify(config=SMALL, format=True), "format"),
            (lambda: ps.verify(cases=True), "cases"),
            (lambda: ps.propagate(SMALL, memory=10**400), "memory"),
            (lambda: ps.propagate(SMALL, out=5), "out"),
            (lambda: ps.propagate(SMALL, out="a\0"), "out"),
            (lambda: ps.Model(SMALL, [1]), "weights"),
            (lambda: ps.Model(SMALL, {"\udcff": np.ones(2)}), "weights"),
            (lambda: ps.Model(SMALL, {}, name=5), "name"),
            (lambda: ps.propagate(SMALL, seeds=0), "seeds"),
            (lambda: ps.propagate(SMALL, seed=-1), "seed"),
            (lambda: ps.propagate(SMALL, seeds=2.5), "seeds"),
            (lambda: ps.propagate(SMALL, memory="much"), "memory"),
            (lambda: ps.propagate(SMALL, dtype="f8"), "run.dtype"),
            (lambda: ps.certify(config=SMALL, length=0), "length"),
            (lambda: ps.probe("no/such/folder", tokens=[1], draws=3, no_theory=True), "draws"),
            (lambda: compiled("name", "{}", {}, True, 5), "ignore_keys"),  # type: ignore[arg-type]
            (lambda: compiled("name", "{}", {}, True, [5]), "ignore_keys"),  # type: ignore[list-item]
        ):
            with rejected("", key=key):
                call()
        ds = ps.probe(folder, tokens=np.array([1, 2]), top=np.int64(3), no_theory=np.bool_(True))
        self.assertEqual(ds.sizes["rank"], 3)
        for batch in (np.array([[1, 2]]), [[1, 2]], [np.array([1, 2])], ((1, 2),)):
            same = ps.probe(folder, tokens=batch, top=3, no_theory=True)
            self.assertEqual(list(same.token_id.values), [1, 2])
            self.assertTrue(same.second_moment_measured.equals(ds.second_moment_measured))
        with self.assertRaises(ps.ConfigError):
            _periscope.run("propagate", _run.request(flags={"dump": []}))
        with rejected("nearest is propagate", ps.ConfigError):
            _periscope.run("propagat", _run.request())
        with rejected("no/such/folder"):
            ps.probe("no/such/folder", tokens=[1])

    def test_paths_that_are_not_utf8_are_rejected_before_anything_is_made(self) -> None:
        path = "odd\udcff"
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for call, key in (
                (lambda: ps.theory(SMALL, out=path), "out"),
                (lambda: ps.theory(ps.Config(SMALL), out=Path(path)), "out"),
                (lambda: ps.theory(ps.Config(SMALL), out=os.fsencode(path)), "out"),
                (lambda: ps.theory({**SMALL, "run.out": path}), "run.out"),
                (lambda: ps.theory(ps.Config(SMALL), run={"out": path}), "run.out"),
                (lambda: ps.theory(path), "config"),
                (lambda: ps.Config.read(path), "config"),
                (lambda: ps.propagate(SMALL, dump=path), "dump"),
                (lambda: ps.probe(path, tokens=[1]), "checkpoint"),
                (lambda: ps.dataset.write(ps.theory(SMALL), path), "path"),
            ):
                with rejected("text that UTF-8 can encode", key=key):
                    call()
            self.assertEqual(os.listdir("."), [])
            ps.theory(SMALL, out=b"bytes")
            self.assertEqual(os.listdir("."), ["bytes"])
            with self.assertRaises(FileNotFoundError):
                ps.dataset.write(ps.theory(SMALL), "no/such.nc")
            os.mkdir(path)
            with contextlib.chdir(path), rejected("", key="out"):
                ps.theory(SMALL, out="here")

    def test_configurations_are_their_own(self) -> None:
        placements = ["pre", "peri"]
        config = ps.Config({"model.placement": placements})
        placements.append("post")
        config.keys["model.placement"].append("post")
        self.assertEqual(config.keys, {"model.placement": ["pre", "peri"]})
        once = ps.Config({"model.placement": (one for one in ("pre", "peri"))})
        self.assertEqual(len(once.resolved()["stacks"]), len(config.resolved()["stacks"]))
        self.assertEqual(ps.Config({"run.seeds": np.array(4)}), ps.Config({"run.seeds": 4}))
        endless: list[Any] = []
        endless.append(endless)
        for odd in ({"model.width=16#": 32}, {"model": {"width#": 1}}, {"": 1}, "text", [1], {"model.width": endless}):
            with self.subTest(odd=str(odd)), self.assertRaises(ps.ConfigError):
                ps.Config(odd)  # type: ignore[arg-type]

    def test_errors_survive_pickling(self) -> None:
        with self.assertRaises(ps.CheckFailed) as raised:
            ps.propagate(SMALL, theory_set={"init.down_factor": 3.0}, seeds=8, check=True)
        copied = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((str(copied), copied.dataset.attrs["exit_code"]), (str(raised.exception), 4))
        refused = pickle.loads(pickle.dumps(ps.ConfigError("model.width = 0: expected more")))
        self.assertEqual((refused.key, refused.found, refused.expected), ("model.width", "0", "more"))


if __name__ == "__main__":
    unittest.main()

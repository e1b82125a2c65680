"""Files hold what the schemas declare, and figures ask for nothing else. Usage: columns_test.py BINARY

Needs the packages of plots/requirements.txt; skipped (exit code 77) without them.
"""

import dataclasses
import json
import re
import unittest

from periscope_process import SMALL, SWEEPS, SharedFolderTest, run
from plotting import ROOT  # first of what needs packages

import netCDF4
import numpy as np
from plots import cost, drawing, results

KEYS = SWEEPS + """
[converge]
widths = [32, 64, 128]
seeds = 16
[ladder]
widths = [32, 64, 96, 128]
seeds = 8
"""
LIST = """
[[config]]
name = "small"
file = "small.toml"
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
"""
# JSON leaves these out where they are 0.
ABSENT_IS_NONE = ("diverged_seeds",)
# JSON has the largest numbers of the formats that were judged, files of all.
MORE_IN_FILES = (("certify", "format_largest"),)
# A fit that tells nothing is NaN in files, of which figures are drawn; JSON has its numbers.
FIT = re.compile("_(exponent|exponent_stderr|amplitude|chi_squared|significance)$")
OVER_DEPTH = ("x_out", "r_out")
CHECKPOINT = ROOT / "tests" / "checkpoint" / "fixtures" / "gemma2"
COMMANDS = {
    "propagate": ["propagate", "--backward"], "theory": ["theory"], "converge": ["converge"],
    "ladder": ["ladder", "--set", "init.scheme=lecun"], "gradient_depth": ["gradients", "depth"],
    "gradient_attenuation": ["gradients", "attenuation"], "identity_path": ["gradients", "identity-path"],
    "score_path": ["gradients", "score-path"], "gradient_crossover": ["gradients", "crossover"],
    "formats": ["formats", "--backward", "--set", "formats.massive=20", "--set", 'formats.format=["fp16","fp8_e4m3","int8"]'],
}  # fmt: skip
TINY = [word for setting in ("model.layers=3", "model.width=16", "model.heads=2", "model.vocab=32", "input.tokens=8",
                             "train.steps=3", "train.batch=2") for word in ("--set", setting)]  # fmt: skip
OTHERS = {
    "verify": ["verify", "--cases", 2000], "probe": ["probe", CHECKPOINT, "--tokens", "1,2,3,4", "--backward"],
    "certify": ["certify", CHECKPOINT, "--tokens", "1,2,3", "--headroom", "fp16"],
    "soundness": ["soundness", "--checkpoints", 2],
    "train": ["train", *TINY, "--seeds", 2, "--set", 'model.placement=["pre","peri"]'],
    "reproduce": ["reproduce", "--quick", *TINY],
}  # fmt: skip


# Figures of benchmarks show what no command of the program makes: bench_test looks at them.
KINDS = [kind for kind in drawing.KINDS if kind is not cost]


class Asked(dict):
    """Variables of a file that remember by which names they were asked for."""

    def __init__(self, variables):
        super().__init__(variables)
        self.names, self.sought = set(), set()

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.sought.add(name)
        return super().__contains__(name)


class Paths:
    """Where JSON says what a file has at a position on its dimensions."""

    def __init__(self, file, json_result):
        self.json = json_result
        with netCDF4.Dataset(file) as data:
            self.kind = data.getncattr("result")
            self.attributes = {name: data.getncattr(name) for name in data.ncattrs()}
            self.variables = {name: (v.dimensions, np.ma.filled(v[...], np.nan)) for name, v in data.variables.items()}
        if "quantity_placement" in self.variables:
            stacks = list(zip(*(self.variables[f"quantity_{k}"][1] for k in ("placement", "input")), strict=True))
            order = list(dict.fromkeys(stacks))
            self.of_quantity = [(order.index(s), stacks[:i].count(s)) for i, s in enumerate(stacks)]

    def label(self, dimension, at):
        return self.variables[dimension][1][at[dimension]]

    def step(self, node, key, at):
        """One key of a path further. KeyError where JSON has nothing."""
        name = key[1:-1]
        if key == "{arithmetic}" and name not in at:
            return node[self.attributes["arithmetic"]]
        if key[0] == "{":
            return node[str(self.label(name, at))]
        if key == "[cell]" and "seed" in at:
            return node[at["placement"] * len(self.variables["seed"][1]) + at["seed"]]
        if key == "[cell]":
            return node[at["input"] * len(self.variables["placement"][1]) + at["placement"]]
        if key in ("[stack]", "[of_stack]") and "quantity" in at:
            return node[self.of_quantity[at["quantity"]][key == "[of_stack]"]]
        if key == "[bound]":
            place = self.label("signal", at), self.label("place", at)
            return next((b for b in node if (b["signal"], b["sublayer"]) == place), {})
        return node[at[name]] if key[0] == "[" else node[key]

    def value(self, path, dimensions, index):
        at = dict(zip(dimensions, index, strict=True))
        # JSON has these streams over depth, the file beside the other sites too: behind sublayer i is depth i + 1.
        if "sites/{site}/" in path and self.label("site", at) in OVER_DEPTH:
            path = path.replace("sites/{site}/", "" if self.label("site", at) == "x_out" else "sites/r_out/")
            at["sublayer"] += 1
        if path == "margins/{format}/signals/{signal}" and self.label("signal", at) in OVER_DEPTH:
            at["sublayer"] += 1
        node, taken = self.json, set()
        try:
            for key in path.split("/"):
                node = self.step(node, key, at)
                taken |= {"[cell]": {"input", "placement", "seed"}, "[bound]": {"signal", "place"}}.get(key, {key[1:-1], "quantity"})
            for dimension in dimensions:
                if dimension not in taken and (dimension != "site" or "{site}" in path):
                    node = node[at[dimension]]
        except (KeyError, IndexError):
            return None
        return None if isinstance(node, list) and at else node

    def mentions(self, path):
        """Whether JSON has anything there, at any position."""
        nodes = [self.json]
        for key in path.replace("{arithmetic}", self.attributes.get("arithmetic", "")).split("/"):
            every = [list(n.values()) if isinstance(n, dict) else n for n in nodes if isinstance(n, (dict, list))]
            nodes = ([v for values in every for v in values] if key[0] in "{[" else
                     [n[key] for n in nodes if isinstance(n, dict) and key in n])  # fmt: skip
        return any(n not in (None, [], {}) for n in nodes)


class Columns(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        listed = json.loads(run("list", "--columns", "--json").stdout)["results"]
        cls.declared = {kind: {c["name"]: c for c in r["columns"] if c["in_files"]} for kind, r in listed.items()}
        cls.versions = {kind: r["version"] for kind, r in listed.items()}
        cls.everywhere = {name for columns in cls.declared.values() for name in columns}
        super().setUpClass()
        (cls.folder / "small.toml").write_text(SMALL.replace('["pre", "peri"]', '["post", "pre", "peri"]') + KEYS)
        (cls.folder / "list.toml").write_text(LIST)
        cls.json = {}
        for command in [[*c, "--config", cls.folder / "small.toml"] for c in COMMANDS.values()] + [
            *OTHERS.values(), ["power", "--config", cls.folder / "list.toml"]]:  # fmt: skip
            done = run(*command, "--out", cls.folder, "--quiet", "--json")
            assert done.returncode == 0, (command, done.stderr)
            found = json.loads(done.stdout)
            cls.json[found["provenance"]["result"], command[0]] = found
        cls.files = sorted(cls.folder.glob("*.nc"))

    def test_every_kind_of_result_is_here(self):
        kinds = {results.read(file).attributes["result"] for file in self.files}
        self.assertEqual(kinds, set(self.declared))

    def test_files_hold_what_is_declared(self):
        for file in self.files:
            with netCDF4.Dataset(file) as data, self.subTest(file=file.name):
                kind = data.getncattr("result")
                self.assertEqual(data.getncattr("result_version"), self.versions[kind])
                for name, variable in data.variables.items():
                    column = self.declared[kind][name]
                    said = [list(variable.dimensions), variable.units, variable.long_name]
                    self.assertEqual(said, [column["dimensions"], column["units"], column["meaning"]], name)

    def test_files_and_json_say_the_same(self):
        for file in self.files:
            kind = results.read(file).attributes["result"]
            command = file.stem if kind == "stack" else next(c for k, c in self.json if k == kind)
            paths = Paths(file, self.json[kind, command])
            for name, column in self.declared[kind].items():
                if not column["json"] or name in ABSENT_IS_NONE:
                    continue
                with self.subTest(file=file.name, column=name):
                    if name in paths.attributes:
                        self.check_value(paths.attributes[name], paths.value(column["json"], (), ()), name)
                        continue
                    if name not in paths.variables:
                        self.assertFalse(paths.mentions(column["json"]), f"JSON has {name}, the file has not")
                        continue
                    dimensions, values = paths.variables[name]
                    said = {i: paths.value(column["json"], dimensions, i) for i in np.ndindex(*values.shape)}
                    for index, of_json in said.items():
                        if of_json is None and (kind, name) in MORE_IN_FILES:
                            continue
                        if kind == "converge" and FIT.search(name) and np.isnan(values[index]):
                            continue
                        self.check_value(values[index], of_json, (name, index))
                    if values.dtype.kind == "f" and np.isfinite(values).any():
                        self.assertTrue(any(v is not None for v in said.values()), f"{name}: nothing was compared")

    def check_value(self, in_file, in_json, where):
        if isinstance(in_file, str):
            shown = json.dumps(in_json, separators=(",", ":")) if isinstance(in_json, (dict, list)) else in_json
            self.assertEqual(in_file, shown or "", where)
        elif in_json is None:
            self.assertFalse(np.isfinite(in_file), f"{where}: the file has {in_file}, JSON nothing")
        else:
            self.assertEqual(float(in_file), float(in_json), where)

    def test_losses_have_a_unit(self):
        self.assertEqual(self.declared["probe"]["token_loss"]["units"], "nat")
        self.assertEqual(self.declared["stack"]["log_grad_sq_measured"]["units"], "nat")
        self.assertEqual(self.declared["stack"]["variance_measured"]["units"], "1")
        self.assertEqual(self.declared["power"]["seconds"]["units"], "s")

    def test_figures_ask_for_declared_columns(self):
        drawn = set()
        for kind in KINDS:
            self.assertLessEqual(set(kind.NEEDS), self.everywhere, kind.__name__)
        for file in self.files:
            result = results.read(file)
            of_file = self.declared[result.attributes["result"]]
            asked = Asked(result.variables)
            watched = dataclasses.replace(result, variables=asked)
            for kind in KINDS:
                if not all(name in result for name in kind.NEEDS):
                    continue
                drawn.add(kind)
                for _ in kind.draw(watched):
                    pass
            with self.subTest(file=file.name):
                self.assertLessEqual(asked.names, set(of_file))
                # A caption may ask which kind of result it is in.
                self.assertLessEqual(asked.sought, self.everywhere)
        self.assertEqual(drawn, set(KINDS), "every figure was drawn")


if __name__ == "__main__":
    unittest.main()

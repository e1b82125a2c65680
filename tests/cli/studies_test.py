"""Runs every study once at a small size, in a folder whose name is not UTF-8. Checks streams, threads, flags, files,
declared columns, and columns that figures use."""

import functools
import re
import shutil

import pytest

from checkpoint_files import write_checkpoint
from plotting import figures_of
from program import FIXTURES, LIST, ROOT, STUDIES, SWEEPS, THREE, differing, fact, result, run, words_of

# isort: split
import netCDF4
import xarray as xr

from plots import claims, kinds, reader, sweeps

NAME, SHOWN = "caf\udce9", "caf\ufffd"  # Latin 1, and its form in JSON
GEMMA = [str(FIXTURES / "gemma2"), "--tokens", "1,2,3,4"]
COMMANDS = STUDIES | {
    "propagate": [*STUDIES["propagate"], "--backward"],
    "formats": [*STUDIES["formats"], "--backward", "formats.massive=20", 'formats.format=["fp16","fp8_e4m3","int8"]'],
    "gradients depth": [*STUDIES["gradients depth"], "gradients.layers=[1,2,3]", "input.tokens=4"],
    "probe": ["probe", *GEMMA, "--backward"], "certify": ["certify", *GEMMA, "--headroom", "fp16"],
}
# Flags without effect in a study.
FIXED = {"ladder": ["--seeds"], "theory": ["--seeds", "--dtype"], "formats": ["--dtype"], "verify": ["--dtype"],
         "certify": ["--seeds"], "probe": ["--seeds"]}
LABELS = {"sublayer_layer", "sublayer_kind", "sublayer_branch"}


class Ran:
    """A run of a study with a table and a file, and the same run with --json on more threads."""

    def __init__(self, name, home):
        self.words = [str(home / NAME / word) if word.endswith(".toml") else word for word in COMMANDS[name]]
        out = home / NAME / name
        codes = (0, 4)  # 4: theory may be rejected at this small width
        self.shown = run(self.words, "--threads", 1, "--out", out, code=codes, cwd=home)
        self.again = run(self.words, "--threads", 1, "--out", out, "--skip-finished", code=codes, cwd=home) \
            if name not in ("theory", "certify", "probe") else None
        self.quiet = run(self.words, "--threads", 3, "--json", "--quiet", code=self.shown.code, cwd=home)
        shutil.move(out, home / name)
        (self.file,) = (home / name).glob("*.nc")
        self.printed, self.ds = self.quiet.ds, reader.read(self.file)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    home = tmp_path_factory.mktemp("studies")
    (home / NAME).mkdir()
    (home / NAME / "small.toml").write_text(THREE + SWEEPS)
    (home / NAME / "list.toml").write_text(LIST)
    return functools.cache(lambda name: Ran(name, home))


@pytest.fixture(scope="module")
def listed():
    return run("list", "--columns", "--json").json["results"]


every_study = pytest.mark.parametrize("name", STUDIES)


def test_every_study_is_tested_and_documented(ran, listed):
    studies = {e["name"] for e in run("list", "--json").json["experiments"]} - {"toy", "info", "generate", "sweep plan"}
    assert set(STUDIES) == studies
    assert {ran(name).ds.attrs["result"] for name in STUDIES} == set(listed)
    documented = "".join((ROOT / "docs" / name).read_text() for name in ("experiments.md", "questions.md"))
    assert [name for name in studies - {"theory"} if f"periscope {name}" not in documented] == []
    build = (ROOT / "experiments" / "CMakeLists.txt").read_text()
    folders = re.search(r"^set\(studies ([a-z_ ]+)\)$", build, re.M)[1].split()
    assert sorted(folders) == sorted(p.name for p in (ROOT / "experiments" / "studies").iterdir() if p.is_dir())


@every_study
def test_every_study_writes_its_streams_and_files(name, ran):
    study = ran(name)
    assert study.shown.out == study.quiet.err == ""
    assert [line for line in study.shown.err.splitlines() if len(line) > 100 and NAME not in line] == []
    assert "\x1b" not in study.shown.err, "no colours away from a terminal"
    assert re.search(r"(?m)^[a-z-]+: (\d+)/\1\b|\n.*\n.*\n", study.shown.err), "progress or a table"
    assert "--config" not in study.words or SHOWN in study.ds.attrs["circumstances"]


@every_study
def test_threads_change_no_bit_and_json_equals_the_file(name, ran):
    printed, stored = ran(name).printed, ran(name).ds
    assert differing(printed, stored) == set()
    assert {key for key in printed.attrs.keys() | stored.attrs.keys()
            if printed.attrs.get(key) != stored.attrs.get(key)} <= {"circumstances"}
    xr.testing.assert_identical(printed.drop_attrs(deep=False), stored.drop_attrs(deep=False))
    assert {n: v.dtype for n, v in printed.variables.items()} == {n: v.dtype for n, v in stored.variables.items()}
    with netCDF4.Dataset(ran(name).file) as data:  # in the order of the file
        assert [n for n in data.variables if n in printed.data_vars] == list(printed.data_vars)


@every_study
def test_the_python_module_gives_the_same_result(name, ran, folder):
    from module import called, settled

    (folder / "small.toml").write_text(THREE + SWEEPS)
    ours = called(words_of(COMMANDS[name]))
    paths = ["list", "listed_file"] if name == "power" else []
    xr.testing.assert_identical(*(settled(ds).drop_vars(paths) for ds in (ours, ran(name).ds)))
    assert {n: v.dtype for n, v in ours.variables.items()} == {n: v.dtype for n, v in ran(name).ds.variables.items()}
    assert fact(ours, "circumstances").keys() == fact(ran(name).ds, "circumstances").keys()


@every_study
def test_a_finished_run_is_skipped(name, ran):
    shown, again = ran(name).shown, ran(name).again
    if again:
        assert (again.code, again.err.startswith("skipped: ")) == (shown.code, True)
        assert shown.err.endswith(again.err.partition("\n")[2]), "the same table"


@pytest.mark.parametrize("name", sorted(set(STUDIES) - {"verify", "reproduce"}))  # slow
def test_every_accepted_flag_has_an_effect(name, ran, folder):
    flags = {"--seed": "7", "--seeds": "5", "--dtype": "f32" if name in ("probe", "certify") else "f64"}
    words, plain = ran(name).words, ran(name).printed
    if name == "certify":  # a checkpoint needs no seed
        (folder / "small.toml").write_text(THREE)
        words, plain = STUDIES[name], result(STUDIES[name])
    for flag in flags.keys() - FIXED.get(name, []):
        assert differing(result(words, flag, flags[flag], code=(0, 4)), plain), flag


@every_study
def test_files_agree_with_the_schema(name, ran, listed):
    """Every dimension is used and has integers or labels; UDUNITS knows every unit."""
    with netCDF4.Dataset(ran(name).file) as data:
        schema = listed[data.getncattr("result")]
        declared = {c["name"]: c for c in schema["columns"]}
        assert data.getncattr("result_version") == schema["version"]
        types = {"float64": "f8", "int64": "i8", "bool": "u1", "str": str}
        for column, v in data.variables.items():
            spec = declared[column]
            assert [list(v.dimensions), v.units, v.long_name, v.dtype] == [
                spec["dimensions"], spec["units"], spec["meaning"], types[spec["type"]]], column
            assert v.units in ("", "1", "s"), column
            if "sublayer" in v.dimensions and column not in LABELS | {"sublayer"}:
                assert set(v.coordinates.split()) == LABELS, column
        used = {d for column, v in data.variables.items() if v.dimensions != (column,) for d in v.dimensions}
        assert set(data.dimensions) == used
        for dimension in used & {"depth", "other_depth", "sublayer", "layer", "seed", "aligned_depth"}:
            assert data[dimension].dtype == "i8", dimension
            if dimension != "seed":
                assert data[dimension][...].tolist() == list(range(len(data.dimensions[dimension]))), dimension
        if "sublayer" in used:
            count = len(data.dimensions["sublayer"])
            assert data["sublayer_layer"][...].tolist() == [s // 2 for s in range(count)]
            assert list(data["sublayer_kind"][...]) == ["attention", "mlp"] * (count // 2)


class Recording(xr.Dataset):
    """A result that records which variables were read, and which were tested for presence."""

    __slots__ = ("names", "sought")

    def __init__(self, ds):
        super().__init__(ds.data_vars, ds.coords, ds.attrs)
        self.names, self.sought = set(), set()

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.sought.add(name)
        return super().__contains__(name)


def test_figures_use_declared_columns(ran, listed):
    drawn, everywhere = set(), {c["name"] for schema in listed.values() for c in schema["columns"]}
    of_studies = set(kinds.KINDS) - {sweeps.sweep, claims.claims_together}
    assert {column for kind in of_studies for column in kind.required} <= everywhere
    for name in STUDIES:
        reading = Recording(ran(name).ds)
        for kind in kinds.of(ran(name).ds):
            drawn.add(kind)
            figures_of(kind, reading)
        assert reading.names <= {c["name"] for c in listed[reading.attrs["result"]]["columns"]}, name
        assert reading.sought <= everywhere, "a caption may test for columns of other results"
    assert drawn == of_studies, "every figure of one result was drawn"


def test_names_of_texts_and_checkpoints_need_not_be_utf8(folder):
    path = folder / NAME
    path.mkdir()
    (path / "a.txt").write_text("More than six bytes.")
    text = ("input.kind=text", "model.placement=pre", f"input.path={path}/a.txt", "--dump", path / "dump")
    ds = run("propagate", "--config", "small.toml", text, "--json", "--quiet").ds
    assert SHOWN in fact(ds)["stacks"][0]["input"]["path"]
    assert SHOWN in (path / "dump" / "config.json").read_text(encoding="utf-8")
    write_checkpoint(path)
    found = run("probe", path, "--text", path / "a.txt", "--max-tokens", 6, "--json", "--quiet").ds
    assert found.model.item() == SHOWN
    for command in (["info", path], ["certify", path], ["generate", path, "--tokens", "1,2", "--count", 1]):
        run(*command, "--json", "--quiet")

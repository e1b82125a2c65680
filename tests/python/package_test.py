"""The package: its functions, lists, files, command line, methods of datasets, and required processors."""

import ast
import inspect
import io
import json
import re
import typing
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import netCDF4
import numpy as np
import pytest
import xarray as xr

from module import SMALL, ps, rejected, run_module, settled
from periscope import _keys, _periscope, verbs
from periscope._processor import require_instructions
from periscope._progress import bar
from periscope.describe import description
from program import FIXTURES, ROOT, dataset, run, words_of

FLAGS = "flags : fpu avx avx2 bmi1 bmi2 f16c fma movbe abm xsave sse4_2\n"


def test_every_study_is_exported_and_every_argument_documented():
    assert [name for name, home in ps._MODULES.items() if home == "verbs"] == verbs.__all__
    assert [name for name in ps.__all__ if getattr(ps, name) is None] == []
    assert sorted(ps.__all__) == dir(ps)
    with pytest.raises(AttributeError):
        getattr(ps, "no_such_thing")  # noqa: B009
    for verb in (getattr(ps, name) for name in verbs.__all__):
        assert [a for a in inspect.signature(verb).parameters if f"        {a}: " not in verb.__doc__] == [], verb


def test_every_key_has_a_type():
    typed = set()
    for section in description()["sections"]:
        name = "".join(part.title() for part in section["name"].replace(".", "_").split("_")) + "Keys"
        typed |= {f"{section['name']}.{key}" for key in typing.get_type_hints(getattr(_keys, name))}
    assert {key["name"] for s in description()["sections"] for key in s["keys"]} <= typed


def test_lists_equal_those_of_the_program():
    assert ps.keys().loc["model.width", "default"] == "1024"
    assert ps.columns("stack").loc["second_moment_measured", "dimensions"] == "input placement depth"
    with pytest.raises(ps.ConfigError):
        ps.columns("stacks")
    listed = run("list", "--json").json
    assert ps.placements().reset_index().to_dict("records") == listed["placements"]
    assert ps.placements().loc["peri", "norms"] == "A B"
    recipes = ps.recipes()
    assert recipes.drop(columns="extras").to_dict("index") == {one["name"]: one["sets"] for one in listed["recipes"]}
    assert list(recipes.extras) == ["; ".join(one["extras"]) for one in listed["recipes"]]


def test_the_stub_of_the_compiled_module_is_complete():
    """stubtest does not support functions of nanobind."""
    stub = ast.parse((ROOT / "python" / "periscope" / "_periscope.pyi").read_text())
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    assert {name for name in dir(_periscope) if not name.startswith("_")} == set(functions) | set(classes)
    for name, node in functions.items():
        signature = getattr(_periscope, name).__nb_signature__[0][0]
        declared = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
        assert re.findall(r"(?:\(|, )(\w+): ", signature) == declared, name
    for name, described in classes.items():
        members = {node.name for node in described.body if isinstance(node, ast.FunctionDef)}
        members |= {node.target.id for node in described.body if isinstance(node, ast.AnnAssign)}
        real = {m for m in dir(getattr(_periscope, name)) if not m.startswith("_")} - set(dir(Exception))
        assert real <= members and members - {"__init__"} <= real, name


def header(file):
    with netCDF4.Dataset(file) as data:
        return {name: (v.dtype, v.dimensions, int(v._FillValue) if "_FillValue" in v.ncattrs() else None)
                for name, v in data.variables.items()}


@pytest.mark.parametrize(("study", "settings", "flags"), [
    ("propagate", {"run.backward": True}, {}), ("formats", {"formats.format": ["bf16"], "theory.replicates": 8}, {}),
    ("certify", {"input.kind": "tokens"}, {})])
def test_out_writes_the_same_file_as_the_program(study, settings, flags, folder):
    settings = {**SMALL, **({} if study == "certify" else {"run.seeds": 4}), **settings}
    run(study, [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings.items()],
        "--out", "program", "--quiet", code=(0, 4))
    ours = getattr(ps, study)(settings, out="module")
    program, module = (folder / who / f"{study}.nc" for who in ("program", "module"))
    xr.testing.assert_identical(settled(ours), settled(ps.open(module)))
    xr.testing.assert_identical(settled(ours), settled(ps.open(program)))
    assert header(module) == header(program), "types, dimensions and fill values"
    assert study == "propagate" or any(fill == 255 for _, _, fill in header(module).values())
    assert [path.name for path in (folder / "module").iterdir()] == [f"{study}.nc"]
    assert ps.cite(ps.open(program)) == run("cite", program).out


def test_results_are_not_copied():
    values = ps.propagate(SMALL, seeds=4).second_moment_measured.values
    assert not values.flags.owndata
    values[...] = 1.0  # writable


def test_python_m_periscope_equals_the_program():
    assert re.match(rf"periscope {ps.__version__} \([0-9a-f]+", run_module("--version").stdout)
    words = words_of("propagate", "model.layers=2", "model.width=16", "model.heads=2", "--seeds", 4, "--json",
                     "--quiet")
    ours, theirs = run_module("run", *words), run(words)
    assert ours.stderr == ""
    a, b = (settled(dataset(answer)) for answer in (json.loads(ours.stdout), theirs.json))
    xr.testing.assert_identical(a, b)
    for setting, name in (("model.widht=3", "model.width"), ("model.placement=[pre,peri]", "invalid TOML"),
                          ("model.width=" + "[" * 5000, "invalid TOML"), ("model.width=[8]\nb=1", "model.width")):
        done = run_module("run", "theory", "--set", setting, code=2)
        assert (done.stdout, name in done.stderr) == ("", True), done.stderr


def test_methods_of_datasets_equal_functions():
    ds = ps.propagate(SMALL, model={"placement": ["pre", "peri"]}, seeds=4)
    assert "variance" in ps.figures(ds)
    assert len(ds.periscope.plot("variance").axes) == len(ps.plot(ds, "variance").axes)
    assert ds.periscope.config["stacks"][0]["model"]["width"] == 16
    with rejected("variance", ValueError):
        ps.plot(ds, "varianz")
    shown = ["verdict", "placement", "worst_test", "worst_z", "critical"]
    assert list(ps.verdicts(ds)) == list(ds.periscope.verdicts()) == shown, "columns of the deciding test"
    whole = ds.periscope.verdicts(all=True)
    assert list(whole) == ["verdict", "quantity", "input", "placement", *shown[2:], "detectable", "reason"]
    for name, column in (("detectable", ds.power_worst), ("reason", ds.verdict_reason)):
        assert list(whole[name]) == list(column.values.ravel())
    assert list(ps.verdicts(ps.propagate(SMALL, seeds=4))) == ["verdict", *shown[2:], "detectable"]


def test_results_of_different_depths_combine():
    each = [ps.propagate(SMALL, model={"layers": n}, seeds=4).expand_dims(layers=[n]) for n in (2, 3)]
    both = xr.combine_by_coords(each, combine_attrs="drop_conflicts", data_vars="minimal", join="outer")
    assert both.sizes["contrast"] == max(ds.sizes["contrast"] for ds in each)
    for ds in each:
        part = both.sel(layers=ds.layers, contrast=ds.contrast, depth=ds.depth)
        for name in ("contrast_name", "contrast_excess", "second_moment_measured"):
            np.testing.assert_array_equal(part[name].values, ds[name].values)


def test_cite_names_commit_study_and_configuration():
    ds = ps.theory(SMALL)
    assert all(part in ps.cite(ds) for part in (ds.attrs["commit"], "study theory", ds.attrs["config_sha256"]))
    assert ds.periscope.cite() == ps.cite(ds)
    assert ps.__version__ in ps.cite() and "config_sha256" not in ps.cite()
    for odd in (xr.Dataset(), ds.assign_attrs(program="another"), xr.Dataset(attrs={"program": "periscope"})):
        with pytest.raises(ps.InputError):
            ps.cite(odd)


def test_theory_predicts_a_checkpoint_without_probe():
    llama, ids = FIXTURES / "llama", [1, 2, 3]
    whole = ps.probe(llama, tokens=ids, draws=0)
    for where, theory in (("at_init", ps.at_init), ("at_scales", ps.at_scales)):
        ds = theory(llama, ids)
        assert ds.second_moment_predicted.equals(whole[f"second_moment_{where}"])
        assert ds.second_moment_stderr.equals(whole[f"second_moment_{where}_stderr"])
        assert "second_moment_measured" not in ds
    with rejected("at_scales: found no prediction; model.v_norm"):
        ps.at_scales(FIXTURES / "gemma4", ids)
    plain, larger = (ps.at_init(llama, ids, init={"std": std}).second_moment_predicted[-1] for std in (0.02, 0.5))
    assert larger > plain


def test_progress_into_a_file_has_a_line_every_ten_seconds():
    def snapshot(share):
        return SimpleNamespace(phase="theory", label="pre", share=share, seconds_left=None, messages=[])

    with mock.patch("sys.stderr", io.StringIO()) as written, mock.patch("time.monotonic") as clock, bar() as show:
        for second in range(25):
            clock.return_value = 1000.0 + second
            for part in range(10):
                show(snapshot((10 * second + part) / 250))
    assert re.findall(r"\d+ %", written.getvalue()) == ["0 %", "40 %", "80 %"]
    no_terminal = SimpleNamespace(write=written.write, flush=written.flush)  # has no isatty
    with mock.patch("sys.stderr", no_terminal), bar() as show:
        show(snapshot(1.0))
    assert "100 %" in written.getvalue()


def test_a_processor_without_avx2_is_rejected(folder):
    listed = folder / "cpuinfo"
    for text in (FLAGS, "no flags\n"):
        listed.write_text("processor : 0\n" + text)
        require_instructions(listed, "x86_64")
    require_instructions(Path("/no/such/file"), "x86_64")
    listed.write_text("processor : 0\n" + FLAGS.replace(" avx2", "").replace(" fma", ""))
    require_instructions(listed, "aarch64")
    with rejected("avx2, fma", ImportError):
        require_instructions(listed, "x86_64")

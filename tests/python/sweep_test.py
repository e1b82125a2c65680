"""Sweeps from Python: executors, equality with the program, arguments."""

import multiprocessing
import pathlib
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from module import SMALL, ps, rejected
from plotting import draw
from program import contents, run

BASE = {"model": {"width": 16, "heads": 2, "vocab": 20, "mlp_width": 24}, "input.tokens": 4, "run.seeds": 4,
        "theory.replicates": 4}
GRID = {"model.layers": [1, 2, 3], "model.placement": ["pre", "peri"], "init.scheme": ["lecun", "normal"]}


def cells(out):
    return {name: data for name, data in contents(pathlib.Path(out)).items() if name.startswith("cells/")}


def values(ds):
    return ds.drop_attrs()


@pytest.fixture
def whole():
    sweep = ps.sweep("propagate", BASE, grid=GRID, backward=True, out="whole").run(threads=2)
    return sweep.gather()


def test_sixty_stacks_in_one_call():
    ds = ps.sweep("theory", {**BASE, "theory.finite_width": False},
                  grid={"model.layers": range(1, 6), "model.placement": ["post", "pre", "peri", "b-only"],
                        "init.scheme": ["lecun", "normal", "scaled"]}).run().gather()  # fmt: skip
    assert (ds.cell_status == "done").sum() == 60
    assert ds.second_moment_predicted.dims == ("model.layers", "init.scheme", "input", "placement", "depth")


def test_every_cell_is_the_result_of_its_own_run(whole):
    for layers in GRID["model.layers"]:
        stack = {"model": {"layers": layers, "placement": "peri"}, "init": {"scheme": "normal"}}
        own = ps.propagate(BASE, backward=True, **stack)
        cell = whole.sel({"model.layers": layers, "init.scheme": "normal", "placement": ["peri"]})
        for name in ("second_moment_measured", "log_grad_sq_predicted", "verdict", "worst_z"):
            part = cell[name]
            part = part.isel(depth=slice(0, own.sizes["depth"])) if "depth" in part.dims else part
            np.testing.assert_array_equal(part.values, own[name].values)


def test_executors_give_the_same_bytes(whole):
    spawn = multiprocessing.get_context("spawn")
    for executor in (ThreadPoolExecutor(2), ProcessPoolExecutor(2, mp_context=spawn)):
        with executor:
            out = type(executor).__name__
            sweep = ps.sweep("propagate", BASE, grid=GRID, backward=True, out=out)
            sweep.run(executor, shards=5)
        assert cells(out) == cells("whole")
        xr.testing.assert_identical(values(sweep.gather()), values(whole))
    assert len(pickle.dumps(("folder", 3, 5))) < 100


def test_the_program_and_the_module_share_cells(whole):
    run("sweep", "gather", "whole", "--quiet")
    xr.testing.assert_identical(values(ps.open("whole/sweep.nc")), values(whole))
    assert run("sweep", "status", "whole", "--json").json["complete"]
    words = [word for key, found in GRID.items() for word in ("--grid", f"{key}={list(found)!r}".replace("'", '"'))]
    sets = ("model.width=16", "model.heads=2", "model.vocab=20", "model.mlp_width=24", "input.tokens=4", "run.seeds=4",
            "theory.replicates=4")
    plan = run("sweep", "plan", "propagate", "--flag", "backward", words, sets, "--out", "whole", "--json").json
    assert (plan["cells"], plan["done"]) == (12, 12)


def test_incomplete_sweeps_need_partial():
    sweep = ps.sweep("theory", BASE, zip={"model.width": [8, 12], "model.heads": [2, 3]}, grid={"run.seed": [0, 1]})
    assert sweep.plan["cells"] == 4 and not sweep.status()["complete"]
    with pytest.raises(ps.Error, match="4 missing"):
        sweep.gather()
    ds = sweep.gather(partial=True, columns=["verdict"])
    assert (ds.cell_status == "missing").all() and ds["model.heads"].dims == ("model.width",)
    snapshots = []
    assert sweep.run(progress=snapshots.append).status()["complete"]
    assert snapshots[-1].share == 1.0


def test_verdicts_have_a_row_per_stack(whole):
    table = ps.verdicts(whole, all=True)
    assert len(table) == 12 and set(GRID["init.scheme"]) == set(table["init.scheme"])
    row = table[(table["model.layers"] == 3) & (table.placement == "peri") & (table["init.scheme"] == "lecun")]
    cell = whole.sel({"model.layers": 3, "placement": "peri", "init.scheme": "lecun"})
    assert row.worst_z.item() == cell.worst_z.item()


def test_figures_show_the_stacks_of_a_sweep(whole):
    names = ps.figures(whole)
    assert names[0] == "sweep" and {"variance", "gradient", "blocks-gaussian", "angular-gaussian"} <= set(names)
    squares, gradients = ps.plot(whole, "sweep").axes
    lines = [line for line in squares.get_lines() if len(line.get_xdata()) == 3 and line.get_linestyle() != "None"]
    assert len(lines) == 4
    peri = whole.second_moment_predicted.sel({"placement": "peri", "init.scheme": "normal"}).isel(input=0)
    last = [peri.sel({"model.layers": layers, "depth": 2 * layers}).item() for layers in (1, 2, 3)]
    assert any(np.array_equal(line.get_ydata(), last) for line in lines)
    assert gradients.get_xlabel() == "model.layers"
    page = ps.plot(whole.sel({"init.scheme": "lecun"}), "variance")
    labels = [text.get_text() for legend in page.legends for text in legend.get_texts()]
    assert "Peri-LN, layers 3" in labels and len(labels) == 7
    assert "Curves differ in model.layers: see the legend" in page.caption
    one = ps.plot(whole.isel({"model.layers": 0, "init.scheme": 0}), "variance")
    assert [t.get_text() for legend in one.legends for t in legend.get_texts()][:2] == ["Pre-LN", "Peri-LN"]


def test_figures_of_swept_inputs_and_of_several_placements_per_cell():
    grid = {"input.kind": ["gaussian", "tokens"], "model.placement": [{"A": True, "alpha": 0.5}, "pre"]}
    ds = ps.sweep("theory", SMALL, grid=grid).run().gather()
    assert ds.second_moment_predicted.dims == ("input", "placement", "depth")
    assert {"sweep", "variance"} <= set(ps.figures(ds)) and len(ps.plot(ds, "variance").axes) == 2
    grid = {"model.placement": [["pre", "peri"], ["post"]]}
    ds = ps.sweep("theory", SMALL, grid=grid).run().gather()
    assert ds.second_moment_predicted.sizes["model.placement"] == 2
    assert len(ps.plot(ds, "variance").legends[0].get_texts()) == 3


def test_zipped_keys_share_the_x_axis_unless_x_repeats():
    sweep = ps.sweep("theory", SMALL, grid={"model.placement": ["pre", "peri"]},
                     zip=[{"model.layers": [1, 2, 3], "run.seeds": [4, 5, 4]}])  # fmt: skip
    page = ps.plot(sweep.run().gather(), "sweep")
    assert page.axes[0].get_xlabel() == "model.layers with run.seeds"
    assert [text.get_text() for text in page.legends[0].get_texts()] == ["Pre-LN", "Peri-LN"]
    repeated = ps.sweep("theory", SMALL, zip=[{"init.scheme": ["lecun", "normal", "scaled"],
                                               "model.layers": [1, 2, 2]}])  # fmt: skip
    page = ps.plot(repeated.run().gather(), "sweep")
    assert page.axes[0].get_xlabel() == "model.layers"
    assert [text.get_text() for text in page.legends[0].get_texts()] == [f"Peri-LN, scheme {scheme}" for scheme in (
        "lecun", "normal", "scaled")]  # fmt: skip


def test_figures_over_depth_need_a_selection_from_many_stacks(whole):
    many = xr.concat([whole.assign_coords({"init.scheme": [f"{k}a", f"{k}b"]}) for k in range(3)], "init.scheme",
                     combine_attrs="override")  # fmt: skip
    assert ps.figures(many) == ["sweep"]
    with pytest.raises(ValueError, match="found 36 stacks; expected at most 24"):
        ps.plot(many, "variance")


def test_the_command_draws_a_gathered_file(whole, folder):
    run("sweep", "gather", "whole", "--quiet")
    done = draw(folder / "whole/sweep.nc", "--out", folder / "figures", "--only", "sweep,variance", "--format", "svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (folder / "figures").iterdir()} == {
        "sweep-sweep.svg", "sweep-sweep.txt", "sweep-variance.svg", "sweep-variance.txt"}


@pytest.mark.parametrize(("arguments", "words"), [
    ({"study": "propagat"}, "nearest is propagate"),
    ({"grid": {"model.layers": 3}}, "model.layers = 3: expected a list"),
    ({"grid": {"model.layres": [3]}}, "model.layers"), ({"grid": {"model.norm": ["rmss"]}}, 'model.norm = "rmss"'),
    ({"grid": {}}, "at least one swept key"), ({"backwards": True}, "backwards: expected a flag of propagate"),
    ({"zip": {"model.width": [8, 16], "model.heads": [2]}}, "model.heads: expected 2 values"),
], ids=str)  # fmt: skip
def test_invalid_arguments_are_rejected(arguments, words):
    with rejected(words, ps.ConfigError):
        ps.sweep(**{"study": "propagate", "base": SMALL, "grid": {"model.layers": [1, 2]}} | arguments)

"""Sweeps: equal bytes for any shards, threads, kills and concurrent runs; exit codes; damaged files; Slurm script."""

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from checkpoint_files import write_checkpoint
from program import PROGRAM, contents, rejected, result, run, start

PLAN = """
[sweep]
study = "propagate"
backward = true
[sweep.grid]
"model.layers" = [1, 2, 3]
"model.placement" = ["pre", "peri"]
[[sweep.zip]]
"init.scheme" = ["lecun", "scaled"]
"init.factor" = [1.0, 0.5]
[base]
model = {width = 16, heads = 2, vocab = 20, mlp_width = 24}
input.tokens = 4
run.seeds = 4
theory.replicates = 4
"""
CELLS = 12
SMALL = ("--set", "model.layers=1", "--set", "model.width=8", "--set", "model.heads=1", "--set", "input.tokens=2")


@pytest.fixture(autouse=True)
def plan_file(folder):
    (folder / "sweep.toml").write_text(PLAN)


def plan(out="out", code=0):
    return run("sweep", "plan", "sweep.toml", "--out", out, "--json", code=code).json


def compute(*words, out="out", code=0, **options):
    return run("sweep", "run", out, "--quiet", "--json", *words, code=code, **options)


def status(out="out", code=0):
    return run("sweep", "status", out, "--json", code=code).json


def gather(*words, out="out", code=0):
    return run("sweep", "gather", out, "--quiet", *words, code=code)


def result_of_sweep(out="out"):
    import xarray as xr

    return xr.open_dataset(f"{out}/sweep.nc")


def results(out="out"):
    """Returns the bytes of all cells and of the gathered file."""
    gather(out=out)
    found = contents(pathlib.Path(out))
    return {name: data for name, data in found.items() if name.startswith("cells/") or name == "sweep.nc"}


@pytest.fixture
def whole():
    """The results of one run on two threads."""
    plan("whole")
    compute("--threads", 2, out="whole")
    return results("whole")


def test_results_do_not_depend_on_shards_threads_and_kills(whole):
    assert len(whole) == CELLS + 1
    for shards in (3, 7):
        order = list(range(1, shards + 1))
        random.Random(shards).shuffle(order)
        out = f"in{shards}"
        plan(out)
        for k in order:
            compute("--shard", f"{k}/{shards}", "--threads", 1 + k % 2, out=out)
        assert results(out) == whole
    plan("killed")
    draw = random.Random(1)
    for _ in range(3):
        process = start("sweep", "run", "killed", "--quiet")
        time.sleep(draw.uniform(0.02, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
    compute(out="killed")
    assert results("killed") == whole


def test_two_processes_may_run_the_same_shard(whole):
    plan()
    both = [start("sweep", "run", "out", "--quiet", "--threads", 1) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert results() == whole


def test_a_stopped_run_returns_75_and_resumes(whole, folder):
    (folder / "sweep.toml").write_text(PLAN.replace("seeds = 4", "seeds = 3000"))
    plan()
    process = start("sweep", "run", "out", "--threads", 1, stderr=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 75, error
    assert "the same command resumes from out" in error
    (folder / "sweep.toml").write_text(PLAN)
    assert plan()["done"] == 0
    compute()
    assert results()["sweep.nc"] == whole["sweep.nc"]


def test_exit_codes_tell_whether_a_sweep_is_complete(folder):
    rejected("sweep", "run", "out", code=3, names="not a folder of a sweep")
    assert plan()["missing"] == CELLS
    assert status(code=75)["missing"] == CELLS
    assert "nothing written" in run("sweep", "gather", "out", code=75).err
    compute("--shard", "2/3")
    assert status(code=75)["done"] == CELLS // 3
    gather("--partial")
    assert (folder / "out/sweep.nc").exists()
    compute()
    assert status()["complete"] and status()["failed"] == 0
    gather()


def test_a_changed_value_computes_only_its_cells(folder):
    plan()
    compute()
    (folder / "sweep.toml").write_text(PLAN.replace("[1, 2, 3]", "[1, 4, 3]"))
    assert plan()["done"] == CELLS * 2 // 3
    before = contents(pathlib.Path("out"))
    compute()
    after = contents(pathlib.Path("out"))
    assert sum(name.startswith("cells/") for name in set(after) - set(before)) == CELLS // 3


def test_damaged_and_foreign_files_are_computed_again(whole, folder):
    shutil.copytree("whole", "out")
    files = sorted(p for p in (folder / "out/cells").rglob("*") if p.is_file())
    files[0].write_bytes(files[0].read_bytes()[:200])
    files[1].write_bytes(b"foreign")
    files[2].write_bytes(files[3].read_bytes())  # the cell of another file
    (folder / "out/cells/notes.txt").write_text("a note")
    found = status(code=75)
    assert (found["missing"], len(found["damaged"])) == (3, 3)
    assert str(files[0].relative_to(folder)) in run("sweep", "status", "out", code=75).err
    compute()
    (folder / "out/cells/notes.txt").unlink()
    assert results() == whole


def test_a_changed_checkpoint_invalidates_its_cells(folder):
    write_checkpoint(folder / "model")
    words = "sweep plan probe --out out --flag checkpoint=model --flag tokens=1,2,3 --grid"
    run(words.split(), 'run.dtype=["f32","f64"]')
    assert compute().json["done"] == 2 and status()["done"] == 2
    (folder / "model" / "note.txt").write_text("another file")
    assert status(code=75)["missing"] == 2
    gather("--partial")
    import periscope as ps

    assert ps.open("out/sweep.nc").sizes["run.dtype"] == 2


def test_names_of_custom_placements_are_labels():
    grid = 'model.placement=[{name="x",A=true},{name="y",A=true}]'
    run("sweep", "plan", "theory", SMALL, "--grid", grid, "--out", "out")
    compute()
    gather()
    assert list(result_of_sweep().placement.values) == ["x", "y"]


def test_stacks_are_named_by_keys_that_differ():
    from periscope.plots import sweeps

    import periscope as ps

    lists = ("--set", 'model.placement=["pre","peri"]', "--grid", "run.seed=[3]", "--grid", "init.factor=[0.5,1]")
    run("sweep", "plan", "theory", SMALL, lists, "--set", "init.scheme=scaled", "--out", "out")
    compute()
    gather()
    assert list(sweeps.stacked(ps.open("out/sweep.nc")).placement.values) == [
        "pre, factor 0.5", "peri, factor 0.5", "pre, factor 1", "peri, factor 1"]  # fmt: skip


@pytest.mark.parametrize("change", ['"base": []', '"base": null', '"axes": [{}]', '"axes": []'])
def test_a_damaged_plan_is_rejected(folder, change):
    plan()
    path = folder / "out/plan.json"
    key = change.split(":")[0]
    path.write_text(re.sub(rf"{key}: .*?(?=,\n \"|\n}})", change, path.read_text(), flags=re.S))
    rejected("sweep", "status", "out", code=3, names=["plan.json"])


def test_a_failing_cell_is_recorded_and_the_others_are_computed(folder):
    words = ("--set", "init.scheme=lecun", "--set", "model.vocab=20", "--grid", "model.width=[8,12]", "--grid",
             "model.heads=[2,3]", "--out", "out", "--json")
    found = run("sweep", "plan", "theory", words)
    assert found.json["invalid"] == 1 and "model.heads = 3: expected a divisor" in found.err
    assert compute(code=1).json["failed"] == 1
    assert "model.heads = 3" in status(code=75)["failures"][0]
    gather(code=1)
    gather("--partial")
    rejected("sweep", "plan", "theory", *words[:4], "--grid", "model.widht=[8]", "--out", "out", names="model.width")
    rejected("sweep", "plan", "theory", "--grid", "model.norm=rms", "--out", "out", names="expected a list")
    rejected("sweep", "plan", "small.toml", "--out", "out", names=["small.toml", "expected [sweep] or [base]"])
    rejected("sweep", "run", "out", "--shard", "5/4", names="--shard 5/4")
    rejected("sweep", "plan", "theory", "--grid", "model.layers=[1]", "--flag", "backward=false", "--out", "out",
             names=["backward = false", "no value"])  # fmt: skip


def test_a_failed_check_of_a_cell_is_the_exit_code(folder):
    text = PLAN.replace("backward = true", "").replace("theory.replicates = 4", 'theory.fault = "depth-constant"')
    text = text.replace("run.seeds = 4", "run.seeds = 256").replace('["pre", "peri"]', '["deepnorm", "lns"]')
    (folder / "sweep.toml").write_text(text)
    plan()
    assert compute(code=4).json["check_failed"] > 0


def test_the_gathered_file_is_a_readable_result(whole):
    ds = result_of_sweep("whole")
    assert dict(ds.sizes)["model.layers"] == 3 and dict(ds.sizes)["placement"] == 2
    assert ds["init.factor"].dims == ("init.scheme",)
    cell = ds.second_moment_measured.isel({"init.scheme": 1, "placement": 1}).sel({"model.layers": 2})
    words = ("model.width=16", "model.heads=2", "model.vocab=20", "model.mlp_width=24", "input.tokens=4",
             "theory.replicates=4", "model.layers=2", "model.placement=peri", "init.scheme=scaled", "init.factor=0.5")
    own = result("propagate", "--backward", "--seeds", 4, words)
    np.testing.assert_array_equal(cell.values[0, :5], own.second_moment_measured.values[0, 0])
    assert np.isnan(cell.values[0, 5:]).all()
    assert run("sweep", "gather", "whole", "--columns", "verdict,z_worst", code=2).err.count("z_worst") == 1


def test_the_slurm_script_runs_a_shard_and_requeues_a_stopped_one(folder):
    plan()
    script = run("sweep", "slurm", "out", "--tasks", 4, "--hours", 2.5).out
    assert "#SBATCH --array=1-4\n" in script and "#SBATCH --time=150\n" in script
    (folder / "job.sh").write_text(script)
    (folder / "scontrol").write_text("#!/bin/sh\necho requeued $2\n")
    (folder / "scontrol").chmod(0o755)
    variables = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "4",
                 "SLURM_JOB_ID": "77", "PATH": f"{folder}:{os.environ['PATH']}"}
    assert run("job.sh", program="bash", env=variables).out == ""
    assert status(code=75)["done"] == CELLS // 4
    (folder / "sweep.toml").write_text(PLAN.replace("seeds = 4", "seeds = 20000"))
    plan()
    process = start("job.sh", program="bash", env={**os.environ, **variables}, stdout=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGUSR1)
    assert process.communicate(timeout=60)[0] == "requeued 77\n" and process.returncode == 75
    assert PROGRAM.name in script

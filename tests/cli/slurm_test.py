"""Sweeps as arrays of a real Slurm: killed, cancelled and requeued elements; the result equals that of a serial run."""

import os
import re
import signal
import time

import pytest

from program import run
from slurm import command, processes_with, require_slurm, slurm, wait_until

require_slurm()
# The first cells are the shortest, so that a signal sent after the first cell arrives before the last ends.
PLAN = """
[sweep]
study = "propagate"
[sweep.grid]
"model.layers" = [1, 4, 8]
"model.placement" = ["post", "pre", "peri", "deepnorm"]
[base]
model = {width = 64, heads = 2, vocab = 20, mlp_width = 96}
init.scheme = "lecun"
input.tokens = 4
run.seeds = 200
theory.replicates = 4
"""
CELLS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A running cluster, and the bytes of the gathered result of a serial run."""
    folder = tmp_path_factory.mktemp("cluster")
    with slurm(folder / "slurm"):
        (folder / "sweep.toml").write_text(PLAN)
        run("sweep", "plan", "sweep.toml", "--out", "serial", "--quiet", cwd=folder)
        run("sweep", "run", "serial", "--quiet", "--threads", 1, cwd=folder)
        run("sweep", "gather", "serial", "--quiet", cwd=folder)
        yield (folder / "serial" / "sweep.nc").read_bytes()


def state(job):
    """Returns the state and the exit code of an array element."""
    text = command("scontrol", "show", "job", job)
    return re.search(r"JobState=(\w+)", text)[1], re.search(r"ExitCode=(\S+)", text)[1]


def ended(job):
    return state(job)[0] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")


class Array:
    """A sweep in three shards as an array of jobs in the working folder."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "sweep.toml").write_text(PLAN)
        run("sweep", "plan", "sweep.toml", "--out", "out")
        (folder / "job.sh").write_text(run("sweep", "slurm", "out", "--tasks", 3, "--gigabytes", 0.2).out)

    def submit(self):
        self.job = command("sbatch", "--parsable", "job.sh").strip()

    def log(self, element):
        path = self.folder / f"slurm-{self.job}_{element}.out"
        return path.read_text() if path.exists() else ""

    def wait_for_cell(self, element):
        """Waits until an element has written a cell but not all."""
        wait_until(lambda: re.search(r"sweep: [1-3]\.\d*/4", self.log(element)))

    def kill(self, element):
        """Kills the program, as the kernel does if memory is short."""
        self.wait_for_cell(element)
        for process in processes_with(self.folder / "out", f"SLURM_ARRAY_TASK_ID={element}"):
            os.kill(process, signal.SIGKILL)

    def signal(self, element, *words):
        self.wait_for_cell(element)
        command("scancel", *words, f"{self.job}_{element}")

    def states(self):
        """Waits until all elements have ended, and returns their states and exit codes."""
        jobs = [f"{self.job}_{element}" for element in (1, 2, 3)]
        wait_until(lambda: all(ended(job) for job in jobs))
        return [state(job) for job in jobs]

    def done(self, code=75):
        return run("sweep", "status", "out", "--json", code=code).json["done"]

    def gathered(self):
        run("sweep", "gather", "out")
        return (self.folder / "out" / "sweep.nc").read_bytes()


def test_a_second_submission_finishes_a_killed_element(cluster, folder):
    array = Array(folder)
    array.submit()
    array.kill(2)
    assert array.states() == [("COMPLETED", "0:0"), ("FAILED", "137:0"), ("COMPLETED", "0:0")]
    assert CELLS * 2 // 3 < array.done() < CELLS
    run("sweep", "gather", "out", code=75)
    array.submit()
    assert array.states() == [("COMPLETED", "0:0")] * 3
    assert array.done(code=0) == CELLS
    assert array.gathered() == cluster


def test_an_element_is_requeued_at_its_time_limit_but_not_if_it_is_cancelled(cluster, folder):
    array = Array(folder)
    array.submit()
    array.signal(1, "--batch", "--signal=USR1")  # sent by Slurm one minute before the time limit
    array.signal(2)
    array.signal(3, "--batch", "--signal=TERM")
    requeued, stopped = f"{array.job}_1", f"{array.job}_3"
    wait_until(lambda: ended(stopped) and state(requeued)[0] == "PENDING")
    assert state(stopped) == ("FAILED", "75:0")
    assert 3 <= array.done() < CELLS
    time.sleep(2)  # slurmd rejects a job that starts in the second in which it ended
    command("scontrol", "update", f"JobId={requeued}", "StartTime=now")  # otherwise two minutes later
    assert [name for name, _ in array.states()] == ["COMPLETED", "CANCELLED", "FAILED"]
    assert all("the same command resumes from" in array.log(element) for element in (1, 2, 3))
    run("sweep", "run", "out")
    assert array.gathered() == cluster

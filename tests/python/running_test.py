"""Runs in the process of a caller: signals, threads, processes, training callbacks, and unchanged process state."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from module import SMALL, ps, python, rejected, settled
from program import start

LONG = {"model.layers": 24, "model.width": 256, "model.heads": 4, "input.tokens": 128, "run.seeds": 8,
        "run.weights": "dense", "model.placement": ["pre", "peri"], "run.threads": 1}
# Runs LONG until it is interrupted, and prints the time of the interrupt.
INTERRUPTED = f"""
import periscope as ps, signal, sys, time
print("begins", flush=True)
try:
    ps.propagate({LONG!r}, out=sys.argv[1] if len(sys.argv) > 1 else None)
except KeyboardInterrupt:
    print("interrupted", time.time(), signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
"""


def same(a, b):
    xr.testing.assert_identical(settled(a), settled(b))


def interrupt(ready, *words):
    with start("-c", INTERRUPTED, *words, program=sys.executable, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "begins\n"
        deadline = time.monotonic() + 60
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.05)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        what, back, restored = process.stdout.read().split()
    assert (what, restored) == ("interrupted", "True")
    assert float(back) - sent < 2.0


def test_ctrl_c_raises_keyboard_interrupt():
    start = time.monotonic()
    interrupt(lambda: time.monotonic() > start + 1.5)


def test_the_same_call_resumes_from_the_folder(folder):
    def cached():
        return any(folder.glob("out/cache/*/*"))

    interrupt(cached, "out")
    assert cached()
    snapshots = []
    ds = ps.propagate(LONG, out="out", progress=snapshots.append)
    assert not (folder / "out" / "cache").exists() and len(snapshots) > 2
    same(ds, ps.open(folder / "out" / "propagate.nc"))


def test_exceptions_of_a_progress_function_propagate():
    def bad(snapshot):
        raise LookupError(snapshot.phase)

    with pytest.raises(LookupError):
        ps.propagate(LONG, progress=bad)


def test_an_interrupt_while_files_are_written_is_delayed(folder):
    done = python(f"""
import signal, sys
# Python reports and drops interrupts in finalizers and callbacks of weak references.
sys.unraisablehook = lambda what: what.exc_type is KeyboardInterrupt or sys.__unraisablehook__(what)
ps.theory({SMALL!r}, out="out")  # import everything before the interrupts
signal.signal(signal.SIGALRM, signal.default_int_handler)
for milliseconds in range(1, 160, 4):
    try:
        signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
        for _ in range(20):
            ps.theory({SMALL!r}, out="out")
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
print("all is well")
""")
    assert (done.stdout, done.stderr) == ("all is well\n", "")
    assert not list(folder.glob("out/*.tmp"))


def test_a_daemon_threads_run_ends_with_the_interpreter():
    for out in (None, "out"):
        done = python(f"""
import threading, time
def many():
    try:
        for _ in range(10000):
            ps.theory({SMALL!r}, out={out!r})
    except (ps.Error, RuntimeError):
        pass  # no run or thread can start at exit
threading.Thread(target=many, daemon=True).start()
time.sleep(1)
""")
        assert (done.stdout, done.stderr) == ("", "")


def at_once(*functions):
    """Runs functions in concurrent threads, and returns their exceptions."""
    failures = []

    def caught(function):
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=caught, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_concurrent_runs_equal_single_runs():
    configs = [{**SMALL, "model.placement": ["pre", "peri"]}, {**SMALL, "model.layers": 5}]
    alone, found = [ps.propagate(config) for config in configs], {}
    assert at_once(*(lambda i=i: found.update({i: ps.propagate(configs[i])}) for i in (0, 1))) == []
    for i in (0, 1):
        same(found[i], alone[i])


def test_parameters_may_be_read_while_another_thread_starts_runs(folder):
    """Starting a run clears the file cache, which parameters() may be reading."""
    (folder / "text.txt").write_text("some text, " * 10)
    several = ps.Config({**SMALL, "model.vocab": 256, "model.placement": ["pre", "peri", "post"], "input.kind": "text",
                         "input.path": "text.txt"})
    end = time.monotonic() + 1.0

    def ask():
        while time.monotonic() < end:
            with rejected("3 stacks", Exception):
                several.parameters()

    def begin():
        while time.monotonic() < end:
            ps.Config(SMALL).resolved()

    assert at_once(ask, ask, begin, begin) == []


def test_threads_may_write_results_concurrently(folder):
    """netCDF4 is not thread-safe."""
    def write(number):
        for _ in range(3):
            ps.propagate(SMALL, seeds=4, out=f"out/{number}")
            ps.open(f"out/{number}/propagate.nc")

    assert at_once(*(lambda number=number: write(number) for number in range(4))) == []
    assert len(list((folder / "out").rglob("*"))) == 8


def test_a_forked_child_can_run():
    ps.propagate(SMALL, seeds=4)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            ps.propagate(SMALL, seeds=4)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_process_pools_can_run(way, folder):
    (folder / "many.py").write_text("""
import multiprocessing, sys
import periscope as ps
def largest(layers):
    return float(ps.theory({"model.layers": layers}).second_moment_predicted.max())
if __name__ == "__main__":
    largest(1)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(len(pool.map(largest, [1, 2, 3])))
""")
    done = subprocess.run([sys.executable, "many.py", way], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_runs_change_no_process_state():
    done = python(f"""
import ctypes, os, signal
openmp = ctypes.CDLL("libgomp.so.1")
openmp.omp_set_num_threads(7)
handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
files = len(os.listdir("/proc/self/fd"))
ps.propagate({SMALL!r}, seeds=4, threads=1, backward=True)
assert openmp.omp_get_max_threads() == 7, openmp.omp_get_max_threads()
assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
assert files == len(os.listdir("/proc/self/fd"))
assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")
""", OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="1")
    assert (done.stdout, done.stderr) == ("", "")


def test_missing_memory_is_a_memory_error():
    done = python(f"""
import resource
ps.theory({SMALL!r}, threads=1)  # loads all libraries
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
long = {{"input.tokens": 24000, "model.layers": 1, "init.qk_factor": 0.0, "theory.finite_width": False}}
try:
    ps.propagate(long, threads=1, force=True)
except MemoryError as error:
    print(error)
print(ps.theory({SMALL!r}, threads=1).attrs["exit_code"])
""")
    assert (done.stdout.startswith("not enough memory"), done.stdout[-3:], done.stderr) == (True, "\n0\n", "")


def test_importing_is_lazy():
    large = {"numpy", "xarray", "matplotlib", "periscope._periscope"}
    assert python(f"import periscope, sys; print(sorted({large} & set(sys.modules)))").stdout == "[]\n"


def test_a_file_that_changes_between_runs_is_read_again(folder):
    config, found = {**SMALL, "input.kind": "text", "input.path": "text", "model.vocab": 256, "run.seeds": 4}, []
    for text in (bytes(range(65, 90)), bytes(range(90, 64, -1))):
        (folder / "text").write_bytes(text)
        found.append(ps.propagate(config))
    assert found[0].attrs["config_sha256"] != found[1].attrs["config_sha256"]
    assert not found[0].second_moment_measured.equals(found[1].second_moment_measured)


def test_the_module_links_no_file_library():
    from periscope import _periscope

    command = ["readelf", "--dynamic", str(_periscope.__file__)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    needed = [line.rsplit("[", 1)[1].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line]
    allowed = ("libgomp.", "libstdc++.", "libm.", "libgcc_s.", "libc.", "libfmt.", "libtomlplusplus.", "ld-linux")
    assert [name for name in needed if not name.startswith(allowed)] == []


TWINS = {**SMALL, "model.placement": ["pre", "peri"], "train.steps": 12, "train.batch": 2, "train.record_every": 3}


def train(**words):
    return ps.train(TWINS, corpus="synthetic", **words)


@pytest.fixture(scope="module")
def whole():
    return train()


def test_a_callback_gets_every_record_and_changes_nothing(whole):
    seen = []
    ds = train(callback=seen.append)
    same(ds, whole)
    assert "stopped_early" not in ds.attrs
    for placement in ("pre", "peri"):
        own = [record for record in seen if record.placement == placement]
        steps = [record.step for record in own]
        assert (steps, {record.steps for record in own}) == ([0, 1, 2, 3, 5, 6, 9, 10, 12], {12})
        loss = ds.loss.sel(placement=placement).values.ravel()
        np.testing.assert_array_equal([record.loss for record in own], [np.nan, *loss[np.array(steps[1:]) - 1]])
        assert "validation_loss" in own[0].values


def test_a_callback_that_returns_false_ends_its_stack(whole):
    ended = train(callback=lambda r: r.placement == "peri" or r.step < 6)
    assert ended.attrs["stopped_early"] == 1
    for placement, steps in (("pre", 6), ("peri", 12)):
        loss, expected = (ds.loss.sel(placement=placement).values.ravel() for ds in (ended, whole))
        np.testing.assert_array_equal(loss, np.where(np.arange(12) < steps, expected, np.nan))
    assert np.isfinite(ended.validation_loss.sel(placement="peri")).all()


def test_a_stack_that_ended_early_resumes_from_its_state(whole):
    """The state of the stack is cached because the call failed in another stack."""
    def ends_one_and_fails(record):
        if record.placement == "peri" and record.step == 9:
            raise LookupError(record.run)
        return record.placement == "peri" or record.step < 6

    with pytest.raises(LookupError):
        train(out="out", threads=1, callback=ends_one_and_fails)
    seen = []
    same(train(out="out", threads=1, callback=seen.append), whole)
    assert min(record.step for record in seen if record.placement == "pre") >= 6


def test_after_an_early_end_a_call_without_callback_trains_to_the_end(whole):
    ended = train(out="out", callback=lambda record: record.step < 6)
    assert ended.attrs["stopped_early"] == ps.open(Path("out/train.nc")).attrs["stopped_early"] == 1
    same(train(out="out"), whole)
    assert os.listdir("out") == ["train.nc"]


@pytest.mark.parametrize("last", [0, 9])
def test_exceptions_of_a_callback_propagate(last, whole):
    def bad(record):
        if record.step == last:
            raise LookupError(record.run)

    with pytest.raises(LookupError):
        train(out="out", callback=bad)
    same(train(out="out"), whole)  # resumes from the saved states

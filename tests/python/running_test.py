"""A run in a caller's process: signals, threads, processes, and what must stay as it was. Usage: running_test.py"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import xarray as xr
from studies import SMALL, python, rejected

import periscope as ps

LONG = {"model.layers": 24, "model.width": 256, "model.heads": 4, "input.tokens": 128, "run.seeds": 20,
        "run.weights": "dense", "model.placement": ["pre", "peri"], "run.threads": 1}  # fmt: skip

# Runs LONG until it is interrupted, with the folder of its argument; says how soon after the signal it was back.
INTERRUPTED = f"""
import periscope as ps, signal, sys, time
print("begins", flush=True)
try:
    ps.propagate({LONG!r}, out=sys.argv[1] if len(sys.argv) > 1 else None)
    print("ended")
except KeyboardInterrupt:
    print("interrupted", time.time(), signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
"""


def settled(ds: xr.Dataset) -> xr.Dataset:
    return ds.assign_attrs(circumstances="")


def beside(*functions: Callable[[], object]) -> list[BaseException]:
    """Runs functions in threads at once, and returns their exceptions."""
    failures: list[BaseException] = []

    def caught(function: Callable[[], object]) -> None:
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


class Interruption(unittest.TestCase):
    def interrupt(self, ready: Callable[[], object], *words: str) -> list[str]:
        command = [sys.executable, "-c", INTERRUPTED, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "begins\n")
            for _ in range(600):
                if ready():
                    break
                time.sleep(0.1)
            sent = time.time()
            process.send_signal(signal.SIGINT)
            answer = process.stdout.read().split()
        self.assertEqual(answer[0], "interrupted")
        self.assertEqual(answer[2], "True")
        self.assertLess(float(answer[1]) - sent, 2.0)
        return answer

    def test_ctrl_c_is_a_keyboard_interrupt(self) -> None:
        start = time.monotonic()
        self.interrupt(lambda: time.monotonic() > start + 1.5)

    def test_the_same_call_goes_on_from_the_folder(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            def keeps_a_cell() -> bool:
                return any(Path(out).glob("cache/*/*"))

            self.interrupt(keeps_a_cell, out)
            self.assertTrue(keeps_a_cell())
            snapshots: list[ps.Snapshot] = []
            ds = ps.propagate(LONG, out=out, progress=snapshots.append)
            self.assertFalse((Path(out) / "cache").exists())
            xr.testing.assert_identical(settled(ds), settled(ps.open(Path(out) / "propagate.nc")))
            self.assertGreater(len(snapshots), 2)

    def test_exceptions_of_a_progress_function_come_through(self) -> None:
        def bad(snapshot: ps.Snapshot) -> None:
            raise LookupError(snapshot.phase)

        with self.assertRaises(LookupError):
            ps.propagate(LONG, progress=bad)


class Beside(unittest.TestCase):
    def test_two_threads_at_once_give_what_each_gives_alone(self) -> None:
        configs: list[dict[str, object]] = [{**SMALL, "model.placement": ["pre", "peri"]}, {**SMALL, "model.layers": 5}]
        alone = [ps.propagate(config) for config in configs]
        found: dict[int, xr.Dataset] = {}
        self.assertEqual(beside(*(lambda i=i: found.update({i: ps.propagate(configs[i])}) for i in (0, 1))), [])
        for i in (0, 1):
            xr.testing.assert_identical(settled(found[i]), settled(alone[i]))

    def test_parameters_while_another_thread_begins_runs(self) -> None:
        """A run that begins forgets the files that were read before, which parameters() may still be reading."""
        with tempfile.TemporaryDirectory() as name:
            text = Path(name, "text.txt")
            text.write_text("some text, " * 10)
            several = ps.Config({**SMALL, "model.vocab": 256, "model.placement": ["pre", "peri", "post"],
                                 "input.kind": "text", "input.path": str(text)})  # fmt: skip
            end = time.monotonic() + 1.0

            def ask() -> None:
                while time.monotonic() < end:
                    with rejected("found 3 stacks", Exception):
                        several.parameters()

            def begin() -> None:
                while time.monotonic() < end:
                    ps.Config(SMALL).resolved()

            self.assertEqual(beside(ask, ask, begin, begin), [])

    def test_threads_may_write_into_folders_of_their_own(self) -> None:
        """The library of result files is for one thread at a time."""
        with tempfile.TemporaryDirectory() as folder:
            def run(number: int) -> None:
                for _ in range(3):
                    ps.propagate(SMALL, seeds=4, out=f"{folder}/{number}")
                    ps.open(f"{folder}/{number}/propagate.nc")

            self.assertEqual(beside(*(lambda number=number: run(number) for number in range(4))), [])
            self.assertEqual(len(list(Path(folder).rglob("*"))), 8)

    def test_results_do_not_depend_on_threads(self) -> None:
        config = {**SMALL, "run.seeds": 8}
        one, two = (ps.propagate(config, threads=n, backward=True) for n in (1, 2))
        xr.testing.assert_identical(settled(one), settled(two))

    def test_a_forked_child_can_run_too(self) -> None:
        ps.propagate(SMALL, seeds=4)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                ps.propagate(SMALL, seeds=4)
                os._exit(0)
            except BaseException:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_pools_of_processes_can_run(self) -> None:
        code = """
import multiprocessing, sys
import periscope as ps
def largest(layers):
    return float(ps.theory({"model.layers": layers}).second_moment_predicted.max())
if __name__ == "__main__":
    largest(1)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(len(pool.map(largest, [1, 2, 3])))
"""
        for way in ("fork", "spawn"):
            with self.subTest(way=way), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "many.py"
                path.write_text(code)
                done = subprocess.run([sys.executable, path, way], capture_output=True, text=True, timeout=120)
                self.assertEqual((done.stdout, done.stderr), ("3\n", ""))


class AtTheEnd(unittest.TestCase):
    def test_a_daemon_threads_run_ends_with_the_interpreter(self) -> None:
        for out in (None, "folder"):
            with tempfile.TemporaryDirectory() as folder:
                done = python(f"""
import os, threading, time
os.chdir({folder!r})
import periscope as ps
def many():
    try:
        for _ in range(10000):
            ps.theory({SMALL!r}, out={out!r})
    except (ps.Error, RuntimeError):
        pass  # no run and no thread begins at the end
threading.Thread(target=many, daemon=True).start()
time.sleep(1)
""")  # fmt: skip
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_an_interrupt_while_files_are_written_comes_after_them(self) -> None:
        code = f"""
import signal, sys
import periscope as ps
# Python itself drops an interrupt that arrives in a weak reference's callback or a finalizer, and says so.
sys.unraisablehook = lambda what: what.exc_type is KeyboardInterrupt or sys.__unraisablehook__(what)
ps.theory({SMALL!r}, out=sys.argv[1])  # what it imports is imported: an interrupted import is not our matter
signal.signal(signal.SIGALRM, signal.default_int_handler)
for milliseconds in range(1, 160, 4):
    try:
        signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
        for _ in range(20):
            ps.theory({SMALL!r}, out=sys.argv[1])
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
print("all is well")
"""
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, "-c", code, out], capture_output=True, text=True, timeout=100)
            self.assertEqual((done.stdout, done.stderr), ("all is well\n", ""))
            self.assertFalse([path.name for path in Path(out).iterdir() if path.suffix == ".tmp"])


class Manners(unittest.TestCase):
    def test_nothing_of_the_caller_changes(self) -> None:
        done = python(f"""
import ctypes, os, signal
openmp = ctypes.CDLL("libgomp.so.1")
import periscope as ps
openmp.omp_set_num_threads(7)
handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
files = len(os.listdir("/proc/self/fd"))
ps.propagate({SMALL!r}, seeds=4, threads=1, backward=True)
assert openmp.omp_get_max_threads() == 7, openmp.omp_get_max_threads()
assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
assert files == len(os.listdir("/proc/self/fd"))
assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")
""", OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="1")  # fmt: skip
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("", "", 0))

    def test_threads_are_those_of_the_environment_unless_they_are_given(self) -> None:
        done = python(f"""
import json
import periscope as ps
for threads in (None, 2):
    print(json.loads(ps.theory({SMALL!r}, threads=threads).attrs["circumstances"])["threads"])
""", OMP_NUM_THREADS="3")  # fmt: skip
        self.assertEqual((done.stdout, done.stderr), ("3\n2\n", ""))

    def test_a_lack_of_memory_is_a_memory_error(self) -> None:
        done = python(f"""
import resource
import periscope as ps
ps.theory({SMALL!r}, threads=1)  # has loaded all libraries
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
long = {{"input.tokens": 24000, "model.layers": 1, "init.qk_factor": 0.0, "theory.finite_width": False}}
try:
    ps.propagate(long, threads=1, force=True)
except MemoryError as error:
    print(error)
print(ps.theory({SMALL!r}, threads=1).attrs["exit_code"])
""")  # fmt: skip
        self.assertRegex(done.stdout, "^not enough memory: the memory estimate is .*\n0\n$")
        self.assertEqual(done.stderr, "")

    def test_importing_is_quick_and_imports_nothing_large(self) -> None:
        large = {"numpy", "xarray", "matplotlib", "periscope._periscope"}
        done = python(f"import periscope, sys; print(sorted({large} & set(sys.modules)))")
        self.assertEqual(done.stdout, "[]\n")

    def test_a_file_that_changes_between_two_runs_is_read_anew(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "text.txt"
            config = {**SMALL, "input.kind": "text", "input.path": str(text), "model.vocab": 256, "run.seeds": 4}
            text.write_bytes(bytes(range(65, 90)))
            first = ps.propagate(config)
            text.write_bytes(bytes(range(90, 64, -1)))
            second = ps.propagate(config)
            self.assertNotEqual(first.attrs["config_sha256"], second.attrs["config_sha256"])
            self.assertFalse(first.second_moment_measured.equals(second.second_moment_measured))

    def test_the_module_links_no_file_library(self) -> None:
        from periscope import _periscope

        command = ["readelf", "--dynamic", str(_periscope.__file__)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        needed = [line.rsplit("[", 1)[1].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line]
        allowed = ("libgomp.", "libstdc++.", "libm.", "libgcc_s.", "libc.", "libfmt.", "libtomlplusplus.", "ld-linux")
        self.assertEqual([name for name in needed if not name.startswith(allowed)], [])


if __name__ == "__main__":
    unittest.main()

"""The benchmark driver on a tiny stack, and the attack on certificates."""

import re
import subprocess
import sys

import pytest

import bench
from program import BUILD, ROOT, run

STACK_SECONDS, ATTACK = BUILD / "experiments" / "stack_seconds", BUILD / "tests" / "soundness_attack"
# Stands in for an interpreter that has PyTorch. It reports a run time of 3 s and a peak of 64 MiB.
PEER = """#!/bin/sh
case $1 in
  -c) echo '9.8' ;;
  *) echo '{"seconds": [3], "processor_seconds": [6], "peak_bytes": 67108864, "product_gflops": 1,' \\
          '"tokens_per_second": 1}' ;;
esac
"""


def driver(*words, build=BUILD):
    command = [sys.executable, ROOT / "experiments" / "bench" / "bench.py", build, "--quick", "--out", "out", *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)


def test_bench_compares_layers_with_a_peer(folder):
    (folder / "peer").write_text(PEER)
    (folder / "peer").chmod(0o755)
    done = driver("--peer", folder / "peer", "--tables", "layers", "--tokens", "4", "--repeats", "2")
    assert (done.returncode, "PyTorch 9.8" in " ".join(done.stdout.split())) == (0, True), done.stderr
    assert (folder / "out" / "bench.md").read_text() == done.stdout
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| cpu |")]
    assert [row[3:5] for row in rows] == [[pass_, weights] for weights in ("dense", "matrix-free")
                                          for pass_ in ("forward", "backward")]
    for row in rows:
        assert (row[0:3], row[9], row[12]) == (["cpu", "f32", "4"], "3", "64")
        assert float(row[10]) * float(row[5]) == pytest.approx(3.0, abs=0.1)  # PyTorch's 3 s = ratio · seconds
        assert 1 < float(row[8]) < 400, "MiB of the program, not of Python"


def test_the_table_of_kernels_joins_bytes_of_the_host_and_seconds_of_the_gpu():
    def use(kernel, **numbers):
        return {"op": "norm", "kernel": kernel, "read": 0, "written": 0, "most_accesses": 0, "seconds": 0} | numbers

    counted = [use("Norm", launches=2, read=3e6, written=1e6, most_accesses=7), use("Copy", launches=1, read=5e6)]
    timed = [use("Norm", launches=2, seconds=0.002), use("Sort", launches=1, seconds=0.001)]
    names = ["norm Norm", "norm Sort", "norm Copy", "sum ", "whole run without events ", "between launches "]
    rows = bench.kernel_rows({"kernels": counted}, {"kernels": timed, "seconds": [0.004, 0.9, 0.003]})
    assert [f"{op} {kernel}" for op, kernel, *_ in rows] == names
    assert rows[0][2:] == ["2", "3.00", "1.00", "7", "2.000", "2", "50.0"]
    assert rows[1][2:] == ["1", "-", "-", "-", "1.000", "-", "25.0"]
    assert (rows[3][2:4], rows[3][6], rows[-1][6]) == (["4", "8.00"], "3.000", "1.000")
    assert [row[1] for row in bench.kernel_rows({"kernels": counted}, None)] == ["Copy", "Norm", ""]
    other = {"kernels": [use("Norm", launches=1, seconds=0.001) | {"op": "add"}], "seconds": [0.004]}
    assert [row[:3] for row in bench.kernel_rows({"kernels": counted}, other)][:2] == [["add", "Norm", "1"],
                                                                                      ["norm", "Norm", "2"]]
    assert rows[3][4] == "1.00", "MB written"


def test_kernels_are_counted_on_the_host_only_for_cuda(folder):
    done = driver("--tables", "kernels", "--device", "cuda-on-host", "--tokens", "4")
    assert (done.returncode, done.stdout.count("| sum |")) == (0, 2), done.stderr
    assert re.search(r"\| measure \| MeasureRows<float> \| [1-9]\d* \| [1-9.]", done.stdout), done.stdout
    assert "--by-op" in run("--by-op", "--tokens", 4, program=STACK_SECONDS, code=2).err


def test_a_missing_program_or_peer_is_an_error(folder):
    for done, name in ((driver(build=folder), "stack_seconds"), (driver("--peer", "false"), "false")):
        assert (done.returncode, name in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr


def test_the_peer_has_the_shape_of_the_program():
    line = bench.line_of([STACK_SECONDS], tokens=3, layers=1, weights="matrix-free")
    expected = {"width": 2560, "heads": 16, "kv_heads": 8, "head_dim": 160, "mlp_width": 10240, "layers": 1,
                "tokens": 3, "direction": "forward"}
    assert line | expected == line
    assert set(bench.SHAPE) <= set(line)


def test_the_attack_exceeds_lowered_bounds_only():
    flags = ["--format", "fp16", "--arithmetic", "mixed", "--seed", 2, "--checkpoints", 30]
    assert "--only" not in run(flags, program=ATTACK).out
    lowered = run(flags, "--scale", 0.9, program=ATTACK, code=1)
    violation = re.search(r"--only (\d+):.*?\n\n", lowered.out, re.DOTALL)
    assert violation[0].strip() in run(flags, "--scale", 0.9, "--only", violation[1], program=ATTACK, code=1).out

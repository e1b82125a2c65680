"""Memory estimates: runs beyond the limit are rejected, measured peaks are close to the estimate, and a failed
allocation is reported whenever it occurs."""

import collections
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest
import xarray as xr

from program import CONFIG, library, memory_limit, rejected, run, start

MEGABYTE = 1e6
UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
# Memory of the program's code, libraries and OpenMP.
OWN = 60 * MEGABYTE
# The estimate counts the largest arrays, even if they are not alive at the same time. The measured peak also has
# small arrays, the tape of the backward pass if memory allows, and freed memory that the allocator keeps.
FACTOR = 3.0

# Uniform attention is predicted without sampling.
SMALL = ("model.layers=1", "model.width=64", "model.heads=2", "model.mlp_width=64", "input.tokens=16", "model.vocab=16",
         "init.qk_factor=0.0")
LIMIT, SAMPLED, ONE_ROW = "theory.finite_width=false", "init.qk_factor=1.0", "first_steps.replicates=2"
TOKENS, PREDICT = "input.kind=tokens", "first_steps.predict_only=true"
# Command, number of threads, and settings in addition to `SMALL`.
SHAPES = {
    "wide, forward": ("propagate --seeds 1", 2, "model.width=1024 model.mlp_width=32768 input.tokens=300", LIMIT),
    "wide, backward": ("propagate --seeds 1 --backward", 2, "model.width=1024 model.mlp_width=16384 input.tokens=300",
                       LIMIT),
    "many tokens, limit alone": ("propagate --seeds 1", 4, "model.width=16 input.tokens=600", LIMIT),
    "many tokens, exact at the width": ("propagate --seeds 2", 2, "model.width=2048 model.heads=4 input.tokens=700",
                                        "theory.replicates=2"),
    "two streams": ("propagate --seeds 2", 2, "model.width=1024 model.heads=4 input.tokens=800", "theory.replicates=2",
                    "model.placement=residual-dual"),
    "sampled attention": ("theory", 4, "input.tokens=500 theory.tolerance=0.9", TOKENS, SAMPLED),
    "sampled attention on a grid of tokens": ("theory", 2, "input.tokens=32768", SAMPLED),
    "sampled attention, backward": ("theory --backward", 4, "input.tokens=400 theory.tolerance=0.9", TOKENS, SAMPLED,
                                    "theory.gradient_tolerance=99"),
    "sampled attention on a grid, backward": ("theory --backward", 2, "input.tokens=8192 theory.tolerance=0.9",
                                              SAMPLED, "theory.gradient_tolerance=99"),
    "several seeds and threads, backward": ("propagate --seeds 4 --backward", 4, "model.width=512 model.heads=8",
                                            "model.mlp_width=4096", "model.layers=4", "input.tokens=192"),
    "many layers, backward": ("propagate --seeds 1 --backward", 2, "model.width=32 model.layers=64 input.tokens=192"),
    "a large vocabulary": ("propagate --seeds 1 --backward", 1, "model.width=128 input.tokens=64 model.vocab=200000"),
    "depths": ("gradients depth --seeds 2", 2, "model.width=16 input.tokens=128 gradients.layers=[2,4,8]"),
    "paths": ("gradients identity-path --seeds 1", 1, "model.width=512 model.mlp_width=2048 model.layers=48",
              "input.tokens=32", "model.placement=pre"),
    "number formats": ("formats --seeds 2 --backward", 2, "model.width=512 model.mlp_width=2048 model.layers=4",
                       "input.tokens=128", 'formats.format=["bf16"]', "formats.certificates=false"),
    "first steps, many neurons": ("first-steps", 2, "first_steps.neurons=8192 train.steps=2 train.batch=2", ONE_ROW,
                                  PREDICT, "model.width=512", "model.mlp_width=8192", "model.vocab=256", TOKENS),
    "first steps, many tokens": ("first-steps", 2, "first_steps.neurons=8 train.steps=3 train.batch=32", ONE_ROW,
                                 PREDICT, "model.vocab=256", TOKENS),
    "first steps, a large vocabulary": ("first-steps", 2, "first_steps.neurons=8 train.steps=1 train.batch=1", ONE_ROW,
                                        PREDICT, "model.vocab=200000", TOKENS),
    "a certificate": ("certify", 2, "model.width=512 model.mlp_width=6000 model.placement=pre", TOKENS),
}


def peak(*words):
    """Returns the peak memory of a run in bytes."""
    child = start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return 1024 * usage.ru_maxrss


@pytest.mark.parametrize("name", SHAPES)
def test_the_measured_peak_is_close_to_the_estimate(name):
    command, threads, settings, *more = SHAPES[name]
    words = (command.split(), "--threads", threads, "--quiet", SMALL, settings.split(), more)
    done = rejected(words, before=memory_limit(190 << 20))
    number, unit = re.search(r"memory estimate ([0-9.e+]+) (MB|GB|TB)", done.err).groups()
    estimate, measured = float(number) * UNITS[unit], peak(words)
    assert OWN + estimate / FACTOR < measured < OWN + FACTOR * estimate, f"{estimate:.3g} {measured:.3g}"


TWO = "model.placement=['pre', 'peri']"
ON_TOKENS = [["propagate"], ["propagate", "--backward"], ["theory", "--backward"], ["gradients", "depth"],
             ["gradients", "identity-path"], ["gradients", "score-path"], ["gradients", "attenuation"],
             ["gradients", "crossover", TWO], ["ladder", "init.scheme=lecun"], ["formats", "--backward"]]
# Commands that use model.mlp_width. The others set their own widths, have no matrices or need a different device.
ON_WIDTH = [words for words in ON_TOKENS if words[0] not in ("ladder", "theory", "formats")]


@pytest.mark.parametrize(("key", "words"), [("input.tokens", words) for words in ON_TOKENS] +
                                           [("model.mlp_width", words) for words in ON_WIDTH], ids=str)
def test_runs_beyond_the_limit_are_rejected_at_once(key, words):
    huge = ("model.heads=32",) if key == "input.tokens" else (
        "model.width=65536", "model.heads=8", "--device", "reference")  # stores whole matrices
    # identity-path always uses dense weights
    dense = ("run.weights=dense",) if key == "model.mlp_width" and "identity-path" not in words else ()
    rejected(words, "--quiet", "--threads", "2", f"{key}=1048576", huge, dense, before=memory_limit(8 << 30),
             names=["memory", "available", key, "--force"])


@pytest.mark.parametrize("settings", [["input.tokens=8400"], ["model.mlp_width=1048576", "init.qk_factor=0.0", LIMIT]],
                         ids=str)
def test_force_starts_the_run_and_missing_memory_is_reported(settings):
    rejected("propagate", "--quiet", "--threads", 2, "model.layers=1", "--force", settings, code=1,
             before=memory_limit(1 << 29), names="not enough memory")


@pytest.mark.parametrize(("words", "faults", "begin", "message"), [
    (["--seeds", "4", "run.weights=dense"], [1, 200, 10**9] * 10, 0.02, "not enough memory"),
    (["--seeds", "2", "--out", "out"], [10**9] * 25, 0.75, "not enough memory|cannot write .*propagate.nc"),
], ids=["anywhere", "while the result is written"])
def test_a_failed_allocation_at_any_moment_is_reported(words, faults, begin, message):
    """One, 200 or all allocations fail, starting at a random one, even in destructors and while HDF5 writes the result;
    HDF5 may then crash or call exit."""
    def with_faults(code=(0, 1), **variables):
        return run("propagate", CONFIG, "--threads", "1", "--quiet", words, code=code,
                   env={**library("memory_faults"), **variables})

    with_faults(code=0, MEMORY_COUNT=os.path.abspath("count"))
    draw, count, codes = random.Random(1), int(pathlib.Path("count").read_text()), collections.Counter()
    for fault in faults:
        shutil.rmtree("out", ignore_errors=True)
        first = draw.randrange(int(begin * count), count)
        done = with_faults(MEMORY_FAULT_AT=str(first), MEMORY_FAULTS=str(fault))
        codes[done.code] += 1
        if done.code == 1:
            assert re.search(message, done.err), (first, fault)
            for file in pathlib.Path("out").glob("*.*"):  # allocation failed after the result was written
                assert xr.load_dataset(file).verdict.size > 0, (first, fault)
    assert codes[1] > 10
    assert codes[0] or 1 not in faults, "some runs survive a single fault"


def test_runs_within_the_limit_are_accepted():
    run("propagate", CONFIG, "--quiet", "--threads", "2", before=memory_limit(1 << 30))

"""Two writers of one model, with signals at random times, never leave an incomplete or mixed model or temporary files.
PERISCOPE_ROUNDS and PERISCOPE_SEED set the number of rounds and the times."""

import os
import random
import signal
import subprocess
import time

import pytest

from program import contents, run, sets, start

ROUNDS, SEED = (int(os.environ.get(f"PERISCOPE_{name}", usual)) for name, usual in (("ROUNDS", 20), ("SEED", 1)))
STACK = sets("model.width=128", "model.heads=4", "model.layers=8", "input.tokens=16", "model.placement=pre")
COMMANDS = {"write-checkpoint": ["write-checkpoint", "--family", "llama", *STACK, "--quiet", "--threads", "1", "--out"],
            "propagate --dump": ["propagate", *STACK, "--quiet", "--threads", "1", "--seeds", "1", "--dump"]}
# Exit codes; negative if the signal came before the process had installed its handlers.
CODES = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}


def writer(command, out, seed):
    return start(command, out, "--seed", seed, "--force", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("name", COMMANDS)
def test_two_writers_leave_no_incomplete_or_mixed_model(name, folder):
    draw, command, out = random.Random(f"{SEED} {name}"), COMMANDS[name], folder / "out"
    for seed in (1, 2):
        began = time.monotonic()
        run(command, f"seed{seed}", "--seed", seed)
        seconds = time.monotonic() - began
    models = [contents(folder / "seed1"), contents(folder / "seed2")]  # written without another writer
    assert models[0] != models[1] and "config.json" in models[0]
    counts = {"whole": 0, "rejected": 0, "ended": 0}
    for i in range(ROUNDS):
        before = contents(out)
        writers = [writer(command, out, seed) for seed in (1, 2)]
        kill = [draw.choice((None, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)) for _ in writers]
        for k, process in sorted(zip(kill, writers, strict=True), key=lambda pair: pair[0] or 0):
            if k is not None:
                time.sleep(draw.uniform(0, 0.7) * seconds)
                process.send_signal(k)
        errors = [process.communicate(timeout=120)[1] for process in writers]
        codes = [process.returncode for process in writers]
        where = f"{name}, seed {SEED}, round {i}: {kill} {codes} {errors}"
        found = contents(out)
        left = {name for name in found if name.endswith(".tmp")}
        assert left <= set(before) or signal.SIGKILL in kill, f"{where}: left {left}"
        whole = {name: data for name, data in found.items() if name not in left}
        # The marker config.json is written last: with it the model is complete.
        if "config.json" in whole:
            assert whole in models, f"{where}: incomplete or mixed"
        else:
            assert "config.json" not in before or any(kill), f"{where}: the old model is lost"
        finished = [models[seed] for seed, code in enumerate(codes) if code == 0]
        if finished and set(codes) <= {0, 2}:
            assert whole in finished, f"{where}: not the model of the finished writer"
        for code, error, k in zip(codes, errors, kill, strict=True):
            assert code == 0 or ("another process" in error if code == 2 else code in CODES.get(k, ())), where
            counts["whole" if code == 0 else "rejected" if code == 2 else "ended"] += 1
    # The next writer removes temporary files of killed ones.
    writer(command, out, 1).communicate()
    assert contents(out) == models[0]
    assert all(counts.values()), f"{counts}: every outcome occurs"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_second_signal_removes_temporary_files(number, code, folder):
    process = writer(["write-checkpoint", "--family", "llama", "model.width=512", "model.layers=8",
                      "model.placement=pre", "--threads", "1", "--quiet", "--out"], "out", 1)
    while not (folder / "out").exists() or not os.listdir("out"):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(number)
    time.sleep(0.12)  # signals within a tenth of a second count as one
    process.send_signal(number)
    error = process.communicate(timeout=60)[1]
    assert (process.returncode, os.path.exists("out") and os.listdir("out")) in ((code, []), (code, False)), error

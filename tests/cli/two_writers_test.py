"""Two writers of one model, and signals at random times: there is never a torn or mixed model, nothing is left behind,
and exit code 0 means a whole model. PERISCOPE_ROUNDS and PERISCOPE_SEED: more rounds, other times."""

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
# Negative: it came before the process had asked for signals.
CODES = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}


def writer(command, out, seed):
    return start(command, out, "--seed", seed, "--force", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.parametrize("name", COMMANDS)
def test_there_is_never_a_torn_or_mixed_model(name, folder):
    draw, command, out = random.Random(f"{SEED} {name}"), COMMANDS[name], folder / "out"
    for seed in (1, 2):
        began = time.monotonic()
        run(command, f"seed{seed}", "--seed", seed)
        seconds = time.monotonic() - began
    models = [contents(folder / "seed1"), contents(folder / "seed2")]  # as written undisturbed
    assert models[0] != models[1] and "config.json" in models[0]
    counts = {"whole": 0, "refused": 0, "ended": 0}
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
        # The marker config.json comes last: without it there is no model, with it there is a whole one.
        if "config.json" in whole:
            assert whole in models, f"{where}: torn or mixed"
        else:
            assert "config.json" not in before or any(kill), f"{where}: the old model is gone"
        finished = [models[seed] for seed, code in enumerate(codes) if code == 0]
        if finished and set(codes) <= {0, 2}:
            assert whole in finished, f"{where}: another model than was finished"
        for code, error, k in zip(codes, errors, kill, strict=True):
            assert code == 0 or ("another process" in error if code == 2 else code in CODES.get(k, ())), where
            counts["whole" if code == 0 else "refused" if code == 2 else "ended"] += 1
    # What a killed process left goes with the next writer.
    writer(command, out, 1).communicate()
    assert contents(out) == models[0]
    assert all(counts.values()), f"{counts}: every ending was seen"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_what_is_ended_at_once_leaves_nothing(number, code, folder):
    """Two signals end the process where it is; the handler removes its files."""
    process = writer(["write-checkpoint", "--family", "llama", "model.width=512", "model.layers=8",
                      "model.placement=pre", "--threads", "1", "--quiet", "--out"], "out", 1)
    while not (folder / "out").exists() or not os.listdir("out"):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(number)
    time.sleep(0.12)  # less than a tenth of a second apart they count as one
    process.send_signal(number)
    error = process.communicate(timeout=60)[1]
    assert (process.returncode, os.path.exists("out") and os.listdir("out")) in ((code, []), (code, False)), error

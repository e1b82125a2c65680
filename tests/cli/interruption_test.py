"""Stopped and killed runs: exit codes, and resuming with the same command to the same result."""

import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from program import CONFIG, STOPPING, cached, differing, run, sets, start

LIST = """
[[config]]
name = "small"
file = "small.toml"
set = ["run.seeds=200"]
master_seeds = true
[[config]]
name = "rungs"
file = "small.toml"
ladder = true
set = ["ladder.widths=[32,64,96,128]", "ladder.seeds=100", "model.placement=pre", "model.width=32"]
[[theory]]
name = "strong W_down"
set = ["init.down_factor=2"]
config = "small"
[[theory]]
name = "weak W_down"
set = ["init.down_factor=0.5"]
config = "small"
[[theory]]
name = "strong W_down, limit"
set = ["init.down_factor=2"]
config = "rungs"
"""
TINY = sets("model.width=16", "model.mlp_width=24", "model.vocab=40", "input.tokens=8", "train.batch=4",
            "train.record_sequences=2")
LIMIT = "theory.finite_width=false"
# Runs of a second or two, so that a signal arrives in time.
COMMANDS = {
    "propagate": [CONFIG, "--backward", "--seeds", "1500", LIMIT],
    "ladder": [CONFIG, "ladder.widths=[32,64,96,128]", "ladder.seeds=200"],
    "formats": [CONFIG, "--seeds", "400", 'formats.format=["bf16","int8"]', "formats.certificates=false",
                "theory.replicates=32"],
    "power": ["--config", "list.toml", LIMIT],
    "power --master-seeds": ["6", "--config", "list.toml"],
    "gradients depth": [CONFIG, "gradients.layers=[2,4,6]", "--seeds", "200", "theory.gradient_tolerance=0.5"],
    "gradients identity-path": [CONFIG, "run.seeds=1000"],
    "train": [CONFIG, TINY, "--corpus", "synthetic", "--seeds", "10", "train.steps=100", "train.record_every=10",
              "model.placement=[{A=true,alpha=1.25},{A=true,alpha=12.5}]"],
    "first-steps": [CONFIG, TINY, "--corpus", "synthetic", "--seeds", "60", "train.steps=3", "first_steps.neurons=8"],
    "reproduce": [TINY, "--corpus", "synthetic", "--seeds", "2", "--figure", "1", "model.layers=2", "model.heads=2",
                  "train.steps=60", "train.record_every=10"],
}


@pytest.fixture(autouse=True)
def long_list(folder):
    (folder / "list.toml").write_text(LIST)


def command(name, *words):
    return [*name.split(), COMMANDS[name], *words]


def same(done, other):
    """Returns whether two programs printed the same numbers."""
    if "runs" in done.json:
        return done.json["runs"] == other.json["runs"]
    return not differing(done.ds, other.ds)


def ended(process, number, within):
    """Sends a signal and returns the exit code, standard output and error; the process has to end in time."""
    process.send_signal(number)
    sent = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - sent < within, err
    return process.returncode, out, err


def interrupted(words, out, number, tasks):
    """Sends a signal once `tasks` more files are in the cache; returns the exit code and standard error. Starts again
    if the run ended before the signal arrived, as it may on a busy machine."""
    for _ in range(5):
        before = len(cached(out))
        with start(words, "--json", "--out", out, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            deadline = time.monotonic() + 120
            while len(cached(out)) < before + tasks and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            code, printed, errors = ended(process, number, within=2)
        if not printed:
            return code, errors
        shutil.rmtree(out)
    raise AssertionError(f"{words}: the signal had no effect")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_resumes_to_the_same_result(name):
    whole = run(command(name), "--json", "--quiet", code=(0, 4))
    for number, threads in ((signal.SIGKILL, 1), (signal.SIGTERM, 2)):
        code, errors = interrupted(command(name, "--threads", threads), "out", number, 2)
        assert code == (-9 if number == signal.SIGKILL else 75), errors
        assert code == -9 or "out/cache/" in errors
    assert len(cached("out")) >= 2
    assert same(run(command(name), "--json", "--quiet", "--out", "out", code=whole.code), whole)


@pytest.mark.parametrize(("words", "kind"), [
    (["theory", "--backward"], "theory"), (["propagate"], "theory"),
    (["propagate", "init.qk_factor=0.0"], "theory at this width")], ids=str)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_theory_reports_progress_and_stops(words, kind, number, code):
    process = start(words, CONFIG, "model.layers=1000", "model.placement=pre", "--seeds", "1", "--threads", "1",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = " "
    while line and f": {kind})" not in line and f": {kind})," not in line:
        line = process.stderr.readline()
    assert re.match(r"\w+: [\d.]+/\d+(, [^ ]+/s)? \(pre, gaussian input: theory", line)
    assert ended(process, number, within=2)[:2] == (code, "")


def test_a_run_stopped_in_theory_resumes_from_its_predictions():
    words = ("propagate", CONFIG, "theory.replicates=6000", "--backward")
    whole = run(words, "--json", "--quiet")
    code, errors = interrupted((words, "--threads", 1), "out", signal.SIGINT, 1)
    assert code == 75, errors
    assert same(run(words, "--json", "--out", "out"), whole)


def test_a_stopped_run_can_write_its_dump_again():
    words = ("propagate", CONFIG, "--backward", "--seeds", 2000, "--dump", "dump", LIMIT, "model.placement=pre")
    code, errors = interrupted(words, "out", signal.SIGTERM, 3)
    assert code == 75, errors
    run(words, "--out", "out", "--quiet")
    assert "dump" in run(words, "--out", "out", "--quiet", code=2).err, "a finished dump is not overwritten"


@pytest.mark.parametrize(("name", "other"), [
    ("ladder", ["model.gamma=0.5"]), ("train", ["train.lr=0.01"]),
    ("gradients identity-path", ["run.seeds=30", "--seed", 5])])
def test_another_run_restores_only_matching_tasks(name, other):
    """Tasks of a different configuration do not match. Tasks of a seed that both runs share do match."""
    interrupted(command(name), "out", signal.SIGKILL, 3)
    fresh, again = (run(command(name, other), "--json", "--quiet", where, code=(0, 4))
                     for where in ([], ["--out", "out"]))
    assert same(again, fresh)


def test_damaged_tasks_are_computed_again():
    words = command("propagate", "--threads", 1)
    interrupted(words, "out", signal.SIGKILL, 5)
    tasks = cached("out")
    for task, bad in zip(tasks, ("empty", "notes", "cut", "flipped"), strict=False):
        good = task.read_bytes()
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 1
        task.write_bytes({"empty": b"", "notes": b"notes of mine", "cut": good[:len(good) // 2]}.get(bad, flipped))
    done = run(words, "--json", "--out", "out")
    assert same(done, run(words, "--json", "--quiet"))
    assert sum(task.name in done.err for task in tasks) >= 3, done.err


@pytest.mark.parametrize("words", [
    command("propagate"), command("ladder"), ["verify", "--cases", "2000000"],
    command("train", "train.steps=1000000")], ids=lambda words: words[0])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_runs_without_an_output_folder(words, number, code):
    process = start(words, "--threads", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    assert ended(process, number, within=4)[:2] == (code, "")


def test_a_second_signal_ends_the_process_at_once():
    process = start("theory", "model.layers=48", "input.tokens=512", "--backward", "--threads", "1",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert ended(process, signal.SIGINT, within=1)[0] == 130


def signals_of(process, kind):
    """Returns the signals that a process ignores (SigIgn) or catches (SigCgt)."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    mask = int(re.search(rf"^{kind}:\s*(\S+)$", status, re.M)[1], 16)
    return {number for number in STOPPING if mask >> (number - 1) & 1}


@pytest.mark.parametrize("ignored", [(), (signal.SIGHUP,), (signal.SIGINT,)], ids=str)
def test_a_signal_ignored_at_the_start_stays_ignored(ignored, folder):
    """nohup and shells (for background jobs) start programs this way, possibly also these tests."""
    before = [signal.signal(number, signal.SIG_IGN) for number in STOPPING]
    try:
        process = start(command("gradients identity-path"), "--out", "out", ignoring=ignored, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
    finally:
        for number, action in zip(STOPPING, before, strict=True):
            signal.signal(number, action)
    while not cached("out") and process.poll() is None:
        time.sleep(0.005)
    assert signals_of(process, "SigIgn") == set(ignored)
    assert signals_of(process, "SigCgt") == set(STOPPING) - set(ignored)
    number = ignored[0] if ignored else signal.SIGHUP
    process.send_signal(number)
    assert process.wait(timeout=120) == (0 if ignored else 75)
    assert bool(list(folder.glob("out/*.nc"))) == bool(ignored), "an ignored signal lets it run to its end"


def test_every_test_starts_processes_by_program_start():
    others = [path.name for path in pathlib.Path(__file__).parent.glob("*.py")
              if path.name != "program.py" and "subprocess" + ".Popen(" in path.read_text()]
    assert others == [], "these files use subprocess.Popen"

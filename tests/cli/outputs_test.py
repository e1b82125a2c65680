"""Destinations of results: special files, full disks, closed and broken streams; none loses a computed result."""

import contextlib
import json
import os
import re
import resource
import shutil
import stat
import threading

import pytest

import program
from checkpoint_files import write_checkpoint
from program import CONFIG, cached, contents, differing, library, rejected, run

SMALL = (*CONFIG, "model.layers=1", "model.placement=pre")
PROBE = ("probe", "tiny", "--tokens", "1,2,3", "--no-theory")
# Every command that writes files, without the output folder (the value of its last flag), and one of these files.
COMMANDS = {
    "propagate": (("propagate", SMALL, "--out"), "propagate.nc"),
    "theory": (("theory", SMALL, "--out"), "theory.nc"),
    "verify": (("verify", "--cases", 20, "--starts", 4, "--out"), "verify.nc"),
    "certify": (("certify", "tiny", "--out"), "certify.nc"),
    "probe": ((*PROBE, "--out"), "probe.nc"),
    "ladder": (("ladder", SMALL, "ladder.widths=[16, 24, 32, 48]", "ladder.seeds=8", "model.width=16",
                "model.kv_heads=2", "model.mlp_width=16", "--out"), "ladder.nc"),
    "formats": (("formats", SMALL, 'formats.format=["bf16"]', "formats.certificates=false", "--out"), "formats.nc"),
    "gradients": (("gradients", "identity-path", SMALL, "--out"), "identity_path.nc"),
    "propagate --dump": (("propagate", SMALL, "--dump"), "model.safetensors"),
    "probe --dump": ((*PROBE, "--dump"), "activations.safetensors"),
    "write-checkpoint": (("write-checkpoint", "--family", "llama", "model.width=8", "model.heads=2", "model.layers=1",
                          "model.placement=pre", "model.vocab=16", "model.mlp=swiglu", "--out"), "model.safetensors"),
    "regauge": (("regauge", "tiny", "--factor", 2, "--out"), "model.safetensors"),
}
MODELS = [name for name, (_, file) in COMMANDS.items() if file.endswith(".safetensors")]
# Not tested with a full disk: the cache would fill it before the result. `verify` is slow, and writes like `certify`.
CACHING = ("propagate", "theory", "ladder", "formats", "gradients", "verify")
every_command = pytest.mark.parametrize("name", COMMANDS)
CSV = ("theory", SMALL, "--quiet", "--csv")


def forced(name):
    return ("--force",) if name in MODELS else ()


@pytest.fixture(autouse=True)
def tiny(folder):
    write_checkpoint(folder / "tiny")
    (folder / "small.toml").write_text(program.SMALL.replace("seeds = 4", "seeds = 2"))


@pytest.fixture
def text():
    found = run(CSV, "-").out
    assert len(found) > 1000
    return found


def test_csv_is_written_into_devices_and_fifos(text, folder):
    run(CSV, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode), "a device is not replaced"
    os.mkfifo("fifo")
    read = []
    reader = threading.Thread(target=lambda: read.append((folder / "fifo").read_text()))
    reader.start()
    run(CSV, "fifo")
    assert (folder / "fifo").is_fifo()
    reader.join()
    assert read == [text]
    rejected(CSV, "/dev/full", code=1, names="/dev/full")
    rejected(CSV, folder, names=f"{folder}: ")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_csv_is_written_to_standard_output_by_name(name, text, folder):
    assert run(CSV, name).out == text
    with open("log", "w") as file:
        file.write("before\n")
        file.flush()
        inode = os.fstat(file.fileno()).st_ino
        run(CSV, name, stdout=file)
    assert ((folder / "log").read_text(), os.stat("log").st_ino) == ("before\n" + text, inode)


@pytest.mark.parametrize(("existing", "is_ours"), [
    ('{"a": 1}', False), ("v", False), (" variable,", False),
    ("variables", True), ("", True), ("variable,depth,value\n", True)])  # begins like a CSV of the program
def test_files_other_than_csv_are_overwritten_only_with_force(existing, is_ours, text, folder):
    other = folder / "config.json"
    other.write_text(existing)
    if not is_ours:
        rejected(CSV, other, names=[other, "--force"])
        assert other.read_text() == existing
    for flags in ([] if is_ours else ["--force"], []):
        run(CSV, other, flags)
        assert other.read_text() == text


def test_csv_may_not_replace_the_result(folder):
    run("theory", SMALL, "--quiet", "--out", "given")
    before = contents(folder / "given")
    for name in (folder / "given/theory.nc", folder / "given/../given/theory.nc", folder / "new/theory.nc"):
        rejected(CSV, name, "--out", name.parent, names=name)
    assert contents(folder / "given") == before and not (folder / "new").exists()


@every_command
def test_results_do_not_replace_special_files(name, folder):
    """The run is rejected before anything is computed."""
    (command, file), out = COMMANDS[name], folder / "out"
    for blocked in [file, "verify.json"] if name == "verify" else [file]:
        out.mkdir()
        os.mkfifo(out / blocked)
        rejected(command, out, forced(name), names=[out / blocked, "FIFO"])
        assert (out / blocked).is_fifo() and os.listdir(out) == [blocked], "no temporary file is left"
        shutil.rmtree(out)


@every_command
def test_invalid_folders_are_rejected_at_the_start(name, folder):
    """The message is the only line. Progress lines would show that a computation had started."""
    (folder / "file").write_text("")
    (folder / "nowhere").symlink_to("no/such/folder")
    for out, code, names in (("file", 2, "file: "), ("file/below", 2, "file: "), ("nowhere", 2, "nowhere: "),
                             ("nowhere/sub", 2, "nowhere: "), ("/proc", 1, "cannot write /proc/"),
                             ("/proc/no/such", 1, "cannot write /proc/no/such"), ("n" * 300, 1, "File name too long")):
        rejected(COMMANDS[name][0], out, code=code, names=names)
    assert (folder / "file").read_text() == ""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_overwritten_only_with_force(name, folder):
    (command, _), out = COMMANDS[name], folder / "out"
    run(command, out, "--quiet")
    files = contents(out)
    assert files
    for kept in files:  # each of the files alone causes a rejection
        for file in files:
            (out / file).unlink(missing_ok=True)
        (out / kept).write_text("mine")
        rejected(command, out, "--quiet", names=[out / kept, "--force"])
        assert [(path.name, path.read_text()) for path in out.iterdir()] == [(kept, "mine")]
    run(command, out, "--quiet", "--force")
    assert contents(out) == files


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in CACHING])
def test_a_full_disk_is_reported(name, folder):
    (command, file), out = COMMANDS[name], folder / "out"
    words = (command, out, forced(name), "--quiet")
    run(words)
    old, size = contents(out), (out / file).stat().st_size
    # The table in a result has the elapsed time, whose length varies.
    for room in (0, 1, size // 2, size - (1 if name in MODELS else 100)):
        rejected(words, code=1, names=[f"cannot write {out}/", "No space left on device"],
                 env={**library("disk_faults"), "DISK_ROOM": str(room)})
        assert contents(out) == old


@pytest.mark.parametrize("name", [*COMMANDS, "csv"])
def test_files_are_synced_before_they_are_renamed(name, folder):
    out = folder / "out"
    words, file = (COMMANDS | {"csv": (("theory", SMALL, "--csv", out / "result.csv"), "result.csv")})[name]
    run(words, [] if name == "csv" else out, env={**library("disk_faults"), "DISK_LOG": str(folder / "disk.log")})
    lines = re.sub(r"[0-9a-f]{16}\.tmp", "tmp", (folder / "disk.log").read_text()).splitlines()
    renamed = lines.index(f"rename {out}/{file}.tmp {out}/{file}")
    assert f"sync {out}/{file}.tmp" in lines[:renamed] and f"sync {out}" in lines[renamed:]


def test_a_result_that_does_not_fit_is_restored_from_the_cache(folder):
    out, words = folder / "out", ("propagate", SMALL, "run.seeds=8", "--out", folder / "out")
    with open("/dev/full", "w") as full:
        run(words, "--json", stdout=full, code=1)
    # The disk has space for the tasks but not for the result.
    room = sum(task.stat().st_size for task in cached(out)) + (out / "propagate.nc").stat().st_size // 2
    shutil.rmtree(out)
    done = run(words, "--quiet", code=1, env={**library("disk_faults"), "DISK_ROOM": str(room)})
    assert done.err.count("\n") == 2
    for word in (f"cannot write {out}/propagate.nc", "No space left on device", str(cached(out)[0].parent)):
        assert word in done.err
    assert os.listdir(out) == ["cache"]
    assert "seed" not in run(words).err.split("wrote")[0], "all seeds were cached"
    assert sorted(os.listdir(out)) == ["cache", "propagate.nc"]


def test_the_limit_of_file_sizes_is_reported(folder):
    rejected("theory", SMALL, "--quiet", "--out", "out", code=1, names="File too large",
             before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    assert contents(folder / "out") == {}


def without(*descriptors):
    """Returns options that start a process without some of the standard streams."""
    def close():
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    return {"before": close}


@contextlib.contextmanager
def odd_stream(kind):
    """A full device or a pipe without a reader, for `stdout`."""
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "w") as full, os.fdopen(write, "w") as broken:
        yield {"full": full, "broken": broken}[kind]


PRINTING = [("--version",), ("--help",), ("propagate", "--help"), ("list",), ("list", "--json"), ("list", "--columns"),
            ("toy", "--json", "--quiet"), ("info", "tiny"), ("info", "tiny", "--json"), (*CSV, "-"),
            ("theory", SMALL, "--json", "--quiet"), ("propagate", SMALL, "--json", "--quiet")]


@pytest.mark.parametrize(("kind", "words"), [("full", "No space left on device"), ("broken", "Broken pipe"),
                                             ("closed", "Bad file descriptor")])
def test_full_closed_and_broken_standard_output_is_reported(kind, words):
    for command in PRINTING:
        with odd_stream("broken" if kind == "closed" else kind) as stream:
            how = {"stdout": None, **without(1)} if kind == "closed" else {"stdout": stream}
            rejected(command, code=1, names=f"standard output: {words}", **how)


@pytest.mark.parametrize(("how", "fails"), [((0,), 0), ((1,), 1), ((2,), 0), ((0, 2), 0), ((0, 1, 2), 1), ("full", 1),
                                            ("broken", 1)], ids=str)
def test_results_are_written_without_standard_streams(how, fails, folder):
    expected = run("propagate", SMALL, "--json", "--quiet", "--csv", "expected.csv")
    words = ("propagate", SMALL, "--json", "--out", "out", "--csv", "out/propagate.csv", "--dump", "out/dump")
    if isinstance(how, str):
        with odd_stream(how) as stream:
            done = run(words, code=1, stdout=stream, stderr=stream)
    else:
        done = run(words, code=fails, **without(*how))
    if not fails:
        assert differing(done.ds, expected.ds) == set()
    for file in ("model.safetensors", "activations.safetensors"):
        data = (folder / "out" / "dump" / file).read_bytes()
        length = int.from_bytes(data[:8], "little")
        ends = [tensor["data_offsets"][1] for tensor in json.loads(data[8:8 + length]).values()]
        assert max(ends) == len(data) - 8 - length
    assert (folder / "out" / "propagate.csv").read_text() == (folder / "expected.csv").read_text()
    # The cache stays if the result could not be printed.
    assert bool(cached("out")) == bool(fails)


@pytest.mark.parametrize("closed", [(2,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_progress_is_not_written_into_a_result(closed, folder):
    """A file must not get the descriptor of a closed standard error."""
    for out, how in (("expected", {}), ("out", without(*closed))):
        run(PROBE, "--dump", out, **how)
    assert contents(folder / "out") == contents(folder / "expected")

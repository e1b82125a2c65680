"""--skip-finished skips a run with a valid result of the same configuration, and no other; `lab` uses it."""

import os
import re
import shutil
import struct
import subprocess

import pytest

from program import CONFIG, PROGRAM, ROOT, cached, memory_limit, result, run

WRONG = ("--theory-set", "init.down_factor=2")  # rejected: exit code 4
SKIPPED, AGAIN = "skipped: ", "running again: "
NO_RUN, CHANGED, CHECKSUM = "no finished run", "changed after the run", "checksum"
INPUTS = ('input.kind=["gaussian","text"]', "input.path=words.txt")


@pytest.fixture(autouse=True)
def words(folder):
    (folder / "words.txt").write_text("periscope looks above")


def propagate(*words, **options):
    return run("propagate", CONFIG, INPUTS, WRONG, "--seeds", 16, "--out", "out", "--skip-finished", words,
               **{"code": 4} | options)


@pytest.fixture
def file(folder):
    """The file of the result."""
    return folder / "out" / "propagate.nc"


def record():
    """Returns the record of the only finished run."""
    (found,) = cached("out", finished=True)
    return found


def runs_again(reason, *words):
    done = propagate(*words)
    assert SKIPPED not in done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith(AGAIN)]
    assert "out/propagate.nc" in line and reason in line
    assert SKIPPED in propagate(*words).err, "the new result is valid"


def test_a_finished_run_is_skipped_with_its_table_and_exit_code(file):
    first = propagate()
    assert SKIPPED not in first.err and AGAIN not in first.err
    before, again = file.read_bytes(), propagate()
    head, _, table = again.err.partition("\n")
    assert again.out == "" and head.startswith(f"{SKIPPED}out/propagate.nc")
    assert "disagrees" in table and first.err.endswith(table)
    assert file.read_bytes() == before
    assert (len(list(file.parent.iterdir())), cached("out")) == (2, [])
    quiet = propagate("--quiet")
    assert quiet.out == quiet.err == ""


@pytest.mark.parametrize(("extra", "counts"), [
    (["--threads", 1], True), (["input.path=other.txt"], True), (["--seed", 3], False),
    (["agreement.familywise_error=0.02"], False)], ids=str)
def test_only_settings_that_change_the_result_cause_a_new_run(extra, counts):
    shutil.copy("words.txt", "other.txt")
    propagate()
    assert (SKIPPED if counts else NO_RUN) in propagate(extra, code=(0, 4)).err


def test_another_build_runs_again(folder):
    program = PROGRAM.read_bytes()
    identities = set(re.findall(rb"(?<![0-9a-f])([0-9a-f]{64})\0", program))
    assert len(identities) == 2, "hashes of the sources and of the compiler options"
    for mine in identities:  # a different hash does not change how the program runs
        program = program.replace(mine, mine[::-1])
    (folder / "periscope").write_bytes(program)
    (folder / "periscope").chmod(0o755)
    propagate(program=folder / "periscope")
    assert NO_RUN in propagate().err


@pytest.mark.parametrize("damage", ["cut", "empty", "no NetCDF", "one bit"])
def test_a_damaged_result_is_not_trusted(damage, file):
    propagate()
    whole = file.read_bytes()
    shown = result("propagate", CONFIG, INPUTS, WRONG, "--seeds", 16, code=4).variance_measured.values[0, 0, 1]
    number = whole.index(struct.pack("<d", shown))
    flipped = whole[:number] + bytes([whole[number] ^ 1]) + whole[number + 1:]
    file.write_bytes({"cut": whole[:len(whole) // 2], "one bit": flipped, "empty": b""}.get(damage, b"no NetCDF"))
    runs_again(CHANGED)


@pytest.mark.parametrize(("damage", "reason"), [("none", NO_RUN), ("cut", CHECKSUM), ("empty", CHECKSUM),
                                                ("of another run", CHANGED)])
def test_a_damaged_record_is_not_trusted(damage, reason):
    propagate()
    other = record().read_bytes()
    content, path = {"cut": other[:-20], "empty": b"", "of another run": other}.get(damage), record()
    if damage == "of another run":
        path.unlink()
        propagate("--seed", 5)
        record().unlink()
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    runs_again(reason)


def test_a_result_without_a_record_is_not_trusted():
    propagate()
    path = record()
    path.unlink()
    path.mkdir()  # the record cannot be written
    assert str(path) in propagate(code=2).err
    path.rmdir()
    assert NO_RUN in propagate().err
    assert SKIPPED in propagate().err


def test_a_fifo_instead_of_a_result_is_not_read(file):
    propagate()
    file.unlink()
    os.mkfifo(file)
    done = propagate(code=2)
    assert "FIFO" in done.err and SKIPPED not in done.err


def test_skipping_needs_less_memory_than_the_run():
    words = ("propagate", CONFIG, "--seeds", "1", "--threads", "1", "--out", "out", "model.mlp_width=32768",
             "model.width=2048", "model.layers=1", "input.tokens=300", "init.qk_factor=0.0", "model.placement=pre")
    run(words, "--quiet")
    assert "memory estimate" in run(words, code=2, before=memory_limit(190 << 20)).err
    assert SKIPPED in run(words, "--skip-finished", before=memory_limit(190 << 20)).err


def test_the_exit_code_of_fail_on_divergence_is_not_cached():
    words = ("propagate", CONFIG, "model.placement=none", "model.layers=60", "init.scheme=scaled", "init.factor=1e30",
             "--out", "out")
    run(words, "--fail-on-divergence", code=5)
    assert SKIPPED not in run(words, "--skip-finished").err


def test_a_run_without_all_its_files_is_not_finished(folder):
    words = ("verify", "--cases", 2000, "--starts", 1, "--scale", 0.2, "--out", "out")
    run(words, code=4)
    case = sorted(folder.glob("out/violation-*.json"))[-1]
    shutil.rmtree("out")
    case.mkdir(parents=True)
    assert case.name in run(words, code=2).err
    assert cached("out", finished=True) == [], "the record is written last"


@pytest.mark.parametrize(("finished", "requested"), [
    (["gradients", "identity-path"], ["gradients", "score-path"]), (["theory"], ["propagate"])], ids=str)
def test_the_result_of_another_study_is_not_trusted(finished, requested, folder):
    run(finished, CONFIG, "--out", "out")
    name = {"score-path": "score_path", "identity-path": "identity_path"}
    old, new = (folder / "out" / f"{name.get(words[-1], words[-1])}.nc" for words in (finished, requested))
    old.rename(new)
    done = run(requested, CONFIG, "--out", "out", "--skip-finished")
    assert SKIPPED not in done.err and NO_RUN in done.err


def lab(script):
    done = subprocess.run(["bash", "-c", f"source {ROOT}/lab; cd {os.getcwd()}; {script}"], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("command", ["python_module", "wheel", "docs", "bench", "set_up"])
def test_lab_removes_a_build_folder_that_was_moved(command, folder):
    cache = folder / "build" / "CMakeCache.txt"
    for place, stays in (("/elsewhere", False), (folder, True)):
        cache.parent.mkdir(exist_ok=True)
        cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={place}\n")
        done = lab("code=0; mkdir -p results; packages=(); check_tools() { :; }; has_apt() { false; }; "
                   "make_venv() { echo ready; exit 0; }; "
                   f"build() {{ make_venv; }}; {command}")
        assert cache.exists() == stays, done.stdout


def test_lab_counts_the_verdict_of_a_skipped_experiment(folder):
    (folder / "build").mkdir()
    (folder / "build" / "periscope").symlink_to(PROGRAM)
    for skip, skipped in (("$skip", False), ("$skip", True), ("", False)):
        done = lab(f"skip={skip}; job 0 signals propagate --config small.toml --seeds 16 --out out {' '.join(WRONG)}; "
                   'echo "verdict $verdict"')
        assert ": 2 disagrees\n" in done.stdout and "verdict 4" in done.stdout  # notes have verdicts too
        assert (SKIPPED in (folder / "results" / "lab.log").read_text()) == skipped

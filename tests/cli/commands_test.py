"""Help, invalid arguments and files, environment, instruction sets, and commands that golden results do not cover."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from checkpoint_files import read_tensors
from program import CONFIG, PROGRAM, SMALL, STOPPING, differing, fact, library, rejected, result, run, stack_of, start


def commands():
    """Returns all commands in the program's help; a command of a group has two words."""
    names = []
    for line in run("--help").out.split("Subcommands:\n")[1].split("\n\n")[0].splitlines():
        if (name := line[2:30].strip()) and line[2] != " " and name != "help":
            inner = run(name, "--help").out.split("Subcommands:\n")
            rows = inner[1].split("\n\n")[0].splitlines() if len(inner) > 1 else []
            names += [f"{name} {row.split()[0]}" for row in rows if row[2:3] != " "] or [name]
    return [*names, "help"]


@pytest.mark.parametrize("words", [(), ("propagate",), ("gradients",), ("gradients", "depth")])
def test_help_prints_the_same_as_the_help_flag(words):
    assert run("help", words).out == run(words, "--help").out


def test_periscope_without_arguments_names_the_first_commands():
    done = run(code=2)
    listed = {row["name"]: row["command"] for row in run("list", "--json").json["experiments"]}
    for name in ("propagate", "probe", "train"):
        assert f"periscope {listed[name]}\n" in done.err
    assert done.out == "" and "periscope help" in done.err and len(done.err.splitlines()) < 15


def test_no_help_text_is_wider_than_100_columns():
    texts = {name: run(name.split(), "--help").out for name in [*commands(), "gradients"]}
    texts |= {" ".join(words): run(words).out for words in (["--help"], ["list"], ["list", "--columns"])}
    for name, text in (texts | {"alone": run(code=2).err}).items():
        assert text, name
        assert [line for line in text.splitlines() if len(line) > 100] == [], name


@pytest.mark.parametrize(("setting", "names"), [
    ("a." * 50000 + "b=1", ["--set a.a.a.", "50001"]),
    ("model.width={" + "a." * 50000 + "b=1}", ["--set model.width={a.a.", "invalid TOML"]),
    ("model.width=" + "[" * 100000, ["--set model.width=[[[", "invalid TOML"]),
    ("model.width=\x1b[2J", ["model.width = ", "\\x1b[2J"]),
    ("model.width=é\x85", ["model.width = ", "é\\u0085"]),
    ("model.norm=\udcff", ['model.norm = "\\xff"', "rms, layer"]),
    ("\udcff=1", ["unknown key \\xff"]),
    ("init.std=[1,2]\nb=1", ["--set init.std=[1,2]", "invalid TOML"]),
], ids=lambda value: str(value)[:20])
def test_messages_escape_and_shorten_invalid_settings(setting, names):
    assert len(rejected("theory", CONFIG, "--set", setting, names=names).err) < 1000
    rejected("x\x1b[2J", names="x\\x1b[2J")


@pytest.mark.parametrize(("name", "names"), [
    ("loop.toml", "symbolic links"), ("fifo.toml", "a FIFO"), ("x" * 5000, ["ame too long", "(5000 bytes)"]),
    ("a\x1b[2J", "a\\x1b[2J"), ("large.toml", "1048576 bytes"), ("nested.toml", ["nested.toml:1", "invalid TOML"]),
    *((f"deep{i}.toml", [f"deep{i}.toml:2", "parts"]) for i in range(3)),
], ids=lambda value: str(value)[:20])
def test_invalid_configuration_files_are_rejected(name, names, folder):
    (folder / "loop.toml").symlink_to("loop.toml")
    os.mkfifo("fifo.toml")
    (folder / "large.toml").write_text("#" * (1 << 20) + "\n")
    (folder / "nested.toml").write_text("a = " + "[" * 100000)
    for i, text in enumerate(("a." * 100000 + "b = 1", "[" + "a." * 100000 + "b]", "x = {" + "a . " * 100000)):
        (folder / f"deep{i}.toml").write_text("\n" + text)
    rejected("theory", "--config", name, names=names)


@pytest.mark.parametrize("device", ["cuda", "cuda-tf32"])
def test_a_missing_device_is_reported(device):
    """Without CUDA in the build the configuration is rejected; without a GPU the run fails."""
    done = run("propagate", CONFIG, "--device", device, code=(0, 1, 2))
    assert done.code == 0 or (f'device = "{device if done.code == 2 else "cuda"}"' in done.err and done.out == "")


@pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)
def test_a_signal_during_library_initialization_ends_the_program(number, folder):
    environment = {**os.environ, **library("signal_at_load"), "SIGNAL_AT_LOAD": str(int(number))}
    process = start("propagate", CONFIG, "--out", "out", env=environment)
    assert process.wait(timeout=60) == 128 + number
    assert not (folder / "out").exists()


def test_the_environment_sets_the_default_number_of_threads():
    for threads, flags, expected in (("3", [], 3), ("3", ["--threads", 2], 2), ("3", ["run.threads=2"], 2),
                                     ("3", ["--threads", 0], 3), ("65536", [], 1024)):
        ds = result("theory", CONFIG, flags, env={"OMP_NUM_THREADS": threads})
        assert fact(ds, "circumstances")["threads"] == expected, (threads, flags)


def test_the_dynamic_loader_can_start_the_program():
    """/proc/self/exe is then the loader, so the program must not execute itself again."""
    loader = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("another dynamic loader")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    assert subprocess.run([loader, PROGRAM, "help"], capture_output=True, timeout=60, env=environment).returncode == 0


def test_placements_and_presets_set_defaults():
    placements = run("list", "--json").json["placements"]
    for placement in placements:
        model = stack_of(result("theory", CONFIG, f"model.placement={placement['name']}"))["model"]
        assert model["final_norm"] == placement["final_norm"], placement["name"]
    model = stack_of(result("theory", "model.preset=3.2B", "model.layers=1", "input.tokens=4"))["model"]
    sizes = {"layers": 1, "width": 2560, "heads": 16, "kv_heads": 8, "head_dim": 160, "mlp_width": 10240}
    assert model | sizes == model
    for former in ("model.placement=residual", 'model.placement=["residual"]'):
        ds = result("theory", CONFIG, former)
        assert (list(ds.placement), stack_of(ds)["model"]["placement"]) == (["residual-dual"], "residual-dual")
    assert "residual" not in [p["name"] for p in placements]


def test_text_input_is_relative_to_the_configuration(folder):
    (folder / "words.txt").write_text("one token per byte")
    (folder / "small.toml").write_text(SMALL.replace("tokens = 6", 'tokens = 6\nkind = "text"\npath = "words.txt"'))
    assert list(result("propagate", "--config", folder / "small.toml", cwd="/").input) == ["text"]


def test_violations_are_written_and_replayed(folder):
    ds = result("verify", "--cases", 500, "--starts", 3, "--out", ".", "--scale", 0.9, code=4)
    broken = ds.isel(statement=ds.statement_verdict.values == "violated").set_index(statement="statement")
    assert {path.name for path in folder.glob("violation-*.json")} == {f"violation-{s}.json" for s in
                                                                       broken.statement.values}
    t14b = broken.sel(statement="T14b")
    assert json.loads((folder / "violation-T14b.json").read_text()) == json.loads(t14b.counterexample_case.item())
    again = run("verify", "--replay", "violation-T14b.json", "--scale", 0.9, "--json", "--quiet", code=4).json
    line = next(s for s in again["statements"] if s["id"] == "T14b")
    assert (line["measured"], line["bound"]) == (t14b.counterexample_measured, t14b.counterexample_bound)
    run("verify", "--replay", "violation-T14b.json")  # without --scale 0.9 the bound holds


def test_the_dump_of_a_stack_has_its_input_and_labels(folder):
    def dump(*settings):
        done = run("propagate", CONFIG, "model.placement=pre", settings, "--quiet", "--seeds", 1, "--force", "--dump",
                   "dump")
        assert done.out == done.err == ""
        tensors = read_tensors(folder / "dump" / "activations.safetensors")
        return read_tensors(folder / "dump" / "model.safetensors"), tensors

    model, found = dump("input.kind=tokens", "model.embedding_norm=true", "--backward")
    assert (found["input"] == model["embedding.weight"][found["tokens"]]).all()
    assert (found["input"] != found["stream.0"]).any(), "input is before the embedding norm"
    _, found = dump()
    assert "loss" in found and "tokens" not in found and not [name for name in found if name.startswith("grad")]
    assert set(dump("model.vocab=7", "input.tokens=64")[1]["labels"]) == set(range(7)), "uniform random ids"
    _, found = dump("model.unembedding=false")
    assert found["logits"].shape == (6, 32) and found["labels"].max() < 32, "labels of the output itself"
    (folder / "words").write_bytes(b"periscope")
    _, found = dump("input.kind=text", "input.path=words")
    assert [bytes(found[name].tolist()) for name in ("tokens", "labels")] == [b"perisc", b"erisco"]


CANNOT_HIDE = 77  # exit code of tests/base/lesser_processor.cpp


def at(level):
    """Returns the environment that selects a level of instruction sets; "" is the default."""
    return {"PERISCOPE_INSTRUCTIONS": level}


@pytest.fixture
def levels(folder):
    """The levels of this build that this processor supports, read from the message that rejects an unknown level."""
    (folder / "small.toml").write_text(SMALL.replace("width = 32", "width = 80"))
    return re.search(r"expected (.*)$", run("list", env=at("none"), code=2).err.strip())[1].split(" or ")


def on(processor, *words, level="", code=0):
    """Runs the program on an emulated processor of this x86-64 level."""
    done = run(words, env={**at(level), **library("lesser_processor"), "PROCESSOR_LEVEL": str(processor)}, code=None)
    if done.code == CANNOT_HIDE:
        pytest.skip("this processor cannot trap CPUID")
    assert done.code == code, done.err
    return done


@pytest.mark.parametrize("level", ["x86-64-v5", "V4", "none\n"])
@pytest.mark.parametrize("words", [["list"], ["--version"], ["propagate", CONFIG]], ids=lambda words: words[0])
def test_every_command_rejects_an_unknown_level(words, level):
    assert rejected(words, env=at(level), names="PERISCOPE_INSTRUCTIONS = ").err.startswith("periscope: ")


def test_results_record_their_level(levels):
    assert f", {levels[-1]})" in run("--version", env=at("")).out
    found = {level: result("propagate", CONFIG, env=at(level)).attrs for level in levels}
    assert {level: attrs["instructions"] for level, attrs in found.items()} == {level: level for level in levels}
    assert len({attrs["program_sha256"] for attrs in found.values()}) == len(levels)
    assert result("propagate", CONFIG, env=at("")).attrs["instructions"] == levels[-1]
    first, *others = (result("propagate", CONFIG, "--device", "reference", env=at(level)) for level in levels)
    for other in (first, *others):
        assert (other.attrs["instructions"], differing(other, first)) == (levels[0], set()), "the same bits"


def test_a_processor_without_avx512_uses_the_level_below(levels):
    if len(levels) == 1:
        pytest.skip("the build has one level")
    done = on(3, "propagate", CONFIG, "--json", "--quiet")
    assert done.json["attrs"]["instructions"] == "x86-64-v3"
    assert '"x86-64-v4"' in on(3, "list", level="x86-64-v4", code=2).err


@pytest.mark.parametrize("words", [[], ["--version"], ["propagate", CONFIG]], ids=str)
def test_a_processor_without_avx2_is_rejected(words, levels):
    if levels[0] != "x86-64-v3":
        pytest.skip("compiled for another processor")
    done = on(2, words, code=1)
    assert (done.out, done.err.count("\n"), "x86-64-v3" in done.err) == ("", 1, True), done.err


def test_no_instruction_has_a_result_that_depends_on_the_processors_maker():
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", PROGRAM], capture_output=True, text=True, check=True)
    found = set(re.findall(r"\bv?(?:rsqrt|rcp)\d*[ps][sdh]\b", code.stdout))
    assert found == set(), "use exact_sqrt (sim/numerics/exact_sqrt.h) for arrays of float"

"""`train`: results, corpora, dumps, interrupted runs, a full disk and exported models."""

import json
import math
import os
import random
import signal
import struct
import subprocess
import time

import numpy as np
import pytest

from checkpoint_files import read_tensors
from program import cached, contents, differing, fact, library, memory_limit, rejected, result, run, sets, start

LAYERS, TOKENS, STEPS = 2, 8, 30
SMALL = f"""
[model]
layers = {LAYERS}
width = 16
heads = 2
kv_heads = 1
mlp_width = 24
vocab = 40
placement = ["pre", "peri"]
[init]
scheme = "lecun"
[input]
tokens = {TOKENS}
[train]
steps = {STEPS}
batch = 4
record_every = 10
record_sequences = 2
"""
TRAIN, ONE = ("train", "--config", "small.toml"), "model.placement=peri"


@pytest.fixture(autouse=True)
def small(folder):
    (folder / "small.toml").write_text(SMALL)


def train(*words, **options):
    return result(TRAIN, words, **options)


LARGE = ("input.tokens=64", "train.batch=16", "train.steps=4")  # 16 sequences of 64 tokens are processed in parts


@pytest.mark.parametrize("settings", [LARGE, (*LARGE, "train.accumulate=2")], ids=str)
def test_threads_change_nothing(settings):
    one = train("--threads", 1, settings)
    for threads in (2, 3):
        assert differing(train("--threads", threads, settings), one) == set(), threads


def test_a_run_does_not_depend_on_concurrent_runs():
    both = train("--seeds", 2).sel(placement=["peri"], seed=[1])
    alone = train(ONE, "--seed", 1)
    apart = {name for name in differing(both, alone) & set(alone.data_vars) if "_predicted" not in name}
    assert apart <= {"loss_floor"}, "only the theory uses the windows of all runs"


def test_training_reduces_the_loss():
    ds = train(ONE, "train.lr=0.02", "train.steps=200", "train.batch=16")
    assert ds.final_loss < math.log(32) - 0.3
    assert ds.validation_loss.values.ravel()[-1] < math.log(32) - 0.3


def test_the_last_record_describes_the_final_weights(folder):
    ds = train(ONE, "--dump", "dump", "train.lr=0.05").isel(placement=0, seed=0, record=-1)
    final = read_tensors(folder / "dump" / "final.safetensors")
    for layer in range(LAYERS):
        for weight, module in (("q", "attention"), ("k", "attention"), ("gate", "mlp"), ("down", "mlp")):
            matrix = final[f"layers.{layer}.{module}.{weight}.weight"]
            found = ds.weight_root_mean_square.sel(weight=weight)[layer]
            assert found == pytest.approx(math.sqrt((matrix**2).mean()), abs=1e-14)
        for place, module in enumerate(("attention", "mlp")):
            for norm in "ab":
                gain, at = final[f"layers.{layer}.{module}.norm_{norm}.gain"], 2 * layer + place
                assert ds[f"gain_rms_norm_{norm}"][at] == pytest.approx(math.sqrt((gain**2).mean()), abs=1e-14)
                assert ds[f"gain_mean_norm_{norm}"][at] == pytest.approx(gain.mean(), abs=1e-14)


def dump(folder, *words):
    run(TRAIN, "--quiet", ONE, "--dump", "dump", "--force", words)
    names = ("initial", "final", "batches", "steps", "windows")
    assert sorted(contents(folder / "dump")) == sorted([f"{n}.safetensors" for n in names] + ["config.json"])
    return {name: read_tensors(folder / "dump" / f"{name}.safetensors") for name in names}


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_initial_weights_equal_those_of_propagate(folder):
    initial = dump(folder, "train.steps=1", "--seed", 7)["initial"]
    run("propagate", "--quiet", "--dump", "other", "--seed", 7, ONE, "model.layers=2", "model.width=16",
        "model.heads=2", "model.kv_heads=1", "model.mlp_width=24", "model.vocab=40", "init.scheme=lecun",
        "input.tokens=8", "input.kind=tokens")
    assert equal(initial, read_tensors(folder / "other" / "model.safetensors"))


def test_batches_are_windows_of_the_training_part(folder):
    (folder / "corpus").write_bytes(bytes(range(200)))
    words = ("--corpus", "corpus", "model.vocab=256", "train.validation=0.25", "train.steps=50")
    batches = dump(folder, words)["batches"]
    windows = batches["tokens"].reshape(-1, TOKENS + 1)
    np.testing.assert_array_equal(windows, windows[:, :1] + np.arange(TOKENS + 1))
    assert windows.max() < 150, "the last quarter is the held-out split"
    assert len(set(windows[:, 0])) > 80
    assert equal(dump(folder, words, "model.placement=pre")["batches"], batches), "batches depend only on the seed"
    assert not equal(dump(folder, words, "--seed", 1)["batches"], batches)


BYTES = bytes((i * i + 3 * i) % 251 for i in range(1500))
SHORT = (ONE, "model.vocab=256", "train.steps=5")


def test_a_file_and_a_folder_with_the_same_bytes_give_equal_results(folder):
    (folder / "whole").write_bytes(BYTES)
    (folder / "parts" / "b").mkdir(parents=True)
    for name, part in (("a", BYTES[:100]), ("b/x", BYTES[100:700]), ("c", BYTES[700:])):
        (folder / "parts" / name).write_bytes(part)
    expected = train(SHORT, "--corpus", folder / "whole")
    for words in (["--corpus", "parts"], ["--corpus", "whole"], [f"train.corpus={folder}/whole"]):
        assert differing(train(SHORT, words), expected) == set()
    # Paths are relative to the working directory, or to the configuration file that contains them.
    (folder / "small.toml").write_text(SMALL + 'corpus = "whole"\n')
    assert differing(result("train", "--config", folder / "small.toml", SHORT, cwd=folder / "parts"), expected) == set()
    assert differing(train(SHORT, "--corpus", "synthetic"), expected)


def test_the_last_bytes_affect_only_validation(folder):
    (folder / "corpus").write_bytes(BYTES)
    before = train(SHORT, "--corpus", "corpus")
    (folder / "corpus").write_bytes(BYTES[:1350] + bytes(150))
    changed = differing(train(SHORT, "--corpus", "corpus"), before)
    assert "validation_loss" in changed and "loss" not in changed


def states(folder):
    return sorted(folder.glob("out/cache/*/*.safetensors"))


def saved_steps(path):
    """Returns the number of finished steps recorded in a state file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return int(json.loads(data[8:8 + length])["__metadata__"]["steps"])


def checked(folder, *words, out="out"):
    """Returns the result and its text as CSV. The cache of the finished run must be empty."""
    ds = train(words, "--out", out, "--csv", f"{out}.csv")
    assert (sorted(os.listdir(folder / out)), cached(folder / out)) == (["cache", "train.nc"], [])
    text = (folder / f"{out}.csv").read_text()
    assert text.count("\n") > 100
    return ds, text


def same(one, other):
    return not differing(one[0], other[0]) and one[1] == other[1]


def begun(folder, *words):
    """Starts a run and returns its process once its folder exists."""
    process = start(TRAIN, words, "--out", "out", "--csv", "out.csv", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not (folder / "out").exists():
        assert process.poll() is None, "the run ended before it was interrupted"
        time.sleep(0.002)
    return process


def test_a_killed_run_resumes(folder):
    """Runs are killed between steps and while they write a state."""
    words, draw, done = (ONE, "train.steps=1500", "--threads", "1"), random.Random(2), []
    for number in range(8):
        with begun(folder, words, "--quiet") as process:
            while number % 2 and not states(folder):
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.1))
            process.send_signal(signal.SIGTERM)
            time.sleep(draw.uniform(0, 0.15))
            process.kill()
        # The run may be stopped before it has read or written a state.
        assert process.returncode in (75, -signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM)
        assert len(states(folder)) <= 1
        done += [saved_steps(state) for state in states(folder)]
    assert done == sorted(done), "no saved step is lost"
    assert 0 < len(done) and done[-1] < 1500
    assert same(checked(folder, words), checked(folder, words, out="whole"))


def test_a_damaged_state_is_rejected_and_named(folder):
    words = (ONE, "train.steps=600")
    with begun(folder, words) as process:
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 75, errors
    (state,) = states(folder)
    good = state.read_bytes()
    middle = len(good) * 2 // 3
    for bad in (good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:], good[:middle], b"", good + b"\0"):
        state.write_bytes(bad)
        done = run(TRAIN, words, "--out", "out", "--quiet", code=3)
        assert (done.out, str(state.relative_to(folder)) in done.err) == ("", True), done.err
        assert state.read_bytes() == bad, "only the user may remove it"
    state.unlink()
    assert same(checked(folder, words), checked(folder, words, out="whole"))


def on_a_full_disk(room, *words, code=1):
    done = run(TRAIN, "--quiet", words, code=code, env={**library("disk_faults"), "DISK_ROOM": str(room)})
    assert done.code == 0 or "No space left on device" in done.err, done.err
    return done


def test_a_full_disk_loses_no_saved_state(folder):
    words = ("--seeds", "3")
    expected = checked(folder, words, out="whole")
    for room in (0, 1, 10_000, 100_000, (folder / "whole" / "train.nc").stat().st_size):
        out = f"room{room}"
        done = on_a_full_disk(room, words, "--out", out, "--csv", f"{out}.csv")
        assert (done.out, f"cannot write {out}/" in done.err) == ("", True), done.err
        assert list(folder.rglob("*.tmp")) == [] and not (folder / out / "train.nc").exists()
        assert same(checked(folder, words, out=out), expected), room


def test_an_export_that_filled_the_disk_succeeds_when_repeated(folder):
    """The result is written before the first model, and a repeated command replaces partially written models."""
    words = ("--seeds", "1", "train.steps=3")
    expected, written = checked(folder, words, "--export", "size", out="whole"), 0
    size = max(file.stat().st_size for file in (folder / "size").rglob("*.safetensors"))
    for room in range(0, 50 * size, size):
        out, models = folder / f"room{room}", folder / f"models{room}"
        done = on_a_full_disk(room, words, "--out", out, "--csv", f"{out}.csv", "--export", models, code=(0, 1))
        if done.code == 0:
            break
        if models.exists():
            written += 1
            assert (out / "train.nc").exists() and str(cached(out)[0].parent) in done.err
        assert same(checked(folder, words, "--export", models, out=out.name), expected)
        names = sorted(os.listdir(models))
        assert len(names) == 2, "expected one model per placement"
        assert {name: sorted(contents(models / name)) for name in names} == dict.fromkeys(
            names, ["config.json", "model.safetensors"])
    assert done.code == 0, "every disk was too small"
    assert written > 0


def test_models_that_another_command_wrote_are_not_overwritten(folder):
    """A run may overwrite the folder of its own interrupted export, but no other."""
    words = (ONE, "train.steps=3", "--quiet")
    run(TRAIN, words, "--export", "other", "train.lr=0.5")
    before = contents(folder / "other")
    for room in range(0, 1_000_000, 10_000):
        on_a_full_disk(room, words, "--out", "out", "--export", "begun")
        if any(task.name.startswith("writing-") for task in cached("out")):
            break
    rejected(TRAIN, words, "--out", "out", "--export", "other", names=["other", "--force"])
    assert contents(folder / "other") == before
    run(TRAIN, words, "--out", "out", "--export", "begun")


TEXT = b"The quick brown fox jumps over the lazy dog, twice a day; and the dog does not mind it so."
assert len(TEXT) == 90  # the validation split, a tenth of the text, has 9 bytes: one window of 8 tokens and its labels
EXPORTS = [  # layout, name, placement, qk_norm, norm
    ("llama", "pre", "pre", "none", "rms"), ("qwen3", "pre", "pre", "head", "rms"),
    ("gemma2", "peri", "peri", "none", "rms"), ("gemma3", "peri", "peri", "head", "rms"),
    ("olmo2", "b-only", "b-only", "full", "rms"),
    *(("periscope", name, name, "head", "rms") for name in ("post", "deepnorm", "residual-dual", "lns")),
    ("periscope", "mine", "{name='mine',B=true,C=true,alpha=0.5}", "head", "rms"),
    *(("periscope", name, name, "none", norm) for name, norm in (
        ("pre", "dyt"), ("peri", "derf"), ("post", "l2"), ("parallel", "rms"), ("parallel-two", "layer"))),
]


@pytest.mark.parametrize(("layout", "name", "placement", "qk_norm", "norm"), EXPORTS)
def test_probe_of_an_export_equals_the_training_record(layout, name, placement, qk_norm, norm, folder):
    """Compares the stream of the only held-out window at every depth. The stream depends on all weights and rules."""
    (folder / "corpus").write_bytes(TEXT)
    trained = train("--corpus", "corpus", "--export", "models", "--dtype", "f64", "model.vocab=256",
                    f"model.placement={placement}", f"model.qk_norm={qk_norm}", f"model.norm={norm}", "train.lr=0.02",
                    "train.record_sequences=1").isel(placement=0, seed=0, record=-1)
    ids = ",".join(map(str, TEXT[-TOKENS - 1:-1]))
    probed = result("probe", f"models/{name}-seed0", "--tokens", ids, "--dtype", "f64")
    assert probed.family == layout
    for statistic in ("second_moment_measured", "maximum_measured"):
        np.testing.assert_allclose(probed[statistic], trained[statistic], rtol=1e-10)


def test_other_commands_read_a_model_with_periscope_names(folder):
    run(TRAIN, "--quiet", "--export", "models", "model.placement=post", "model.norm=layer", "model.mlp=gelu",
        "model.embedding_norm=true")
    model = folder / "models" / "post-seed0"
    info = run("info", model, "--json").json
    assert (info["family"], info["placement"]["name"]) == ("periscope", "post")
    for command in (("certify", model), ("generate", model, "--tokens", "1,2", "--count", "2"),
                    ("probe", model, "--tokens", "1,2", "--backward")):
        run(command, "--quiet")
    config = json.loads((model / "config.json").read_text())
    for key, value in (("mlp", "gelus"), ("placement", "past"), ("layers", 0), ("layers", 10**6), ("width", 7),
                       ("gamma", "x"), ("norm_eps", None), ("strange", 1)):
        changed = config | {"model": config["model"] | {key: value}}
        (model / "config.json").write_text(json.dumps(changed))
        error = run("info", model, code=3).err
        assert key in error or "model.safetensors" in error


@pytest.mark.parametrize(("inside", "name"), [
    ('qk_norm="head"', "attention.q_norm.gain"), ("v_norm=true", ""),  # V-norm has no gain
    ('inner_norm="o"', "attention.inner_norm.gain"), ('attention_gate="head"', "attention.gate.weight")])
def test_info_reports_that_layers_differ_and_names_the_tensors(inside, name, folder):
    run(TRAIN, "--quiet", "--export", "models", f'model.layer_placement=[{{layers="1",{inside}}}]')
    for model in (folder / "models").iterdir():
        text = run("info", model).out
        assert "differ" in text and name in text


REPRODUCE = ("reproduce", *sets("model.layers=3", "model.width=16", "model.heads=2", "model.mlp_width=24",
                                        "model.vocab=40", "input.tokens=8", "train.steps=20", "train.batch=2",
                                        "train.record_every=10", "train.record_sequences=2"))


def runs(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out" / "cache" / "runs").glob("*.safetensors")}


def test_later_figures_reuse_cached_runs(folder):
    made = (REPRODUCE, "--seeds", 2, "--out", "out", "--figure")
    first, before = result(made, "1"), runs(folder)
    second, after = result(made, "8"), runs(folder)
    assert list(second.group) == [*first.group.values, "peri, output gains frozen"]
    for name in ("loss", "variance_measured", "second_moment_predicted", "scaled_second_moment"):
        np.testing.assert_array_equal(second[name].values[:5], first[name].values)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2
    verdicts = second.claim_verdict
    assert (verdicts.sel(claim="R6a") != "not-run", verdicts.sel(claim="R7b") == "not-run") == (True, True)


def test_runs_of_a_figure_may_be_trained_in_parts(folder):
    made = (REPRODUCE, "--seeds", 3, "--figure", "1")
    parts = [run(made, "--out", "out", "--shard", f"{k}/2") for k in (2, 1)]
    assert all("trained part" in part.err for part in parts)
    assert len(runs(folder)) == 15 and not list((folder / "out").glob("*.nc"))
    before = runs(folder)
    assert differing(result(made, "--out", "out"), result(made)) == set()
    assert runs(folder) == before
    rejected(made, "--shard", "1/2", names=["--out"])
    rejected(made, "--out", "out", "--shard", "3/2", names=["3/2"])


def test_the_runs_of_a_figure_are_cells_of_a_sweep(folder):
    plan = ("sweep", "plan", REPRODUCE, "--set", "run.seeds=3", "--out", "out", "--json", "--flag")
    planned = run(plan, "figure=1").json
    assert planned["cells"] == 15 and planned["core_hours"] > 0
    run("sweep", "run", "out", "--shard", "2/4")
    assert run("sweep", "run", "out", "--json").json["done"] == len(runs(folder)) == 15
    before = runs(folder)
    made = (REPRODUCE, "--seeds", 3, "--figure", "1")
    assert differing(result(made, "--out", "out"), result(made)) == set()
    assert run(plan, "figure=35").json["missing"] == run(plan, "figure=1", "--set", "train.lr=1").json["missing"] + 21
    assert run(plan, "figure=1").json["done"] == 15 and runs(folder) == before


def test_the_cache_distinguishes_corpora_by_content_and_backends_by_name(folder):
    few = (REPRODUCE, "--seeds", 2, "--out", "out", "--figure", "1", "--dtype", "f64", "train.steps=3")
    (folder / "corpus").write_bytes(bytes(i * i % 37 for i in range(2000)))
    result(few, "--corpus", "corpus")
    before = runs(folder)
    (folder / "corpus").rename("moved")
    result(few, "--corpus", "moved")
    assert runs(folder) == before
    result(few, "--corpus", "moved", "--device", "reference")
    assert len(runs(folder)) == 2 * len(before)


def test_one_seed_gives_a_warning_and_presets_preserve_their_layers():
    flags = (REPRODUCE, "--figure", "1", "train.steps=1", "--seeds")
    lines = run(flags, 1).err.splitlines()
    warning = next(i for i, line in enumerate(lines) if line.startswith("run.seeds = 1"))
    assert warning < next(i for i, line in enumerate(lines) if "post" in line), "the warning must precede training"
    assert run(flags, 1, "--quiet").err == ""
    assert "memory" in run("reproduce", "--quick", "model.preset=3.2B", code=2).err


SHORT_RUN = ("--config", "small.toml", "model.vocab=256", "input.second_moment=4e-4", "train.lr=3e-4", "train.steps=3",
             "train.record_every=1")
FIRST = ("first-steps", *SHORT_RUN, "run.seeds=4", "first_steps.neurons=16")


def test_a_wrong_theory_of_first_steps_is_rejected():
    """Measures Pre-LN, whose stream grows, but predicts Post-LN, whose norm keeps the second moment at 1."""
    ds = result(FIRST, "model.placement=pre", "model.width=64", "--seeds", 32, "train.steps=2", "train.warmup=0",
                "--theory-set", "model.placement=post", code=4)
    assert (list(ds.verdict), ds.rejected[0] > 0) == (["disagrees"], True)
    (differences,) = fact(ds, "theory_override")["differences"]
    assert differences["model.placement"] == {"measured": "pre", "assumed": "post"}
    assert "input.kind" not in differences


@pytest.mark.parametrize("predict_only", ["true", "false"])
@pytest.mark.parametrize("setting", [
    "train.steps=100000000", f"train.batch={1 << 20}", "train.record_sequences=4096", f"model.vocab={1 << 24}",
    f"first_steps.neurons={1 << 20}"])
def test_memory_is_checked_before_batches_are_drawn(setting, predict_only):
    # A matrix must have at least as many rows as are sampled from it.
    wide = [f"model.mlp_width={1 << 20}"] if "neurons" in setting else []
    done = run(FIRST, "--quiet", setting, wide, f"first_steps.predict_only={predict_only}", code=2, timeout=60,
               before=memory_limit(6 << 30))
    assert done.out == "" and "available" in done.err
    # Training is checked first, and its message may name a different key.
    assert predict_only == "false" or f"lower {setting.partition('=')[0]}" in done.err


def test_a_vocabulary_of_one_token_has_loss_0(folder):
    (folder / "zeros").write_bytes(bytes(10000))
    ds = result(FIRST, "model.vocab=1", "--corpus", "zeros", code=(0, 4))
    assert ds.loss_predicted.shape == (2, 3 + 1) and not ds.loss_predicted.any()


def test_the_dump_equals_that_of_train(folder):
    one = (ONE, "--seeds", 1, "--seed", 7)
    assert fact(result(FIRST, one, "--dump", "dump"))["run"]["dtype"] == "f64"
    for name, shape in (("windows", (2, TOKENS + 1)), ("batches", (3, 4, TOKENS + 1))):
        assert read_tensors(folder / "dump" / f"{name}.safetensors")["tokens"].shape == shape
    run("train", SHORT_RUN, "--quiet", one, "--dump", "trained")
    first, other = ({n: c for n, c in contents(folder / f).items() if n != "config.json"} for f in ("dump", "trained"))
    assert first == other
    assert set(first) == {f"{n}.safetensors" for n in ("initial", "final", "batches", "steps", "windows")}


def test_a_dump_does_not_resume_from_states_without_weights(folder):
    """The final states of a run without --dump contain no weights."""
    words = (FIRST, "model.placement=pre", "--seeds", 1, "train.steps=4", "--dtype", "f64", "--out", "out", "--quiet")
    with start(*words, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not cached("out"):
            time.sleep(0.001)
        process.kill()
    run(words, "--force", "--dump", "dump")
    initial, final = (read_tensors(folder / "dump" / f"{n}.safetensors") for n in ("initial", "final"))
    assert set(initial) == set(final)

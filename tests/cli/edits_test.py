"""Configurations and checkpoints edited at random by Hypothesis give a result, or a documented exit code with a message
that names the file or the key. PERISCOPE_EXAMPLES sets the number of examples."""

import json
import os
import pathlib
import re
import shutil
import struct
import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoint_files import write_checkpoint
from program import CONFIG, FIXTURES, SMALL, memory_limit, run

drawn = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
                 max_examples=int(os.environ.get("PERISCOPE_EXAMPLES", 60)))
LIMITS = {"before": memory_limit(2 << 30), "timeout": 60}
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 1e-300, 1e300, -0.0, 2**31, 2**53 + 1, 2**63, -(2**63), 10**30])
VALUES = st.recursive(st.none() | st.booleans() | NUMBERS | st.floats() | st.text(max_size=4),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner,
                                                                                  max_size=3), max_leaves=4)


def rejected_by_name(done, *names):
    """Returns whether a run without a result printed one short line that contains one of the names."""
    return done.code == 0 or (done.out == "" and done.err.count("\n") == 1 and len(done.err) < 2000
                              and any(name in done.err for name in names))


MODELS = ("llama", "gemma2", "gpt2-bare", "bert-old", "opt-post", "qwen3")


@drawn
@given(data=st.data())
def test_edited_config_json_is_read_or_rejected_by_name(data):
    name = data.draw(st.sampled_from(MODELS))
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        shutil.copytree(FIXTURES / name, model)
        config = json.loads((model / "config.json").read_text())
        for key in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=2, unique=True)):
            change = data.draw(st.sampled_from(["set", "set", "remove", "rename"]))
            value = config.pop(key)
            if change == "set":
                config[key] = data.draw(VALUES)
            elif change == "rename":
                config[key + "_"] = value
        (model / "config.json").write_text(json.dumps(config))
        words = data.draw(st.sampled_from([["info"], ["probe", "--tokens", "1,2", "--no-theory", "--quiet", "--json"]]))
        done = run(words[0], model, words[1:], code=(0, 2, 3), **LIMITS)
        assert rejected_by_name(done, str(model), *config, key), done


@drawn
@given(data=st.data())
def test_edited_safetensors_headers_are_read_or_rejected_by_name(data):
    def edited(header):
        name = data.draw(st.sampled_from(sorted(header)))
        entry = header[name]
        match data.draw(st.sampled_from(["entry", "entry", "offset", "offset", "entries", "name"])):
            case "entry":
                entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(VALUES)
            case "offset":
                entry["data_offsets"][data.draw(st.integers(0, 1))] = data.draw(NUMBERS)
            case "entries":
                header[name] = data.draw(VALUES)
            case "name":
                header[data.draw(st.text(max_size=4)) + "\x1b"] = header.pop(name)
        text = bytearray(json.dumps(header).encode())
        for _ in range(data.draw(st.sampled_from([0, 0, 1, 4]))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
        return text + b" " * (-len(text) % 8)

    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        write_checkpoint(model)
        whole = (model / "model.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", whole)
        header = edited(json.loads(whole[8:8 + length]))
        size = struct.pack("<Q", len(header)) if data.draw(st.integers(0, 4)) else data.draw(
            st.binary(min_size=8, max_size=8))
        content = size + header + whole[8 + length:]
        cut = data.draw(st.just(None) | st.integers(0, len(content)))
        (model / "model.safetensors").write_bytes(content[:cut])
        done = run("info", model, code=(0, 3), **LIMITS)
        assert rejected_by_name(done, "model.safetensors", "config.json"), done
        assert "\x1b" not in done.out + done.err


@drawn
@given(data=st.data())
def test_edited_toml_files_are_read_or_rejected_by_name(data):
    lines = SMALL.strip().splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        k = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["value", "value", "line", "cut", "twice", "text"])):
            case "value":
                value = data.draw(VALUES)
                text = json.dumps(value) if value is not None else "nan"
                lines[k] = lines[k].partition("=")[0] + "= " + (text.replace(": ", " = ") if "{" in text else text)
            case "line":
                lines[k] = data.draw(st.text(max_size=12))
            case "cut":
                lines[k] = lines[k][:data.draw(st.integers(0, len(lines[k])))]
            case "twice":
                lines.insert(k, lines[data.draw(st.integers(0, len(lines) - 1))])
            case "text":
                place = data.draw(st.integers(0, len(lines[k])))
                lines[k] = lines[k][:place] + data.draw(st.text(min_size=1, max_size=3)) + lines[k][place:]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "small.toml").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
        done = run("theory", CONFIG, "--set", "input.tokens=3", "--json", "--quiet", code=(0, 2), cwd=folder, **LIMITS)
        assert rejected_by_name(done, "small.toml", *re.findall(r"\w+\.\w+", done.err)), done


VERDICTS = {"agrees", "disagrees", "inconclusive", "not-checked"}
NAMES = ["none", "post", "pre", "peri", "b-only", "a+c", "deepnorm", "mix", "lns", "depth-scaled", "residual-dual"]
GRADIENTS = ["depth", "attenuation", "identity-path", "score-path", "crossover"]
COMMANDS = ["propagate"] * 4 + ["theory", "ladder", "ladder", "certify"] + GRADIENTS
SCALES = [0.0, 1e-200, 1e-30, 1e-3, 1.0, 3.0, 1e30, 1e150]
MAY = {
    "model.norm_eps": [0.0, 1e-300, 1.0, 1e300], "model.gamma": SCALES, "model.final_norm": ["true", "false"],
    "model.embedding_norm": ["true"], "model.unembedding": ["false"], "model.causal": ["false"],
    "model.qk_norm": ["head", "full"], "init.std": SCALES, "init.factor": SCALES, "init.qk_factor": SCALES,
    "init.down_factor": SCALES, "input.second_moment": [1e-300, 1e-60, 1e4, 1e60, 1e300],
    "input.correlation": [0.999999, 1.0], "theory.replicates": [2, 16], "agreement.familywise_error": [1e-300, 1e-6],
    "model.v_norm": ["true"], "model.inner_norm": ["o", "down", "both"], "model.attention_gate": ["head", "channel"],
    "agreement.finite_width": [0.0, 100.0], "agreement.power_limit.log_grad_sq": [1e-3, 10.0],
    "init.o_factor": SCALES, "init.residual": ["1/sqrt(2L)", "1/(l+1)", "l"], "init.truncation": [0.1, 3.0],
    "init.head_std": SCALES[1:], "init.embedding_std": SCALES[1:],
}


@st.composite
def configurations(draw):
    """Returns a command and its settings."""
    def one_of(*values):
        return draw(st.sampled_from(values))

    command, heads, head_dim = one_of(*COMMANDS), one_of(1, 2), one_of(2, 4)
    width, flag = heads * head_dim, st.sampled_from(["true", "false"])
    norms = [f"{k} = {draw(flag)}" for k in "ABC"]
    free = "{%s, alpha = %r, beta = %r}" % (", ".join(norms), one_of(0.0, 1.0, 1e-30, 1e30), one_of(0.0, 1.0, -2.0))
    c = {
        "model.width": width, "model.heads": heads, "model.head_dim": head_dim, "model.layers": one_of(1, 2, 3),
        "model.mlp": one_of("relu", "gelu", "swiglu", "geglu_tanh"), "model.mlp_width": one_of(1, 8),
        "model.norm": one_of("rms", "layer"), "model.vocab": one_of(1, 2, 16),
        "model.placement": one_of(f'"{one_of(*NAMES)}"', f'"{one_of(*NAMES)}"', free),
        "init.scheme": one_of("normal", "lecun", "he", "scaled", "mitchell"),
        "input.kind": one_of("gaussian", "tokens"), "input.tokens": one_of(1, 2, 5),
        "run.seeds": draw(st.integers(1, 8)), "run.dtype": one_of("f32", "f64"),
        "theory.tolerance": 0.5, "theory.gradient_tolerance": 1.0,
    }
    chosen = draw(st.lists(st.sampled_from(sorted(MAY)), max_size=12, unique=True))
    c |= {key: one_of(*MAY[key]) for key in chosen}
    without = [] if c["init.scheme"] == "normal" else ["init.std"]
    without += [] if c["init.scheme"] == "scaled" else ["init.factor"]
    without += [] if c["input.kind"] == "gaussian" else ["input.correlation"]
    without += ["init.residual"] if c["init.scheme"] == "mitchell" else []
    without += ["init.o_factor", "init.down_factor"] if "init.residual" in c.keys() - set(without) else []
    without += ["input.second_moment"] if "init.embedding_std" in c else []
    without += ["init.head_std"] if "model.unembedding" in c else []
    c = {key: value for key, value in c.items() if key not in without}
    if command == "ladder":
        c |= {"ladder.widths": [width, 2 * width, 3 * width, 4 * width], "ladder.seeds": 16}
    if command == "crossover":
        c |= {"model.placement": f'["pre", "{one_of("post", "peri", "none")}"]',
              "gradients.down_factors": one_of([0.1, 1.0, 10.0], [1e-150, 1.0], [1e-30, 1e30])}
    if command == "depth":
        c["gradients.layers"] = [1, 2, 3]
    words = ["gradients", command] if command in GRADIENTS else [command]
    words += ["--backward"] if command in ("propagate", "theory") else []
    if command == "certify":
        words += ["--measure", "--attack", 2] + (["--input-maximum", 3] if c["input.kind"] == "gaussian" else [])
    return words + [f"{key}={value}" for key, value in c.items()]


ENDED = {"with a result": 0, "rejected": 0}


@drawn
@given(words=configurations())
def test_any_configuration_has_a_verdict_or_is_rejected_at_the_start(words):
    """Noise, rounding, overflow and underflow must not reject a correct theory."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(words, "--threads", 2, "--out", folder, "--json", code=(0, 2, 3), timeout=120)
        ENDED["rejected" if done.code else "with a result"] += 1
        if done.code:
            assert done.err.count("\n") == 1, f"rejected after work was done: {done}"
            return
        assert list(pathlib.Path(folder).glob("*.nc"))
    assert not re.search(r"(?<![a-z])nan(?![a-z])", done.err), f"a table shows nan: {done.err}"
    verdicts = {str(v) for name, column in done.ds.data_vars.items() if name.endswith("verdict")
                and not name.endswith("claim_verdict") for v in column.values.flat}
    assert verdicts <= VERDICTS


def test_most_configurations_have_a_result():
    assert ENDED["with a result"] > ENDED["rejected"]

"""Finds settings that no golden case of a command covers, and columns that no golden contains. See golden.py."""

import json
import re
import sys

import golden

# Values used instead of those in `key_rows.ROWS` where those are too large, or where several values should be tried.
VALUES = {
    "model.layers": ["3"], "model.width": ["12"], "model.heads": ["4"], "model.kv_heads": ["1"],
    "model.head_dim": ["6"], "model.mlp_width": ["10"], "model.vocab": ["43"], "model.streams": ["3"],
    "model.gamma": ["0.7"], "input.tokens": ["5"], "input.second_moment": ["3.0"],
    "init.std": ["0.3"], "init.qk_factor": ["0.0", "3.0"], "run.dtype": ["f32", "bf16", "f16"],
    "run.device": ["reference"], "run.seeds": ["5"], "theory.replicates": ["6"], "theory.tolerance": ["0.05"],
    "theory.gradient_tolerance": ["0.2"], "input.path": ["other.txt"],
    "model.preset": ["400M", "1.5B"],
    "model.layer_placement": [
        '[{layers="1", placement="post", qk_norm="full"}, {layers="0", attention_gate="head", v_norm=true}]',
        '[{layers="0-0", placement={A=true,B=true}, inner_norm="both"}, {layers="1-1", attention_gate="channel"}]'],
    "gradients.layers": ["[1,2,3]"], "ladder.widths": ["[8,16,24,40]"], "train.frozen": ['["q","norm_b"]'],
    "formats.format": [f'["{name}"]' for name in ("fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "int8", "int4")],
    "formats.massive": ["10.0", "30000.0"],
}  # fmt: skip
# Placements without a name, and combinations of several keys.
FREE = ['{A=true,B=false,C=true,alpha=0.9,beta="1/sqrt(l+1)"}', '{B=true,alpha="2L",beta=-1.5}',
        '{attention="pre",mlp="none"}', '{attention="none",mlp="peri"}', '{attention="peri",mlp="post",name="mixed"}']
TOGETHER = [["model.heads=4", f"model.kv_heads={kv}", f"model.qk_norm={norm}"]
            for kv in (1, 2, 4) for norm in ("none", "head", "full")]  # fmt: skip


def rows():
    """Returns the values that tests/cli/key_rows.py gives to keys, and the keys that change no result."""
    sys.path.insert(0, str(golden.HERE.parent / "cli"))
    import key_rows

    return key_rows.ROWS, key_rows.HOW


def words_of_keys(keys):
    """Returns the words, or true and false, that each of the listed keys accepts."""
    words = {key["name"]: key["choices"] for key in keys if "choices" in key}
    return words | {key["name"]: ["true", "false"] for key in keys if key["type"] == "flag"}


def acting_keys(program, command, listed):
    """Returns the keys that affect a command, read from its error message for a key without effect."""
    foreign = "formats.rest=fp16" if command != "formats" else "ladder.seeds=16"
    words = command.replace("gradients-", "gradients ").split(" ")
    if command in ("probe", "certify"):
        words.append("model")
    done = program.run([*words, "--set", foreign], "/")
    said = re.search(r" has no effect in .*; expected one of (.*)$", done.stderr)
    if not said:
        return []
    among = said[1].split(", ")
    return [k for k in listed if any(k == a or (a.endswith("*") and k.startswith(a[:-1])) for a in among)]


def features(program, command):
    """Returns the features that a command's cases must cover. A feature is a list of settings of one case."""
    answer = program.json("list")
    listed = [key["name"] for key in answer["keys"]]
    (known, without_effect), words = rows(), words_of_keys(answer["keys"])
    base, _ = golden.read_cases(command)
    named = {"model.placement": [p["name"] for p in answer["placements"]] + FREE,
             "model.recipe": [r["name"] for r in answer["recipes"]]}
    found = []
    for key in (key for key in acting_keys(program, command, listed) if key not in without_effect):
        values = named.get(key) or VALUES.get(key) or words.get(key) or [known[key].value]
        found += [[placed(base, f"{key}={value}")] for value in values]
    found = [f for f in found if not exempt(base, f)]
    if any(f[0].startswith("model.placement") for f in found):
        found += [list(together) for together in TOGETHER]
    return found


def placed(base, setting):
    """Returns a setting. If the command has a list of placements, a placement is inserted into this list."""
    key, _, value = setting.partition("=")
    if key != "model.placement" or "placement" not in base or value.startswith("["):
        return setting
    return f"{key}={base['placement'].replace('%', value if value.startswith('{') else json.dumps(value))}"


def is_set(feature, base, cases):
    """Returns whether a case sets all settings of the feature."""
    wanted = dict(word.split("=", 1) for word in feature).items()
    return any(wanted <= golden.settings_of(base, case).items()
               or (len(feature) == 1 and any(feature[0] in vary for vary in case.get("vary", []))) for case in cases)


def exempt(base, settings):
    """Returns whether the command's file exempts one of the settings. "*" in the file matches any text."""
    patterns = [re.escape(given).replace(r"\*", ".*") for given in base.get("exempt", {})]
    return any(re.fullmatch(pattern, setting) for pattern in patterns for setting in settings)


def results_of(command):
    path = golden.result_path(command)
    return golden.parsed(path.read_text() if path.exists() else "")


def unset(program, command):
    """Returns the features that no accepted case sets."""
    base, cases = golden.read_cases(command)
    if base.get("tool"):
        return []
    results = results_of(command)
    rejected = {name for name, entries in results.items() if entries["exit"] in (["2"], ["3"])}
    accepted = [case for name, case in cases.items() if name not in rejected]
    return [f for f in features(program, command) if not is_set(f, base, accepted)]


def unseen_columns(program, command):
    """Returns the columns of the command's result that have no value in any golden."""
    base, _ = golden.read_cases(command)
    if "result" not in base:
        return []
    seen = {name for entries in results_of(command).values()
            for name in (*entries, *(line.split()[0] for line in entries.get("labels", [])))}
    columns = [c["name"] for c in program.json("list", "--columns")["results"][base["result"]]["columns"]]
    return [c for c in columns if c not in seen and not exempt(base, [f"column {c}"])]


def families(program):
    """Returns the checkpoint families, read from write-checkpoint's error message for an unknown name."""
    done = program.run(["write-checkpoint", "--family", "none", "--out", "x"], "/")
    return re.findall(r"[a-z][a-z0-9_-]+", done.stderr.split("expected one of")[-1].split(";")[0])


def unread_families(program, command):
    base, cases = golden.read_cases(command)
    if not base.get("families"):
        return []
    text = " ".join(case.get(key, "") for case in cases.values() for key in ("before", "run", "fixture"))
    return [f for f in families(program) if not re.search(rf"\b{f}\b", text) and not exempt(base, [f"family {f}"])]


def check(program, commands):
    """Prints a line for each gap, and returns 1 if there is one."""
    gaps = []
    answer = program.json("list")
    names = {e["name"].replace(" ", "-") for e in answer["experiments"]} | {"regauge", "write-checkpoint"}
    names -= {"sweep-plan"}  # covered by the cases of `sweep`
    gaps += [f"{name}: has no cases" for name in sorted(names - set(golden.COMMANDS))]
    for command in commands:
        gaps += [f"{command}: no case sets {' '.join(feature)}"
                 for feature in unset(program, command)]
        gaps += [f"{command}: no golden has a value of the column {c}" for c in unseen_columns(program, command)]
        gaps += [f"{command}: no case has a checkpoint of the family {f}" for f in unread_families(program, command)]
    if gaps:
        print(*gaps, f"{len(gaps)} gaps: add cases that set them; what a command rejects goes into `exempt`, with the "
              "reason", sep="\n")
    return int(bool(gaps))

"""Finds what no golden case of a command sets and no result shows; draws the missing cases. See golden.py."""

import json
import random
import re
import sys

import golden

# Values in place of those of `configuration.ROWS`, where these are too large, or where several differ in effect.
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
# Other settings that a key needs (a command's file adds `needs`), and keys of [base] that it replaces.
NEEDS = {
    "model.preset=400M": ["model.heads=2", "model.head_dim=4"],
    "model.preset=1.5B": ["model.heads=8", "model.head_dim=2", "model.width=16"],
    "input.kind=text": ["input.path=some.txt", "model.vocab=256"],
    "input.path": ["input.kind=text", "model.vocab=256"],
    "theory.fault=without-v-norm": ["model.v_norm=true"], "theory.fault=without-gate": ["model.attention_gate=channel"],
    "theory.fault=norm-alpha": ["model.norm=derf"], "theory.fault=depth-constant": ["model.placement=lns"],
    "train.frozen": ["model.placement=peri"],
}  # fmt: skip
DROPS = {"model.preset": ["model.mlp_width"], "model.recipe": ["init.scheme", "model.mlp"]}
OF_BASE = {"train.steps", "train.batch"}  # set by all cases of the commands that train
LEADING = ("model.placement", "model.recipe")  # drawn first, one in a case
TOLERANT = ["pre", "peri", "post"]  # placements that most other settings go with


def rows(program):
    """Returns the values that tests/cli/configuration.py gives to keys, and the keys that change no result."""
    sys.path.insert(0, str(golden.HERE.parent / "cli"))
    sys.argv[1:] = [str(program.path)]
    import configuration

    return configuration.ROWS, configuration.HOW


def words_of_keys(keys):
    """Returns the words, or true and false, that each of the listed keys accepts."""
    words = {key["name"]: key["choices"] for key in keys if "choices" in key}
    return words | {key["name"]: ["true", "false"] for key in keys if key["type"] == "flag"}


def acting_keys(program, command, listed):
    """Returns the keys that act in a command, which it lists when it rejects another key."""
    foreign = "formats.rest=fp16" if command != "formats" else "ladder.seeds=16"
    words = command.replace("gradients-", "gradients ").split(" ")
    if command in ("probe", "certify"):
        words.append("model")
    done = program.run([*words, "--set", foreign], "/")
    said = re.search(r" does nothing in .*; expected a key among (.*)$", done.stderr)
    if not said:
        return []
    among = said[1].split(", ")
    return [k for k in listed if any(k == a or (a.endswith("*") and k.startswith(a[:-1])) for a in among)]


def features(program, command):
    """Returns what a command's cases have to cover: lists of settings, of which the first needs the others."""
    answer = program.json("list")
    listed = [key["name"] for key in answer["keys"]]
    (known, without_effect), words = rows(program), words_of_keys(answer["keys"])
    base, _ = golden.read_cases(command)
    found = []
    acting = acting_keys(program, command, listed)
    for key in acting:
        if key in without_effect:
            continue
        row = known.get(key)
        if key == "model.placement":
            values = [p["name"] for p in answer["placements"]] + FREE
        elif key == "model.recipe":
            values = [r["name"] for r in answer["recipes"]]
        else:
            values = VALUES.get(key) or words.get(key) or [row.value]
        for value in values:
            own = f"{key}={value}"
            needed = NEEDS.get(own, NEEDS.get(key, [] if row is None else list(row.base)))
            needed = [*needed, *base.get("needs", {}).get(key, [])]
            counts = set(acting) - OF_BASE - {key}
            found.append([own, *(n for n in needed if n.split("=")[0] in counts)])
    found = [[placed(base, s) for s in feature] for feature in found]
    found = [f for f in found if not exempt(base, f)]
    if any(f[0].startswith("model.placement") for f in found):
        found += [list(together) for together in TOGETHER]
    return found


def placed(base, setting):
    """Returns a setting of a placement as the command takes it: in a list with others, if its file says so."""
    key, _, value = setting.partition("=")
    if key != "model.placement" or "placement" not in base or value.startswith("["):
        return setting
    return f"{key}={base['placement'].replace('%', value if value.startswith('{') else json.dumps(value))}"


def is_set(feature, base, cases):
    """Returns whether a case sets the feature: its first setting, or all settings of one in TOGETHER."""
    wanted = feature if feature in TOGETHER else feature[:1]
    for case in cases:
        has = golden.settings_of(base, case)
        if all(has.get(w.split("=", 1)[0]) == w.split("=", 1)[1] for w in wanted):
            return True
        if len(wanted) == 1 and any(wanted[0] in vary for vary in case.get("vary", [])):
            return True
    return False


def exempt(base, settings):
    """Returns whether the command's file exempts one of the settings; "*" there stands for any text."""
    patterns = [re.escape(given).replace(r"\*", ".*") for given in base.get("exempt", {})]
    return any(re.fullmatch(pattern, setting) for pattern in patterns for setting in settings)


def unset(program, command):
    """Returns the features that no case sets which the command accepts."""
    base, cases = golden.read_cases(command)
    if base.get("tool"):
        return []
    path = golden.result_path(command)
    results = golden.parsed(path.read_text() if path.exists() else "")
    rejected = {name for name, entries in results.items() if entries["exit"] in (["2"], ["3"])}
    accepted = [case for name, case in cases.items() if name not in rejected]
    return [f for f in features(program, command) if not is_set(f, base, accepted)]


# -- columns ---------------------------------------------------------------------------------------
def unseen_columns(program, command):
    """Returns the columns of the command's result without a value in any golden."""
    base, _ = golden.read_cases(command)
    if "result" not in base:
        return []
    path = golden.result_path(command)
    seen = set()
    for entries in golden.parsed(path.read_text() if path.exists() else "").values():
        for line in entries.get("labels", []):
            seen.add(line.split()[0])
        seen |= set(entries)
    columns = [c["name"] for c in program.json("list", "--columns")["results"][base["result"]]["columns"]]
    return [c for c in columns if c not in seen and not exempt(base, [f"column {c}"])]


def families(program):
    """Returns the families of checkpoints, which write-checkpoint lists when it rejects another name."""
    done = program.run(["write-checkpoint", "--family", "none", "--out", "x"], "/")
    return re.findall(r"[a-z][a-z0-9-]+", done.stderr.split("expected one of")[-1].split(";")[0])


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
    gaps += [f"{name}: has no cases" for name in sorted(names - set(golden.COMMANDS))]
    for command in commands:
        gaps += [f"{command}: no case sets {' '.join(feature if feature in TOGETHER else feature[:1])}"
                 for feature in unset(program, command)]
        gaps += [f"{command}: no golden has a value of the column {c}" for c in unseen_columns(program, command)]
        gaps += [f"{command}: no case has a checkpoint of the family {f}" for f in unread_families(program, command)]
    for gap in gaps:
        print(gap)
    if gaps:
        print(f"{len(gaps)} gaps. python3 tests/golden/golden.py draw --program PROGRAM appends cases; what a"
              " command rejects goes into `exempt` of its file, with the reason")
    return 1 if gaps else 0


# -- drawing ---------------------------------------------------------------------------------------
class Drawing:
    """A case to which features are added while the program accepts it."""

    def __init__(self, program, base, name):
        self.program, self.base, self.case, self.parts = program, base, {"name": name, "set": []}, []

    def with_feature(self, feature):
        has = dict(s.split("=", 1) for s in self.case["set"])
        more = dict(s.split("=", 1) for s in feature)
        if any(has.get(key, value) != value for key, value in more.items()):
            return None
        case = dict(self.case, set=[f"{k}={v}" for k, v in (has | more).items()])
        drop = [k for key in more for k in DROPS.get(key, []) if k not in has and k not in more]
        if drop:
            case["drop"] = sorted(set(case.get("drop", []) + drop))
        return case

    def add(self, feature):
        """Adds a feature. Returns None, or why it cannot be added."""
        case = self.with_feature(feature)
        return "two values of a key" if case is None else self.take(case, [feature])

    def add_all(self, some):
        """Adds several features at once. Returns None, or why they cannot be added."""
        before = self.case
        for feature in some:
            self.case = self.with_feature(feature) or self.case
        case, self.case = self.case, before
        return self.take(case, some)

    def take(self, case, some):
        entries = golden.run_case(self.program, self.base, case)
        if entries["exit"] not in (["0"], ["4"]):
            return entries["table"][-1] if "table" in entries else f"exit code {entries['exit'][0]}"
        self.case = case
        self.parts += some
        return None


def draw(program, commands):
    for command in commands:
        draw_for(program, command)
    return 0


def draw_for(program, command, extra=3, attempts=12):
    base, cases = golden.read_cases(command)
    chance = random.Random(command)
    missing = unset(program, command)
    every = features(program, command) if missing else []
    chance.shuffle(missing)
    missing.sort(key=lambda f: not f[0].startswith(LEADING))
    count = sum(name.startswith("d") for name in cases)
    while missing:
        drawing = Drawing(program, base, f"d{count:02}")
        lead = missing.pop(0)
        problem = drawing.add(lead)
        keys = {s.split("=")[0] for s in lead}
        if problem is None and not lead[0].startswith(LEADING) and any(f[0].startswith(LEADING) for f in every):
            drawing.add([placed(base, f"model.placement={chance.choice(TOLERANT)}")])
        elif problem is not None and "model.placement" not in keys:
            for name in TOLERANT:
                drawing = Drawing(program, base, f"d{count:02}")
                if drawing.add([placed(base, f"model.placement={name}")]) is None and drawing.add(lead) is None:
                    problem = None
                    break
        if problem is not None:
            print(f"{command}: {' '.join(lead)}: {problem}")
            continue
        others = [f for f in missing if not f[0].startswith(LEADING)]
        more = [f for f in every if f[0].startswith(("model.", "init.", "input.")) and not f[0].startswith(LEADING)]
        others = others[:attempts] + chance.sample(more, min(attempts, len(more)))
        if len(others) >= extra:
            drawing.add_all(others[:extra])
        for feature in others:
            if len(drawing.parts) > extra:
                break
            if feature not in drawing.parts and drawing.add(feature) is None and feature in missing:
                missing.remove(feature)
        missing = [f for f in missing if not is_set(f, base, [drawing.case])]
        text = f"\n[{drawing.case['name']}]\n"
        for key in ("set", "drop"):
            if key in drawing.case:
                text += f"{key} = {json.dumps(drawing.case[key], ensure_ascii=False)}\n"
        if any(s in drawing.case["set"] for s in ("run.dtype=f32", "run.dtype=bf16", "run.dtype=f16")):
            text += 'exact = "its numbers have fewer digits"\n'
        count += 1
        with (golden.HERE / "cases" / f"{command}.toml").open("a") as file:
            file.write(text)

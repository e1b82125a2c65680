"""Golden results: the output of every command for small cases, as committed text.

  golden.py compare  --program build/periscope   prints changes by column; exit code 1 if any
  golden.py refresh  --program build/periscope   rewrites tests/golden/results; `git diff` shows the changes
  golden.py coverage --program build/periscope   prints keys without a case and columns without a value

If commands follow the flags, only these are processed. cases/COMMAND.toml has a table per case: `run`, the words
of the command line; `rows`, further words, one case per line; `set`, keys; `vary`, sweeps; `files`, text files in the
working folder; `fixture`, a folder of tests/checkpoint/fixtures that is copied there as "model", with the keys of
`edit` in its config.json; `before`, a command that runs first; `exact`, why the result is compared on the reference
level only. [base] applies to all cases of the file; its `exempt` maps features that need no case to the reason.
results/COMMAND.txt has the exit code, table, columns and written files of each case. "nan*4" stands for four equal
values in a row, " |3" for three equal lines, "~" for the start of the previous name, and "^" with a hash for an earlier
line of the file.

A golden shows that a number changed, not that it was right. The reference level is GNU's compiler at x86-64-v3, where
all bits are compared. Elsewhere, numbers must agree to 1e-9 of the largest in their column. For a long column, the file
has the first values rounded to three significant digits, a hash of all bits, and the weighted norm of the vector."""

import argparse
import concurrent.futures
import csv
import functools
import hashlib
import io
import itertools
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).parent
FIXTURES = HERE.parent / "checkpoint" / "fixtures"
REFERENCE = ("GNU", "x86-64-v3")
FULL = 3  # columns of at most this length are written with all digits
LONG = 90  # maximum characters per column; later lines affect only its hash and norm
RELATIVE = 1e-9
SHOWN = 12  # printed differences per command
BYTES = 4_500_000  # limit of all cases and results
# Hashes and columns dominated by rounding errors: compared on the reference level only.
ROUNDING = re.compile(r"(_z|_excess|_stderr|_error|_residual|_difference|_chi_squared|_sha256)$|^noise_")
# Progress lines depend on timing.
PROGRESS = re.compile(
    r"^[^|]+: (judging|theory|(\d+ %|[\d.]+/\d+(, [\d.e+-]+/s)?)( \(.*\))?(, about \d+ (s|min|h|days) left)?)$")
SECONDS = re.compile(r"\b\d+(\.\d+)?(?=( s| ms| min|/s)\b)")
NOTHING = "without values"
MACHINE = {"attrs", "provenance", "circumstances"}
COMMANDS = sorted(path.stem for path in (HERE / "cases").glob("*.toml"))


class Program:
    def __init__(self, path, level=None, threads=1):
        self.path, self.threads = pathlib.Path(path).resolve(), threads
        names = [name for name in os.environ if name.startswith(("PERISCOPE_", "OMP_"))]
        self.environment = {k: v for k, v in os.environ.items() if k not in names} | {"OMP_WAIT_POLICY": "passive"}
        self.environment["PERISCOPE_INSTRUCTIONS"] = level or REFERENCE[1]
        if level is None and self.run(["--version"], "/").returncode != 0:  # a build without this level
            del self.environment["PERISCOPE_INSTRUCTIONS"]

    def run(self, words, cwd):
        return subprocess.run([str(self.path), *words], cwd=cwd, capture_output=True, text=True, timeout=300,
                              env=self.environment, check=False)

    def json(self, *words):
        return json.loads(self.run([*words, "--json"], "/").stdout)

    def is_reference(self):
        tiny = ("model.layers=1", "model.width=2", "model.heads=1", "model.vocab=2", "input.tokens=1")
        origin = self.json("theory", *(w for s in tiny for w in ("--set", s)), "--quiet")["attrs"]
        return origin["compiler"].startswith(REFERENCE[0]) and origin["instructions"] == REFERENCE[1]


def read_cases(command):
    """Returns the [base] table of a command's file, and its cases by name."""
    table = tomllib.loads((HERE / "cases" / f"{command}.toml").read_text())
    base, cases = table.pop("base", {}), {}
    for name, case in table.items():
        lines = {f"{name}: {row}": f"{case['run']} {row}" for row in case.get("rows", "").splitlines()}
        cases |= {row: case | {"name": row, "run": run} for row, run in lines.items()} or {name: case | {"name": name}}
    return base, cases


def settings_of(base, case):
    """Returns the settings of [base] without the case's `drop`, overridden by the settings of the case."""
    own, shared = (dict(s.split("=", 1) for s in table.get("set", [])) for table in (case, base))
    return own if case.get("plain") else {k: v for k, v in shared.items() if k not in case.get("drop", [])} | own


def words_of(base, case, threads):
    """Returns the command line of a case."""
    words = shlex.split(case.get("run", base.get("run", "")))
    words += [word for key, value in settings_of(base, case).items() for word in ("--set", f"{key}={value}")]
    words += [word for vary in case.get("vary", []) for word in ("--vary", vary)]
    return words + (["--threads", str(threads)] if case.get("threads", base.get("threads", True)) else [])


def make_fixture(folder, case):
    shutil.copytree(FIXTURES / case["fixture"], folder / "model",
                    ignore=shutil.ignore_patterns("expected.safetensors"))
    path = folder / "model" / "config.json"
    config = json.loads(path.read_text())
    for key, value in case.get("edit", {}).items():
        *parents, last = key.split(".")
        owner = functools.reduce(dict.__getitem__, parents, config)
        owner[last] = None if value == "null" else value
        if value == "erase":
            del owner[last]
    path.write_text(json.dumps(config))


def run_case(program, base, case):
    """Runs a case and returns its entries: {name: lines}."""
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made).resolve()
        for name, text in {**base.get("files", {}), **case.get("files", {})}.items():
            (folder / name).write_text(text)
        if "fixture" in case:
            make_fixture(folder, case)
        if "before" in case:
            words = shlex.split(case["before"])
            done = program.run(words, folder)
            if done.returncode != case.get("before_code", 0):
                return {"exit": [f"{done.returncode} of the command before"], "table": done.stderr.splitlines()}
        there = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
        output = case.get("output", base.get("output", "--csv -"))
        words = words_of(base, case, program.threads) + shlex.split(output)
        done = program.run(words, folder)
        entries = {"exit": [str(done.returncode)]}
        table = [line for line in done.stderr.replace(str(folder), ".").splitlines() if not PROGRESS.match(line)]
        entries["table"] = [SECONDS.sub("#", line) for line in table]
        if output == "--json":
            if done.stdout:
                entries["json"] = json_lines(without_machine(json.loads(done.stdout)))
        elif output:
            entries |= columns_of(done.stdout)
        else:
            entries["output"] = done.stdout.splitlines()
        for path in sorted(folder.rglob("*")):
            if path.is_file() and there.get(path) != path.stat().st_mtime_ns:
                entries |= file_entries(path, str(path.relative_to(folder)))
        return {name: lines for name, lines in entries.items() if lines}


def without_machine(node):
    if isinstance(node, dict):
        return {key: without_machine(value) for key, value in node.items() if key not in MACHINE}
    return [without_machine(value) for value in node] if isinstance(node, list) else node


def json_lines(node, start=""):
    """Returns JSON as lines of at most 160 characters, unless a value is longer."""
    line = start + json.dumps(node, ensure_ascii=False)
    if len(line) <= 160 or not isinstance(node, (dict, list)):
        return [line]
    parts = node.items() if isinstance(node, dict) else enumerate(node)
    indent = " " * (len(start) - len(start.lstrip()) + 1)
    return [start + type(node).__name__] + [found for k, v in parts for found in json_lines(v, f"{indent}{k}: ")]


def number_of(text):
    try:
        return float(text)
    except ValueError:
        return None


def short(text):
    """Returns a number rounded to three significant digits, with the shortest exponent."""
    return re.sub(r"e([+-])0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], f"{float(text):.3g}")


def counted_runs(items, sign):
    """Collapses each run of equal items into one item, followed by `sign` and the count."""
    found = ((item, len(list(equal))) for item, equal in itertools.groupby(items))
    return [item if count == 1 else f"{item}{sign}{count}" for item, count in found]


def is_nothing(lines):
    """Returns whether a column has only missing values."""
    return set(spread(lines[1:] if is_summary(lines) else lines)) in ({"nan"}, {'""'}, {"nan", '""'})


def summary(texts):
    """Returns a hash of all bits, and the norm of the finite values with weights that grow with the index."""
    numbers = [float(text) for text in texts]
    finite = [(1.0 + i / len(numbers)) * x for i, x in enumerate(numbers) if math.isfinite(x)]
    return f"#{hashlib.sha256(' '.join(texts).encode()).hexdigest()[:5]} {math.hypot(*finite):.11g}"


def column_lines(rows):
    """Returns the values of a column, one line per index of the leading dimensions; long columns are shortened."""
    texts = ["nan" if text == "-nan" else text for _, text in rows]
    if any(number_of(text) is None for text in texts):
        return shortened([json.dumps(text, ensure_ascii=False) for text in texts], " ".join(texts))
    lines, last = [], None
    for (place, _), text in zip(rows, texts, strict=True):
        if place[:-1] != last or not lines:
            lines.append([])
            last = place[:-1]
        lines[-1].append(text if len(texts) <= FULL else short(text))
    lines = [" ".join(counted_runs(line, "*")) for line in lines]
    return lines if len(texts) <= FULL else [summary(texts), *shortened(lines)]


def shortened(lines, bits=""):
    """Collapses each run of equal lines into one with a count; drops the lines after the first `LONG` characters."""
    found = counted_runs(lines, " |")
    few = [line for i, line in enumerate(found) if i == 0 or sum(map(len, found[:i])) < LONG]
    more = f" #{hashlib.sha256(bits.encode()).hexdigest()[:8]}" if bits else ""
    return few if len(few) == len(found) else [*few, f"... {len(found) - len(few)} lines{more}"]


def counted(fields):
    """Returns labels as text; three or more consecutive integers as a range such as "0..4"."""
    if len(fields) > 2 and fields[0].isdigit() and fields == [str(int(fields[0]) + i) for i in range(len(fields))]:
        return f"{fields[0]}..{fields[-1]}"
    return json.dumps(fields, ensure_ascii=False)


def columns_of(text):
    """Returns the columns of a CSV, and the labels of its dimensions."""
    if not text:
        return {}
    header, *rows = csv.reader(io.StringIO(text))
    dimensions = header[1:-1]
    labels, columns = {}, {}
    for row in rows:
        place = [(d, field) for d, field in zip(dimensions, row[1:-1], strict=True) if field]
        for dimension, field in place:
            labels.setdefault(dimension, {})[field] = None
        columns.setdefault(row[0], []).append((tuple(field for _, field in place), row[-1]))
    entries = {"labels": [f"{d} {counted(list(fields))}" for d, fields in labels.items()]}
    found = {name: column_lines(rows) for name, rows in columns.items()}
    nothing = [name for name, lines in found.items() if is_nothing(lines)]
    entries |= {name: lines for name, lines in found.items() if name not in nothing}
    return entries | ({NOTHING: [" ".join(nothing)]} if nothing else {})


FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "U8": "B"}


def tensor_texts(dtype, data):
    if dtype == "BF16":
        dtype, data = "F32", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    return [repr(x) for x, in struct.iter_unpack(f"<{FORMATS[dtype]}", data)]


def file_entries(path, name):
    """Returns the entries of a written file: tensors, JSON without keys that depend on the machine, or a hash."""
    if path.suffix == ".safetensors":
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        header, entries = json.loads(data[8:8 + length]), {}
        for tensor, t in sorted((tensor, t) for tensor, t in header.items() if tensor != "__metadata__"):
            texts = tensor_texts(t["dtype"], data[8 + length:][slice(*t["data_offsets"])])
            entry = f"{name}:{tensor}:{t['dtype']}:{'x'.join(map(str, t['shape']))}"
            entries[entry] = [summary(texts) if len(texts) > FULL else " ".join(texts)]
        return entries
    if path.suffix == ".json":
        return {f"file {name}": json_lines(without_machine(json.loads(path.read_text())))}
    if path.suffix in (".csv", ".toml", ".txt", ".bin"):
        return {f"file {name}": [hashlib.sha256(path.read_bytes()).hexdigest()[:16]]}
    return {f"file {name}": ["written"]}


class Repeated:
    """Replaces repeated lines of a file by their short hash."""

    def __init__(self):
        self.lines = {}

    def written(self, line):
        sign = "^" + hashlib.sha256(line.encode()).hexdigest()[:6]
        if self.lines.get(sign) == line:
            return sign
        if len(line) > 24:
            self.lines.setdefault(sign, line)
        return line

    def read(self, text):
        if text not in self.lines:
            self.written(text)
        return self.lines.get(text, text)


def stem_of(name):
    """Returns the start that related names share, such as "variance_" of "variance_measured"."""
    return name[:name.rfind("_") + 1]


def text_of(results):
    """Returns the text of a command's result file."""
    text, before = [], Repeated()
    for case, entries in results.items():
        text.append(f"=== {case}")
        stem = ""
        for name, lines in entries.items():
            first, *more = map(before.written, lines)
            shown = f"~{name[len(stem):]}" if stem and name.startswith(stem) else name
            stem = stem if shown != name else stem_of(name)
            text += [f"{shown} = {first}", *(f" {line}" for line in more)]
    return "\n".join(text) + "\n"


def parsed(text):
    """Returns the results that `text_of` wrote."""
    results, lines, before = {}, [], Repeated()
    for line in text.splitlines():
        if line.startswith("=== "):
            entries, stem = results.setdefault(line[4:], {}), ""
        elif line.startswith(" "):
            lines.append(before.read(line[1:]))
        else:
            name, _, first = line.partition(" = ")
            if name.startswith("~"):
                name = stem + name[1:]
            else:
                stem = stem_of(name)
            lines = entries.setdefault(name, [before.read(first)])
    return results


def spread(lines):
    """Returns the words of lines; repeats words and lines that have a count."""
    words = []
    for line in lines:
        if line.startswith("... "):
            break
        many = re.search(r" \|(\d+)$", line)
        for word in line[:many.start()].split() * int(many[1]) if many else line.split():
            head, star, count = word.rpartition("*")
            words += [head] * int(count) if star and count.isdigit() else [word]
    return words


def is_summary(lines):
    return bool(re.match(r"^#[0-9a-f]{5} \S+$", lines[0]))


def close(old, new, relative, scale=0.0):
    a, b = number_of(old), number_of(new)
    if a is None or b is None:
        return old == new
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= relative * max(abs(a), abs(b), scale)


def largest(words):
    return max((abs(x) for x in map(number_of, words) if x is not None and math.isfinite(x)), default=0.0)


def numbers_differ(old, new, exact):
    """Returns the places at which two entries of numbers differ: [(index, old, new)]."""
    if exact and old == new:
        return []
    long = is_summary(old) and is_summary(new)
    a, b = (spread(lines[1:] if long else lines) for lines in (old, new))
    if exact and len(a) != len(b):
        return [("length", len(a), len(b))]
    scale = largest(a)
    relative = 0.0 if exact else 2e-3 if long else RELATIVE
    found = [(i, x, y) for i, (x, y) in enumerate(zip(a, b, strict=exact))
             if (x != y if exact else not close(x, y, relative, scale))]
    if not found and long:
        if old[0] != new[0] if exact else not close(old[0].split()[1], new[0].split()[1], RELATIVE):
            found = [("hash and norm", old[0], new[0])]
    return found


def words_differ(old, new, exact):
    """Returns the lines that differ; numbers in text are compared on the reference level only."""
    def plain(line):
        line = re.sub(r"#[0-9a-f]{5,8}|[-+]?\d[\d.]*(e[-+]?\d+)?", "#", line)
        return re.sub(r"[\s–]+", " ", line)
    if not exact and [plain(x) for x in old] == [plain(x) for x in new]:
        return []
    found = [(i, x, y) for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y]
    return found or ([("lines", len(old), len(new))] if len(old) != len(new) else [])


def differences(case, old, new, exact):
    """Returns a line for every entry of a case that changed."""
    lines = [f"{case}: {name} has values only in the result" for name in new if name not in old and name != NOTHING]
    lines += [f"{case}: {name} has values only in the golden" for name in old if name not in new and name != NOTHING]
    for name in (name for name in old if name in new and name != NOTHING and (exact or not ROUNDING.search(name))):
        text = name in ("table", "json", "output", "labels") or name.startswith("file ")
        text = text or all(number_of(word) is None for word in spread(old[name]))
        found = (words_differ if text else numbers_differ)(old[name], new[name], exact)
        lines += [f"{case}: {name} at {i}: expected {x}, found {y}" for i, x, y in found[:3]]
        if len(found) > 3:
            lines.append(f"{case}: {name}: {len(found)} values differ")
    return lines


def run_all(program, commands):
    """Runs all cases in parallel; returns {command: {case: entries}}."""
    cases = [(command, *read_cases(command)) for command in commands]
    jobs = [(command, base, case) for command, base, table in cases for case in table.values()]
    jobs.sort(key=lambda job: -job[2].get("cost", job[1].get("cost", 0)))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = {(command, case["name"]): pool.submit(run_case, program, base, case) for command, base, case in jobs}
    return {command: {name: made[command, name].result() for name in table} for command, _, table in cases}


def result_path(command):
    return HERE / "results" / f"{command}.txt"


def compare(program, commands):
    """Prints differences from the committed results; returns 1 if there are any."""
    reference = program.is_reference()
    changed = 0
    for command, results in run_all(program, commands).items():
        golden = parsed(result_path(command).read_text())
        base, cases = read_cases(command)
        lines = [f"{name}: has no golden" for name in results if name not in golden]
        lines += [f"{name}: has a golden, but no case" for name in golden if name not in results]
        for name, entries in results.items():
            if name in golden and (reference or not cases[name].get("exact", base.get("exact"))):
                lines += differences(name, golden[name], entries, reference)
        changed += len(lines)
        more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        for line in lines[:SHOWN] + more:
            print(f"{command}: {line[:300]}")
    if changed:
        print(f"{changed} differences. If all are intended: python3 tests/golden/golden.py refresh --program PROGRAM")
    return int(changed > 0)


def refresh(program, commands):
    if not program.is_reference():
        print(f"golden.py: expected a program of {REFERENCE[0]}'s compiler at {REFERENCE[1]}")
        return 2
    for command in commands:
        result_path(command).write_text(text_of(run_all(program, [command])[command]))
    size = sum(path.stat().st_size for path in HERE.rglob("*") if path.suffix in (".txt", ".toml"))
    print(f"{size / 1e6:.2f} MB")
    return int(size > BYTES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["compare", "refresh", "coverage"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--level", help="an instruction set instead of the reference one")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("commands", nargs="*")
    given = parser.parse_intermixed_args()
    program = Program(given.program, given.level, given.threads)
    commands = given.commands or COMMANDS
    import gaps

    return {"compare": compare, "refresh": refresh, "coverage": gaps.check}[given.action](program, commands)


if __name__ == "__main__":
    sys.exit(main())

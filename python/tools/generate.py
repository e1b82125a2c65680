"""Writes verbs.py and _keys.py of the package: a function for every study, and the types of its keys.

Usage: generate.py FOLDER, which contains the package periscope with its compiled module. The build calls it.
"""

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])
from periscope.describe import description  # noqa: E402
from periscope.errors import in_python  # noqa: E402

WIDTH = 116

TYPES = {
    "whole number": "int", "number": "float", "flag": "bool", "text": "str", "": "str", "placement": "Placement",
    "number or text": "float | str",
    "list of whole number": "Sequence[int]", "list of number": "Sequence[float]", "list of text": "Sequence[str]",
    "list of table": "Sequence[Mapping[str, Any]]",
}  # fmt: skip
SWEPT = ("model", "init", "input")  # whose keys take lists
# Arguments that take more in Python than a word.
FLAG_TYPES = {
    "checkpoint": "CheckpointLike", "tokens": "TokensLike | None", "labels": "TokensLike | None",
    "text": "PathLike | None", "tokenizer": "TokenizerLike | None",
}  # fmt: skip


def class_name(section: str) -> str:
    return "".join(part.title() for part in section.replace(".", "_").split("_")) + "Keys"


def wrapped(text: str, indent: int, further: int | None = None) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=" " * indent, break_long_words=False,
                         subsequent_indent=" " * (indent if further is None else further))  # fmt: skip


def sentence(text: str) -> str:
    text = text.strip().replace("\\", "\\\\").replace('"""', "'''")
    return text + ("" if text.endswith((".", "?", "!")) else ".")


def key_type(section: str, key: dict[str, Any]) -> str:
    kind = TYPES[key["type"]]
    if key["choices"]:
        words = ", ".join(f'"{choice}"' for choice in key["choices"])
        fits = len(words) + len(key["name"]) < WIDTH - 12
        kind = f"Literal[{words}]" if fits else "Literal[\n" + wrapped(words, 8) + "\n    ]"
    if section not in SWEPT or kind.startswith("Sequence"):
        return kind
    both = f"{kind} | Sequence[{kind}]"
    fits = len(both) + len(key["name"]) < WIDTH
    return both if fits else f"(\n        {kind}\n        | Sequence[{kind}]\n    )"


def keys_text() -> str:
    sections = description()["sections"]
    names = [s["name"] for s in sections]
    lines = [
        '"""The keys of a configuration, by sections. Made by generate.py from the key tables of the program."""',
        "", "from collections.abc import Mapping, Sequence", "from typing import Any, Literal, TypedDict", "",
        "Placement = str | Mapping[str, Any]",
        '"""A name, as "peri", or a table: {"A": True, "B": False, "alpha": 1.0}."""',
    ]  # fmt: skip
    for section in sorted(sections, key=lambda s: -s["name"].count(".")):  # what is within another first
        name = section["name"]
        lines += ["", "", f"class {class_name(name)}(TypedDict, total=False):", f'    """The section [{name}]."""', ""]
        for key in section["keys"]:
            standard = f" Default: {key['default']}." if key["default"] not in ("", "-") else ""
            unit = f" [{key['unit']}]" if key["unit"] not in ("", "1") else ""
            words = sentence(key["meaning"] + unit if key["meaning"] else "As its name says") + standard
            lines.append(f"    {key['name'].rpartition('.')[2]}: {key_type(name, key)}")
            lines.append(wrapped(f'"""{words}"""', 4))
        for inner in names:
            if inner.startswith(name + ".") and "." not in inner[len(name) + 1 :]:
                lines.append(f"    {inner[len(name) + 1 :]}: {class_name(inner)}")
                lines.append(f'    """The section [{inner}]."""')
    return "\n".join(lines) + "\n"


COMMON = {
    "seed": ("int | None", "First random seed."),
    "seeds": ("int | None", "Number of seeds; a verdict needs 4."),
    "threads": ("int | None", "Number of threads; 0: OMP_NUM_THREADS, else all cores; does not change results."),
    "device": ("str | None", "cpu, reference, cuda or cuda-tf32."),
    "dtype": ("str | None", "f64, f32, bf16 or f16."),
    "memory": ("float | str | None", 'Memory for what would else be computed twice, in bytes or as "8G".'),
    "out": ("PathLike | None", "Folder for the result file; an interrupted run resumes from there."),
    "force": ("bool", "Overwrite a model that is there; try what by the estimate does not fit."),
}  # fmt: skip


def argument(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_")


def flag_type(flag: dict[str, Any]) -> str:
    if flag["name"] in FLAG_TYPES:
        return FLAG_TYPES[flag["name"]]
    if flag["toggle"]:
        return "bool"
    if flag["list"]:
        return "str | Sequence[str] | None"
    return "float | None" if flag["number"] else "PathLike | None"


def arguments_of(study: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Returns the arguments of a verb: name and type, default ("" for none), meaning."""
    meaning_of = {flag["name"]: sentence(in_python(flag["meaning"])) for flag in study["flags"]}
    found = []
    for flag in study["flags"]:
        if flag["positional"]:
            kind, default = (flag_type(flag), "") if flag["required"] else (f"{flag_type(flag)} | None", "None")
            found.append((f"{argument(flag['name'])}: {kind}", default, meaning_of[flag["name"]]))
    found.append(("config: ConfigLike", "None", "A Config, a dictionary of keys, or the path of a TOML file."))
    for flag in study["flags"]:
        if not flag["positional"]:
            standard = f" Default: {flag['default']}." if flag["default"] else ""
            found.append((f"{argument(flag['name'])}: {flag_type(flag)}", "False" if flag["toggle"] else "None",
                          meaning_of[flag["name"]] + standard))  # fmt: skip
    for section in (s["name"] for s in description()["sections"] if study["common"]["config"]):
        if "." not in section and any(key.startswith(section + ".") for key in study["effective_keys"]):
            found.append((f"{section}: _keys.{class_name(section)} | None", "None",
                          f"Keys of [{section}] on top of ``config``; each has to act."))  # fmt: skip
    if study["compares"]:
        found.append(("theory_set: Mapping[str, Any] | None", "None",
                      'What theory is told instead of the truth, as ``{"model.rope": False}``.'))  # fmt: skip
    for name, (kind, meaning) in COMMON.items():
        if study["common"][name]:
            found.append((f"{name}: {kind}", "False" if kind == "bool" else "None", meaning))
    if study["name"] == "train":
        found.append(("callback: Callable[[Record], object] | None", "None",
                      "Called with every record of every stack; False ends that stack's training there."))  # fmt: skip
    found.append(("progress: Progress", "False",
                  "True shows a bar, or lines in a file; a function is called with every Snapshot."))  # fmt: skip
    found.append(("check: bool", "False", "Raise CheckFailed where the program would end with exit code 4 or 5."))
    return found


def verb_text(study: dict[str, Any]) -> str:
    arguments = arguments_of(study)
    names = [declared.partition(":")[0] for declared, _, _ in arguments]
    assert len(names) == len(set(names)), (study["name"], names)
    lines = [f"def {argument(study['name'])}("]
    for name, (declared, default, _) in zip(names, arguments, strict=True):
        lines.append(f"    {declared} = {default}," if default else f"    {declared},")
        lines += ["    *,"] if name == "config" else []
    kind = f"of the kind {study['result']!r} (``periscope.columns``)" if study["result"] else ""
    lines += [") -> xr.Dataset:", wrapped(f'"""{sentence(study["question"])}', 4), ""]
    lines += [wrapped(f"Returns a dataset {kind}. Raises ConfigError and InputError.", 4), "", "    Arguments:"]
    for name, (_, _, meaning) in zip(names, arguments, strict=True):
        lines.append(wrapped(f"{name}: {meaning}", 8, 12))
    lines += ['    """', f'    return run_study("{study["name"]}", locals())']
    return "\n".join(lines)


def verbs_text() -> str:
    studies = description()["studies"]
    header = [
        '"""Every study as a function. Made by generate.py from the program\'s registry of studies."""',
        "", "from collections.abc import Callable, Mapping, Sequence", "from typing import Any", "",
        "import xarray as xr", "", "from . import _keys",
        "from ._run import CheckpointLike, PathLike, Progress, Record, TokenizerLike, TokensLike",
        "from ._run import run as run_study",
        "from .config import ConfigLike", "",
        "__all__ = [", *[f'    "{argument(study["name"])}",' for study in studies], "]",
    ]  # fmt: skip
    return "\n".join(header) + "\n\n\n" + "\n\n\n".join(map(verb_text, studies)) + "\n"


if __name__ == "__main__":
    for name, text in (("_keys.py", keys_text()), ("verbs.py", verbs_text())):
        path = Path(sys.argv[1]) / "periscope" / name
        path.with_suffix(".new").write_text(text)
        os.replace(path.with_suffix(".new"), path)

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


def wrapped(text: str, indent: int, width: int = WIDTH) -> str:
    pad = " " * indent
    return textwrap.fill(text, width, initial_indent=pad, subsequent_indent=pad, break_long_words=False)


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
    "threads": ("int | None", "Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it."),
    "device": ("str | None", "cpu, reference, cuda or cuda-tf32."),
    "dtype": ("str | None", "f64, f32, bf16 or f16."),
    "memory": ("float | str | None", 'Memory for what would else be computed twice, in bytes or as "8G".'),
    "out": ("PathLike | None", "Folder for the result file; an interrupted run resumes from there."),
    "force": ("bool", "Overwrite a model that is there; try what by the estimate does not fit."),
}  # fmt: skip


def sections_of(study: dict[str, Any], all_names: list[str]) -> list[str]:
    top = [name for name in all_names if "." not in name]
    return [name for name in top if any(key.startswith(name + ".") for key in study["acting"])]


def argument(name: str) -> str:
    return name.replace("-", "_")


def flag_type(flag: dict[str, Any]) -> str:
    if flag["name"] in FLAG_TYPES:
        return FLAG_TYPES[flag["name"]]
    if flag["toggle"]:
        return "bool"
    if flag["list"]:
        return "str | Sequence[str] | None"
    return "float | None" if flag["number"] else "PathLike | None"


def verb_text(study: dict[str, Any], names: list[str]) -> str:
    verb = study["name"].replace(" ", "_").replace("-", "_")
    first = [f for f in study["flags"] if f["positional"]]
    others = [f for f in study["flags"] if not f["positional"]]
    sections = sections_of(study, names) if study["common"]["config"] else []
    common = [name for name in COMMON if study["common"][name]]
    arguments: list[str] = []
    words: list[tuple[str, str]] = []
    for flag in first:
        required = "" if flag["required"] else " | None = None"
        arguments.append(f"{argument(flag['name'])}: {flag_type(flag)}{required}")
        words.append((argument(flag["name"]), sentence(in_python(flag["meaning"]))))
    arguments.append("config: ConfigLike = None")
    words.append(("config", "A Config, a dictionary of keys, or the path of a TOML file."))
    arguments.append("*")
    for flag in others:
        standard = "False" if flag["toggle"] else "None"
        arguments.append(f"{argument(flag['name'])}: {flag_type(flag)} = {standard}")
        default = f" Default: {flag['default']}." if flag["default"] else ""
        words.append((argument(flag["name"]), sentence(in_python(flag["meaning"])) + default))
    for section in sections:
        arguments.append(f"{section}: _keys.{class_name(section)} | None = None")
        words.append((section, f"Keys of [{section}] on top of ``config``; each has to act."))
    if study["compares"]:
        arguments.append("theory_set: Mapping[str, Any] | None = None")
        words.append(("theory_set", 'What theory is told instead of the truth, as ``{"model.rope": False}``.'))
    for name in common:
        kind, meaning = COMMON[name]
        arguments.append(f"{name}: {kind} = {'False' if kind == 'bool' else 'None'}")
        words.append((name, meaning))
    if verb == "train":
        arguments.append("callback: Callable[[Record], object] | None = None")
        words.append(("callback", "Called with every record of every stack; False ends that stack's training there."))
    arguments += ["progress: Progress = False", "check: bool = False"]
    words.append(("progress", "True shows a bar, or lines in a file; a function is called with every Snapshot."))
    words.append(("check", "Raise CheckFailed where the program would end with exit code 4 or 5."))
    names_of = [a.partition(":")[0] for a in arguments if a != "*"]
    assert len(names_of) == len(set(names_of)), (verb, names_of)
    lines = [f"def {verb}("]
    lines += [f"    {a}," for a in arguments]
    kind = f"of the kind {study['result']!r} (``periscope.columns``)" if study["result"] else ""
    lines += [") -> xr.Dataset:", wrapped(f'"""{sentence(study["question"])}', 4), ""]
    lines += [wrapped(f"Returns a dataset {kind}. Raises ConfigError and InputError.", 4), "", "    Arguments:"]
    for name, meaning in words:
        lines.append(textwrap.fill(f"{name}: {meaning}", WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12,
                                   break_long_words=False))  # fmt: skip
    lines += ['    """', f'    return run_study("{study["name"]}", locals())']
    return "\n".join(lines)


def verbs_text() -> str:
    names = [s["name"] for s in description()["sections"]]
    studies = description()["studies"]
    verbs = [study["name"].replace(" ", "_").replace("-", "_") for study in studies]
    header = [
        '"""Every study as a function. Made by generate.py from the program\'s registry of studies."""',
        "", "from collections.abc import Callable, Mapping, Sequence", "from typing import Any", "",
        "import xarray as xr", "", "from . import _keys",
        "from ._run import CheckpointLike, PathLike, Progress, Record, TokenizerLike, TokensLike",
        "from ._run import run as run_study",
        "from .config import ConfigLike", "",
        "__all__ = [", *[f'    "{verb}",' for verb in verbs], "]",
    ]  # fmt: skip
    return "\n".join(header) + "\n\n\n" + "\n\n\n".join(verb_text(study, names) for study in studies) + "\n"


if __name__ == "__main__":
    for name, text in (("_keys.py", keys_text()), ("verbs.py", verbs_text())):
        path = Path(sys.argv[1]) / "periscope" / name
        path.with_suffix(".new").write_text(text)
        os.replace(path.with_suffix(".new"), path)

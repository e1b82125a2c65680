"""``python -m periscope run STUDY``: runs a study without the C++ program, with Python tokenizers for text."""

import argparse
import sys
from pathlib import Path
from typing import Any

from . import _run
from .describe import description
from .errors import Error, Stopped

ABOUT = """Runs a study in Python with the same results as the program. Texts can use the checkpoint's tokenizer.json.
The table is printed to standard error, JSON to standard output."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m periscope", description=ABOUT)
    known = description()
    parser.add_argument("--version", action="version", version=f"periscope {known['version']} ({known['commit']})")
    run = parser.add_subparsers(required=True, metavar="run").add_parser("run", help="run a study", description=ABOUT)
    studies = run.add_subparsers(required=True, metavar="STUDY", dest="study")
    for study in known["studies"]:
        _add_study(studies.add_parser(study["name"].replace(" ", "-"), help=study["question"]), study)
    return parser


def _add_study(parser: argparse.ArgumentParser, study: dict[str, Any]) -> None:
    add = parser.add_argument
    parser.set_defaults(described=study)
    if study["common"]["config"]:
        add("--config", metavar="FILE", help="TOML file")
        add("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="override one key")
    if study["compares"]:
        add("--theory-set", action="append", default=[], metavar="KEY=VALUE", help="override a key for theory only")
    for name, kind in (("seed", int), ("seeds", int), ("threads", int), ("device", str), ("dtype", str),
                       ("memory", str), ("out", str)):  # fmt: skip
        if study["common"][name]:
            add(f"--{name}", type=kind, dest=f"common_{name}")
    if study["common"]["force"]:
        add("--force", action="store_true", dest="common_force")
    for flag in study["flags"]:
        words: dict[str, Any] = {"help": flag["meaning"].replace("%", "%%")}
        if flag["positional"]:
            count = "+" if flag["list"] else None if flag["required"] else "?"
            add(f"flag_{flag['name']}", metavar=flag["name"], nargs=count, **words)
            continue
        words |= {"action": "store_true"} if flag["toggle"] else {"metavar": flag["name"].upper()}
        add(f"--{flag['name']}", dest=f"flag_{flag['name']}", **words)
    add("--json", action="store_true", help="print the result as JSON")
    add("--quiet", action="store_true", help="print no progress and no table")


def main(arguments: list[str] | None = None) -> int:
    """Runs a study and returns the exit code of the program."""
    given = vars(_parser().parse_args(arguments))
    study = given["described"]
    flags = {flag["name"]: given[f"flag_{flag['name']}"] for flag in study["flags"]}
    common = {name[7:]: value for name, value in given.items() if name.startswith("common_")}
    try:
        result, _ = _run.results(
            study["name"],
            given.get("config"),
            flags=flags,
            common=common,
            set_words=given.get("settings", []),
            theory_words=given.get("theory_set", []),
            progress=not given["quiet"],
        )
    except (Error, OSError) as error:
        print(f"periscope: {error}", file=sys.stderr)
        return getattr(error, "exit_code", Error.exit_code)
    except KeyboardInterrupt:
        print("periscope: stopped", file=sys.stderr)
        out = common.get("out")
        return Stopped.exit_code if out and any(Path(out).glob("cache/*/*")) else 130
    if not given["quiet"]:
        print(result.table, file=sys.stderr, end="")
    if given["json"]:
        print(result.json(_run._argv()))
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())

"""Writes the report of a ledger as PDF and HTML, from ledger.json and figures.

Usage: report.py LEDGER.json --figures FOLDER --out FOLDER [--page FILE.md]. A figure is an SVG file with its caption
in a text file of the same name. All numbers and verdicts come from these files; the same files give the same bytes.
--page also writes the report as a page of the site.
"""

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import typst

HERE = Path(__file__).parent
# Figures of each group of claims, by the first letter of their ids: patterns RUN/FILE.
FIGURES = {"F": ["signals/*-variance.svg", "deep/*-dilution.svg", "training/*-figure-1-variance.svg"],
           "G": ["signals/*-gradient.svg", "gradients-3.2B/*-gradient.svg"],
           "T": ["training/*-growth-parts.svg"],
           "R": ["training/*-table-5-losses.svg"],
           "C": ["ten-billion/*-variance.svg"],
           "P": ["clustering/*-token_cosine.svg"]}  # fmt: skip


def caption_of(path: Path, ledger: dict[str, Any]) -> str:
    """Returns a figure's caption. If its curves differ in init.std, the caption also states each σ√D."""
    file = path.with_suffix(".txt")
    caption = " ".join(file.read_text(encoding="utf-8").split()) if file.exists() else path.stem
    settings = next((run["settings"] for run in ledger["runs"] if run["name"] == path.parent.name), [])
    widths = [int(s.removeprefix("model.width=")) for s in settings if s.startswith("model.width=")]
    if "init.std" in caption and widths:
        values = [f"{regime / math.sqrt(widths[-1]):.4g} (σ√D = {regime:g})" for regime in ledger["regimes"]]
        caption += f" init.std: {', '.join(values)}."
    return caption


def figures_of(folder: Path, ledger: dict[str, Any], to: Path) -> dict[str, list[dict[str, str]]]:
    """Copies the figures of every group to `to`; returns their file names and captions."""
    found: dict[str, list[dict[str, str]]] = {}
    for group, patterns in FIGURES.items():
        for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
            name = f"{path.parent.name}-{path.name}"
            shutil.copy(path, to / name)
            found.setdefault(group, []).append({"file": name, "caption": caption_of(path, ledger)})
    return found


def page_of(report: str) -> str:
    """Returns the body of the HTML report as a Markdown page with the title "Claims"."""
    body = re.search(r"<body>(.*)</body>", report, re.DOTALL)[1]  # type: ignore[index]
    return f"# Claims\n\n```{{raw}} html\n<div class=\"report\">\n{body}\n</div>\n```\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="ledger.json of `periscope ledger report`")
    parser.add_argument("--figures", type=Path, default=None, help="folder of figures (SVG with captions)")
    parser.add_argument("--out", type=Path, required=True, help="folder for report.pdf and report.html")
    parser.add_argument("--page", type=Path, default=None, help="Markdown file for the site")
    given = parser.parse_args()
    if given.figures and not given.figures.is_dir():
        sys.exit(f"report.py: --figures {given.figures}: expected a folder")
    given.out.mkdir(parents=True, exist_ok=True)
    ledger = json.loads(given.ledger.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copy(HERE / "report.typ", root)
        shutil.copy(given.ledger, root / "ledger.json")
        figures = figures_of(given.figures, ledger, root) if given.figures else {}
        (root / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
        for kind in ("pdf", "html"):
            inputs = {"format": kind}
            written = typst.compile(root / "report.typ", root=root, format=kind, sys_inputs=inputs, timestamp=0)
            (given.out / f"report.{kind}").write_bytes(written)
            print(given.out / f"report.{kind}")
    if given.page:
        given.page.write_text(page_of((given.out / "report.html").read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, LookupError, TypeError, typst.TypstError) as error:
        sys.exit(f"report.py: expected a ledger.json of this version and its figures: {type(error).__name__}: {error}")

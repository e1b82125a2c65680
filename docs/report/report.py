"""Writes the report of a ledger as PDF and HTML, from ledger.json and figures.

Usage: report.py LEDGER.json --figures FOLDER --out FOLDER. A figure is an SVG file with its caption in a text file of
the same name. All numbers and verdicts come from these files; the same files give the same bytes.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import typst

HERE = Path(__file__).parent
# Figures of each group of claims, by the first letter of their ids: patterns RUN/FILE.
FIGURES = {"F": ["signals/*variance*.svg"], "G": ["signals/*gradient*.svg"], "R": ["training/*claims*.svg"]}


def figures_of(folder: Path, to: Path) -> dict[str, list[dict[str, str]]]:
    """Copies the figures of every group to `to`; returns their file names and captions."""
    found: dict[str, list[dict[str, str]]] = {}
    for group, patterns in FIGURES.items():
        for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
            name = f"{path.parent.name}-{path.name}"
            shutil.copy(path, to / name)
            caption = path.with_suffix(".txt")
            found.setdefault(group, []).append(
                {"file": name, "caption": caption.read_text(encoding="utf-8") if caption.exists() else path.stem})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="ledger.json of `periscope ledger report`")
    parser.add_argument("--figures", type=Path, default=None, help="folder of figures (SVG with captions)")
    parser.add_argument("--out", type=Path, required=True, help="folder for report.pdf and report.html")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copy(HERE / "report.typ", root)
        shutil.copy(given.ledger, root / "ledger.json")
        figures = figures_of(given.figures, root) if given.figures else {}
        (root / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
        for kind in ("pdf", "html"):
            inputs = {"format": kind}
            written = typst.compile(root / "report.typ", root=root, format=kind, sys_inputs=inputs, timestamp=0)
            (given.out / f"report.{kind}").write_bytes(written)
            print(given.out / f"report.{kind}")


if __name__ == "__main__":
    main()

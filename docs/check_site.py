"""Checks the built site: every figure has alternative text, no page needs a network, and the given Python objects are
documented. Usage: check_site.py SITE [OBJECT...]

OBJECT is the full name of a Python object that the inventory must contain. Prints all problems; exit code 1 if any.
"""

import re
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

# Attributes whose URLs a browser fetches when it loads the page. Ordinary links do not count.
FETCHED = {
    "audio": ("src",), "embed": ("src",), "iframe": ("src",), "img": ("src", "srcset"), "link": ("href",),
    "object": ("data",), "script": ("src",), "source": ("src", "srcset"), "video": ("src", "poster"),
    "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
}  # fmt: skip
LINKS_ONLY = {"canonical", "author", "license", "search", "index", "next", "prev"}  # <link rel=…> without a fetch
FOREIGN = re.compile(r"\s*(?:https?:)?//", re.I)
FOREIGN_STYLE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])\s*(?:https?:)?//""", re.I)


class Page(HTMLParser):
    """Collects the problems of one page."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.figures = 0
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "img":
            self.figures += 1
            source, text = found.get("src", ""), found.get("alt", "").strip()
            if not text or text.rpartition("/")[2] == source.rpartition("/")[2]:  # the path is Sphinx's default
                self.problems.append(f"{self.name}: the figure {source} has the text {text!r}; expected what it shows")
        if tag == "link" and set(found.get("rel", "").split()) & LINKS_ONLY:
            return
        for name in FETCHED.get(tag, ()):
            if FOREIGN.match(found.get(name, "")):
                self.problems.append(f"{self.name}: <{tag} {name}> fetches {found[name]}; expected a file of the site")
        if FOREIGN_STYLE.search(found.get("style", "")):
            self.problems.append(f"{self.name}: the style of <{tag}> fetches from elsewhere: {found['style']}")


def of_pages(site: Path) -> list[str]:
    """Returns the problems of all pages and style sheets."""
    problems = []
    figures = 0
    pages = sorted(site.rglob("*.html"))
    for path in pages:
        page = Page(str(path.relative_to(site)))
        page.feed(path.read_text(encoding="utf-8"))
        problems += page.problems
        figures += page.figures
    for path in sorted(site.rglob("*.css")):
        if FOREIGN_STYLE.search(path.read_text(encoding="utf-8")):
            problems.append(f"{path.relative_to(site)}: fetches from elsewhere")
    if not pages or not figures:
        problems.append(f"{site}: found {len(pages)} pages with {figures} figures; expected some")
    return problems


def documented(site: Path) -> set[str]:
    """Returns the Python objects of the inventory: header, then compressed lines "NAME py:KIND PRIORITY PAGE TITLE"."""
    body = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(body).decode().splitlines()
    return {name for name, kind in (line.split()[:2] for line in lines if line.strip()) if kind.startswith("py:")}


def main(site: Path, objects: list[str]) -> int:
    problems = of_pages(site)
    if objects:
        problems += [f"{name} is not documented" for name in sorted(set(objects) - documented(site))]
    print("\n".join(problems) or f"{site}: every figure has a text, and no page needs a network")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
